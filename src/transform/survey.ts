import { type AstNode, child, children, eachBelow, isFunction, isWrapper, keyName, type Parsed, unwrap } from "./ast.js";
import { type CryptoImports, cryptoImportsOf, type FoundUse, heldName, releasedName, useAt } from "./globals.js";
import { boundNames, patternCode, Scope } from "./scope.js";

/** A function in a file, with the path that names it and the code around it. */
export interface FunctionSite {
  readonly node: AstNode;
  /**
   * Such as "outer/inner", "Order.prototype.charge" or "weather/tool/execute": the names of everything that encloses the
   * function, including calls and branches. Undefined if the code gives the function itself no name.
   */
  readonly path: string | undefined;
  /** The path by the rules of version 0.1, which left out calls and branches. */
  readonly formerPath: string | undefined;
  /** The class or object member whose value is this function. */
  readonly member: AstNode | undefined;
  readonly classBody: AstNode | undefined;
  /** The enclosing list of statements, to which declarations are hoisted. */
  readonly block: AstNode;
}

/** Everything that the transform needs to know about a file, collected in one walk over the syntax tree. */
export interface Survey {
  readonly functions: readonly FunctionSite[];
  readonly uses: readonly FoundUse[];
  /** Statements outside of prologues that are, or begin with, a string literal. */
  readonly strays: readonly { readonly statement: AstNode; readonly literal: AstNode }[];
  readonly fileScope: Scope;
  /** The file uses `require`, `module` or `exports` without declaring them, so it is CommonJS. */
  readonly isCommonJs: boolean;
}

/** What the walk knows about the code that encloses a node. */
interface Enclosing {
  readonly scope: Scope;
  readonly block: AstNode;
  readonly prefix: Paths;
  /** Set while the walk visits the members of a class. */
  readonly classBody?: AstNode | undefined;
}

/** A path or a prefix of paths ("outer/", "Order."), by today's rules and by the rules of version 0.1. */
interface Paths {
  readonly path: string;
  readonly former: string;
}

const joined = ({ path, former }: Paths, more: string): Paths => ({ path: path + more, former: former + more });

/** How the enclosing code uses an expression. */
interface Role {
  /** The name that the enclosing code gives the expression, for example the variable that it initialises. */
  readonly given?: Paths | undefined;
  readonly member?: AstNode;
  /** The expression is assigned to, deleted, or the operand of `typeof`. */
  readonly isTarget?: boolean;
  /** The expression is called. */
  readonly isCallee?: boolean;
}

const none: Role = {};
const target: Role = { isTarget: true };
const callee: Role = { isCallee: true };

const blocks = new Set(["BlockStatement", "StaticBlock", "TSModuleBlock"]);
const scopes = new Set([...blocks, "ForStatement", "ForInStatement", "ForOfStatement", "SwitchStatement", "CatchClause"]);
const commonJs = new Set(["require", "module", "exports"]);

