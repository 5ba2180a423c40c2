import { type AstNode, bare, child, children, keyName } from "./ast.js";
import type { Scope } from "./scope.js";

/** What the run-time offers in place of globals: the same outside of workflows. */
type Substitute = "newDate" | "dateNow" | "dateText" | "random" | "uuid" | "fetch" | "setTimeout" | "setInterval" | "setImmediate";

/** What transformed code calls the functions that hold a value back, and let it go. They are not looked into again. */
export const heldName = "__onceflow_held";
export const releasedName = "__onceflow_released";

const members: Readonly<Record<string, Substitute>> = { "Date.now": "dateNow", "Math.random": "random", "crypto.randomUUID": "uuid" };
const functions: Readonly<Record<string, Substitute>> = {
  fetch: "fetch",
  setTimeout: "setTimeout",
  setInterval: "setInterval",
  setImmediate: "setImmediate",
};

/** A place where a global is meant, if `root` is one there. */
export interface Use {
  readonly at: AstNode;
  readonly by: Substitute;
  /**
   * What stands there then: the substitute, which looks the global up when it is called; a call of it; or, where the
   * global is handed on as a value, that very value, held back in workflows. Who keeps a global in order to replace it
   * must get the one that is there now: else its replacement would call itself.
   */
  readonly form: "name" | "call" | "held" | "shorthand" | "released";
  readonly root: string;
  /** The global that `root` has to be. Its import from node:crypto will do, too. */
  readonly global: string;
}

export interface FoundUse extends Use {
  readonly scope: Scope;
}

/** The clock, chance, timer or network that a node uses; nothing is known yet about who declares its name. */
export function useAt(node: AstNode, crypto: CryptoImports, isCallee: boolean): Use | undefined {
  const form = isCallee ? "name" : "held";
  switch (node.type) {
    case "NewExpression":
      return children(node, "arguments").length === 0 ? useOfDate(node, "newDate", node, "call") : undefined;
    case "CallExpression":
      return useOfDate(node, "dateText", child(node, "callee") as AstNode, "name");
    case "MemberExpression":
      return useOfMember(node, crypto, form);
    case "Identifier": {
      const root = String(node["name"]);
      if (crypto.named.has(root)) return { at: node, by: "uuid", form: "held", root, global: "" };
      const by = Object.hasOwn(functions, root) ? functions[root] : undefined;
      return by && { at: node, by, form, root, global: root };
    }
  }
  return undefined;
}

function useOfDate(node: AstNode, by: Substitute, at: AstNode, form: Use["form"]): Use | undefined {
  const named = globalAt(child(node, "callee"));
  return named?.name === "Date" ? { at, by, form, root: named.root, global: named.root } : undefined;
}

function useOfMember(node: AstNode, crypto: CryptoImports, form: Use["form"]): Use | undefined {
  const key = keyName(node);
  const object = globalAt(child(node, "object"));
  if (key === undefined || object === undefined) return undefined;
  if (key === "randomUUID" && crypto.whole.has(object.root)) return { at: node, by: "uuid", form: "held", root: object.root, global: "" };
  const path = `${object.name}.${key}`;
  const by = Object.hasOwn(members, path) ? members[path] : undefined;
  if (by !== undefined) return { at: node, by, form, root: object.root, global: object.root };
  const whole = globalAt(node);
  const itself = whole && Object.hasOwn(functions, whole.name) ? functions[whole.name] : undefined;
  return whole && itself && { at: node, by: itself, form, root: whole.root, global: whole.root };
}

/** `x`, and `globalThis.x`: both mean x, if their first name is a global. */
function globalAt(from: AstNode | undefined): { readonly name: string; readonly root: string } | undefined {
  const node = bare(from);
  if (node?.type === "Identifier") return { name: String(node["name"]), root: String(node["name"]) };
  const object = node?.type === "MemberExpression" ? bare(child(node, "object")) : undefined;
  const name = node && keyName(node);
  if (object?.type !== "Identifier" || name === undefined) return undefined;
  const root = String(object["name"]);
  return root === "globalThis" || root === "global" ? { name, root } : undefined;
}

/** What a file calls node:crypto and its randomUUID. */
export interface CryptoImports {
  readonly whole: ReadonlySet<string>;
  readonly named: ReadonlySet<string>;
}

export function cryptoImportsOf(program: AstNode): CryptoImports {
  const [whole, named] = [new Set<string>(), new Set<string>()];
  for (const statement of children(program, "body")) {
    const from = statement.type === "ImportDeclaration" ? child(statement, "source")?.["value"] : undefined;
    if (from !== "node:crypto" && from !== "crypto") continue;
    for (const specifier of children(statement, "specifiers")) {
      const local = String(child(specifier, "local")?.["name"]);
      if (specifier.type !== "ImportSpecifier") whole.add(local);
      else if (child(specifier, "imported")?.["name"] === "randomUUID") named.add(local);
    }
  }
  return { whole, named };
}

/** Whether the name means there what the use takes it for. */
export function isMeant({ root, global, scope }: FoundUse, file: Scope): boolean {
  const owner = scope.whose(root);
  return global === "" ? owner === file : owner === undefined;
}
