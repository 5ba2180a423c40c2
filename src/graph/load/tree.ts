import type { LineCounter } from "yaml";

/** A text that was read, with the offsets of its lines. */
export interface Source {
  readonly file: string;
  readonly lines: LineCounter;
}

interface Common {
  readonly source: Source;
  readonly offset: number;
  /** Number of values in it, with aliases counted at each use. */
  readonly size: number;
}

export interface Entry {
  readonly keyOffset: number;
  readonly value: Tree;
  /** Where it is defined, if a reference brought it here. */
  readonly pointer?: string;
}

export interface MapTree extends Common {
  readonly kind: "map";
  readonly entries: ReadonlyMap<string, Entry>;
}

interface ListTree extends Common {
  readonly kind: "list";
  readonly items: readonly Tree[];
}

export interface ScalarTree extends Common {
  readonly kind: "scalar";
  readonly value: string | number | boolean | null;
}

/** A document with positions. An alias is the same object as its target: trees are shared, not copied. */
export type Tree = MapTree | ListTree | ScalarTree;

/** A tree, and the JSON pointer that leads to it. */
export interface Spot {
  readonly tree: Tree;
  readonly pointer: string;
}

export const pointerTo = (pointer: string, name: string | number): string =>
  `${pointer}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;

export function childOf({ tree, pointer }: Spot, name: string): Spot | undefined {
  const entry = tree.kind === "map" ? tree.entries.get(name) : undefined;
  return entry && { tree: entry.value, pointer: entry.pointer ?? pointerTo(pointer, name) };
}

export function itemsOf({ tree, pointer }: Spot): readonly Spot[] {
  return tree.kind === "list" ? tree.items.map((item, i) => ({ tree: item, pointer: pointerTo(pointer, i) })) : [];
}

export function entriesOf({ tree, pointer }: Spot): readonly (Spot & { readonly name: string; readonly keyOffset: number })[] {
  if (tree.kind !== "map") return [];
  return [...tree.entries].map(([name, { value, keyOffset, pointer: own }]) => ({
    name,
    keyOffset,
    tree: value,
    pointer: own ?? pointerTo(pointer, name),
  }));
}

/** Follows `/components/packets/Order` from a document's root. */
export function follow(root: Tree, pointer: string): Spot | undefined {
  let spot: Spot | undefined = { tree: root, pointer: "" };
  for (const part of pointer.split("/").slice(1)) {
    const name = nameIn(part);
    if (spot === undefined) return undefined;
    spot = spot.tree.kind === "list" ? itemsOf(spot)[/^\d+$/.test(name) ? Number(name) : -1] : childOf(spot, name);
  }
  return spot;
}

/** Decodes a part of a pointer in a reference, which is part of a URI: `%20` is a space, and `~1` a slash. */
export function nameIn(part: string): string {
  const unescaped = (text: string) => text.replaceAll("~1", "/").replaceAll("~0", "~");
  try {
    return unescaped(decodeURIComponent(part));
  } catch {
    return unescaped(part);
  }
}

/** The plain value. Its size was limited, and `__proto__` keys rejected, when the document was read. */
export function plainOf(tree: Tree): unknown {
  if (tree.kind === "scalar") return tree.value;
  if (tree.kind === "list") return tree.items.map(plainOf);
  return Object.fromEntries([...tree.entries].map(([name, { value }]) => [name, plainOf(value)]));
}
