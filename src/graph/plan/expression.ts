import { Environment, EvaluationError, type ParseResult } from "@marcbachmann/cel-js";
import type { Findings, Place } from "../findings/finding.js";
import type { Written } from "../normalise/model.js";
import { environmentWithFunctions, resetSteps } from "./cel/functions.js";
import { literalsIn, outputsIn, pathsIn, variables } from "./cel/paths.js";
import { rendered } from "./cel/render.js";
import { allowed, firstRefused } from "./cel/subset.js";
import { celFields, reportFields, typeAt } from "./packet-fields.js";
import type { PacketType, PacketTypes } from "./packets.js";

/** The input of an expression: a packet on its way from a node's output to another node's input. */
export interface Travelling {
  readonly payload: unknown;
  /** Name of the output port that the packet was sent to. */
  readonly output?: string;
}

/** The value of an expression, or why it has none. */
export type Evaluated<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly why: string };

/** `absent`: a field that the expression reads is missing. */
type Outcome = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly why: string; readonly absent: boolean };

/** A compiled expression. `evaluate` does not throw: if there is no value, it returns the reason. */
export interface Expression<T> {
  readonly text: string;
  readonly evaluate: (travelling: Travelling) => Evaluated<T>;
  /** For a condition: the only ports for which it can be true. Undefined: it does not depend on the port. */
  readonly outputs?: readonly string[];
}

export interface Compiled {
  readonly text: string;
  readonly run: (travelling: Travelling) => Outcome;
  /** Paths that the expression reads from the packet. */
  readonly paths: readonly (readonly string[])[];
  readonly literals: readonly string[];
  readonly outputs: readonly string[] | undefined;
}

const charsMax = 2000;
const partsMax = 200;
const depthMax = 20;

/** Limits what is written; the rewritten expression is longer. */
const written = new Environment({ limits: { maxAstNodes: partsMax, maxDepth: depthMax } });
const base = environmentWithFunctions({ maxAstNodes: partsMax * depthMax, maxDepth: depthMax * 10 });
const dynamic = base.clone();
for (const name of variables) dynamic.registerVariable(name, "dyn");

const typedEnvironments = new WeakMap<PacketType, Environment>();

interface CompileContext {
  readonly packet: PacketType | undefined;
  readonly packets: PacketTypes;
  readonly findings: Findings;
  /** Allowed types of the value. */
  readonly wanted: readonly string[];
  /** A correct example, for the finding. */
  readonly example: string;
  /** For an expression in a template. */
  readonly code?: "FLOW_BAD_TEMPLATE";
}

/** Without `packet` and `packets`, fields have no declared types; without `wanted`, the value may have any type. */
type AnyContext = Pick<CompileContext, "findings" | "example"> & Partial<CompileContext>;
type WrittenAt = Pick<Written, "text"> & { readonly spot: Written["spot"] | Place };

/** Parses an expression, rejects what is not in the subset, and checks types as far as the packet's schema declares them. */
export function compile({ text, spot }: WrittenAt, context: AnyContext): Compiled | undefined {
  const { packet, packets, findings, wanted, example, code = "FLOW_BAD_EXPRESSION" } = context;
  const refuse = (message: string, fix: string): undefined => {
    findings.add(code, spot, code === "FLOW_BAD_TEMPLATE" ? `{{${text}}}: ${message}` : message, fix);
    return undefined;
  };
  if (text.length > charsMax) return refuse(`the expression is longer than ${charsMax} characters`, "decide it in a node");
  let parsed: ParseResult;
  try {
    parsed = written.parse(text);
  } catch (error) {
    const { summary, range } = error as { summary?: string; range?: { start: number } };
    if (summary?.startsWith("Exceeded"))
      return refuse(`the expression has more than ${partsMax} parts or is nested deeper than ${depthMax} levels`, "decide it in a node");
    return refuse(
      `${text.trim() === "" ? "the expression is empty" : (summary ?? "the expression cannot be parsed")}${range ? ` (at character ${range.start + 1})` : ""}`,
      `example: ${example}`,
    );
  }
  const refused = firstRefused(parsed.ast);
  if (refused !== undefined)
    return refuse(`${refused.what} is not allowed (at character ${refused.character})`, refused.instead ?? allowed);
  const typeOf = (path: readonly string[]) => (packet === undefined || packets === undefined ? undefined : typeAt(path, packet, packets));
  const runnable = rendered(parsed.ast, { text, typeAt: typeOf });
  const checked = (packet === undefined || packets === undefined ? dynamic : typed(packet, packets)).check(runnable);
  const wrong = checked.valid
    ? typeProblem(checked.type, wanted)
    : checked.error?.code === "no_such_key"
      ? undefined
      : inOurWords(checked.error?.summary ?? "types do not match");
  if (wrong !== undefined) findings.add("FLOW_EXPRESSION_TYPE", spot, wrong, `example: ${example}`);
  const evaluate = dynamic.parse(runnable);
  return {
    text,
    run: (travelling) => run(evaluate, travelling),
    paths: pathsIn(parsed.ast).map((path) => withoutLength(path, typeOf)),
    literals: literalsIn(parsed.ast),
    outputs: outputsIn(parsed.ast),
  };
}

