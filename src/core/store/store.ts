import { ConfigurationError } from "../errors/errors.js";
import type { Answer, Only, Operation, Settle } from "../ledger/operation.js";
import type { AttemptEntry, LedgerRecord, RecordId, State } from "../ledger/record.js";
import type { PacketAnswer, PacketBackend } from "../packets/operation.js";
import type { RenewQuery, RunAnswer, RunBackend, RunChange, WhatChanged } from "../runs/operation.js";
import type { Clock } from "../work/clock.js";
import type { Tx, TxRunner } from "./tx.js";

/** What a store supports. */
export interface Capabilities {
  /** A key can be settled in a transaction of the caller, in the same database (option `tx`). */
  readonly transactions: boolean;
  /** Leases are measured on one clock that all processes share, so that their own clocks may differ. */
  readonly sharedClock: boolean;
  /** Outcomes survive the end of the process. */
  readonly durable: boolean;
  /** Has a queue and journals: workflows can run on it. */
  readonly runs: boolean;
  /** Stores packets: flow graphs and outboxes can run on it. */
  readonly packets: boolean;
}

/** A record, and the store's time when it was read. */
export interface Reading {
  readonly record: LedgerRecord;
  readonly now: number;
}

/** Query of {@link Backend.list}: records ordered by scope and key. */
export interface ListQuery {
  readonly scope?: string;
  readonly state?: State;
  /** Only keys that begin with this. */
  readonly prefix?: string;
  /** Only records after this one. */
  readonly after?: RecordId;
  readonly limit: number;
}

/** Query of {@link Backend.purge}. */
export interface PurgeQuery {
  /** Only records that expired before this instant (store's time, ms). An instant after the store's now counts as now. */
  readonly before?: number;
  readonly limit: number;
}

/** Query of {@link Backend.attempts}: past attempts of a key, oldest first. */
export interface AttemptsQuery extends RecordId {
  /** Only attempts with a higher number. */
  readonly afterAttempt: number;
  readonly limit: number;
}

/** A call that did not run the operation: a replay or a refusal. Written only with `audit: "all"`. */
export interface AuditEntry extends RecordId {
  /** Owner that the caller would have been. Names its host and process. */
  readonly owner: string;
  readonly answer: "replay" | "running" | "mismatch" | "unknown" | "gone";
  /** The attempt that the answer was about. */
  readonly attempt: number;
}

/** An entry of the audit log, as it is read. */
export interface AuditedEntry extends AuditEntry {
  /** Milliseconds since 1970 on the store's clock. */
  readonly at: number;
}

export type { Tx, TxRunner };

/** The result of a flush for one operation. */
export interface Verdicted {
  readonly answer: Answer;
  /**
   * The record after the operation, and the store's time: enough to answer other begins of the same record from them. For a settle, which
   * is never combined with another operation, they may be left out (undefined, 0).
   */
  readonly record: LedgerRecord | undefined;
  readonly now: number;
}

/** Renews leases while this process's event loop is blocked. See stores/heartbeat. */
export interface HeartbeatThread {
  /** Adds leases to renew. */
  hold(leases: readonly (HeldLease | HeldRuns | HeldWorker)[]): void;
  /** Stops renewing the leases of these owners. */
  drop(owners: readonly string[]): void;
  /** The event loop calls this while it runs; the thread renews only after this was not called for a while. */
  alive(): void;
  close(): Promise<void>;
}

/** @deprecated The name of {@link HeartbeatThread} in 0.1.0. */
export type StandIn = HeartbeatThread;

/** The lease of one attempt. */
export interface HeldLease extends RecordId {
  readonly owner: string;
  readonly attempt: number;
  readonly leaseMs: number;
}

/** The lease of all runs of a worker. */
export interface HeldRuns extends RenewQuery {
  readonly runs: true;
}

/** The lease of all packets of a worker. */
export interface HeldWorker {
  readonly owner: string;
  readonly worker: number;
  readonly leaseMs: number;
}

