import type { ASTNode } from "@marcbachmann/cel-js";
import { quantifiers } from "./functions.js";

export const variables = ["payload", "output", "input", "message"] as const;

/** `payload.items[0].id` → `["payload", "items", "0", "id"]`; undefined for anything else. */
export function accessOf(node: ASTNode): readonly string[] | undefined {
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

/** The path inside the packet that an access reads; undefined if it reads something else, such as the output's name. */
export function packetPath(access: readonly string[]): readonly string[] | undefined {
  const [variable = "", ...path] = access;
  if (!(variables as readonly string[]).includes(variable) || (variable === "output" && path[0] === "name")) return undefined;
  return variable !== "payload" && path[0] === "payload" ? path.slice(1) : path;
}

/** All paths that the expression reads from the packet, without the variable's name. */
export function pathsIn(node: ASTNode): readonly (readonly string[])[] {
  // has() checks whether a field exists; it does not read it.
  if (node.op === "call" && node.args[0] === "has") return [];
  const access = accessOf(node);
  if (access !== undefined) {
    const path = packetPath(access);
    return path === undefined || path.length === 0 ? [] : [path];
  }
  // The condition of exists() and all() reads items; a field that it reads from the packet may not be needed for an empty list.
  if (node.op === "rcall" && quantifiers.includes(node.args[0])) return pathsIn(node.args[1]);
  return childrenOf(node).flatMap(pathsIn);
}

/** `has(payload.order.note)` → its path; undefined for anything else. */
export function hasPath(node: ASTNode): readonly string[] | undefined {
  if (node.op !== "call" || node.args[0] !== "has" || node.args[1].length !== 1) return undefined;
  const [field] = node.args[1] as [ASTNode];
  const path = field.op === "." ? accessOf(field) : undefined;
  return path?.every((name) => /^[A-Za-z_]\w*$/.test(name)) ? path : undefined;
}

/** String literals in the expression. */
export function literalsIn(node: ASTNode): readonly string[] {
  if (node.op === "value") return typeof node.args === "string" ? [node.args] : [];
  return accessOf(node) === undefined ? childrenOf(node).flatMap(literalsIn) : [];
}

/** The ports for which the expression can be true (`output.name == 'Passed'`). Undefined: it does not depend on the port. */
export function outputsIn(node: ASTNode): readonly string[] | undefined {
  if (node.op === "in") return portsIn(...node.args);
  if (node.op !== "==" && node.op !== "&&" && node.op !== "||") return undefined;
  const [a, b] = node.args as [ASTNode, ASTNode];
  if (node.op === "==") return portIn(a, b) ?? portIn(b, a);
  const [left, right] = [outputsIn(a), outputsIn(b)];
  if (node.op === "||") return left && right && [...left, ...right];
  return left && right ? left.filter((port) => right.includes(port)) : (left ?? right);
}

const isOutputName = (node: ASTNode) => accessOf(node)?.join(".") === "output.name";

function portIn(name: ASTNode, port: ASTNode): readonly string[] | undefined {
  return isOutputName(name) && port.op === "value" && typeof port.args === "string" ? [port.args] : undefined;
}

/** `output.name in ['Passed', 'Held']` */
function portsIn(name: ASTNode, list: ASTNode): readonly string[] | undefined {
  if (!isOutputName(name) || list.op !== "list") return undefined;
  return list.args.flatMap((item) => (item.op === "value" && typeof item.args === "string" ? [item.args] : []));
}

const isNode = (value: unknown): value is ASTNode => typeof value === "object" && value !== null && "op" in value;

/** Arguments of a call are a list inside its arguments. */
function childrenOf(node: ASTNode): readonly ASTNode[] {
  const args: unknown = node.args;
  return (Array.isArray(args) ? (args as unknown[]).flat() : [args]).filter(isNode);
}
