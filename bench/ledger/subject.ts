import type { Conditions } from "../conditions.js";
import type { Contender } from "../measure.js";

export const storeNames = ["sqlite", "postgres", "redis", "dynamodb", "mongodb", "memory"] as const;
export type StoreName = (typeof storeNames)[number];

/** Executed: a fresh key, with begin and settle. Replayed: a key that is already settled. */
export const kinds = ["executed", "replayed"] as const;
export type Kind = (typeof kinds)[number];

export const callerCounts = [1, 64] as const;
export type Callers = (typeof callerCounts)[number];

/** The names of the contenders in tables and in the chart. */
export const names = {
  ours: "onceflow",
  bare: "floor: bare statements",
  batched: "floor: batched",
  peer: "Powertools idempotency",
  read: "floor: one read by key",
} as const;

/** Counters of the database over a number of replays, and over one executed operation as control. */
export interface ReplayWrites {
  readonly replays: number;
  readonly counters: readonly { readonly name: string; readonly byReplays: number; readonly byOneExecuted: number }[];
}

interface PrepareOptions {
  readonly kind: Kind;
  readonly callers: Callers;
  /** How long each variant of a floor is tried to find the best one. */
  readonly tryMs: number;
}

interface Prepared {
  /** Our store comes first. */
  readonly contenders: readonly Contender[];
  readonly note?: string;
  close(): Promise<void>;
}

/** One store with its floors on the same driver. */
export interface Subject {
  readonly name: StoreName;
  readonly conditions: Conditions;
  /** The number of keys for the memory measurement, for a store where the usual number takes too long. */
  readonly keysMax?: number;
  /** The URL of an empty store of this kind, for a child process. */
  emptyUrl(): Promise<string>;
  prepare(options: PrepareOptions): Promise<Prepared>;
  countReplayWrites?(replays: number): Promise<ReplayWrites>;
  /** The size in bytes of the store at this URL, after it was closed everywhere. */
  storedBytes?(url: string): Promise<number>;
  close(): Promise<void>;
}
