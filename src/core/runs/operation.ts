import type { Chunk, ChunkQuery, ChunkRecord, Voided } from "./chunk.js";
import type { LogEntry, LogQuery, NewLogEntry } from "./log.js";
import type { EndStatus, HookRecord, JournalEntry, Mail, MailKind, RunRecord, RunStatus, WorkerRecord } from "./run.js";
import type { RunCounts, RunFilter, RunPosition } from "./search/filter.js";

/**
 * Creates a run.
 *
 * Each operation on runs names one run, is atomic, and is sent again unchanged if its reply was lost: the second time it finds what the
 * first one did.
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
  /** Set if the process that starts the run also executes it from the same commit on: its first journal entry, in epoch 1. */
  readonly first: { readonly owner: string; readonly leaseMs: number; readonly entry: Entry } | null;
  /** Written with the run: an input that is stored beside the journal. */
  readonly chunks?: readonly Chunk[];
  /** How long the run may take: it is cancelled this long after its creation. Default: no deadline. */
  readonly timeoutMs?: number;
  /** How long code may clean up after the deadline, before the run can be ended without its code. Needed with `timeoutMs`. */
  readonly cleanupMs?: number;
  /** The tenant that the run belongs to. Default: none. */
  readonly scope?: string;
  /** Encoded attributes by which the run is found. Default: none. */
  readonly attributes?: string;
}

/** The tenure of an owner of a run. A write with another one is refused. */
interface Tenure {
  readonly id: string;
  /** {@link RunRecord.creator}: after a run was removed, another run may have its id, and an owner with the same epoch. */
  readonly creator: string;
  readonly epoch: number;
}

/**
 * Appends entry `seq` to the journal of a run, with everything that belongs to it. The entry number is the fence: the append is refused
 * unless the run has not ended, `seq` is the next number, and the last entry is not of a later epoch (rules/fence.ts). A worker that
 * takes over a run writes an entry first, so a late owner finds its number used, and nothing of its append is written.
 */
export interface Append extends Tenure {
  readonly verb: "append";
  /** For events. Stores ignore it. */
  readonly workflow?: string;
  readonly seq: number;
  readonly entry: Entry;
}

/**
 * Appends an entry after the end of a run, for one purpose: to record the outcome of a step that was still running at the end, or that
 * a person has resolved. Refused ("overtaken") unless the run ended in this epoch and `seq` is the next number. If it is sent
 * again, it is recognized by its events, because several writers may write in that epoch.
 */
export interface AppendLate extends Tenure {
  readonly verb: "appendLate";
  readonly seq: number;
  readonly events: string;
  /** Number of steps whose outcome is still unknown after this entry. At 0 the run can expire again; its retention counts from its end. */
  readonly unsettled: number;
  /** The action that the entry records, if it is an operator's: written to the operator log with it. */
  readonly log?: NewLogEntry;
}

/** What an owner records, under its fence, about earlier owners that crashed. See {@link RunRecord}. */
export interface Trial {
  readonly deaths: number;
  readonly crashes: number;
  readonly alone: boolean;
}

/** One journal entry, and what is written with it. */
export interface Entry {
  /** Encoded events. Null: no journal entry is written, only the rest; refused unless the run is still in this epoch. */
  readonly events: string | null;
  /** Mail up to this number is in the journal with this entry. Null: unchanged. */
  readonly consumed: number | null;
  readonly hooks: readonly HookChange[];
  readonly children: readonly StartRun[];
  readonly then: Then;
  /** Chunks that become void, before `chunks` are written. */
  readonly voids?: readonly Voided[];
  readonly chunks?: readonly Chunk[];
  /** If absent, `deaths`, `crashes` and `alone` of the run stay as they are. */
  readonly trial?: Trial;
  /** Mail to other runs: cancellations of children. Mail to a run that does not exist or has ended is dropped. */
  readonly outgoing?: readonly OutgoingMail[];
  /** When the run can be ended without its code (see {@link RunRecord}). If absent: unchanged. */
  readonly stopAt?: number;
  /** The attributes of the run from this entry on, encoded; null: none. If absent: unchanged. */
  readonly attributes?: string | null;
}

/** Mail that an entry sends to another run. */
export interface OutgoingMail extends Omit<Send, "verb" | "to"> {
  readonly to: { readonly run: string };
  /** Of a cancellation: after this time any worker may end the run without its code, see {@link RunRecord.stopAt}. */
  readonly stopAfterMs?: number;
}

