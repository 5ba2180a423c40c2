import { type AstNode, child, children, eachBelow, isFunction, isSheath, keyName } from "./ast.js";
import { type CryptoImports, cryptoImportsOf, type FoundUse, heldName, releasedName, useAt } from "./globals.js";
import { boundNames, patternCode, Scope } from "./scope.js";

/** A function of a file, and what its place says about it. */
export interface FunctionSite {
  readonly node: AstNode;
  /** Such as "outer/inner" or "Order.prototype.charge"; undefined when nothing there gives it a name. */
  readonly path: string | undefined;
  /** The member of a class or an object that it is the value of. */
  readonly member: AstNode | undefined;
  readonly classBody: AstNode | undefined;
  /** The list of statements that it stands in: where declarations are hoisted to. */
  readonly block: AstNode;
}

/** Everything about a file that the transform wants to know, found in one walk. */
export interface Survey {
  readonly functions: readonly FunctionSite[];
  readonly uses: readonly FoundUse[];
  /** Statements that are nothing but a text, or begin with one, outside of prologues. */
  readonly strays: readonly { readonly statement: AstNode; readonly literal: AstNode }[];
  readonly fileScope: Scope;
  /** It speaks CommonJS: `require`, `module` and `exports` are nobody's but Node's. */
  readonly isCommonJs: boolean;
}

/** What is known about a place from what is around it. */
interface Around {
  readonly scope: Scope;
  readonly block: AstNode;
  /** What names begin with here: "outer/", "Order.". */
  readonly prefix: string;
  /** Of the class whose members these are. */
  readonly classBody?: AstNode | undefined;
}

/** What an expression is to what it stands in. */
interface Role {
  /** The name that it has because it stands there. */
  readonly given?: string | undefined;
  readonly member?: AstNode;
  /** It is written to, deleted, or only asked for its type. */
  readonly isTarget?: boolean;
  /** It is called there. */
  readonly isCallee?: boolean;
}

const none: Role = {};
const target: Role = { isTarget: true };
const callee: Role = { isCallee: true };

const blocks = new Set(["BlockStatement", "StaticBlock", "TSModuleBlock"]);
const scopes = new Set([...blocks, "ForStatement", "ForInStatement", "ForOfStatement", "SwitchStatement", "CatchClause"]);
const commonJs = new Set(["require", "module", "exports"]);

export function survey(program: AstNode): Survey {
  const surveyor = new Surveyor(cryptoImportsOf(program));
  surveyor.below(program, { scope: surveyor.fileScope, block: program, prefix: "" });
  return surveyor;
}

class Surveyor implements Survey {
  readonly functions: FunctionSite[] = [];
  readonly uses: FoundUse[] = [];
  readonly strays: { statement: AstNode; literal: AstNode }[] = [];
  readonly fileScope = new Scope();
  readonly #crypto: CryptoImports;
  readonly #commonJs: { readonly name: string; readonly scope: Scope }[] = [];

  constructor(crypto: CryptoImports) {
    this.#crypto = crypto;
  }

  get isCommonJs(): boolean {
    return this.#commonJs.some(({ name, scope }) => scope.whose(name) === undefined);
  }

