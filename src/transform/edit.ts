import MagicString from "magic-string";
import { type AstNode, child, children, keyName } from "./ast.js";
import type { Directives, MarkedFunction } from "./directives.js";
import type { FoundUse } from "./globals.js";
import type { IdsOfFile } from "./ids.js";
import type { SerdeClass } from "./serde-classes.js";

/** The module that transformed code imports. */
export const runtimeModule = "onceflow/workflow/runtime";
const prefix = "__onceflow_";

export interface EditOptions {
  readonly code: string;
  readonly program: AstNode;
  readonly directives: Directives;
  readonly uses: readonly FoundUse[];
  readonly serdeClasses: readonly SerdeClass[];
  readonly ids: IdsOfFile;
  readonly placeOf: (node: AstNode) => string;
}

/** Edits the code. Insertions never add a line, so line numbers stay the same. */
export function edit({ code, program, directives, uses, serdeClasses, ids, placeOf }: EditOptions): MagicString {
  const text = new MagicString(code);
  const imported = new Set<string>();
  /** Statements to insert at the top of a block, a class body or the file. */
  const first = new Map<AstNode, string[]>();
  const local = (name: string) => {
    imported.add(name);
    return prefix + name;
  };
  const atTop = (block: AstNode, statement: string) => void first.set(block, [...(first.get(block) ?? []), statement]);
  const replace = ({ start, end }: AstNode, by: string) => void text.update(start, end, by + code.slice(start, end).replace(/[^\n]/g, ""));

  const namesOf = (marked: MarkedFunction) => {
    const names = ids.of(marked);
    return JSON.stringify(names.length === 1 ? names[0] : names);
  };
  for (const { kind, former, ids: sharing } of ids.shared)
    atTop(program, `${local("sharedName")}(${[kind, former, ...sharing].map((each) => JSON.stringify(each)).join(", ")});`);
  for (const statement of directives.statements) replace(statement, " ");
  for (const { at, by, form } of uses) {
    if (form === "name" || form === "call") {
      replace(at, form === "call" ? `${local(by)}()` : local(by));
      continue;
    }
    const around = form === "released" ? local("released") : local("held");
    text.appendLeft(at.start, `${form === "shorthand" ? `${code.slice(at.start, at.end)}: ` : ""}${around}(`);
    text.prependRight(at.end, ")");
  }

  const markDeclaration = (marked: MarkedFunction) => {
    const { node, kind, block } = marked;
    const [id, where] = [namesOf(marked), JSON.stringify(placeOf(node))];
    const own = child(node, "id");
    const name = own === undefined ? `${prefix}default` : String(own["name"]);
    const afterKeyword = code.indexOf("function", node.start) + "function".length;
    if (kind === "workflow") {
      if (own === undefined) text.appendLeft(afterKeyword, ` ${name}`);
      return atTop(block, `${local("workflow")}(${id}, ${where}, ${name});`);
    }
    // The original name becomes a hoisted function, as it was before; it calls a second function, which has the body.
    const body = prefix + (own === undefined ? "default_body" : name);
    const call = `${local("callStep")}(${name}, ${id}, ${body}, this, [...arguments])`;
    text.appendLeft(node.start, `function ${name}(${parametersLike(node)}) { return ${call}; } `);
    if (own === undefined) text.appendLeft(afterKeyword, ` ${body}`);
    else text.update(own.start, own.end, body);
    atTop(block, `${local("hoistedStep")}(${name}, ${id}, ${body});`);
  };

  const markMethod = (marked: MarkedFunction) => {
    const { node, kind, member, classBody } = marked;
    const key = JSON.stringify(keyName(member as AstNode));
    const owner = member?.["static"] === true ? "this" : "this.prototype";
    const id = namesOf(marked);
    const call =
      kind === "step"
        ? `${local("stepMethod")}(${owner}, ${key}, ${id})`
        : `${local("workflowMethod")}(${owner}, ${key}, ${id}, ${JSON.stringify(placeOf(node))})`;
    atTop(classBody as AstNode, `${call};`);
  };

  const markExpression = (marked: MarkedFunction) => {
    const { node, kind, member } = marked;
    const id = namesOf(marked);
    const call = kind === "step" ? `${local("step")}(${id}, ` : `${local("workflow")}(${id}, ${JSON.stringify(placeOf(node))}, `;
    if (member?.type === "Property" && member["method"] === true) {
      text.remove(member.start, member.start + "async".length);
      text.appendLeft(node.start, `: ${call}async function `);
    } else text.appendLeft(node.start, call);
    text.prependRight(node.end, ")");
  };

  for (const marked of directives.marked) {
    if (marked.node.type === "FunctionDeclaration") markDeclaration(marked);
    else if (marked.member?.type === "MethodDefinition") markMethod(marked);
    else markExpression(marked);
  }

  for (const found of serdeClasses) atTop(found.body, `${local("serdeClass")}(this, ${JSON.stringify(ids.ofClass(found.name))});`);

  for (const [block, statements] of first) {
    if (block === program) continue;
    const joined = statements.join(" ");
    if (block.type === "ClassBody") text.appendRight(block.start + 1, ` static { ${joined} }`);
    else text.appendRight(topOf(block), ` ${joined} `);
  }
  const imports = [...imported].map((name) => `${name} as ${prefix}${name}`).join(", ");
  text.appendRight(topOf(program), `${[`import { ${imports} } from "${runtimeModule}";`, ...(first.get(program) ?? [])].join(" ")} `);
  return text;
}

/** The offset after the hashbang and the directives that stay. */
function topOf(block: AstNode): number {
  const body = children(block, block.type === "SwitchCase" ? "consequent" : "body");
  const statement = body.find((each) => typeof each["directive"] !== "string");
  if (statement) return statement.start;
  return body.at(-1)?.end ?? (block.type === "Program" ? block.end : block.start + 1);
}

/** Placeholder parameters, as many as the `length` of the function. */
function parametersLike(node: AstNode): string {
  const params = children(node, "params").filter((each) => each["name"] !== "this");
  const optional = params.findIndex((each) => each.type === "AssignmentPattern" || each.type === "RestElement");
  return params
    .slice(0, optional < 0 ? params.length : optional)
    .map((_, i) => `${prefix}${i}`)
    .join(", ");
}
