import { type AstNode, child, children } from "./ast.js";

/** The names that a block, function or file declares. A name that no enclosing scope declares is a global. */
export class Scope {
  readonly parent: Scope | undefined;
  /** The scope of a function or of the file: `var` declares names here. */
  readonly isFunction: boolean;
  readonly #names = new Set<string>();

  constructor(parent?: Scope, isFunction = false) {
    this.parent = parent;
    this.isFunction = isFunction || parent === undefined;
  }

  declare(name: string): void {
    this.#names.add(name);
  }

  get varScope(): Scope {
    return this.isFunction || this.parent === undefined ? this : this.parent.varScope;
  }

  /** The nearest scope that declares the name; undefined for a global. Valid only after the whole file was walked, because functions and `var` are hoisted. */
  declaringScope(name: string): Scope | undefined {
    return this.#names.has(name) ? this : this.parent?.declaringScope(name);
  }
}

/** The names that a parameter, a variable or a destructuring pattern declares. */
export function* boundNames(pattern: AstNode | undefined): Generator<string> {
  switch (pattern?.type) {
    case "Identifier":
      yield String(pattern["name"]);
      return;
    case "AssignmentPattern":
      return yield* boundNames(child(pattern, "left"));
    case "RestElement":
      return yield* boundNames(child(pattern, "argument"));
    case "TSParameterProperty":
      return yield* boundNames(child(pattern, "parameter"));
    case "ArrayPattern":
      for (const element of children(pattern, "elements")) yield* boundNames(element);
      return;
    case "ObjectPattern":
      for (const property of children(pattern, "properties"))
        yield* boundNames(property.type === "RestElement" ? property : child(property, "value"));
  }
}

/** The code inside a destructuring pattern: default values and computed keys. */
export function* patternCode(pattern: AstNode | undefined): Generator<AstNode> {
  switch (pattern?.type) {
    case "AssignmentPattern":
      yield* patternCode(child(pattern, "left"));
      yield child(pattern, "right") as AstNode;
      return;
    case "RestElement":
      return yield* patternCode(child(pattern, "argument"));
    case "TSParameterProperty":
      return yield* patternCode(child(pattern, "parameter"));
    case "ArrayPattern":
      for (const element of children(pattern, "elements")) yield* patternCode(element);
      return;
    case "ObjectPattern":
      for (const property of children(pattern, "properties")) {
        if (property["computed"] === true) yield child(property, "key") as AstNode;
        yield* patternCode(property.type === "RestElement" ? property : child(property, "value"));
      }
  }
}