/**
 * The interface to a database. Each folder under stores/ implements it, and `createStore` makes a store from it.
 *
 * Methods must throw UnreachableError if nothing was written, NotKnownError if the reply was lost, StoreRefusedError if the data is
 * rejected permanently, ConfigurationError (STORE_NOT_USABLE) if the set-up is wrong. Any other error counts as a bug and is not retried.
 */
export interface Backend {
  /** Name of the store in messages: `sqlite`. */
  readonly name: string;
  /** Location of the data, for messages: the file, or the server and database. Without a password. */
  readonly place?: string;
  readonly capabilities: Capabilities;
  /**
   * Writes operations on distinct records, sorted by (scope, key). Each operation is atomic by itself and durable before its result
   * is returned; a backend combines them into one write if its database can. The results, in order: "again" for an operation whose
   * record changed between reading and locking (it is sent again with the next flush); an Error, from backends that write
   * operations one by one, for an operation that failed while others did not. An error that is thrown says nothing about single
   * operations: some may be written.
   */
  flush(operations: readonly Operation[]): Promise<readonly (Verdicted | "again" | Error)[]>;
  /** Number of flushes that may run at the same time. No two of them contain the same record. Default 1. */
  readonly flushesAtOnce?: number;
  read(id: RecordId): Promise<Reading | undefined>;
  attempts(query: AttemptsQuery): Promise<readonly AttemptEntry[]>;
  list(query: ListQuery): Promise<readonly Reading[]>;
  /** Removes expired records (see `purge`). Returns how many records it removed or changed. */
  purge(query: PurgeQuery): Promise<number>;
  /** The database removes expired records itself and a purge is expensive: there is no background purge. */
  readonly removesByItself?: boolean;
  /** Appends to the audit log, with the store's time. */
  audit(entries: readonly AuditEntry[]): Promise<void>;
  /** The newest `limit` entries of a key, oldest first. */
  audited(id: RecordId, limit: number): Promise<readonly AuditedEntry[]>;
  /** Opens a transaction, runs `work` in it, and commits it. */
  transact?<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Settles as the last statement of an open transaction. */
  settleWithin?(tx: Tx, settle: Settle): Promise<Answer>;
  /** Starts the thread that renews leases while the event loop is blocked. */
  standIn?(): HeartbeatThread;
  /** Queue and journals of workflow runs, if the store supports them. */
  readonly runs?: RunBackend;
  /** Packets of flow graphs and outboxes, if the store supports them. */
  readonly packets?: PacketBackend;
  close(): Promise<void>;
}

/** Throws ConfigurationError if the store has no transactions. Call it before anything is written. */
export function requireTransactions({ name, capabilities }: Pick<Store, "name" | "capabilities">): void {
  if (capabilities.transactions) return;
  throw new ConfigurationError(
    `[onceflow] [${name}] this store has no transactions; use a store that has them (sqlite:, postgres://), or remove the option tx`,
    { code: "MISSING_CAPABILITY" },
  );
}

/** Returns the runs of a backend. Throws ConfigurationError if it has none. Call it before anything is written. */
export function requireRuns({ name, runs }: Pick<Backend, "name" | "runs">): RunBackend {
  if (runs !== undefined) return runs;
  throw new ConfigurationError(
    `[onceflow] [${name}] this store does not support workflows; use one that does (sqlite:, postgres://, memory:, mongodb:// with a replica set)`,
    { code: "MISSING_CAPABILITY" },
  );
}

/** Returns the packets of a backend. Throws ConfigurationError if it has none. Call it before anything is written. */
export function requirePackets({ name, packets }: Pick<Backend, "name" | "packets">): PacketBackend {
  if (packets !== undefined) return packets;
  throw new ConfigurationError(
    `[onceflow] [${name}] this store does not support packets, which flow graphs and outboxes need; use one that does (sqlite:, postgres://, memory:)`,
    { code: "MISSING_CAPABILITY" },
  );
}

