import { type AstNode, child, children, isFunction, mentions, unwrap } from "./ast.js";
import { intendedDirective, isDirective, isDirectiveBadlyWritten } from "./misspelt.js";
import type { FunctionSite, Survey } from "./survey.js";

type Kind = "workflow" | "step";

/** A function that a directive, in its body or at the top of its file, makes a workflow or a step. */
export interface MarkedFunction extends FunctionSite {
  readonly kind: Kind;
  readonly path: string;
  readonly formerPath: string;
}

export interface Problem {
  readonly at: AstNode;
  readonly message: string;
}

export interface Directives {
  readonly marked: readonly MarkedFunction[];
  /** The directive statements. They are removed from the code, so that transforming it again changes nothing. */
  readonly statements: readonly AstNode[];
  readonly problems: readonly Problem[];
}

/** `known`: directives of other tools, which are not reported as misspelt. */
export function findDirectives(
  program: AstNode,
  { functions, strays }: Pick<Survey, "functions" | "strays">,
  known: readonly string[] = [],
): Directives {
  const problems: Problem[] = [];
  const statements: AstNode[] = [];
  const prologueOf = (node: AstNode) => {
    const own = readPrologue(children(node, "body"), problems, known);
    statements.push(...own.statements);
    return own.kind;
  };
  const ofFile = prologueOf(program);
  const exported = ofFile === undefined ? new Set<AstNode>() : exportedFunctions(program);
  const marked = functions.flatMap((site): MarkedFunction[] => {
    const body = child(site.node, "body") as AstNode;
    const kind = (body.type === "BlockStatement" ? prologueOf(body) : undefined) ?? (exported.has(site.node) ? ofFile : undefined);
    if (kind === undefined) return [];
    const message = whyNot(kind, site);
    if (message !== undefined) problems.push({ at: site.node, message });
    const { path, formerPath } = site;
    return message === undefined && path !== undefined && formerPath !== undefined ? [{ ...site, kind, path, formerPath }] : [];
  });
  for (const { literal, statement } of strays) {
    const text = textOf(literal);
    const isWhole = unwrap(child(statement, "expression")) === literal;
    const message = text === undefined ? undefined : whyStray(literal, text, isWhole, known);
    if (message !== undefined) problems.push({ at: literal, message });
  }
  problems.push(...sameNames(marked));
  return { marked, statements, problems };
}

function readPrologue(
  body: readonly AstNode[],
  problems: Problem[],
  known: readonly string[],
): { readonly kind: Kind | undefined; readonly statements: AstNode[] } {
  const statements: AstNode[] = [];
  let kind: Kind | undefined;
  for (const statement of body) {
    const text = statement["directive"];
    if (typeof text !== "string") break;
    const meant = intendedDirective(text, known);
    if (isDirective(text)) {
      const found = text === "use workflow" ? "workflow" : "step";
      if (kind !== undefined)
        problems.push({
          at: statement,
          message:
            kind === found
              ? `"${text}" is repeated. Remove one of them.`
              : 'a function cannot be both a workflow and a step. Keep either "use workflow" or "use step".',
        });
      kind ??= found;
      statements.push(statement);
    } else if (meant !== undefined) problems.push({ at: statement, message: misspelt(text, meant) });
  }
  return { kind, statements };
}

function misspelt(text: string, meant: string): string {
  return `"${text}" is not a directive. Write "${meant}".`;
}

function textOf(literal: AstNode): string | undefined {
  if (literal.type === "Literal") return literal["value"] as string;
  const [only, ...more] = children(literal, "quasis");
  return more.length > 0 ? undefined : (only?.["value"] as { cooked?: string } | undefined)?.cooked;
}

