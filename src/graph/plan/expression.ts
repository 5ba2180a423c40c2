import { Environment, EvaluationError, type ParseResult } from "@marcbachmann/cel-js";
import type { Findings } from "../findings/finding.js";
import type { Written } from "../normalise/model.js";
import { firstRefused, literalsIn, outputsIn, pathsIn, variables, withWholePaths } from "./expression-subset.js";
import { celFields, reportFields } from "./packet-fields.js";
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

/** JSON numbers are floats: registers operators that mix them with integers, and that join strings with numbers. */
function operatorsOf(environment: Environment): Environment {
  environment
    .registerOperator("double + int", (a: number, b: bigint) => a + Number(b))
    .registerOperator("int + double", (a: bigint, b: number) => Number(a) + b)
    .registerOperator("double == int", (a: number, b: bigint) => a === Number(b));
  for (const types of ["string + double", "double + string", "string + int", "int + string"])
    environment.registerOperator(types, (a: unknown, b: unknown) => String(a) + String(b));
  return environment;
}

const base = operatorsOf(new Environment({ limits: { maxAstNodes: partsMax, maxDepth: depthMax } }));
const dynamic = base.clone();
for (const name of variables) dynamic.registerVariable(name, "dyn");

/** With higher limits, for expressions that the rewriting of has() has made longer. */
const roomy = operatorsOf(new Environment({ limits: { maxAstNodes: partsMax * depthMax, maxDepth: depthMax * 10 } }));
for (const name of variables) roomy.registerVariable(name, "dyn");

const typedEnvironments = new WeakMap<PacketType, Environment>();

interface CompileContext {
  readonly packet: PacketType | undefined;
  readonly packets: PacketTypes;
  readonly findings: Findings;
  /** Allowed types of the value. */
  readonly wanted: readonly string[];
  /** A correct example, for the finding. */
  readonly example: string;
}

/** Parses an expression, rejects what is not in the subset, and checks types as far as the packet's schema declares them. */
export function compile({ text, spot }: Written, { packet, packets, findings, wanted, example }: CompileContext): Compiled | undefined {
  const refuse = (message: string, fix: string): undefined => {
    findings.add("FLOW_BAD_EXPRESSION", spot, message, fix);
    return undefined;
  };
  if (text.length > charsMax) return refuse(`the expression is longer than ${charsMax} characters`, "decide it in a node");
  let parsed: ParseResult;
  try {
    parsed = dynamic.parse(text);
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
    return refuse(
      `${refused.what} is not allowed (at character ${refused.character})`,
      `use ${variables.join(", ")}, literals, == != < <= > >= && || ! + and has()`,
    );
  const checked = (packet === undefined ? dynamic : typed(packet, packets)).check(text);
  const wrong = checked.valid
    ? typeProblem(checked.type, wanted)
    : checked.error?.code === "no_such_key"
      ? undefined
      : inOurWords(checked.error?.summary ?? "types do not match");
  if (wrong !== undefined) findings.add("FLOW_EXPRESSION_TYPE", spot, wrong, `example: ${example}`);
  const whole = withWholePaths(text, parsed.ast);
  const runnable = whole === text ? parsed : roomy.parse(whole);
  return {
    text,
    run: (travelling) => run(runnable, travelling),
    paths: pathsIn(parsed.ast),
    literals: literalsIn(parsed.ast),
    outputs: outputsIn(parsed.ast),
  };
}

function typeProblem(type: string | undefined, wanted: readonly string[]): string | undefined {
  if (type === undefined || type === "dyn" || wanted.includes(type)) return undefined;
  const names = new Set(wanted.map(inOurWords));
  return `the value has type ${inOurWords(type)}; expected ${[...names].join(" or ")}`;
}

/** Replaces the evaluator's type names by those of JSON Schema, which authors of documents know. */
function inOurWords(summary: string): string {
  return summary
    .replace("no such overload:", "types do not match:")
    .replace(/\$[\w.]+|\bmap<.*?>/g, "object")
    .replace(/\blist<.*?>/g, "array")
    .replace(/\b(?:double|int)\b/g, "number")
    .replace(/\bbool\b/g, "boolean");
}

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
  try {
    const value: unknown = parsed({ payload, input: context, message: context, output: { ...context, name: output ?? null } });
    return { ok: true, value: typeof value === "bigint" ? Number(value) : value };
  } catch (error) {
    // The summary names fields and types but no values: data of packets must not get into logs.
    if (!(error instanceof EvaluationError)) return { ok: false, why: "cannot be evaluated", absent: false };
    return { ok: false, why: error.summary, absent: error.code === "no_such_key" || error.code === "index_out_of_bounds" };
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