/**
 * Writes chunks of step bodies. Refused unless the run is still in this epoch: a late body of a former owner must not write
 * between the chunks of its successor.
 */
export interface WriteChunks extends Tenure {
  readonly verb: "write";
  /** At least one. */
  readonly chunks: readonly Chunk[];
}

/** Adds a hook with this token, or removes one. */
export type HookChange =
  | { readonly add: string; readonly about: string; readonly metadata: string | null }
  /** A hook of another run with the same token stays. */
  | { readonly drop: string };

/** What happens to the run after an entry. */
export type Then =
  /** The owner keeps the run. */
  | { readonly kind: "hold" }
  /**
   * The run has no owner until `wakeAt` or until mail arrives, whichever is first; it is due at once if it has mail that is not
   * consumed.
   */
  | {
      readonly kind: "release";
      readonly wakeAt: number | null;
      readonly status: Extract<RunStatus, "running" | "unknown" | "diverged" | "parked" | "paused">;
      readonly trouble: string | null;
      /** Workers that do not claim the run before `until`, unless mail arrives first. If absent, any worker may claim it. */
      readonly avoid?: { readonly workers: readonly string[]; readonly until: number };
      /** Of a paused run: the newest mail that the owner has seen. Only newer mail makes the run due at once. */
      readonly seen?: number;
    }
  /** The run ends. Its hooks are removed, and its parent gets mail of kind "child" with its status and output. */
  | {
      readonly kind: "end";
      readonly status: EndStatus;
      readonly output: string | null;
      /** Number of steps whose outcome is unknown when the run ends: the run is not purged before they are settled. Default 0. */
      readonly unsettled?: number;
      /** Why an operator should look at the run although it has ended: for example, its cleanup did not run. Default: null. */
      readonly trouble?: string;
      /** Of a failed run: name and code of its error, by which the run is found. */
      readonly error?: ErrorFacts;
    };

/** Name and code of an error. Each is storable text of at most 200 characters. */
interface ErrorFacts {
  readonly name: string;
  readonly code: string | null;
}

/** Sends mail to a run. */
export interface Send {
  readonly verb: "send";
  /** The run, or the token of its hook. */
  readonly to: { readonly run: string } | { readonly token: string };
  readonly kind: MailKind;
  readonly about: string | null;
  readonly payload: string | null;
  /** Identifies this mail within its run: mail with a known key is not delivered again. */
  readonly key: string;
}

/**
 * An action of an operator. The change and its entry in the operator log are one write. It is refused ("stale") if the run is not in the
 * state on which the action was decided. If the log already has an action with this id, nothing is changed and the answer is the first one: an action that is sent
 * again after a lost reply finds its own success.
 */
export interface Act {
  readonly verb: "act";
  /** The run that is changed; for a fork, the new run. */
  readonly id: string;
  readonly log: NewLogEntry;
  /** Only what is given is compared. */
  readonly expect: RunExpectation;
  readonly change: ActionChange;
}

export interface RunExpectation extends Partial<RunStage> {
  /** {@link RunRecord.creator}. */
  readonly creator?: string;
}

/** How far a run has come. */
export interface RunStage {
  readonly status: RunStatus;
  readonly epoch: number;
  /** Number of the last journal entry. */
  readonly seq: number;
}

/** What an operator's action changes. */
export type ActionChange =
  /** Sends mail to the run. With `token`: only if the run still has the hook with this token. With `stopAfterMs`: see {@link RunRecord.stopAt}. */
  | {
      readonly kind: "send";
      readonly mail: Omit<Send, "verb" | "to">;
      readonly token?: string;
      readonly stopAfterMs?: number;
    }
  /**
   * Continues a failed run: writes the next journal entry in a new epoch, registers its open hooks again, and makes the run due. The mail that
   * would report the failure to the parent is withdrawn. Refused if the parent has read that mail, or may be reading it, and if another
   * hook has one of the tokens.
   */
  | {
      readonly kind: "reopen";
      /** Number of the new entry. Refused ("stale") if it is not the next one. */
      readonly seq: number;
      readonly events: string;
      readonly hooks: readonly Extract<HookChange, { add: string }>[];
      /** Keys of mail that has been consumed and is to come again: the ends of children that are retried, too. */
      readonly forget?: readonly string[];
      readonly chunks?: readonly Chunk[];
      /** Chunks of steps that the continued run forgets. */
      readonly voids?: readonly Voided[];
      /** When the deadline of the run was set, if an earlier "reopen" has set it. Default: when the run was created. */
      readonly deadlineSetAt?: number;
      /** How long after its deadline the code may clean up. Default: as long as before, which a cancellation may have shortened. */
      readonly cleanupMs?: number;
      /** The attributes of the run from the retry on, encoded; null: none. If absent: unchanged. */
      readonly attributes?: string | null;
    }
  /** Removes an ended run without unknown steps, with everything that belongs to it except the operator log. Its id can be used again. */
  | { readonly kind: "remove" }
  /** Creates a run: a fork. `expect` is not compared. */
  | { readonly kind: "start"; readonly start: StartRun };

