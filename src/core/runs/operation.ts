import type { Chunk, ChunkQuery, ChunkRecord, Voided } from "./chunk.js";
import type { EndStatus, HookRecord, JournalEntry, Mail, MailKind, RunRecord, RunStatus, WorkerRecord } from "./run.js";

/**
 * The verbs of queue and journal. Each names one run, is atomic, and is sent again unchanged when its reply was lost:
 * the second time finds what the first one did.
 */
export interface StartRun {
  readonly verb: "start";
  readonly id: string;
  readonly workflow: string;
  readonly input: string;
  readonly fingerprint: string | null;
  readonly parent: string | null;
  readonly creator: string;
  readonly retentionMs: number | null;
  /** Whoever starts it may execute it from the same commit on: then this is its first journal entry, in epoch 1. */
  readonly first: { readonly owner: string; readonly leaseMs: number; readonly entry: Entry } | null;
  /** Written with the run: an input that was put aside. */
  readonly chunks?: readonly Chunk[];
}

/**
 * What the owner of a run writes: the entry `seq` of its journal, and everything that goes with it. The entry is the
 * fence. It is refused unless the run goes on, `seq` is the next number, and the last entry is of no later epoch
 * (rules/fence.ts). A worker that takes a run over writes an entry first: so a late owner finds its place taken, and nothing
 * of its write is done.
 */
export interface Append {
  readonly verb: "append";
  readonly id: string;
  readonly epoch: number;
  readonly seq: number;
  readonly entry: Entry;
}

/**
 * An entry after the end of a run, for one purpose: to record the true outcome of a step that was still running, or that
 * a person has resolved. Refused ("overtaken") unless the run has ended in this epoch and `seq` is the next number. Sent
 * again, it is recognised by its events: several writers may write in one epoch here.
 */
export interface AppendLate {
  readonly verb: "appendLate";
  readonly id: string;
  readonly epoch: number;
  readonly seq: number;
  readonly events: string;
  /** Steps whose outcome is still unknown after this entry. At 0 the run's retention counts again, from its end. */
  readonly unsettled: number;
}

/** What an owner records about the deaths of owners before it, under its fence. */
export interface Trial {
  readonly deaths: number;
  readonly crashes: number;
  readonly alone: boolean;
}

export interface Entry {
  /** Null: nothing happened, only `then`; refused unless the run is still in this epoch. */
  readonly events: string | null;
  /** Mail up to this number is in the journal with this entry. */
  readonly consumed: number | null;
  readonly hooks: readonly HookChange[];
  readonly children: readonly StartRun[];
  readonly then: Then;
  /** What becomes of chunks with this entry: first those of attempts that do not count are void, then these are written. */
  readonly voids?: readonly Voided[];
  readonly chunks?: readonly Chunk[];
  /** Left out: deaths, crashes and alone stay as they are. */
  readonly trial?: Trial;
}

/**
 * Chunks that step bodies have written. Refused unless the run is still in this epoch: a late body of an owner that was
 * overtaken must not write between the chunks of its successor.
 */
export interface WriteChunks {
  readonly verb: "write";
  readonly id: string;
  readonly epoch: number;
  /** One at least. */
  readonly chunks: readonly Chunk[];
}

export type HookChange =
  | { readonly add: string; readonly about: string; readonly metadata: string | null }
  /** Only this run's own hook is dropped. */
  | { readonly drop: string };

export type Then =
  /** Goes on under the same owner. */
  | { readonly kind: "hold" }
  /** Nobody's until `wakeAt` or mail, whichever comes first; at once when mail is there that was not taken in. */
  | {
      readonly kind: "release";
      readonly wakeAt: number | null;
      readonly status: Extract<RunStatus, "running" | "unknown" | "diverged" | "parked">;
      readonly trouble: string | null;
      /** Workers that do not claim it before `until`, unless mail comes first. Left out: any worker may claim it. */
      readonly avoid?: { readonly workers: readonly string[]; readonly until: number };
    }
  /** Over. Its hooks are dropped, and its parent gets mail of kind "child" about it, with status and output. */
  | {
      readonly kind: "end";
      readonly status: EndStatus;
      readonly output: string | null;
      /** Steps whose outcome is unknown when the run ends: it is not purged before they are settled. Default 0. */
      readonly unsettled?: number;
    };

export interface Send {
  readonly verb: "send";
  /** The run, or the token of its hook. */
  readonly to: { readonly run: string } | { readonly token: string };
  readonly kind: MailKind;
  readonly about: string | null;
  readonly payload: string | null;
  /** Names this mail among all of its run: the same key again is not delivered again. */
  readonly key: string;
}

export type RunOperation = StartRun | Append | AppendLate | Send | WriteChunks;

