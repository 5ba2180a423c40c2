import { isAlias, isMap, isScalar, isSeq, type ParsedNode } from "yaml";
import { type Findings, placeOf } from "../findings/finding.js";
import type { Limits } from "./limits.js";
import { type Entry, pointerTo, type ScalarTree, type Source, type Tree } from "./tree.js";

/** Integers of YAML: decimal, octal, hexadecimal. Above 2^53 they would be rounded. */
const integer = /^([-+]?\d+|0o[0-7]+|0x[0-9a-f]+)$/i;

/** Converts the parser's nodes to a tree. Stops at the first error, because later values may depend on it through aliases. */
export class TreeReader {
  /** Undefined while the anchor's value is being read: an alias to it there would be circular. */
  readonly #anchors = new Map<string, Tree | undefined>();
  #broken = false;

  constructor(
    private readonly source: Source,
    private readonly limits: Limits,
    private readonly findings: Findings,
  ) {}

  read(node: ParsedNode): Tree | undefined {
    const tree = this.#read(node, "");
    return this.#broken ? undefined : tree;
  }

  #read(node: ParsedNode, pointer: string): Tree {
    const { source } = this;
    const offset = node.range[0];
    const nothing: ScalarTree = { kind: "scalar", value: null, source, offset, size: 1 };
    if (this.#broken) return nothing;
    if (isAlias(node)) {
      const tree = this.#anchors.get(node.source);
      if (tree !== undefined) return tree;
      const known = this.#anchors.has(node.source);
      this.#refuse(
        "FLOW_BAD_REF",
        offset,
        pointer,
        known ? `alias *${node.source} refers to a value that contains it` : `anchor &${node.source} not found`,
        "write the value here",
      );
      return nothing;
    }
    if ("anchor" in node && node.anchor !== undefined) this.#anchors.set(node.anchor, undefined);
    const tree = isMap(node)
      ? this.#map(node.items, offset, pointer)
      : isSeq(node)
        ? this.#list(node.items as ParsedNode[], offset, pointer)
        : this.#scalar(node, pointer);
    if (tree.size > this.limits.nodesMax) {
      this.#refuse(
        "FLOW_TOO_LARGE",
        offset,
        pointer,
        `more than ${this.limits.nodesMax} values, aliases included`,
        "use fewer aliases, or split the document",
      );
      return nothing;
    }
    if ("anchor" in node && node.anchor !== undefined) this.#anchors.set(node.anchor, tree);
    return tree;
  }

  #map(items: readonly { readonly key: unknown; readonly value: unknown }[], offset: number, pointer: string): Tree {
    const entries = new Map<string, Entry>();
    let size = 1;
    for (const { key, value } of items) {
      const name = isScalar(key) ? String(key.value ?? "") : undefined;
      const keyOffset = (key as ParsedNode | null)?.range?.[0] ?? offset;
      if (name === undefined) this.#refuse("FLOW_BAD_TYPE", keyOffset, pointer, "a field name must be a string", "quote it");
      else if (name === "__proto__")
        this.#refuse("FLOW_FORBIDDEN_KEY", keyOffset, pointer, "a field must not be named __proto__", "rename it");
      else if (entries.has(name)) this.#refuse("FLOW_DUPLICATE_KEY", keyOffset, pointer, `"${name}" occurs twice`, "remove one of them");
      if (this.#broken) break;
      const below = pointerTo(pointer, name ?? "");
      const tree = value === null ? this.#null(keyOffset) : this.#read(value as ParsedNode, below);
      entries.set(name ?? "", { keyOffset, value: tree });
      size += tree.size;
    }
    return { kind: "map", entries, source: this.source, offset, size };
  }

  #list(nodes: readonly ParsedNode[], offset: number, pointer: string): Tree {
    const items = nodes.map((node, i) => this.#read(node, pointerTo(pointer, i)));
    return { kind: "list", items, source: this.source, offset, size: items.reduce((sum, { size }) => sum + size, 1) };
  }

  #scalar(node: ParsedNode, pointer: string): ScalarTree {
    const offset = node.range[0];
    const raw: unknown = isScalar(node) ? node.value : null;
    const value = typeof raw === "string" || typeof raw === "number" || typeof raw === "boolean" ? raw : null;
    // A tag can turn a text into a date or bytes.
    if (typeof raw === "object" && raw !== null)
      this.#refuse(
        "FLOW_BAD_TYPE",
        offset,
        pointer,
        "this tag creates a value that JSON cannot represent",
        "remove the tag, and quote the value",
      );
    if (typeof value === "number") {
      const text = isScalar(node) ? (node.source ?? "") : "";
      const exact = Number.isFinite(value) && (!integer.test(text) || Number.isSafeInteger(value));
      if (!exact)
        this.#refuse(
          "FLOW_BAD_NUMBER",
          offset,
          pointer,
          `JSON cannot represent the number ${text.slice(0, 40)} exactly`,
          "quote it if it is a name",
        );
    }
    return { kind: "scalar", value, source: this.source, offset, size: 1 };
  }

  #null(offset: number): ScalarTree {
    return { kind: "scalar", value: null, source: this.source, offset, size: 1 };
  }

  #refuse(
    code: "FLOW_BAD_REF" | "FLOW_TOO_LARGE" | "FLOW_BAD_TYPE" | "FLOW_FORBIDDEN_KEY" | "FLOW_DUPLICATE_KEY" | "FLOW_BAD_NUMBER",
    offset: number,
    pointer: string,
    message: string,
    fix: string,
  ): void {
    this.findings.add(code, placeOf({ tree: this.#null(offset), pointer }), message, fix);
    this.#broken = true;
  }
}
