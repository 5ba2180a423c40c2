import type { ASTNode } from "@marcbachmann/cel-js";
import { closest } from "../../../core/errors/closest.js";
import { wrongPattern } from "../../schema/linear-pattern.js";
import { conversions, methods, quantifiers } from "./functions.js";
import { accessOf, hasPath, variables } from "./paths.js";

export interface Refused {
  readonly what: string;
  /** Where in the expression, from 1. */
  readonly character: number;
  /** What to write instead; undefined: the list of everything that is allowed. */
  readonly instead?: string;
}

const binary = new Set(["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&&", "||"]);

const functionNames = [...new Set([...methods.keys(), ...conversions, ...quantifiers, "has"])];

/** For the finding about an expression outside the subset. */
export const allowed = `use ${variables.join(", ")}, literals, == != < <= > >= && || ! + - * / %, ?:, in, .length and the functions ${functionNames.join(", ")}`;

/** Names of other languages, with their counterparts here. */
const counterparts: Readonly<Record<string, string>> = {
  includes: "use contains() for a string, or `value in list`",
  indexOf: "use contains() or startsWith() for a string, or `value in list`",
  length: "use .length without parentheses, or size()",
  some: "use exists(x, …)",
  every: "use all(x, …)",
  any: "use exists(x, …)",
  test: "use payload.field.matches('pattern')",
  map: "build the list in a node",
  filter: "use exists(x, …) or all(x, …), or decide it in a node",
  exists_one: "use exists(x, …), or decide it in a node",
  toString: "use string(…)",
  Number: "use double(…)",
  parseInt: "use int(…)",
  parseFloat: "use double(…)",
};

/** Names that an expression can read: the packet's variables and, in exists() and all(), the current item. */
interface Scope {
  readonly names: readonly string[];
  readonly inQuantifier: boolean;
}

const outermost: Scope = { names: variables, inQuantifier: false };

/** The first part of an expression outside the subset. */
export function firstRefused(node: ASTNode, scope: Scope = outermost): Refused | undefined {
  const refuse = (what: string, instead?: string): Refused => ({
    what,
    character: node.range.start + 1,
    ...(instead !== undefined && { instead }),
  });
  const inside = (...parts: readonly ASTNode[]) => firstOf(parts, scope);
  switch (node.op) {
    case "value":
      if (typeof node.args === "bigint" && !Number.isSafeInteger(Number(node.args)))
        return refuse("an integer above 2^53", "compare it as a string");
      return isLiteral(node.args) ? undefined : refuse("a literal of this kind");
    case "id":
      return scope.names.includes(node.args) ? undefined : refuse(`"${node.args}"`, `use ${scope.names.join(", ")}`);
    case ".":
      return inside(node.args[0]);
    case "[]":
      return inside(node.args[0]) ?? (node.args[1].op === "value" ? inside(node.args[1]) : refuse("a computed index"));
    case "!_":
    case "-_":
      return inside(node.args);
    case "?:":
      return inside(...node.args);
    case "in": {
      const [value, list] = node.args;
      const isList = list.op === "list";
      if (isList && !list.args.every((item) => item.op === "value" || (item.op === "-_" && item.args.op === "value")))
        return refuse("a list of something other than literals");
      return inside(value, ...(isList ? list.args : [list]));
    }
    case "call":
      return refusedCall(node.args[0], node, scope, refuse) ?? (node.args[0] === "has" ? undefined : inside(...node.args[1]));
    case "rcall":
      return refusedMethod(node, scope, refuse);
    default:
      if (!binary.has(node.op)) return refuse(node.op === "list" || node.op === "map" ? "a list or map" : `"${node.op}"`);
      return inside(...(node.args as [ASTNode, ASTNode]));
  }
}

type Refuse = (what: string, instead?: string) => Refused;

function firstOf(nodes: readonly ASTNode[], scope: Scope): Refused | undefined {
  for (const node of nodes) {
    const refused = firstRefused(node, scope);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

function refusedCall(name: string, node: ASTNode & { op: "call" }, { names }: Scope, refuse: Refuse): Refused | undefined {
  if (name === "has")
    return names.includes(hasPath(node)?.[0] ?? "")
      ? undefined
      : refuse("has() of something that is not a field", "example: has(payload.order.note)");
  if (!conversions.includes(name)) return refuse(`the function ${name}()`, insteadOf(name));
  return node.args[1].length === 1 ? undefined : refuse(`${name}() with ${node.args[1].length} arguments`, `${name}() takes one argument`);
}

function refusedMethod(node: ASTNode & { op: "rcall" }, scope: Scope, refuse: Refuse): Refused | undefined {
  const [name, receiver, args] = node.args;
  if (quantifiers.includes(name)) return refusedQuantifier(node, scope, refuse);
  const count = methods.get(name);
  if (count === undefined) return refuse(`the function ${name}()`, insteadOf(name));
  if (args.length !== count) return refuse(`${name}() with ${args.length} arguments`, `${name}() takes ${count === 0 ? "none" : "one"}`);
  return (name === "matches" ? refusedPattern(args[0], refuse) : undefined) ?? firstOf([receiver, ...args], scope);
}

/** Only literal patterns: a pattern from a packet could be anything, and is known too late to report it. */
function refusedPattern(node: ASTNode | undefined, refuse: Refuse): Refused | undefined {
  if (node?.op !== "value" || typeof node.args !== "string") return refuse("matches() with a computed pattern", "use a literal pattern");
  const wrong = wrongPattern(node.args);
  if (wrong === undefined) return undefined;
  const fix = wrong.isUnsupported ? "patterns run in linear time: write alternatives and conditions out" : "correct the pattern";
  return refuse(`the pattern ${JSON.stringify(node.args.slice(0, 60))} ${wrong.why}: it`, fix);
}

function refusedQuantifier(node: ASTNode & { op: "rcall" }, scope: Scope, refuse: Refuse): Refused | undefined {
  const [name, receiver, args] = node.args;
  const [item, condition] = args;
  if (scope.inQuantifier) return refuse(`${name}() inside exists() or all()`, "decide it in a node");
  if (args.length !== 2 || item?.op !== "id" || condition === undefined)
    return refuse(`${name}() without a name and a condition`, `example: payload.items.${name}(x, x.quantity > 1)`);
  if (scope.names.includes(item.args)) return refuse(`"${item.args}" as the name of an item`, "use another name, such as x");
  if (accessOf(receiver) === undefined) return refuse(`${name}() of something that is not a field`, `example: payload.items.${name}(x, …)`);
  return firstRefused(receiver, scope) ?? firstRefused(condition, { names: [...scope.names, item.args], inQuantifier: true });
}

function insteadOf(name: string): string | undefined {
  if (Object.hasOwn(counterparts, name)) return counterparts[name];
  const near = closest(name, functionNames);
  return near === undefined ? undefined : `did you mean ${near}()?`;
}

const isLiteral = (value: unknown) => value === null || ["string", "number", "bigint", "boolean"].includes(typeof value);
