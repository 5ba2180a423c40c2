import { type AstNode, child, children, eachBelow, unwrap } from "./ast.js";
import type { Problem } from "./directives.js";

/** A class with `static [WORKFLOW_SERIALIZE]`. */
export interface SerdeClass {
  readonly body: AstNode;
  readonly name: string;
}

export interface SerdeClasses {
  readonly classes: readonly SerdeClass[];
  readonly problems: readonly Problem[];
}

const exportedName = "WORKFLOW_SERIALIZE";
const symbolKey = "workflow-serialize";
/** Name of the registration call in transformed code: a file that contains it was already transformed. */
const registered = "__onceflow_serdeClass";

const none: SerdeClasses = { classes: [], problems: [] };

function mentionsSerde(code: string): boolean {
  return (code.includes(exportedName) || code.includes(symbolKey)) && !code.includes(registered);
}

/** Finds the classes of a file that have to be registered, so that a process that reads a stored instance knows its class. */
export function serdeClassesIn(program: AstNode, code: string): SerdeClasses {
  if (!mentionsSerde(code)) return none;
  const names = symbolNames(program);
  const classes: SerdeClass[] = [];
  const problems: Problem[] = [];
  const visit = (node: AstNode, given?: string): void => {
    if (node.type === "ClassDeclaration" || node.type === "ClassExpression") add(node, given);
    const named = node.type === "VariableDeclarator" ? child(node, "id")?.["name"] : undefined;
    eachBelow(node, (each) => visit(each, typeof named === "string" ? named : undefined));
  };
  const add = (node: AstNode, given: string | undefined): void => {
    const body = child(node, "body") as AstNode;
    if (!children(body, "body").some((member) => isSerializer(member, names))) return;
    const own = child(node, "id")?.["name"];
    const name = typeof own === "string" ? own : given;
    if (name === undefined) problems.push({ at: node, message: nameless });
    else if (classes.some((other) => other.name === name)) problems.push({ at: node, message: sameName(name) });
    else classes.push({ body, name });
  };
  visit(program);
  return { classes, problems };
}

const nameless = `a class with static [${exportedName}] needs a name, because the name is stored with its instances. Give the class a name.`;
const sameName = (name: string) =>
  `two classes of this file with static [${exportedName}] are named "${name}" and would be stored under the same name. Rename one of them.`;

/** Local names of the symbol in this file: imports, and constants that hold `Symbol.for("workflow-serialize")`. */
function symbolNames(program: AstNode): ReadonlySet<string> {
  const names = new Set<string>();
  for (const statement of children(program, "body")) {
    for (const specifier of children(statement, "specifiers"))
      if (child(specifier, "imported")?.["name"] === exportedName) names.add(String(child(specifier, "local")?.["name"]));
    const declaration = child(statement, "declaration") ?? statement;
    for (const each of children(declaration, "declarations"))
      if (isSymbol(child(each, "init"))) names.add(String(child(each, "id")?.["name"]));
  }
  return names;
}

function isSerializer(member: AstNode, names: ReadonlySet<string>): boolean {
  if (member["static"] !== true || member["computed"] !== true) return false;
  const key = unwrap(child(member, "key"));
  return key?.type === "Identifier" ? names.has(String(key["name"])) : isSymbol(key);
}

/** `Symbol.for("workflow-serialize")` */
function isSymbol(from: AstNode | undefined): boolean {
  const node = unwrap(from);
  const callee = node?.type === "CallExpression" ? child(node, "callee") : undefined;
  if (node === undefined || callee?.type !== "MemberExpression") return false;
  const [object, property] = [child(callee, "object"), child(callee, "property")];
  return object?.["name"] === "Symbol" && property?.["name"] === "for" && children(node, "arguments")[0]?.["value"] === symbolKey;
}
