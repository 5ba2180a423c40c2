import { closest } from "../../core/errors/closest.js";
import type { Findings } from "../findings/finding.js";
import { Fields } from "../normalise/fields.js";
import { childOf, type Entry, entriesOf, type MapTree, nameIn, type Spot, type Tree } from "./tree.js";

const sections = ["events", "packets", "schemas", "nodes", "edges", "policies"] as const;
export type Section = (typeof sections)[number];

const hopsMax = 10;

/** The `components` of a document; records which of them are used. */
export class Components {
  readonly #sections = new Map<Section, Spot>();
  readonly #used = new Set<string>();

  constructor(
    root: Tree,
    private readonly findings: Findings,
  ) {
    const fields = Fields.of(childOf({ tree: root, pointer: "" }, "components"), findings);
    if (fields === undefined) return;
    for (const section of sections) {
      const found = fields.fields(section);
      if (found !== undefined) this.#sections.set(section, found.spot);
    }
    fields.done();
  }

  get(section: Section, name: string): Spot | undefined {
    const all = this.#sections.get(section);
    const spot = all && childOf(all, name);
    if (spot !== undefined) this.#used.add(spot.pointer);
    return spot;
  }

  names(section: Section): readonly string[] {
    const spot = this.#sections.get(section);
    return spot === undefined ? [] : entriesOf(spot).map(({ name }) => name);
  }

  /** Like `resolve`, and also follows a bare name: `delivery: slow` is `delivery: { $ref: "#/components/policies/slow" }`. */
  resolveName(section: Section, spot: Spot | undefined): Spot | undefined {
    if (spot?.tree.kind !== "scalar" || typeof spot.tree.value !== "string") return this.resolve(section, spot);
    const found = this.get(section, spot.tree.value);
    if (found?.tree.kind === "map") return this.resolve(section, found);
    const name = spot.tree.value;
    this.findings.add("FLOW_BAD_REF", spot, `"${name}" is not a map in components.${section}`, () => {
      const near = closest(name, this.names(section));
      return near === undefined ? `add it to components.${section}, or write a map here` : `did you mean "${near}"?`;
    });
    return undefined;
  }

  /** Follows `$ref: "#/components/nodes/X"`. Fields beside the reference override those of the target. */
  resolve(section: Section, spot: Spot | undefined, hops = 0): Spot | undefined {
    const ref = spot && childOf(spot, "$ref");
    if (spot?.tree.kind !== "map" || ref === undefined) return spot;
    const text = ref.tree.kind === "scalar" ? String(ref.tree.value) : "";
    const name = text.startsWith(`#/components/${section}/`) ? text.slice(`#/components/${section}/`.length) : undefined;
    if (hops > hopsMax) {
      this.findings.add("FLOW_BAD_REF", ref, `the reference "${text}" is circular`, "replace one of the references with its target");
      return undefined;
    }
    const found = name === undefined ? undefined : this.get(section, nameIn(name));
    if (found?.tree.kind !== "map") {
      this.findings.add("FLOW_BAD_REF", ref, `"${text}" is not a map in components.${section}`, () => {
        const near = name === undefined ? undefined : closest(name, this.names(section));
        return near === undefined ? `refer to "#/components/${section}/…"` : `did you mean "#/components/${section}/${near}"?`;
      });
      return undefined;
    }
    const target = this.resolve(section, found, hops + 1);
    if (target?.tree.kind !== "map") return undefined;
    return merged(spot as Spot & { tree: MapTree }, target as Spot & { tree: MapTree });
  }

  reportUnused(): void {
    for (const [section, all] of this.#sections)
      for (const { name, tree, pointer } of entriesOf(all))
        if (!this.#used.has(pointer))
          this.findings.add("FLOW_UNUSED", { tree, pointer }, `components.${section}.${name} is not used`, "remove it, or refer to it");
  }
}

function merged(own: Spot & { readonly tree: MapTree }, target: Spot & { readonly tree: MapTree }): Spot {
  const beside = entriesOf(own).filter(({ name }) => name !== "$ref");
  if (beside.length === 0) return target;
  const entries = new Map<string, Entry>();
  for (const { name, tree, keyOffset, pointer } of [...entriesOf(target), ...beside])
    entries.set(name, { value: tree, keyOffset, pointer });
  return { pointer: own.pointer, tree: { ...own.tree, entries } };
}
