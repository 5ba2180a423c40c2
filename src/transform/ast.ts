import { extname } from "node:path";
import { type ParserOptions, parseSync, visitorKeys } from "oxc-parser";

/** A node as the walk sees it: whatever it has beyond its place is asked for by name. */
export interface AstNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

const languages: Readonly<Record<string, NonNullable<ParserOptions["lang"]>>> = {
  ".js": "jsx",
  ".mjs": "jsx",
  ".cjs": "jsx",
  ".jsx": "jsx",
  ".ts": "ts",
  ".mts": "ts",
  ".cts": "ts",
  ".tsx": "tsx",
};

/** Undefined: not a file that can have directives. */
export function languageOf(file: string): NonNullable<ParserOptions["lang"]> | undefined {
  return languages[extname(file)];
}

export interface Parsed {
  readonly program: AstNode;
  /** By its name, or because it says `import` or `export`; undefined: neither says. */
  readonly isModule: boolean | undefined;
}

/** Undefined when it does not parse: whoever runs or builds it has the better message. */
export function parse(file: string, code: string): Parsed | undefined {
  const lang = languageOf(file);
  if (lang === undefined) return undefined;
  const { program, errors, module } = parseSync(file, code, { lang, astType: "ts", sourceType: "unambiguous", preserveParens: true });
  if (errors.some(({ severity }) => severity === "Error")) return undefined;
  const [, named] = /\.([mc])[jt]s$/.exec(file) ?? [];
  return { program: program as unknown as AstNode, isModule: named ? named === "m" : module.hasModuleSyntax || undefined };
}

export function child(node: AstNode, field: string): AstNode | undefined {
  return (node[field] ?? undefined) as AstNode | undefined;
}

export function children(node: AstNode, field: string): readonly AstNode[] {
  const list = node[field];
  return Array.isArray(list) ? list.filter((each) => each !== null) : [];
}

/** What exists for types only: no code comes of it. */
const typeFields = new Set(["typeAnnotation", "typeParameters", "typeArguments", "returnType", "superTypeArguments", "implements"]);

/** Nodes of TypeScript that have code in them; all others are types. */
const typedCode = new Set([
  "TSAsExpression",
  "TSSatisfiesExpression",
  "TSNonNullExpression",
  "TSTypeAssertion",
  "TSInstantiationExpression",
  "TSExportAssignment",
  "TSParameterProperty",
  "TSEnumDeclaration",
  "TSEnumBody",
  "TSEnumMember",
  "TSModuleDeclaration",
  "TSModuleBlock",
]);

/** The fields of each type of node that code is in. */
const codeFields = new Map(Object.entries(visitorKeys).map(([type, fields]) => [type, fields.filter((field) => !typeFields.has(field))]));

/** Every node directly below that code comes of, with the field it stands in. */
export function eachBelow(node: AstNode, visit: (below: AstNode, field: string) => void): void {
  for (const field of codeFields.get(node.type) ?? []) {
    const value = node[field];
    if (Array.isArray(value)) {
      for (const below of value) if (isCode(below)) visit(below, field);
    } else if (isCode(value)) visit(value, field);
  }
}

function isCode(value: unknown): value is AstNode {
  if (typeof value !== "object" || value === null) return false;
  const { type, declare } = value as AstNode;
  return typeof type === "string" && (!type.startsWith("TS") || typedCode.has(type)) && declare !== true;
}

/** What stands in parentheses, or under a type, is the same expression. */
export function isSheath(node: AstNode): boolean {
  return ["ParenthesizedExpression", "TSAsExpression", "TSSatisfiesExpression", "TSNonNullExpression", "TSTypeAssertion"].includes(
    node.type,
  );
}

export function bare(node: AstNode | undefined): AstNode | undefined {
  return node && isSheath(node) ? bare(child(node, "expression")) : node;
}

const functions = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"]);

export function isFunction(node: AstNode): boolean {
  return functions.has(node.type);
}

/** The name of a member, where it can be known without running the code. */
export function keyName(member: AstNode): string | undefined {
  const key = child(member, member.type === "MemberExpression" ? "property" : "key");
  if (key === undefined) return undefined;
  if (key.type === "Literal")
    return typeof key["value"] === "string" || typeof key["value"] === "number" ? String(key["value"]) : undefined;
  if (member["computed"] === true) return undefined;
  return key.type === "Identifier" || key.type === "PrivateIdentifier" ? String(key["name"]) : undefined;
}

/** Whether a function's own code has a node of one of these types: functions inside of it have a `this` of their own, arrows do not. */
export function mentions(node: AstNode, types: readonly string[]): boolean {
  let found = false;
  eachBelow(node, (below) => {
    const apart = below.type === "FunctionDeclaration" || below.type === "FunctionExpression" || below.type.startsWith("Class");
    found ||= types.includes(below.type) || (!apart && mentions(below, types));
  });
  return found;
}
