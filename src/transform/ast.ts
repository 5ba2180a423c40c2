import { extname } from "node:path";
import { type ParserOptions, parseSync, visitorKeys } from "oxc-parser";

/** A node of the syntax tree. Fields other than type and position are read by name. */
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

/** Undefined if a file with this extension cannot have directives. */
export function languageOf(file: string): NonNullable<ParserOptions["lang"]> | undefined {
  return languages[extname(file)];
}

export interface Parsed {
  readonly program: AstNode;
  /** True or false by the extension; true if the code has `import` or `export`; else undefined. */
  readonly isModule: boolean | undefined;
}

/** Undefined if the code does not parse: Node or the bundler reports the syntax error better. */
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

/** Fields that hold only types. */
const typeFields = new Set(["typeAnnotation", "typeParameters", "typeArguments", "returnType", "superTypeArguments", "implements"]);

/** TypeScript nodes that contain code; all other TypeScript nodes are types. */
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

/** For each type of node, the fields that contain code. */
const codeFields = new Map(Object.entries(visitorKeys).map(([type, fields]) => [type, fields.filter((field) => !typeFields.has(field))]));

/** Visits each child node that contains code, with the name of its field. */
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

/** True for parentheses and type assertions: they wrap an expression without changing it. */
export function isWrapper(node: AstNode): boolean {
  return ["ParenthesizedExpression", "TSAsExpression", "TSSatisfiesExpression", "TSNonNullExpression", "TSTypeAssertion"].includes(
    node.type,
  );
}

export function unwrap(node: AstNode | undefined): AstNode | undefined {
  return node && isWrapper(node) ? unwrap(child(node, "expression")) : node;
}

const functions = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"]);

export function isFunction(node: AstNode): boolean {
  return functions.has(node.type);
}

/** The name of a member, if it is known without running the code. */
export function keyName(member: AstNode): string | undefined {
  const key = child(member, member.type === "MemberExpression" ? "property" : "key");
  if (key === undefined) return undefined;
  if (key.type === "Literal")
    return typeof key["value"] === "string" || typeof key["value"] === "number" ? String(key["value"]) : undefined;
  if (member["computed"] === true) return undefined;
  return key.type === "Identifier" || key.type === "PrivateIdentifier" ? String(key["name"]) : undefined;
}

/** Whether the code of a function contains a node of one of these types. Inner functions and classes have another `this` and are skipped; arrow functions are not. */
export function mentions(node: AstNode, types: readonly string[]): boolean {
  let found = false;
  eachBelow(node, (below) => {
    const hasOwnThis = below.type === "FunctionDeclaration" || below.type === "FunctionExpression" || below.type.startsWith("Class");
    found ||= types.includes(below.type) || (!hasOwnThis && mentions(below, types));
  });
  return found;
}
