import { type AstNode, child, children, keyName, unwrap } from "./ast.js";
import type { Scope } from "./scope.js";

/** Functions of the runtime module that replace globals. Outside of workflows they behave like the globals. */
type Substitute = "newDate" | "dateNow" | "dateText" | "random" | "uuid" | "fetch" | "setTimeout" | "setInterval" | "setImmediate";

/** Names of `held` and `released` in transformed code. Their arguments are not transformed again. */
export const heldName = "__onceflow_held";
export const releasedName = "__onceflow_released";

const members: Readonly<Record<string, Substitute>> = { "Date.now": "dateNow", "Math.random": "random", "crypto.randomUUID": "uuid" };
const functions: Readonly<Record<string, Substitute>> = {
  fetch: "fetch",
  setTimeout: "setTimeout",
  setInterval: "setInterval",
  setImmediate: "setImmediate",
};

/** An expression that uses a global, provided that `root` is not declared in an enclosing scope. */
export interface Use {
  readonly at: AstNode;
  readonly by: Substitute;
  /**
   * What replaces the expression. name: the substitute, which looks the global up when it is called. call: a call of the
   * substitute. held, shorthand: if the code passes the global on as a value, that value wrapped by `held`, which works only
   * outside of workflows. released: an assignment to the global. `held` must wrap the current value and not look it up
   * later: code that saves a global in order to replace it would otherwise call its own replacement without end.
   */
  readonly form: "name" | "call" | "held" | "shorthand" | "released";
  readonly root: string;
  /** The global that `root` must be; "" if `root` is an import from node:crypto. */
  readonly global: string;
}

export interface FoundUse extends Use {
  readonly scope: Scope;
}

/** The clock, random number, timer or `fetch` that a node may use. The caller still has to check which scope declares its name. */
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

/** `x` and `globalThis.x`: both refer to the global x if their first name is a global. */
function globalAt(from: AstNode | undefined): { readonly name: string; readonly root: string } | undefined {
  const node = unwrap(from);
  if (node?.type === "Identifier") return { name: String(node["name"]), root: String(node["name"]) };
  const object = node?.type === "MemberExpression" ? unwrap(child(node, "object")) : undefined;
  const name = node && keyName(node);
  if (object?.type !== "Identifier" || name === undefined) return undefined;
  const root = String(object["name"]);
  return root === "globalThis" || root === "global" ? { name, root } : undefined;
}

/** Local names of node:crypto (`whole`) and of its randomUUID (`named`) in a file. */
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

/** Whether the name really refers to the global, or to the import from node:crypto, in its scope. */
export function refersToGlobal({ root, global, scope }: FoundUse, file: Scope): boolean {
  const owner = scope.declaringScope(root);
  return global === "" ? owner === file : owner === undefined;
}