/** Undefined if the code is nested deeper than the call stack allows: some thousand levels. */
export function trySurvey(program: AstNode): Survey | undefined {
  try {
    return survey(program);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Whether a file is CommonJS: decided by its extension or syntax, else by the names that it uses. */
export function isCommonJs({ isModule }: Pick<Parsed, "isModule">, survey: Pick<Survey, "isCommonJs">): boolean {
  return !(isModule ?? !survey.isCommonJs);
}

function survey(program: AstNode): Survey {
  const surveyor = new Surveyor(cryptoImportsOf(program));
  surveyor.below(program, { scope: surveyor.fileScope, block: program, prefix: { path: "", former: "" } });
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
    return this.#commonJs.some(({ name, scope }) => scope.declaringScope(name) === undefined);
  }

  below(node: AstNode, around: Enclosing): void {
    eachBelow(node, (each) => this.#visit(each, around));
  }

  #visit(node: AstNode, outside: Enclosing, role = none): void {
    if (isFunction(node)) return this.#function(node, outside, role);
    if (isWrapper(node)) return this.#visit(child(node, "expression") as AstNode, outside, role);
    if (!role.isTarget && this.#use(node, outside.scope, role.isCallee ?? false)) return;
    if (node.type === "ClassDeclaration" || node.type === "ClassExpression") return this.#class(node, outside, role);
    if (node.type === "ObjectExpression" && role.given) return this.below(node, { ...outside, prefix: joined(role.given, ".") });
    const around = role.given === undefined ? outside : { ...outside, prefix: { ...outside.prefix, path: `${role.given.path}/` } };
    const visit = (field: string, as?: Role) => this.#visit(child(node, field) as AstNode, around, as);
    switch (node.type) {
      case "VariableDeclaration":
        return this.#variables(node, around);
      case "ImportDeclaration":
        for (const specifier of children(node, "specifiers")) this.#declare(around.scope, child(specifier, "local"));
        return;
      case "ExportDefaultDeclaration":
        return visit("declaration", { given: joined(around.prefix, "default") });
      case "Property":
      case "MethodDefinition":
      case "PropertyDefinition":
      case "AccessorProperty":
        return this.#member(node, around);
      case "CallExpression":
        if (child(node, "callee")?.["name"] === heldName) return;
        return this.#call(node, around);
      case "NewExpression":
        return this.#call(node, around);
      case "IfStatement":
      case "ConditionalExpression":
      case "TryStatement":
        return eachBelow(node, (each, field) => this.#visit(each, within(around, branches[field])));
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
      case "ReturnStatement":
        return eachBelow(node, (each) => this.#returned(each, around));
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
        return this.#namespace(node, around);
      case "SwitchCase":
        return this.below(node, { ...within(around, caseOf(node)), block: node });
      case "ArrayPattern":
      case "ObjectPattern":
      case "AssignmentPattern":
      case "RestElement":
        // Destructuring assignment: the names are targets, only defaults and computed keys are code.
        for (const code of patternCode(node)) this.#visit(code, around);
        return;
    }
    if (scopes.has(node.type)) this.#block(node, around);
    else this.below(node, around);
  }

  /** `const make = () => async () => …`: the path of the returned function is make/return. */
  #returned(node: AstNode, around: Enclosing): void {
    const isUnnamed = isFunction(unwrap(node) ?? node) && !child(unwrap(node) ?? node, "id");
    this.#visit(node, around, isUnnamed ? { given: joined(around.prefix, "return") } : none);
  }

  /** Functions in the arguments of a call have the name of the callee in their path. */
  #call(node: AstNode, around: Enclosing): void {
    const called = unwrap(child(node, "callee"));
    const inside = within(around, dotted(called) ?? (called?.type === "MemberExpression" ? keyName(called) : undefined));
    eachBelow(node, (each, field) => {
      if (field === "callee") this.#visit(each, around, node.type === "CallExpression" ? callee : none);
      else this.#visit(each, inside);
    });
  }

  #block(node: AstNode, around: Enclosing): void {
    const scope = new Scope(around.scope, node.type === "StaticBlock" || node.type === "TSModuleBlock");
    if (node.type === "CatchClause") this.#declare(scope, child(node, "param"));
    const inside = { ...around, scope, block: blocks.has(node.type) ? node : around.block };
    // `for (x of …)` writes to x.
    eachBelow(node, (each, field) => this.#visit(each, inside, field === "left" || field === "param" ? target : none));
  }

  #declare(scope: Scope, id: AstNode | undefined): void {
    for (const name of boundNames(id)) scope.declare(name);
  }

  /** Records a use of a global. True if the node is an identifier that is one: then there is nothing below it to visit. */
  #use(node: AstNode, scope: Scope, isCallee: boolean): boolean {
    const use = useAt(node, this.#crypto, isCallee);
    if (use) this.uses.push({ ...use, scope });
    if (node.type === "Identifier" && commonJs.has(String(node["name"]))) this.#commonJs.push({ name: String(node["name"]), scope });
    return use !== undefined && node.type === "Identifier";
  }

  /** `globalThis.fetch = real` restores a saved global: the value must be the original, not the wrapper that `held` returned. */
  #replacement(node: AstNode, scope: Scope): void {
    const use = useAt(child(node, "left") as AstNode, this.#crypto, false);
    const right = child(node, "right") as AstNode;
    const isDone = child(right, "callee")?.["name"] === releasedName;
    if (use && use.global !== "" && !isDone && !isFunction(right)) this.uses.push({ ...use, at: right, form: "released", scope });
  }

  #function(node: AstNode, { scope: outer, block, prefix, classBody }: Enclosing, { given, member }: Role): void {
    const id = child(node, "id");
    const isDeclaration = node.type === "FunctionDeclaration";
    if (isDeclaration) this.#declare(outer, id);
    const own = id && joined(prefix, String(id["name"]));
    const paths = isDeclaration ? (own ?? given) : (given ?? own);
    this.functions.push({ node, path: paths?.path, formerPath: paths?.former, member, classBody, block });
    const scope = new Scope(outer, true);
    if (!isDeclaration) this.#declare(scope, id);
    if (node.type !== "ArrowFunctionExpression") scope.declare("arguments");
    const body = child(node, "body") as AstNode;
    const inside: Enclosing = { scope, block: body, prefix: paths === undefined ? prefix : joined(paths, "/") };
    for (const param of children(node, "params")) {
      this.#declare(scope, param);
      for (const code of patternCode(param)) this.#visit(code, inside);
      for (const decorator of children(param, "decorators")) this.#visit(decorator, inside);
    }
    if (node["expression"] === true) this.#returned(body, inside);
    else this.below(body, inside);
  }

  #variables(node: AstNode, here: Enclosing): void {
    const scope = node["kind"] === "var" ? here.scope.varScope : here.scope;
    for (const declarator of children(node, "declarations")) {
      const id = child(declarator, "id");
      this.#declare(scope, id);
      for (const code of patternCode(id)) this.#visit(code, here);
      const init = child(declarator, "init");
      const given = id?.type === "Identifier" ? joined(here.prefix, String(id["name"])) : undefined;
      if (init) this.#visit(init, here, { given });
    }
  }

  #class(node: AstNode, around: Enclosing, { given }: Role): void {
    const id = child(node, "id");
    const scope = new Scope(around.scope);
    if (node.type === "ClassDeclaration") this.#declare(around.scope, id);
    this.#declare(scope, id);
    const paths = id ? joined(around.prefix, String(id["name"])) : given;
    const here = { ...around, scope, classBody: undefined };
    eachBelow(node, (each, field) => {
      if (field !== "body") this.#visit(each, here);
      else this.below(each, { ...here, prefix: paths === undefined ? around.prefix : joined(paths, "."), classBody: each });
    });
  }

  /** A member of a class or an object: its key names its value. */
  #member(node: AstNode, around: Enclosing): void {
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
    const given = name === undefined ? undefined : joined(around.prefix, `${isOfInstance ? "prototype." : ""}${name}`);
    if (value) this.#visit(value, around, { given, member: node });
  }

  #namespace(node: AstNode, around: Enclosing): void {
    const [id, body] = [child(node, "id"), child(node, "body")];
    this.#declare(around.scope, id);
    const prefix = id?.type === "Identifier" ? joined(around.prefix, `${String(id["name"])}.`) : around.prefix;
    if (body) this.#visit(body, { ...around, prefix });
  }

  #enum(node: AstNode, here: Enclosing): void {
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