export type RunAnswer =
  | { readonly kind: "created"; readonly now: number; readonly conflicts: readonly string[] }
  | { readonly kind: "exists"; readonly run: RunRecord }
  /** `conflicts`: tokens of hooks that somebody else has; those hooks were not made. */
  | { readonly kind: "appended"; readonly now: number; readonly conflicts: readonly string[] }
  /** Somebody else owns the run, or it is over. Nothing was changed. */
  | { readonly kind: "overtaken" }
  | { readonly kind: "sent"; readonly run: string; readonly duplicate: boolean }
  /** `closed`: streams that have ended; chunks for them were not written. */
  | { readonly kind: "written"; readonly closed: readonly string[] }
  /** No such run, or no such hook. */
  | { readonly kind: "absent" }
  | { readonly kind: "ended"; readonly run: string };

export type RunAnswerKind = RunAnswer["kind"];

export interface ClaimQuery {
  readonly owner: string;
  readonly workflows: readonly string[];
  readonly leaseMs: number;
  readonly limit: number;
  /** At most one suspect is claimed at a time, and none when this is false. Default true. */
  readonly suspects?: boolean;
  /** Only this run, whatever its workflow is; `workflows` does not count then. */
  readonly run?: string;
}

export interface Claims {
  readonly now: number;
  readonly claimed: readonly Claimed[];
  /** When the next run of these workflows can be claimed by this owner, as far as is known now. Suspects that it may not claim do not count. */
  readonly nextAt: number | null;
}

/** Everything that is needed to go on with a run. */
export interface Claimed {
  readonly run: RunRecord;
  /** Its last owner fell silent, and may not know yet. */
  readonly lapsed: boolean;
  readonly journal: readonly JournalEntry[];
  /** What was not taken in yet, in order. */
  readonly mail: readonly Mail[];
  readonly hooks: readonly HookRecord[];
}

export interface RenewQuery {
  readonly owner: string;
  readonly leaseMs: number;
  /** Written to the worker's row, as a sign of life. Left out: only the leases of its runs are extended. */
  readonly signOfLife?: { readonly workflows: readonly string[]; readonly version: string | null };
}

/** A run that its owner still has. */
export interface Renewed {
  readonly id: string;
  readonly epoch: number;
  readonly mail: number;
}

export interface RunListQuery {
  readonly workflow?: string;
  readonly status?: RunStatus;
  /** Runs created before this one: newest first. */
  readonly after?: { readonly createdAt: number; readonly id: string };
  readonly limit: number;
}

/** What may have changed: a run that this worker or a waiting caller could care about. Null: something, look yourself. */
export type RunChange = string | null;

/** "chunks": only a stream of the run has grown; nobody has to look for mail or work. */
export type WhatChanged = "run" | "chunks";

/**
 * Queue and journal of a database, beside the ledger. Errors as in `Backend`.
 */
export interface RunBackend {
  /**
   * Writes operations on distinct runs, sorted by run, each of them atomic by itself and durable before it is answered. "again" for one that lost a
   * race and changed nothing: it is sent again with the next flush.
   */
  flush(operations: readonly RunOperation[]): Promise<readonly (RunAnswer | "again")[]>;
  /**
   * Takes runs that are due, oldest first, and never one that `owner` has already. Every claim raises the epoch, and counts
   * the death of an owner that fell silent in the same write. Reads only when nothing is due.
   */
  claim(query: ClaimQuery): Promise<Claims>;
  /** What the owner of a claimed run needs to know again after it was overtaken by its predecessor's last write. */
  load(id: string): Promise<Claimed | undefined>;
  /** Extends the leases of all that `owner` has. */
  renew(query: RenewQuery): Promise<readonly Renewed[]>;
  /** Workers that have shown a sign of life within the last hour, live ones first. */
  workers(): Promise<readonly WorkerRecord[]>;
  /** The worker has stopped: removes its row. Its runs stay as they are. */
  leave(owner: string): Promise<void>;
  /** Mail after `seq`, in order. */
  mail(run: string, after: number): Promise<readonly Mail[]>;
  read(id: string): Promise<RunRecord | undefined>;
  journal(id: string, after: number, limit: number): Promise<readonly JournalEntry[]>;
  list(query: RunListQuery): Promise<readonly RunRecord[]>;
  hook(token: string): Promise<HookRecord | undefined>;
  /** The chunks of a stream from a place on, in order, void ones among them. */
  chunks(query: ChunkQuery): Promise<readonly ChunkRecord[]>;
  /** The place of the last chunk of a stream that is bytes or a value; -1 when there is none. */
  tail(run: string, stream: string): Promise<number>;
  /** Removes runs whose retention is over, with all that belongs to them. Returns how many. */
  purge(limit: number): Promise<number>;
  /**
   * Calls back when another process may have started, ended or written to a run. May call too often, may miss one now
   * and then: who waits also looks by itself from time to time.
   */
  watch(changed: (run: RunChange, what?: WhatChanged) => void): () => void;
  /** The append as the last statement of an open transaction. */
  appendWithin?(tx: object, append: Append): Promise<RunAnswer>;
}