/** `items.length` reads the field `items`, unless that is an object with a field `length`. */
function withoutLength(path: readonly string[], typeOf: (path: readonly string[]) => unknown): readonly string[] {
  const outer = path.slice(0, -1);
  return path.at(-1) === "length" && outer.length > 0 && typeOf(outer) !== "object" ? outer : path;
}

function typeProblem(type: string | undefined, wanted: readonly string[] | undefined): string | undefined {
  if (type === undefined || wanted === undefined || type === "dyn" || wanted.includes(type)) return undefined;
  const names = new Set(wanted.map(inOurWords));
  return `the value has type ${inOurWords(type)}; expected ${[...names].join(" or ")}`;
}

/** Replaces the evaluator's names of types and functions by those of JSON Schema and of the documents. */
function inOurWords(summary: string): string {
  const [, missing] = /^No such key: (.*)$/s.exec(summary) ?? [];
  const index = /^index out of bounds, index (-?\d+) /.exec(missing ?? "")?.[1];
  if (index !== undefined) return `the list has no item ${index}`;
  if (missing !== undefined) return `the field "${missing}" is missing`;
  return summary
    .replace("no such overload:", "types do not match:")
    .replace(/found no matching overload for '(.*)'$/s, "types do not match: $1")
    .replace(/\$[\w.]+|\bmap<.*?>|\bmap\b/g, "object")
    .replace(/\blist<.*?>|\blist\b/g, "array")
    .replace(/\bdyn<([^<>]*)>/g, "$1")
    .replace(/\b(?:double|int)\b(?!_)/g, "number")
    .replace(/\bbool\b/g, "boolean")
    .replace(/\b(div|mod|in)_\((.*), (.*?)\)$/s, (_, name: string, a: string, b: string) => `${a} ${operators[name]} ${b}`)
    .replace(/\blength_\((.*)\)$/s, "$1.length")
    .replace(/(\w)_\(/g, "$1(");
}

const operators: Readonly<Record<string, string>> = { div: "/", mod: "%", in: "in" };

/** An environment with the packet's types. Fields that the schema does not declare are dynamic; `reportFields` warns of them. */
function typed(packet: PacketType, packets: PacketTypes): Environment {
  const known = typedEnvironments.get(packet);
  if (known !== undefined) return known;
  const fields = celFields(packet.schema, packets);
  const environment = fields === undefined ? dynamic : base.clone();
  if (fields !== undefined) {
    environment.registerVariable({ name: "payload", schema: fields });
    environment.registerVariable({ name: "output", schema: { ...fields, name: "string", payload: fields } });
    for (const name of ["input", "message"]) environment.registerVariable({ name, schema: { ...fields, payload: fields } });
  }
  typedEnvironments.set(packet, environment);
  return environment;
}

function run(parsed: ParseResult, { payload, output }: Travelling): Outcome {
  const fields = typeof payload === "object" && payload !== null && !Array.isArray(payload) ? payload : {};
  const context = { ...fields, payload };
  resetSteps();
  try {
    const value: unknown = parsed({ payload, input: context, message: context, output: { ...context, name: output ?? null } });
    return { ok: true, value };
  } catch (error) {
    // The summary names fields and types but no values: data of packets must not get into logs.
    if (!(error instanceof EvaluationError)) return { ok: false, why: "cannot be evaluated", absent: false };
    return { ok: false, why: inOurWords(error.summary), absent: error.code === "no_such_key" || error.code === "index_out_of_bounds" };
  }
}

/** Compiles `when` of an edge, which is false if it reads a missing field. */
export function compileWhen(written: Written, context: Omit<CompileContext, "wanted" | "example">): Expression<boolean> | undefined {
  return compileCondition(written, context, { ok: true, value: false });
}

/** Compiles a boolean expression: `when` or `filter`. */
export function compileCondition(
  written: Written,
  context: Omit<CompileContext, "wanted" | "example">,
  ifAbsent?: Evaluated<boolean>,
): Expression<boolean> | undefined {
  const example = "payload.score >= 80 && output.name == 'Passed'";
  const compiled = compile(written, { ...context, wanted: ["bool"], example });
  if (compiled !== undefined) reportFields(compiled.paths, written.spot, { ...context, mustBeThere: false });
  return (
    compiled && {
      text: compiled.text,
      ...(compiled.outputs && { outputs: compiled.outputs }),
      evaluate: (travelling) => {
        const result = compiled.run(travelling);
        if (!result.ok) return (result.absent ? ifAbsent : undefined) ?? { ok: false, why: result.why };
        if (typeof result.value === "boolean") return { ok: true, value: result.value };
        return { ok: false, why: "the value is neither true nor false" };
      },
    }
  );
}
