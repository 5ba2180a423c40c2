import { ConfigurationError } from "../errors/errors.js";
import type { Answer, Only, Operation, Settle } from "../ledger/operation.js";
import type { AttemptEntry, LedgerRecord, RecordId, State } from "../ledger/record.js";
import type { PacketAnswer, PacketBackend } from "../packets/operation.js";
import type { RenewQuery, RunAnswer, RunBackend, RunChange, WhatChanged } from "../runs/operation.js";
import type { Clock } from "../work/clock.js";
import type { Tx, TxRunner } from "./tx.js";

export interface Capabilities {
  /** The settle can ride a transaction of the user's own in the same database. */
  readonly transactions: boolean;
  /** Leases are measured on a clock that all processes share, whatever their own clocks say. */
  readonly sharedClock: boolean;
  /** Outcomes survive the process. */
  readonly durable: boolean;
  /** Has queue and journal beside the ledger: workflows can run on it. */
  readonly runs: boolean;
  /** Keeps packets, too: flow graphs and outboxes can run on it. */
  readonly packets: boolean;
}

/** A record together with the store's time at which it was read. */
export interface Reading {
  readonly record: LedgerRecord;
  readonly now: number;
}

export interface ListQuery {
  readonly scope?: string;
  readonly state?: State;
  /** Keys that begin with this. */
  readonly prefix?: string;
  readonly after?: RecordId;
  readonly limit: number;
}

export interface PurgeQuery {
  /** Only what was over before this instant (store's time, ms). Never later than the store's now. */
  readonly before?: number;
  readonly limit: number;
}

export interface AttemptsQuery extends RecordId {
  readonly afterAttempt: number;
  readonly limit: number;
}

/** Somebody asked for a key and did not get to run it. Kept only with `audit: "all"`. */
export interface AuditEntry extends RecordId {
  /** Who asked, as an owner it would have been. */
  readonly owner: string;
  readonly answer: "replay" | "running" | "mismatch" | "unknown" | "gone";
  /** The attempt it was about. */
  readonly attempt: number;
}

export interface AuditedEntry extends AuditEntry {
  readonly at: number;
}

export type { Tx, TxRunner };

/** What a flush found out about one operation. */
export interface Verdicted {
  readonly answer: Answer;
  /**
   * The record as the operation left it, and the store's time: enough to answer others who asked the same. A settle,
   * which nobody asks along with, may leave them out (undefined, 0).
   */
  readonly record: LedgerRecord | undefined;
  readonly now: number;
}

/** Renews leases while this process's event loop is stuck. See stores/heartbeat. */
export interface HeartbeatThread {
  hold(leases: readonly (HeldLease | HeldRuns | HeldWorker)[]): void;
  drop(owners: readonly string[]): void;
  /** Called whenever the event loop shows that it runs. */
  alive(): void;
  close(): Promise<void>;
}

/** @deprecated The name of HeartbeatThread in 0.1.0. */
export type StandIn = HeartbeatThread;

export interface HeldLease extends RecordId {
  readonly owner: string;
  readonly attempt: number;
  readonly leaseMs: number;
}

/** All runs of a worker, under one lease. */
export interface HeldRuns extends RenewQuery {
  readonly runs: true;
}

/** Everything that a worker of packets has, under one lease. */
export interface HeldWorker {
  readonly owner: string;
  readonly worker: number;
  readonly leaseMs: number;
}

/**
 * What a database has to offer: a folder under stores/ implements this, `createStore` makes a store of it.
 * Errors: UnreachableError when nothing was written, NotKnownError when the reply was lost, StoreRefusedError when the data is
 * refused for good, ConfigurationError (STORE_NOT_USABLE) when the set-up is wrong. Anything else is a bug, and is not retried.
 */
export interface Backend {
  readonly name: string;
  /** The file, or server and database, for messages. Without a password. */
  readonly place?: string;
  readonly capabilities: Capabilities;
  /**
   * Writes operations on distinct records, sorted by (scope, key): each is atomic by itself, and durable before its
   * verdict is returned. A backend makes one write of all of them where its database can. "again" for one whose record
   * changed between reading and locking: it is sent again with the next flush. Where operations are written one by one,
   * an Error in the place of a verdict says that this one failed, and its neighbours did not. An error that is thrown
   * instead says nothing about single operations: some of them may be written.
   */
  flush(operations: readonly Operation[]): Promise<readonly (Verdicted | "again" | Error)[]>;
  /** How many flushes it takes at the same time, no two of them with the same record. Default 1. */
  readonly flushesAtOnce?: number;
  read(id: RecordId): Promise<Reading | undefined>;
  attempts(query: AttemptsQuery): Promise<readonly AttemptEntry[]>;
  list(query: ListQuery): Promise<readonly Reading[]>;
  purge(query: PurgeQuery): Promise<number>;
  /** The database removes what is over by itself, and a purge is dear: it runs only when asked for. */
  readonly removesByItself?: boolean;
  /** Appends to the audit log, at the store's time. */
  audit(entries: readonly AuditEntry[]): Promise<void>;
  /** The newest entries about a key, oldest first. */
  audited(id: RecordId, limit: number): Promise<readonly AuditedEntry[]>;
  /** Opens a transaction of the store's own and runs `work` in it. */
  transact?<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** The settle as the last statement of an open transaction. */
  settleWithin?(tx: Tx, settle: Settle): Promise<Answer>;
  standIn?(): HeartbeatThread;
  /** Queue and journal, where the database has them. */
  readonly runs?: RunBackend;
  /** Packets, where the database keeps them. */
  readonly packets?: PacketBackend;
  close(): Promise<void>;
}

