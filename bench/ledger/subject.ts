import type { Conditions } from "../conditions.js";
import type { Contender } from "../measure.js";

export const storeNames = ["sqlite", "postgres", "redis", "dynamodb", "mongodb", "memory"] as const;
export type StoreName = (typeof storeNames)[number];

/** Executed: a fresh key, begin and settle. Replayed: a key that is settled already. */
export const kinds = ["executed", "replayed"] as const;
export type Kind = (typeof kinds)[number];

export const callerCounts = [1, 64] as const;
export type Callers = (typeof callerCounts)[number];

/** How contenders are called, in tables and in the chart. */
export const names = {
  ours: "onceflow",
  bare: "floor: bare statements",
  batched: "floor: batched",
  peer: "Powertools idempotency",
  read: "floor: one read by key",
} as const;

/** Counters of the database over a number of replays, and over one executed operation as the control. */
export interface ReplayWrites {
  readonly replays: number;
  readonly counters: readonly { readonly name: string; readonly byReplays: number; readonly byOneExecuted: number }[];
}

interface PrepareOptions {
  readonly kind: Kind;
  readonly callers: Callers;
  /** How long a variant of a floor is tried when the best of several is looked for. */
  readonly tryMs: number;
}

interface Prepared {
  /** Ours first. */
  readonly contenders: readonly Contender[];
  readonly note?: string;
  close(): Promise<void>;
}

/** One store with its floors on the same driver. */
export interface Subject {
  readonly name: StoreName;
  readonly conditions: Conditions;
  /** Where so many keys would take too long: as many as are executed to see whether memory grows. */
  readonly keysMax?: number;
  /** Where a child process finds an empty store of this kind. */
  emptyUrl(): Promise<string>;
  prepare(options: PrepareOptions): Promise<Prepared>;
  countReplayWrites?(replays: number): Promise<ReplayWrites>;
  /** Bytes that the store at this URL takes, once nobody has it open. */
  storedBytes?(url: string): Promise<number>;
  close(): Promise<void>;
}
