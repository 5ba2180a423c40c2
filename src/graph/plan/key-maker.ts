import { InvalidInputError } from "../../core/errors/errors.js";
import { key } from "../../core/ledger/key.js";
import { parseTemplate, type Template } from "../../core/values/template.js";
import type { Findings } from "../findings/finding.js";
import type { Written } from "../normalise/model.js";
import { type Compiled, compile, type Evaluated, type Travelling } from "./expression.js";
import { reportFields, reportFieldTypes } from "./packet-fields.js";
import type { PacketType, PacketTypes } from "./packets.js";

/** The input of a KeyMaker. */
export interface KeyContext extends Travelling {
  readonly operationId: string;
  readonly flowId: string;
}

/** Makes an idempotency key or a partition key from a packet. `make` does not throw: if there is no key, it returns the reason. */
export interface KeyMaker {
  readonly text: string;
  readonly make: (context: KeyContext) => Evaluated<string>;
}

interface CompileContext {
  readonly packet: PacketType | undefined;
  readonly packets: PacketTypes;
  readonly findings: Findings;
  /** Whether the key must name the operation: idempotency keys must, partition keys need not. */
  readonly namesOperation: boolean;
}

/** `{{payload.orderId}}-charge` (a template) or `input.payload.orderId + ':charge'` (an expression). */
export function compileKey(written: Written, context: CompileContext): KeyMaker | undefined {
  return written.text.includes("{{") ? fromTemplate(written, context) : fromExpression(written, context);
}

const placeholder = /\{\{\s*([^{}]*?)\s*\}\}/g;
const plainPath = /^[A-Za-z_$][\w$-]*(\.[\w$-]+)*$/;
const templateExample = "example: {{payload.orderId}}-charge";

/** A placeholder is a path, `{{payload.orderId}}`, or an expression, `{{payload.email.lower()}}`. */
function fromTemplate({ text, spot }: Written, context: CompileContext): KeyMaker | undefined {
  const { findings } = context;
  const expressions: (Compiled | undefined)[] = [];
  const paths = text.replace(placeholder, (whole, inner: string) => {
    if (inner === "" || (plainPath.test(inner) && !inner.endsWith(".length"))) return whole;
    expressions.push(
      compile(
        { text: inner, spot },
        { ...context, wanted: keyTypes, example: "{{payload.email.lower()}}-welcome", code: "FLOW_BAD_TEMPLATE" },
      ),
    );
    return `{{computed.${expressions.length - 1}}}`;
  });
  const compiled = expressions.filter((expression) => expression !== undefined);
  if (compiled.length < expressions.length) return undefined;
  let template: Template;
  try {
    template = parseTemplate(paths);
  } catch (error) {
    findings.add("FLOW_BAD_TEMPLATE", spot, (error as Error).message.replace(/^template: /, ""), templateExample);
    return undefined;
  }
  const foreign = template.paths.find(([root = "", ...rest]) =>
    root === "payload" || root === "computed" ? rest.length === 0 : !["operationId", "flowId"].includes(root) || rest.length > 0,
  );
  if (foreign !== undefined) {
    findings.add(
      "FLOW_BAD_TEMPLATE",
      spot,
      `unknown placeholder {{${foreign.join(".")}}}`,
      "use {{payload.field}}, {{operationId}}, {{flowId}}, or an expression such as {{payload.email.lower()}}",
    );
    return undefined;
  }
  const named = template.named || template.paths.some(([root]) => root === "operationId");
  if (context.namesOperation && !named) reportGenericKey({ text, spot }, `${text}-charge`, findings);
  const fields = template.paths.filter(([root]) => root === "payload").map(([, ...path]) => path);
  reportFields([...fields, ...compiled.flatMap((each) => each.paths)], spot, { ...context, mustBeThere: true });
  reportFieldTypes(fields, spot, context);
  return { text, make: (given) => fill(template, compiled, given) };
}

function fill(template: Template, expressions: readonly Compiled[], context: KeyContext): Evaluated<string> {
  const { payload, operationId, flowId } = context;
  const computed: string[] = [];
  for (const expression of expressions) {
    const part = textOf(expression, context);
    if (!part.ok) return { ok: false, why: `{{${expression.text}}}: ${part.why}` };
    if (part.value === "") return { ok: false, why: `{{${expression.text}}} is empty` };
    computed.push(part.value);
  }
  try {
    return { ok: true, value: key.of(template.fill({ payload, operationId, flowId, computed })) };
  } catch (error) {
    return { ok: false, why: error instanceof InvalidInputError ? error.message : "the template cannot be filled" };
  }
}

const keyTypes = ["string", "double", "bool"];

/** The value of an expression as part of a key. */
function textOf({ run }: Compiled, context: KeyContext): Evaluated<string> {
  const result = run(context);
  if (!result.ok) return { ok: false, why: result.why };
  const { value } = result;
  const isText = typeof value === "string" || typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value));
  return isText ? { ok: true, value: String(value) } : { ok: false, why: "the value is not a string, number or boolean" };
}

function fromExpression(written: Written, context: CompileContext): KeyMaker | undefined {
  const { text } = written;
  const compiled = compile(written, {
    ...context,
    wanted: keyTypes,
    example: "{{payload.orderId}}-charge, or payload.orderId + '-charge'",
  });
  if (compiled === undefined) return undefined;
  if (context.namesOperation && !compiled.literals.some((literal) => /[A-Za-z0-9]/.test(literal)))
    reportGenericKey(written, `${text} + ':charge'`, context.findings);
  reportFields(compiled.paths, written.spot, { ...context, mustBeThere: true });
  return {
    text,
    make: (given) => {
      const result = textOf(compiled, given);
      if (!result.ok) return result;
      try {
        return { ok: true, value: key.of(result.value) };
      } catch (error) {
        return { ok: false, why: (error as Error).message };
      }
    },
  };
}

/** Warns of a key that is only an entity's id: it collides with the key of a second operation on the same entity. */
function reportGenericKey({ text, spot }: Written, better: string, findings: Findings): void {
  findings.add(
    "FLOW_GENERIC_KEY",
    spot,
    `"${text}" does not name the operation; the key of another operation on the same entity would collide`,
    `for example, use "${better}"`,
  );
}