/** Before anything is written: a store that cannot do what is asked says so by name. */
export function requireTransactions({ name, capabilities }: Pick<Store, "name" | "capabilities">): void {
  if (capabilities.transactions) return;
  throw new ConfigurationError(
    `[onceflow] [${name}] this store has no transactions; open one that has (sqlite:, postgres://) or leave the option tx out`,
    { code: "MISSING_CAPABILITY" },
  );
}

/** Before anything is written: a store without queue and journal says so by name. */
export function requireRuns({ name, runs }: Pick<Backend, "name" | "runs">): RunBackend {
  if (runs !== undefined) return runs;
  throw new ConfigurationError(
    `[onceflow] [${name}] this store has a ledger only, and workflows need queue and journal too; open one that has them (sqlite:, postgres://, memory:)`,
    { code: "MISSING_CAPABILITY" },
  );
}

/** Before anything is written: a store that keeps no packets says so by name. */
export function requirePackets({ name, packets }: Pick<Backend, "name" | "packets">): PacketBackend {
  if (packets !== undefined) return packets;
  throw new ConfigurationError(
    `[onceflow] [${name}] this store keeps no packets, which flow graphs and outboxes need; open one that does (sqlite:, postgres://, memory:)`,
    { code: "MISSING_CAPABILITY" },
  );
}

/** Counted since the store was opened, in this process. */
export interface Metrics {
  readonly started: number;
  readonly takenOver: number;
  readonly replayed: number;
  readonly running: number;
  readonly mismatched: number;
  readonly unknown: number;
  readonly gone: number;
  readonly settled: number;
  readonly renewed: number;
  readonly stale: number;
  /** Runs created, commits of their owners, and those refused because somebody else owns the run. */
  readonly runsCreated: number;
  readonly appended: number;
  readonly overtaken: number;
  /** Flushes sent to the database, each for one or more operations; those that only read are counted too. */
  readonly flushes: number;
  readonly purged: number;
}

export interface Store {
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly closed: boolean;
  /** Bytes of an encoded result beyond which it is not kept. */
  readonly valueBytesMax: number;
  /** Bytes of an encoded value of a run beyond which it is put aside; 0: never. */
  readonly asideBytes: number;
  /** Chunks that one writer may write to one stream. */
  readonly streamChunksMax: number;
  /**
   * Writes one operation, with everything that belongs to it, or nothing of it; nothing when the fence it names is stale.
   * A batch with two parts is refused with InvalidInputError. Operations that share a flush are atomic one by one: each
   * has its own answer.
   */
  commit(batch: Only<"ledger">): Promise<Answer>;
  commit(batch: Only<"run">): Promise<RunAnswer>;
  commit(batch: Only<"packet">): Promise<PacketAnswer>;
  /** Queue and journal to read; refused by name where the store has none. */
  readonly runs: RunBackend;
  /** Packets to claim and read; refused by name where the store keeps none. */
  readonly packets: PacketBackend;
  /**
   * Calls back when a run may have changed, here or in another process; `ended` when it is known to be over, so that
   * nobody has to look whether it can be claimed; `what` is "chunks" when only a stream has grown. Returns how to stop.
   */
  onRunChange(changed: (run: RunChange, ended: boolean, what: WhatChanged) => void): () => void;
  /** While the event loop is stuck, the heartbeat thread renews all runs that `owner` has. Returns how to end that. */
  holdRuns(query: RenewQuery): { readonly alive: () => void; readonly release: () => void };
  /** The same of all packets that a worker has. */
  holdWorker(worker: number, leaseMs: number): { readonly alive: () => void; readonly release: () => void };
  read(id: RecordId): Promise<Reading | undefined>;
  attempts(query: AttemptsQuery): Promise<readonly AttemptEntry[]>;
  list(query: ListQuery): Promise<readonly Reading[]>;
  purge(query: PurgeQuery): Promise<number>;
  audited(id: RecordId, limit: number): Promise<readonly AuditedEntry[]>;
  transact<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  settleWithin(tx: Tx, settle: Settle): Promise<Answer>;
  /** Calls back once if the lease that `owner` holds is lost. Returns how to stop watching. */
  onLost(owner: string, lost: (why: string) => void): () => void;
  /** Stops renewing what `owner` still holds: its settle went another way than `commit`, or nowhere. */
  release(owner: string, id: RecordId): void;
  /** Whoever works on this store ends its work before the store closes. Returns how to take that back. */
  beforeClose(end: () => Promise<void>): () => void;
  /** Waits until this process settles or releases the record, `ms` at most. */
  changed(id: RecordId, ms: number, signal?: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