  below(node: AstNode, around: Around): void {
    eachBelow(node, (each) => this.#visit(each, around));
  }

  #visit(node: AstNode, around: Around, role = none): void {
    if (isFunction(node)) return this.#function(node, around, role);
    if (isSheath(node)) return this.#visit(child(node, "expression") as AstNode, around, role);
    if (!role.isTarget && this.#use(node, around.scope, role.isCallee ?? false)) return;
    const visit = (field: string, as?: Role) => this.#visit(child(node, field) as AstNode, around, as);
    switch (node.type) {
      case "VariableDeclaration":
        return this.#variables(node, around);
      case "ImportDeclaration":
        for (const specifier of children(node, "specifiers")) this.#declare(around.scope, child(specifier, "local"));
        return;
      case "ExportDefaultDeclaration":
        return visit("declaration", { given: `${around.prefix}default` });
      case "ClassDeclaration":
      case "ClassExpression":
        return this.#class(node, around, role);
      case "ObjectExpression":
        return this.below(node, role.given === undefined ? around : { ...around, prefix: `${role.given}.` });
      case "Property":
      case "MethodDefinition":
      case "PropertyDefinition":
      case "AccessorProperty":
        return this.#member(node, around);
      case "CallExpression":
        if (child(node, "callee")?.["name"] === heldName) return;
        return eachBelow(node, (each, field) => this.#visit(each, around, field === "callee" ? callee : none));
      case "MemberExpression":
        visit("object");
        if (node["computed"] === true) visit("property");
        return;
      case "AssignmentExpression":
        this.#replacement(node, around.scope);
        visit("left", target);
        return visit("right", { given: nameOfTarget(around.prefix, child(node, "left")) });
      case "UpdateExpression":
        return visit("argument", target);
      case "UnaryExpression":
        return visit("argument", node["operator"] === "typeof" || node["operator"] === "delete" ? target : none);
      case "LabeledStatement":
        return visit("body");
      case "ExportSpecifier":
      case "ExportAllDeclaration":
      case "BreakStatement":
      case "ContinueStatement":
      case "MetaProperty":
        return;
      case "ExpressionStatement":
        this.#stray(node);
        return this.below(node, around);
      case "TSEnumDeclaration":
        return this.#enum(node, around);
      case "TSModuleDeclaration":
        this.#declare(around.scope, child(node, "id"));
        return child(node, "body") && visit("body");
      case "ArrayPattern":
      case "ObjectPattern":
      case "AssignmentPattern":
      case "RestElement":
        // They are assigned to.
        for (const code of patternCode(node)) this.#visit(code, around);
        return;
    }
    if (scopes.has(node.type)) this.#block(node, around);
    else this.below(node, around);
  }

  #block(node: AstNode, around: Around): void {
    const scope = new Scope(around.scope, node.type === "StaticBlock" || node.type === "TSModuleBlock");
    if (node.type === "CatchClause") this.#declare(scope, child(node, "param"));
    const inside = { ...around, scope, block: blocks.has(node.type) ? node : around.block };
    // `for (x of …)` writes to x.
    eachBelow(node, (each, field) => this.#visit(each, inside, field === "left" || field === "param" ? target : none));
  }

  #declare(scope: Scope, id: AstNode | undefined): void {
    for (const name of boundNames(id)) scope.declare(name);
  }

  /** Whether this is one; what it is made of is then no other. */
  #use(node: AstNode, scope: Scope, isCallee: boolean): boolean {
    const use = useAt(node, this.#crypto, isCallee);
    if (use) this.uses.push({ ...use, scope });
    if (node.type === "Identifier" && commonJs.has(String(node["name"]))) this.#commonJs.push({ name: String(node["name"]), scope });
    return use !== undefined && node.type === "Identifier";
  }

  /** `globalThis.fetch = real` puts back what was kept: the global itself, not what it was handed on as. */
  #replacement(node: AstNode, scope: Scope): void {
    const use = useAt(child(node, "left") as AstNode, this.#crypto, false);
    const right = child(node, "right") as AstNode;
    const isDone = child(right, "callee")?.["name"] === releasedName;
    if (use && use.global !== "" && !isDone && !isFunction(right)) this.uses.push({ ...use, at: right, form: "released", scope });
  }

  #function(node: AstNode, { scope: outer, block, prefix, classBody }: Around, { given, member }: Role): void {
    const id = child(node, "id");
    const isDeclaration = node.type === "FunctionDeclaration";
    if (isDeclaration) this.#declare(outer, id);
    const own = id && `${prefix}${String(id["name"])}`;
    const path = isDeclaration ? (own ?? given) : (given ?? own);
    this.functions.push({ node, path, member, classBody, block });
    const scope = new Scope(outer, true);
    if (!isDeclaration) this.#declare(scope, id);
    if (node.type !== "ArrowFunctionExpression") scope.declare("arguments");
    const body = child(node, "body") as AstNode;
    const inside: Around = { scope, block: body, prefix: path === undefined ? prefix : `${path}/` };
    for (const param of children(node, "params")) {
      this.#declare(scope, param);
      for (const code of patternCode(param)) this.#visit(code, inside);
      for (const decorator of children(param, "decorators")) this.#visit(decorator, inside);
    }
    if (node["expression"] === true) this.#visit(body, inside);
    else this.below(body, inside);
  }

