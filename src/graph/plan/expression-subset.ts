import type { ASTNode } from "@marcbachmann/cel-js";

export const variables = ["payload", "output", "input", "message"] as const;

export interface Refused {
  readonly what: string;
  /** Where in the expression, from 1. */
  readonly character: number;
}

const binary = new Set(["==", "!=", "<", "<=", ">", ">=", "+", "&&", "||"]);

/** The first part of an expression outside the subset: fields, literals, == != < <= > >= && || ! + and has(). */
export function firstRefused(node: ASTNode): Refused | undefined {
  const refused = (what: string): Refused => ({ what, character: node.range.start + 1 });
  switch (node.op) {
    case "value":
      return isLiteral(node.args) ? undefined : refused("a literal of this kind");
    case "id":
      return (variables as readonly string[]).includes(node.args) ? undefined : refused(`"${node.args}"`);
    case ".":
      return firstRefused(node.args[0]);
    case "[]":
      return firstRefused(node.args[0]) ?? (node.args[1].op === "value" ? firstRefused(node.args[1]) : refused("a computed index"));
    case "!_":
      return firstRefused(node.args);
    case "-_":
      return node.args.op === "value" ? firstRefused(node.args) : refused("a minus before something that is not a number");
    case "call": {
      const path = hasPath(node);
      return path === undefined
        ? refused(node.args[0] === "has" ? "has() of something that is not a field" : `the function ${node.args[0]}()`)
        : undefined;
    }
    case "rcall":
      return refused(`the function ${node.args[0]}()`);
    default:
      if (!binary.has(node.op)) return refused(`"${node.op}"`);
      return firstRefused((node.args as [ASTNode, ASTNode])[0]) ?? firstRefused((node.args as [ASTNode, ASTNode])[1]);
  }
}

const isLiteral = (value: unknown) => value === null || ["string", "number", "bigint", "boolean"].includes(typeof value);

/** All paths that the expression reads from the packet, without the variable's name. */
export function pathsIn(node: ASTNode): readonly (readonly string[])[] {
  // has() checks whether a field exists; it does not read it.
  if (node.op === "call") return [];
  const access = accessOf(node);
  if (access !== undefined) {
    const [variable = "", ...path] = access;
    const inPacket = variable === "payload" ? path : path[0] === "payload" ? path.slice(1) : path;
    if (variable === "output" && access[1] === "name") return [];
    return inPacket.length === 0 ? [] : [inPacket];
  }
  return childrenOf(node).flatMap(pathsIn);
}

/** `has(payload.order.note)` → its path; undefined for anything else. */
function hasPath(node: ASTNode): readonly string[] | undefined {
  if (node.op !== "call" || node.args[0] !== "has" || node.args[1].length !== 1) return undefined;
  const [field] = node.args[1] as [ASTNode];
  const path = field.op === "." ? accessOf(field) : undefined;
  return (variables as readonly string[]).includes(path?.[0] ?? "") && path?.every((name) => /^[A-Za-z_]\w*$/.test(name))
    ? path
    : undefined;
}

/**
 * Rewrites `has(payload.a.b)` to `(has(payload.a) && has(payload.a.b))`: CEL's has() checks only the last name, and is an error if
 * an earlier one is missing.
 */
export function withWholePaths(text: string, ast: ASTNode): string {
  const calls = hasCalls(ast).toSorted((a, b) => b.start - a.start);
  return calls.reduce((sum, { start, end, path }) => {
    const steps = path.slice(1).map((_, i) => `has(${path.slice(0, i + 2).join(".")})`);
    return `${sum.slice(0, start)}(${steps.join(" && ")})${sum.slice(end)}`;
  }, text);
}

function hasCalls(node: ASTNode): readonly { readonly start: number; readonly end: number; readonly path: readonly string[] }[] {
  const path = hasPath(node);
  if (path !== undefined) return [{ ...node.range, path }];
  return childrenOf(node).flatMap(hasCalls);
}

/** String literals in the expression. */
export function literalsIn(node: ASTNode): readonly string[] {
  if (node.op === "value") return typeof node.args === "string" ? [node.args] : [];
  return accessOf(node) === undefined ? childrenOf(node).flatMap(literalsIn) : [];
}

/** The ports for which the expression can be true (`output.name == 'Passed'`). Undefined: it does not depend on the port. */
export function outputsIn(node: ASTNode): readonly string[] | undefined {
  if (node.op !== "==" && node.op !== "&&" && node.op !== "||") return undefined;
  const [a, b] = node.args as [ASTNode, ASTNode];
  if (node.op === "==") return portIn(a, b) ?? portIn(b, a);
  const [left, right] = [outputsIn(a), outputsIn(b)];
  if (node.op === "||") return left && right && [...left, ...right];
  return left && right ? left.filter((port) => right.includes(port)) : (left ?? right);
}

function portIn(name: ASTNode, port: ASTNode): readonly string[] | undefined {
  const isName = accessOf(name)?.join(".") === "output.name";
  return isName && port.op === "value" && typeof port.args === "string" ? [port.args] : undefined;
}

function accessOf(node: ASTNode): readonly string[] | undefined {
  if (node.op === "id") return [node.args];
  if (node.op === ".") {
    const inner = accessOf(node.args[0]);
    return inner && [...inner, node.args[1]];
  }
  if (node.op === "[]" && node.args[1].op === "value") {
    const inner = accessOf(node.args[0]);
    return inner && [...inner, String(node.args[1].args)];
  }
  return undefined;
}

function childrenOf(node: ASTNode): readonly ASTNode[] {
  if (node.op === "!_" || node.op === "-_") return [node.args];
  return Array.isArray(node.args)
    ? (node.args as unknown[]).filter((one): one is ASTNode => typeof one === "object" && one !== null && "op" in one)
    : [];
}