/** `isWhole`: the statement consists only of this string. */
function whyStray(literal: AstNode, text: string, isWhole: boolean, known: readonly string[]): string | undefined {
  if (!isDirective(text)) {
    const meant = isWhole || isDirectiveBadlyWritten(text) ? intendedDirective(text, known) : undefined;
    return meant && misspelt(text, meant);
  }
  const how =
    literal.type === "TemplateLiteral"
      ? "it is in backticks, or it is not the first statement"
      : "it is not the first statement, or it is part of a longer statement";
  return `"${text}" is not a directive here: ${how}. Write it as the first statement of an async function or of the file: "${text}";`;
}

/** Why a function with this directive cannot be a workflow or a step; undefined if it can. */
function whyNot(kind: Kind, { node, path, member }: FunctionSite): string | undefined {
  const a = `a ${kind}`;
  const memberKind = member?.["kind"];
  if (memberKind === "get" || memberKind === "set") return `a ${memberKind}ter cannot be ${a}. Make it an async method.`;
  if (memberKind === "constructor") return `a constructor cannot be ${a}. Use a static async method.`;
  if (node["generator"] === true) return `a generator cannot be ${a}. Make it an async function that returns its result.`;
  if (node["async"] !== true) return `only an async function can be ${a}. Write async before it.`;
  if (path === undefined)
    return `${a} needs a name for its id, and this function has none. Assign it to a constant, or declare it as a function.`;
  if (isPrivateMethod(member))
    return `a private method cannot be ${a}. Make it public, or a private field that holds an async arrow function.`;
  const isObjectMethod = member?.type === "Property" && member["method"] === true;
  if (isObjectMethod && mentions(node, ["Super"])) return `super does not work in ${a} that is a member of an object. Use a class.`;
  const hasInstance = isObjectMethod || (member?.type === "MethodDefinition" && member["static"] !== true);
  if (kind === "workflow" && hasInstance && mentions(node, ["ThisExpression", "Super"]))
    return "a workflow has no `this`: another process may continue it. Make it a function or a static method, and pass the values it needs as arguments.";
  return undefined;
}

function isPrivateMethod(member: AstNode | undefined): boolean {
  return member?.type === "MethodDefinition" && child(member, "key")?.type === "PrivateIdentifier";
}

function sameNames(marked: readonly MarkedFunction[]): Problem[] {
  const seen = new Set<string>();
  return marked.flatMap(({ kind, path, node }) => {
    const id = `${kind} ${path}`;
    const isFirst = !seen.has(id);
    seen.add(id);
    return isFirst
      ? []
      : [{ at: node, message: `two ${kind}s of this file are named "${path}" and would have the same id. Rename one of them.` }];
  });
}

/** The functions that a file declares and exports, under any name. */
function exportedFunctions(program: AstNode): Set<AstNode> {
  const local = new Map<string, AstNode>();
  const exported = new Set<AstNode>();
  const names: string[] = [];
  const functionIn = (from: AstNode | undefined): AstNode | undefined => {
    const value = unwrap(from);
    return value && isFunction(value) ? value : undefined;
  };
  const declared = (declaration: AstNode): (readonly [string, AstNode | undefined])[] => {
    if (declaration.type === "VariableDeclaration")
      return children(declaration, "declarations").map((each) => [String(child(each, "id")?.["name"]), functionIn(child(each, "init"))]);
    return [[String(child(declaration, "id")?.["name"]), functionIn(declaration)]];
  };
  for (const statement of children(program, "body")) {
    const declaration = child(statement, "declaration");
    for (const [name, fn] of declared(declaration ?? statement)) if (fn) local.set(name, fn);
    if (statement.type === "ExportNamedDeclaration") {
      if (declaration) names.push(...declared(declaration).map(([name]) => name));
      else if (!child(statement, "source"))
        names.push(...children(statement, "specifiers").map((each) => String(child(each, "local")?.["name"])));
    }
    if (statement.type === "ExportDefaultDeclaration" && declaration) {
      const fn = functionIn(declaration);
      if (fn) exported.add(fn);
      else names.push(String(declaration["name"]));
    }
  }
  for (const name of names) {
    const fn = local.get(name);
    if (fn) exported.add(fn);
  }
  return exported;
}