  #variables(node: AstNode, here: Around): void {
    const scope = node["kind"] === "var" ? here.scope.varScope : here.scope;
    for (const declarator of children(node, "declarations")) {
      const id = child(declarator, "id");
      this.#declare(scope, id);
      for (const code of patternCode(id)) this.#visit(code, here);
      const init = child(declarator, "init");
      const given = id?.type === "Identifier" ? `${here.prefix}${String(id["name"])}` : undefined;
      if (init) this.#visit(init, here, { given });
    }
  }

  #class(node: AstNode, around: Around, { given }: Role): void {
    const id = child(node, "id");
    const scope = new Scope(around.scope);
    if (node.type === "ClassDeclaration") this.#declare(around.scope, id);
    this.#declare(scope, id);
    const path = id ? `${around.prefix}${String(id["name"])}` : given;
    const here = { ...around, scope, classBody: undefined };
    eachBelow(node, (each, field) => {
      if (field !== "body") this.#visit(each, here);
      else this.below(each, { ...here, prefix: path === undefined ? around.prefix : `${path}.`, classBody: each });
    });
  }

  /** Of a class or an object: its value is named by its key. */
  #member(node: AstNode, around: Around): void {
    const key = child(node, "key") as AstNode;
    const value = child(node, "value");
    for (const decorator of children(node, "decorators")) this.#visit(decorator, around);
    if (node["shorthand"] === true) {
      const use = useAt(key, this.#crypto, false);
      if (use) this.uses.push({ ...use, form: "shorthand", scope: around.scope });
      return;
    }
    if (node["computed"] === true) this.#visit(key, around);
    const name = keyName(node);
    const isOfInstance = node.type !== "Property" && node["static"] !== true;
    const given = name === undefined ? undefined : `${around.prefix}${isOfInstance ? "prototype." : ""}${name}`;
    if (value) this.#visit(value, around, { given, member: node });
  }

  #enum(node: AstNode, here: Around): void {
    this.#declare(here.scope, child(node, "id"));
    const scope = new Scope(here.scope);
    const members = children(child(node, "body") ?? node, "members");
    for (const member of members) this.#declare(scope, child(member, "id"));
    for (const member of members) {
      const init = child(member, "initializer");
      if (init) this.#visit(init, { ...here, scope });
    }
  }

  #stray(statement: AstNode): void {
    if (typeof statement["directive"] === "string") return;
    let first = child(statement, "expression");
    while (first !== undefined) {
      const isText = first.type === "TemplateLiteral" || (first.type === "Literal" && typeof first["value"] === "string");
      if (isText) return void this.strays.push({ statement, literal: first });
      first = leftmost(first);
    }
  }
}

function leftmost(node: AstNode): AstNode | undefined {
  const field = ["expression", "callee", "object", "tag", "left", "test"].find((each) => child(node, each) !== undefined);
  return field === undefined || isFunction(node) ? children(node, "expressions")[0] : child(node, field);
}

/** `a.b = async () => …` is called a.b. */
function nameOfTarget(prefix: string, target: AstNode | undefined): string | undefined {
  const dotted = (node: AstNode | undefined): string | undefined => {
    if (node?.type === "Identifier") return String(node["name"]);
    const object = node?.type === "MemberExpression" ? dotted(child(node, "object")) : undefined;
    const key = node && keyName(node);
    return object === undefined || key === undefined ? undefined : `${object}.${key}`;
  };
  const name = dotted(target);
  return name === undefined ? undefined : prefix + name;
}
