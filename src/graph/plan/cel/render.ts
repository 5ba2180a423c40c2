import type { ASTNode } from "@marcbachmann/cel-js";
import { quantifiers } from "./functions.js";
import { accessOf, hasPath, packetPath } from "./paths.js";

export interface RenderContext {
  /** The expression as written. */
  readonly text: string;
  /** The type that the packet's schema declares for the field at this path; undefined if it declares none. */
  readonly typeAt: (path: readonly string[]) => unknown;
}

/**
 * Rewrites an expression of the subset to the expression that is type-checked and evaluated: with the functions of functions.ts in
 * place of the library's, with all numbers as doubles, and with has() that checks every step of its path.
 */
export function rendered(ast: ASTNode, context: RenderContext): string {
  return new Renderer(context).of(ast);
}

class Renderer {
  #inQuantifier = false;

  constructor(private readonly context: RenderContext) {}

  of(node: ASTNode): string {
    switch (node.op) {
      case "value":
        return typeof node.args === "bigint" ? `${node.args}.0` : this.#written(node);
      case "id":
        return node.args;
      case ".":
        return this.#field(...node.args);
      case "[]":
        return `${this.of(node.args[0])}[${this.#written(node.args[1])}]`;
      case "!_":
        return `!(${this.of(node.args)})`;
      case "-_":
        return `-(${this.of(node.args)})`;
      case "?:": {
        const [condition, then, otherwise] = node.args;
        return `((${this.of(condition)}) ? (${this.of(then)}) : (${this.of(otherwise)}))`;
      }
      case "list":
        return `[${node.args.map((item) => this.of(item)).join(", ")}]`;
      case "in":
        return `in_(${this.of(node.args[0])}, ${this.#container(node.args[1])})`;
      case "/":
        return `div_(${this.#both(node.args)})`;
      case "%":
        return `mod_(${this.#both(node.args)})`;
      case "call":
        return this.#call(node);
      case "rcall":
        return this.#method(node);
      default: {
        const [a, b] = node.args as [ASTNode, ASTNode];
        const whole = `(${this.of(a)} ${node.op} ${this.of(b)})`;
        return node.op === "+" && this.#inQuantifier ? `joined_(${whole})` : whole;
      }
    }
  }

  #both([a, b]: readonly [ASTNode, ASTNode]): string {
    return `${this.of(a)}, ${this.of(b)}`;
  }

  #written({ range: { start, end } }: ASTNode): string {
    return this.context.text.slice(start, end);
  }

  /** `.length` is the length of a string or an array, and a field of an object. */
  #field(inner: ASTNode, name: string): string {
    const type = this.#typeOf(inner);
    if (name !== "length" || type === "object" || inner.op === "id") return `${this.of(inner)}.${name}`;
    const length = `length_(${this.of(inner)})`;
    return type === undefined ? `dyn(${length})` : length;
  }

  #call(node: ASTNode & { op: "call" }): string {
    const [name, [argument]] = node.args;
    const path = hasPath(node);
    // CEL's has() checks only the last name, and is an error if an earlier one is missing.
    if (path !== undefined)
      return `(${path
        .slice(1)
        .map((_, i) => `has(${path.slice(0, i + 2).join(".")})`)
        .join(" && ")})`;
    return `${name}_(${this.#container(argument as ASTNode)})`;
  }

  #method(node: ASTNode & { op: "rcall" }): string {
    const [name, receiver, args] = node.args;
    if (!quantifiers.includes(name)) return `${this.#container(receiver)}.${name}_(${args.map((each) => this.of(each)).join(", ")})`;
    const [item, condition] = args as [ASTNode & { op: "id" }, ASTNode];
    const list = this.of(receiver);
    this.#inQuantifier = true;
    const text = `items_(${list}).${name}(${item.args}, ${this.of(condition)})`;
    this.#inQuantifier = false;
    return text;
  }

  /** The checker has a type of its own for each object of a schema, which no function takes; as a dynamic value it is a map. */
  #container(node: ASTNode): string {
    return this.#typeOf(node) === "object" ? `dyn(${this.of(node)})` : this.of(node);
  }

  #typeOf(node: ASTNode): unknown {
    const access = accessOf(node);
    const path = access && packetPath(access);
    return path && this.context.typeAt(path);
  }
}
