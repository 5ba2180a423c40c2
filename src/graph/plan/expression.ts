import { Environment, EvaluationError, type ParseResult } from "@marcbachmann/cel-js";
import type { Findings } from "../findings/finding.js";
import type { Written } from "../normalise/model.js";
import { firstRefused, literalsIn, outputsIn, pathsIn, variables, withWholePaths } from "./expression-subset.js";
import { celFields, tellFields } from "./packet-fields.js";
import type { PacketType, PacketTypes } from "./packets.js";

/** What an expression is evaluated for: one packet, on its way from a node's output to another's input. */
export interface Travelling {
  readonly payload: unknown;
  /** Name of the port that it left by. */
  readonly output?: string;
}

export type Evaluated<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly why: string };

/** `absent`: a field that it reads is not there. */
type Outcome = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly why: string; readonly absent: boolean };

/** A compiled expression. It never throws: where it has no value, it says why. */
export interface Expression<T> {
  readonly text: string;
  readonly evaluate: (travelling: Travelling) => Evaluated<T>;
  /** Of a condition: the only ports for which it can be true. Undefined: it is not about the port. */
  readonly outputs?: readonly string[];
}

export interface Compiled {
  readonly text: string;
  readonly run: (travelling: Travelling) => Outcome;
  /** Paths into the packet that it reads. */
  readonly paths: readonly (readonly string[])[];
  readonly literals: readonly string[];
  readonly outputs: readonly string[] | undefined;
}

const charsMax = 2000;
const partsMax = 200;
const depthMax = 20;

/** Numbers of JSON are floats, and so they may be added to and compared with integers; texts may be joined with numbers. */
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

/** For what has become longer by the paths of has(). */
const roomy = operatorsOf(new Environment({ limits: { maxAstNodes: partsMax * depthMax, maxDepth: depthMax * 10 } }));
for (const name of variables) roomy.registerVariable(name, "dyn");

const typedEnvironments = new WeakMap<PacketType, Environment>();

interface CompileContext {
  readonly packet: PacketType | undefined;
  readonly packets: PacketTypes;
  readonly findings: Findings;
  /** Types that its value may have. */
  readonly wanted: readonly string[];
  /** A correct example, for the finding. */
  readonly example: string;
}

/** Parses, refuses what is not in the subset, and checks types as far as the packet's schema has them. */
export function compile({ text, spot }: Written, { packet, packets, findings, wanted, example }: CompileContext): Compiled | undefined {
  const refuse = (message: string, fix: string): undefined => {
    findings.add("FLOW_BAD_EXPRESSION", spot, message, fix);
    return undefined;
  };
  if (text.length > charsMax) return refuse(`is longer than ${charsMax} characters`, "decide it in a node");
  let parsed: ParseResult;
  try {
    parsed = dynamic.parse(text);
  } catch (error) {
    const { summary, range } = error as { summary?: string; range?: { start: number } };
    if (summary?.startsWith("Exceeded"))
      return refuse(`has more than ${partsMax} parts, or is nested deeper than ${depthMax} levels`, "decide it in a node");
    return refuse(
      `${text.trim() === "" ? "is empty" : (summary ?? "cannot be read")}${range ? ` (at character ${range.start + 1})` : ""}`,
      `write it like ${example}`,
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
      : inOurWords(checked.error?.summary ?? "its types do not fit");
  if (wrong !== undefined) findings.add("FLOW_EXPRESSION_TYPE", spot, wrong, `write it like ${example}`);
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
  return `its value is of type ${inOurWords(type)}; needed is ${[...names].join(" or ")}`;
}

/** Type names of JSON Schema: the author of a document does not know those of the evaluator. */
function inOurWords(summary: string): string {
  return summary
    .replace("no such overload:", "types that do not fit:")
    .replace(/\$[\w.]+|\bmap<.*?>/g, "object")
    .replace(/\blist<.*?>/g, "array")
    .replace(/\b(?:double|int)\b/g, "number")
    .replace(/\bbool\b/g, "boolean");
}

/** Fields that the schema does not have are dynamic; another check reports those that look wrong. */
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
    // Its summary names fields and types, never a value: packets hold what must not get into logs.
    if (!(error instanceof EvaluationError)) return { ok: false, why: "cannot be evaluated", absent: false };
    return { ok: false, why: error.summary, absent: error.code === "no_such_key" || error.code === "index_out_of_bounds" };
  }
}

/** `when` of an edge: false where it reads a field that is not there. */
export function compileWhen(written: Written, context: Omit<CompileContext, "wanted" | "example">): Expression<boolean> | undefined {
  return compileCondition(written, context, { ok: true, value: false });
}

/** An expression that is true or false: `when`, `filter`. */
export function compileCondition(
  written: Written,
  context: Omit<CompileContext, "wanted" | "example">,
  ifAbsent?: Evaluated<boolean>,
): Expression<boolean> | undefined {
  const example = "payload.score >= 80 && output.name == 'Passed'";
  const compiled = compile(written, { ...context, wanted: ["bool"], example });
  if (compiled !== undefined) tellFields(compiled.paths, written.spot, { ...context, mustBeThere: false });
  return (
    compiled && {
      text: compiled.text,
      ...(compiled.outputs && { outputs: compiled.outputs }),
      evaluate: (travelling) => {
        const result = compiled.run(travelling);
        if (!result.ok) return (result.absent ? ifAbsent : undefined) ?? { ok: false, why: result.why };
        if (typeof result.value === "boolean") return { ok: true, value: result.value };
        return { ok: false, why: "its value is neither true nor false" };
      },
    }
  );
}
