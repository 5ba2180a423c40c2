import { InvalidInputError } from "../../core/errors/errors.js";
import { key } from "../../core/ledger/key.js";
import { parseTemplate, type Template } from "../../core/values/template.js";
import type { Findings } from "../findings/finding.js";
import type { Written } from "../normalise/model.js";
import { compile, type Evaluated, type Travelling } from "./expression.js";
import { tellFields, tellTypes } from "./packet-fields.js";
import type { PacketType, PacketTypes } from "./packets.js";

export interface KeyContext extends Travelling {
  readonly operationId: string;
  readonly flowId: string;
}

/** Makes a text of a packet: an idempotency key, or the key of a partition. Never throws, and never makes up a value. */
export interface KeyMaker {
  readonly text: string;
  readonly make: (context: KeyContext) => Evaluated<string>;
}

interface CompileContext {
  readonly packet: PacketType | undefined;
  readonly packets: PacketTypes;
  readonly findings: Findings;
  /** An idempotency key has to name the operation; the key of a partition need not. */
  readonly namesOperation: boolean;
}

/** `{{payload.orderId}}-charge` (a template) or `input.payload.orderId + ':charge'` (an expression). */
export function compileKey(written: Written, context: CompileContext): KeyMaker | undefined {
  return written.text.includes("{{") ? fromTemplate(written, context) : fromExpression(written, context);
}

function fromTemplate({ text, spot }: Written, context: CompileContext): KeyMaker | undefined {
  const { findings } = context;
  let template: Template;
  try {
    template = parseTemplate(text);
  } catch (error) {
    findings.add(
      "FLOW_BAD_TEMPLATE",
      spot,
      (error as Error).message.replace(/^template: /, ""),
      "write it like {{payload.orderId}}-charge",
    );
    return undefined;
  }
  const foreign = template.paths.find(([root = "", ...rest]) =>
    root === "payload" ? rest.length === 0 : !["operationId", "flowId"].includes(root) || rest.length > 0,
  );
  if (foreign !== undefined) {
    findings.add(
      "FLOW_BAD_TEMPLATE",
      spot,
      `{{${foreign.join(".")}}} is not known`,
      "use {{payload.field}}, {{operationId}} or {{flowId}}",
    );
    return undefined;
  }
  const named = template.named || template.paths.some(([root]) => root === "operationId");
  if (context.namesOperation && !named) tellGeneric({ text, spot }, `${text}-charge`, findings);
  const fields = template.paths.filter(([root]) => root === "payload").map(([, ...path]) => path);
  tellFields(fields, spot, { ...context, mustBeThere: true });
  tellTypes(fields, spot, context);
  return {
    text,
    make: ({ payload, operationId, flowId }) => {
      try {
        return { ok: true, value: key.of(template.fill({ payload, operationId, flowId })) };
      } catch (error) {
        return { ok: false, why: error instanceof InvalidInputError ? error.message : "cannot be filled" };
      }
    },
  };
}

function fromExpression(written: Written, context: CompileContext): KeyMaker | undefined {
  const { text } = written;
  const compiled = compile(written, {
    ...context,
    wanted: ["string", "double", "int", "bool"],
    example: "{{payload.orderId}}-charge, or payload.orderId + '-charge'",
  });
  if (compiled === undefined) return undefined;
  if (context.namesOperation && !compiled.literals.some((literal) => /[A-Za-z0-9]/.test(literal)))
    tellGeneric(written, `${text} + ':charge'`, context.findings);
  tellFields(compiled.paths, written.spot, { ...context, mustBeThere: true });
  return {
    text,
    make: (context) => {
      const result = compiled.run(context);
      if (!result.ok) return { ok: false, why: result.why };
      const isText =
        ["string", "boolean"].includes(typeof result.value) || (typeof result.value === "number" && Number.isFinite(result.value));
      if (!isText) return { ok: false, why: "its value is no text, number or boolean" };
      try {
        return { ok: true, value: key.of(String(result.value)) };
      } catch (error) {
        return { ok: false, why: (error as Error).message };
      }
    },
  };
}

/** A key that is only an entity's id collides as soon as a second operation is keyed by the same entity. */
function tellGeneric({ text, spot }: Written, better: string, findings: Findings): void {
  findings.add(
    "FLOW_GENERIC_KEY",
    spot,
    `"${text}" does not name the operation; another one on the same entity would collide`,
    `write "${better}", say`,
  );
}