/** One operation on a run that goes through group commit. */
export type RunOperation = StartRun | Append | AppendLate | Send | WriteChunks | Act;

/** What the store answers to a {@link RunOperation}. `now` is the store's time. */
export type RunAnswer =
  /** start: the run was created, now or earlier by the same request. `conflicts`: see "appended". */
  | { readonly kind: "created"; readonly now: number; readonly conflicts: readonly string[] }
  /** start: another request has created a run with this id. */
  | { readonly kind: "exists"; readonly run: RunRecord }
  /** append: `conflicts` are tokens that another hook has; those hooks were not created. */
  | { readonly kind: "appended"; readonly now: number; readonly conflicts: readonly string[] }
  /** append, write: another worker owns the run, or the run has ended. Nothing was changed. */
  | { readonly kind: "overtaken" }
  /** send: `duplicate`: mail with this key was delivered before. */
  | { readonly kind: "sent"; readonly run: string; readonly duplicate: boolean }
  /** write: `closed` are streams that have ended; chunks for them were not written. */
  | { readonly kind: "written"; readonly closed: readonly string[] }
  /** send, act: the run or hook was not found. */
  | { readonly kind: "absent" }
  /** send, act: the run has ended. */
  | { readonly kind: "ended"; readonly run: string }
  /** act: done. `repeated`: by an earlier request with the same action id, whose entry in the log this is. */
  | { readonly kind: "acted"; readonly entry: LogEntry; readonly repeated: boolean }
  /** act: the run is in another state. Nothing was changed. */
  | { readonly kind: "stale"; readonly state: RunStage }
  /** act: not allowed in this state. Nothing was changed. */
  | { readonly kind: "notAllowed"; readonly why: ActionRefusal };

/**
 * unsettled: the outcome of a step is unknown. parentTook: the parent has read the failure. parentReads: a worker has the parent in memory
 * and may have read the failure. parentSetAside: the parent is parked or diverged, and its mail is marked as read. token: another hook has the token. alreadySent: other mail has the same key. running: the run has not ended.
 */
export type ActionRefusal =
  | { readonly because: "unsettled" | "alreadySent" | "running" }
  | { readonly because: "parentTook" | "parentReads" | "parentSetAside"; readonly parent: string }
  | { readonly because: "token"; readonly token: string };

export type RunAnswerKind = RunAnswer["kind"];

/** Query of {@link RunBackend.claim}. */
export interface ClaimQuery {
  readonly owner: string;
  readonly workflows: readonly string[];
  readonly leaseMs: number;
  readonly limit: number;
  /** Whether a suspect (a run that may have crashed its owners) may be claimed; at most one per claim. Default true. */
  readonly suspects?: boolean;
  /** Claims only this run, whatever its workflow; `workflows` is ignored. */
  readonly run?: string;
}

/** Result of {@link RunBackend.claim}. */
export interface Claims {
  readonly now: number;
  readonly claimed: readonly Claimed[];
  /** When this owner can claim the next run of these workflows, as far as is known now. Suspects that it may not claim are ignored. */
  readonly nextAt: number | null;
}

/** A claimed run with everything that is needed to continue it. */
export interface Claimed {
  readonly run: RunRecord;
  /** The lease of its last owner expired, and that owner may still be running. */
  readonly lapsed: boolean;
  readonly journal: readonly JournalEntry[];
  /** Mail that is not consumed yet, in order. */
  readonly mail: readonly Mail[];
  readonly hooks: readonly HookRecord[];
}

/** Query of {@link RunBackend.renew}. */
export interface RenewQuery {
  readonly owner: string;
  readonly leaseMs: number;
  /** Written to the worker's row as its heartbeat. If absent, only the leases of its runs are extended. */
  readonly signOfLife?: { readonly workflows: readonly string[]; readonly version: string | null };
}

