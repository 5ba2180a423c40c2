import { isAlias, isMap, isScalar, isSeq, type ParsedNode } from "yaml";
import { type Findings, placeOf } from "../findings/finding.js";
import type { Limits } from "./limits.js";
import { type Entry, entriesOf, itemsOf, pointerTo, type ScalarTree, type Source, type Spot, type Tree } from "./tree.js";

/** Integers of YAML: decimal, octal, hexadecimal. Above 2^53 they would be rounded. */
const integer = /^([-+]?\d+|0o[0-7]+|0x[0-9a-f]+)$/i;

/** Only `<<` without quotes, as in YAML 1.1: JSON has no merge keys. */
const isMergeKey = (key: unknown): boolean => isScalar(key) && key.type === "PLAIN" && key.value === "<<";

/** Converts the parser's nodes to a tree. Stops at the first error, because later values may depend on it through aliases. */
export class TreeReader {
  /** Undefined while the anchor's value is being read: an alias to it there would be circular. */
  readonly #anchors = new Map<string, Spot | undefined>();
  /** Entries that merge keys have copied: unlike aliases, they cost memory at each use. */
  #merged = 0;
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
      const target = this.#anchors.get(node.source);
      if (target !== undefined) return target.tree;
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
    if (!this.#broken && tree.size > this.limits.nodesMax) {
      this.#refuse(
        "FLOW_TOO_LARGE",
        offset,
        pointer,
        `more than ${this.limits.nodesMax} values, aliases included`,
        "use fewer aliases, or split the document",
      );
      return nothing;
    }
    if ("anchor" in node && node.anchor !== undefined) this.#anchors.set(node.anchor, { tree, pointer });
    return tree;
  }

  #map(items: readonly { readonly key: unknown; readonly value: unknown }[], offset: number, pointer: string): Tree {
    const entries = new Map<string, Entry>();
    const own = new Set<string>();
    for (const { key, value } of items) {
      const name = isScalar(key) ? String(key.value ?? "") : undefined;
      const keyOffset = (key as ParsedNode | null)?.range?.[0] ?? offset;
      if (name === undefined) this.#refuse("FLOW_BAD_TYPE", keyOffset, pointer, "a field name must be a string", "quote it");
      else if (name === "__proto__")
        this.#refuse("FLOW_FORBIDDEN_KEY", keyOffset, pointer, "a field must not be named __proto__", "rename it");
      else if (own.has(name))
        this.#refuse(
          "FLOW_DUPLICATE_KEY",
          keyOffset,
          pointer,
          `"${name}" occurs twice`,
          name === "<<" ? "use one merge key with a list: `<<: [*first, *second]`" : "remove one of them",
        );
      if (this.#broken) break;
      own.add(name ?? "");
      const below = pointerTo(pointer, name ?? "");
      const tree = value === null ? this.#null(keyOffset) : this.#read(value as ParsedNode, below);
      if (isMergeKey(key)) this.#merge(entries, value, { tree, pointer: below }, keyOffset);
      else entries.set(name ?? "", { keyOffset, value: tree });
    }
    const size = [...entries.values()].reduce((sum, { value }) => sum + value.size, 1);
    return { kind: "map", entries, source: this.source, offset, size };
  }

  /** A value with the pointer at which it is defined: for an alias, that of its anchor. */
  #aliased(node: unknown, { tree, pointer }: Spot): Spot {
    return (isAlias(node) ? this.#anchors.get(node.source) : undefined) ?? { tree, pointer };
  }

  /**
   * Copies the fields of `<<: *anchor`, or `<<: [*first, *second]`, that the map does not have. Fields that follow in the map itself
   * replace the copies. So a map's own fields come before merged ones, and earlier maps of the list before later ones, as in YAML 1.1.
   */
  #merge(entries: Map<string, Entry>, node: unknown, from: Spot, keyOffset: number): void {
    if (this.#broken) return;
    const nodes = isSeq(node) ? node.items : [];
    const sources = from.tree.kind === "list" ? itemsOf(from).map((item, i) => this.#aliased(nodes[i], item)) : [this.#aliased(node, from)];
    for (const spot of sources) {
      if (spot.tree.kind !== "map") {
        const message = "a merge key takes a map, or a list of maps";
        return this.#refuse("FLOW_BAD_TYPE", spot.tree.offset, spot.pointer, message, "use `<<: *anchor` or `<<: [*first, *second]`");
      }
      this.#merged += spot.tree.entries.size;
      if (this.#merged > this.limits.nodesMax)
        return this.#refuse(
          "FLOW_TOO_LARGE",
          keyOffset,
          from.pointer,
          `merge keys copy more than ${this.limits.nodesMax} values`,
          "use fewer merge keys, or split the document",
        );
      for (const { name, tree: value, keyOffset: at, pointer } of entriesOf(spot))
        if (!entries.has(name)) entries.set(name, { keyOffset: at, value, pointer });
    }
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
