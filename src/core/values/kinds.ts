/**
 * A kind of value beyond JSON and what devalue knows by itself: how it is told from others, what is kept of it, and how
 * it is made again. What is kept may hold values of other kinds.
 */
export interface ValueKind<T = unknown, Kept = unknown> {
  /** Stored with every value of this kind: never change it. */
  readonly name: string;
  readonly holds: (value: unknown) => value is T;
  /** A promise where something has to be read first, such as a body: only `encodeLater` waits for it. */
  readonly keep: (value: T, bounds: KeepBounds) => Kept | Promise<Kept>;
  /** Where `keep` would be a promise: so that `encode`, which can't wait, does not make it begin. */
  readonly waits?: (value: T) => boolean;
  readonly make: (kept: Kept) => T;
}

export interface KeepBounds {
  /** What has to be read is read up to here. */
  readonly bytesMax: number;
}

const kinds = new Map<string, ValueKind>();

/** The newest is asked first: it may be a special case of an older one. */
export function addKind<T, Kept>(kind: ValueKind<T, Kept>): void {
  const older = [...kinds].filter(([name]) => name !== kind.name);
  kinds.clear();
  for (const [name, each] of [[kind.name, kind as unknown as ValueKind] as const, ...older]) kinds.set(name, each);
}

export function allKinds(): ReadonlyMap<string, ValueKind> {
  return kinds;
}