/** Counters of a store in this process, since it was opened. */
export interface Metrics {
  /** Attempts started. */
  readonly started: number;
  /** Attempts started after an earlier attempt of the same key. */
  readonly takenOver: number;
  /** Calls answered with a stored outcome. */
  readonly replayed: number;
  /** Calls that found another attempt running; each poll of a waiting call counts. */
  readonly running: number;
  /** Calls refused because the input differs. */
  readonly mismatched: number;
  /** Calls answered "unknown". */
  readonly unknown: number;
  /** Calls refused because the outcome has expired. */
  readonly gone: number;
  /** Outcomes written. */
  readonly settled: number;
  /** Leases renewed. */
  readonly renewed: number;
  /** Writes refused because their fence was stale. */
  readonly stale: number;
  /** Workflow runs created. */
  readonly runsCreated: number;
  /** Journal entries written. */
  readonly appended: number;
  /** Journal entries refused because another worker owns the run. */
  readonly overtaken: number;
  /** Flushes sent to the database, each with one or more operations, including flushes that only read. */
  readonly flushes: number;
  /** Records removed or changed by purges. */
  readonly purged: number;
}

/**
 * An open store, as `open` returns it. Applications pass it to `once`, `start` and other functions, read `metrics`, and call
 * `close` at the end; the other members are for front ends.
 */
export interface Store {
  /** Name of the kind of store: `sqlite`, `postgres`, `memory`, … */
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly closed: boolean;
  /** Maximum size of an encoded result; a larger one is not stored. */
  readonly valueBytesMax: number;
  /** Encoded values of a run that are larger than this are stored beside the journal; 0: all are in the journal. */
  readonly asideBytes: number;
  /** Maximum number of chunks that one writer may write to one stream. */
  readonly streamChunksMax: number;
  /**
   * Writes one operation with everything that belongs to it, or nothing if its fence is stale. Each operation is atomic and has its
   * own answer, also if several share a flush.
   *
   * @throws InvalidInputError if the batch has more than one part; UnreachableError, NotKnownError or StoreRefusedError as in
   * {@link Backend}.
   */
  commit(batch: Only<"ledger">): Promise<Answer>;
  commit(batch: Only<"run">): Promise<RunAnswer>;
  commit(batch: Only<"packet">): Promise<PacketAnswer>;
  /** Queue and journals of workflow runs. Reading this property throws ConfigurationError if the store has none. */
  readonly runs: RunBackend;
  /** Packets of flow graphs and outboxes. Reading this property throws ConfigurationError if the store has none. */
  readonly packets: PacketBackend;
  /**
   * Calls back when a run may have changed, in this or another process. `ended`: the run has ended, so that workers need not try to
   * claim it. `what` is "chunks" if only a stream has grown. Returns a function that ends the subscription.
   */
  onRunChange(changed: (run: RunChange, ended: boolean, what: WhatChanged) => void): () => void;
  /** Lets the heartbeat thread renew all runs of `owner` while the event loop is blocked, until `release` is called. */
  holdRuns(query: RenewQuery): { readonly alive: () => void; readonly release: () => void };
  /** The same for all packets of a worker. */
  holdWorker(worker: number, leaseMs: number): { readonly alive: () => void; readonly release: () => void };
  read(id: RecordId): Promise<Reading | undefined>;
  attempts(query: AttemptsQuery): Promise<readonly AttemptEntry[]>;
  list(query: ListQuery): Promise<readonly Reading[]>;
  purge(query: PurgeQuery): Promise<number>;
  audited(id: RecordId, limit: number): Promise<readonly AuditedEntry[]>;
  transact<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  settleWithin(tx: Tx, settle: Settle): Promise<Answer>;
  /** Calls back once if the lease of `owner` is lost. Returns a function that stops watching. */
  onLost(owner: string, lost: (why: string) => void): () => void;
  /** Stops renewing the lease of `owner`, if it is still held: its attempt was settled in a transaction, or was not settled. */
  release(owner: string, id: RecordId): void;
  /** Registers a function that is called and awaited before the store closes. Returns a function that unregisters it. */
  beforeClose(end: () => Promise<void>): () => void;
  /** Resolves when this process settles or releases the record, or after `ms`. Rejects with the signal's reason. */
  changed(id: RecordId, ms: number, signal?: AbortSignal): Promise<void>;
  /** Stops workers and purges of this store, writes what has been committed, and closes the connections. */
  close(): Promise<void>;
}
