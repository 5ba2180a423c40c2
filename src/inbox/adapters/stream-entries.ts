export interface Entry {
  readonly id: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** Parses the entries of a reply. An entry that was deleted meanwhile has no fields and is left out. */
export function entriesOf(reply: unknown): Entry[] {
  const entries = reply as readonly (readonly [string, readonly string[] | null] | null)[];
  return entries.flatMap((entry) => (entry?.[1] ? [{ id: entry[0], fields: pairs(entry[1]) }] : []));
}

function pairs(flat: readonly string[]): Record<string, string> {
  return Object.fromEntries(Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]));
}