/** `a.b = async () => …`: the function's path is a.b. */
function nameOfTarget(prefix: Paths, target: AstNode | undefined): Paths | undefined {
  const name = dotted(target);
  return name === undefined ? undefined : joined(prefix, name);
}

function dotted(node: AstNode | undefined): string | undefined {
  if (node?.type === "Identifier") return String(node["name"]);
  const object = node?.type === "MemberExpression" ? dotted(child(node, "object")) : undefined;
  const key = node && keyName(node);
  return object === undefined || key === undefined ? undefined : `${object}.${key}`;
}

/** The path segment of a branch, by its field. Segments are words, because numbers would shift when the code is edited. */
const branches: Readonly<Record<string, string>> = {
  consequent: "if",
  alternate: "else",
  block: "try",
  handler: "catch",
  finalizer: "finally",
};

function caseOf(node: AstNode): string {
  const test = unwrap(child(node, "test"));
  if (test === undefined) return "default";
  return `case ${test.type === "Literal" ? String(test["value"]) : (dotted(test) ?? "")}`.trim();
}

/** Adds a path segment that paths of version 0.1 did not have. */
function within(around: Enclosing, segment: string | undefined): Enclosing {
  if (segment === undefined) return around;
  const { path, former } = around.prefix;
  return { ...around, prefix: { path: `${path}${segment}/`, former } };
}
