/**
 * A kind of value that neither JSON nor devalue can hold by itself: how to recognize it, what to store for it, and how to restore
 * it. What is stored may contain values of other kinds.
 */
export interface ValueKind<T = unknown, Kept = unknown> {
  /** Stored with every value of this kind: never change it. */
  readonly name: string;
  /** Whether `value` is of this kind. */
  readonly holds: (value: unknown) => value is T;
  /** Returns what to store. A promise if something has to be read first, such as a body: only `encodeLater` awaits it. */
  readonly keep: (value: T, bounds: KeepBounds) => Kept | Promise<Kept>;
  /** Whether `keep` would return a promise. `encode`, which cannot wait, asks this first, so that reading does not begin. */
  readonly waits?: (value: T) => boolean;
  /** Restores the value from what `keep` returned. */
  readonly make: (kept: Kept) => T;
}

export interface KeepBounds {
  /** Maximum length of content that has to be read. */
  readonly bytesMax: number;
}

const kinds = new Map<string, ValueKind>();

/** Registers a kind. The newest kind is tried first: it may be a special case of an older one. */
export function addKind<T, Kept>(kind: ValueKind<T, Kept>): void {
  const older = [...kinds].filter(([name]) => name !== kind.name);
  kinds.clear();
  for (const [name, each] of [[kind.name, kind as unknown as ValueKind] as const, ...older]) kinds.set(name, each);
}

export function allKinds(): ReadonlyMap<string, ValueKind> {
  return kinds;
}