/** A run that the owner still has after a renewal. `mail`: number of its newest mail. */
export interface Renewed {
  readonly id: string;
  readonly creator: string;
  readonly epoch: number;
  readonly mail: number;
}

/** Query of {@link RunBackend.list}. `orderOf` says in which order the runs come. */
export interface RunListQuery extends RunFilter {
  /** Only runs after this position: `positionOf` a run. */
  readonly after?: RunPosition;
  readonly limit: number;
}

/** Query of {@link RunBackend.hooks}: by token. */
export interface HookListQuery {
  readonly scope?: string;
  readonly run?: string;
  /** Only hooks after this token. */
  readonly after?: string;
  readonly limit: number;
}

/** A run that a worker owns. */
export type HeldRun = Pick<RunRecord, "id" | "workflow">;

/** Id of a run that may have changed. Null: any run may have changed. */
export type RunChange = string | null;

/** `"chunks"`: only a stream of the run has grown; there is no new mail or work. */
export type WhatChanged = "run" | "chunks";

/** Queue and journals of a store. Throws the same errors as {@link Backend}. */
export interface RunBackend {
  /**
   * Writes operations on distinct runs, sorted by run, each atomic by itself and durable before it is answered. Answers "again" for
   * an operation that lost a race and changed nothing: it is sent again with the next flush.
   */
  flush(operations: readonly RunOperation[]): Promise<readonly (RunAnswer | "again")[]>;
  /**
   * Claims due runs, oldest first, except runs that `owner` already has. Each claim increases the epoch and, in the same write,
   * counts the crash of an owner whose lease expired. Only reads if nothing is due.
   */
  claim(query: ClaimQuery): Promise<Claims>;
  /** Reads a claimed run again, for an owner that was overtaken by the last write of its predecessor. */
  load(id: string): Promise<Claimed | undefined>;
  /** Extends the leases of all runs of `owner`, and returns them. */
  renew(query: RenewQuery): Promise<readonly Renewed[]>;
  /** Workers with a heartbeat within the last hour, live ones first. */
  workers(): Promise<readonly WorkerRecord[]>;
  /** Runs that this worker owns now, up to `limit`, in no order. */
  held(owner: string, limit: number): Promise<readonly HeldRun[]>;
  /** Names of workflows that have runs, ended ones included, in ascending order after `after`. */
  workflows(after: string, limit: number): Promise<readonly string[]>;
  /** Removes the row of a worker that has stopped. Its runs stay as they are. */
  leave(owner: string): Promise<void>;
  /** Mail after `seq`, in order. */
  mail(run: string, after: number): Promise<readonly Mail[]>;
  read(id: string): Promise<RunRecord | undefined>;
  journal(id: string, after: number, limit: number): Promise<readonly JournalEntry[]>;
  /** Throws InvalidInputError for a combination of filters that is not served: see search/served.ts. */
  list(query: RunListQuery): Promise<readonly RunRecord[]>;
  /** Counts runs by status, each status up to `max`. Where no index has the status, at most `max` runs are counted in all. */
  count(filter: RunFilter, max: number): Promise<RunCounts>;
  hooks(query: HookListQuery): Promise<readonly HookRecord[]>;
  hook(token: string): Promise<HookRecord | undefined>;
  /** The chunks of a stream from an index on, in order, including void ones. */
  chunks(query: ChunkQuery): Promise<readonly ChunkRecord[]>;
  /** Runs that can be ended without their code now, and that no worker executes, oldest first: see {@link RunRecord.stopAt}. */
  overdueStops(limit: number): Promise<readonly string[]>;
  /** Entries of the operator log, newest first. */
  log(query: LogQuery): Promise<readonly LogEntry[]>;
  /** The index of the last chunk of a stream that is bytes or a value; -1 if there is none. */
  tail(run: string, stream: string): Promise<number>;
  /** Removes expired runs with everything that belongs to them. Returns how many. */
  purge(limit: number): Promise<number>;
  /**
   * Calls back when another process may have started, ended or written to a run. It may call too often and may miss changes, so
   * callers that wait also poll. Returns a function that stops it.
   */
  watch(changed: (run: RunChange, what?: WhatChanged) => void): () => void;
  /** Appends as the last statement of an open transaction. */
  appendWithin?(tx: object, append: Append): Promise<RunAnswer>;
}
