import type { Chunk, Voided } from "../chunk.js";
import type { OperatorLog } from "../log.js";
import type { Then } from "../operation.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../run.js";

/**
 * The rows that the rules of runs read and write, under one lock and without an await in between. Memory and SQLite access
 * their rows directly. PostgreSQL and MongoDB load the rows that an operation may touch, apply the rules to them, and write the
 * changes.
 */
export interface RunTable extends OperatorLog {
  /** The same time for a whole operation. */
  now(): number;

  run(id: string): RunState | undefined;
  /** The whole run, for an answer that contains it. */
  record(id: string): RunRecord | undefined;
  /** Returns false if a run with this id exists. */
  insertRun(run: RunRecord): boolean;
  changeRun(id: string, to: RunUpdate): void;
  /** Optional shortcut: ends a run that has neither a parent nor hooks. False: nothing was done; fall back to `run`. */
  endPlain?(id: string, end: RunEnd): boolean;

  lastEntry(run: string): EntryFence | undefined;
  entry(run: string, seq: number): Pick<JournalEntry, "epoch" | "events"> | undefined;
  insertEntry(run: string, entry: JournalEntry): void;
  /** Optional shortcut: checks the creator and the fence (`canAppend`), and inserts the entry. False: not inserted; fall back to `run`. */
  insertFenced?(run: Pick<RunRecord, "id" | "creator">, entry: JournalEntry): boolean;

  hasMail(run: string, key: string): boolean;
  /** Number of the mail with this key; undefined if there is none. */
  mailSeq(run: string, key: string): number | undefined;
  /** Makes the mail with this number meaningless: kind "withdrawn", no payload, another key. */
  withdrawMail(run: string, seq: number, key: string): void;
  /** Returns false if the run has mail with this key. */
  insertMail(run: string, key: string, mail: Mail): boolean;

  hook(token: string): Pick<HookRecord, "run" | "about"> | undefined;
  /** Returns false if the token is used. */
  insertHook(hook: HookRecord): boolean;
  removeHook(run: string, token: string): void;
  removeHooks(run: string): void;

  /** Removes a run with its journal, mail, hooks and chunks. */
  removeRun(id: string): void;

  hasEndedStream(run: string, stream: string): boolean;
  /** The index of the next chunk of a stream. */
  nextIndex(run: string, stream: string): number;
  /** Returns false if the writer has a chunk with this count in the stream. */
  insertChunk(run: string, index: number, chunk: Chunk): boolean;
  /** The attempt that has written the chunk with this writer and count. */
  chunkAttempt(run: string, chunk: Chunk): number;
  /** Replaces the chunk with the same writer and count, at its index. */
  replaceChunk(run: string, chunk: Chunk): void;
  /** Makes all chunks void that earlier attempts of the writer have left. */
  voidChunks(run: string, voided: Voided): void;
  /** Called when streams of the run have changed: readers may wait for that. */
  grown?(run: string): void;
}

/** The members of a run that the rules need to decide. */
export type RunState = Pick<
  RunRecord,
  | "id"
  | "status"
  | "owner"
  | "epoch"
  | "wakeAt"
  | "mail"
  | "consumed"
  | "parent"
  | "creator"
  | "startedAt"
  | "endedAt"
  | "retentionMs"
  | "deaths"
  | "crashes"
  | "alone"
  | "unsettled"
  | "createdAt"
  | "deadlineAt"
  | "stopAt"
>;

/** The members of a run that can change after its start. */
export type RunUpdate = Partial<
  Pick<
    RunRecord,
    | "status"
    | "output"
    | "trouble"
    | "owner"
    | "epoch"
    | "wakeAt"
    | "mail"
    | "consumed"
    | "startedAt"
    | "endedAt"
    | "deaths"
    | "crashes"
    | "alone"
    | "avoid"
    | "avoidUntil"
    | "unsettled"
    | "deadlineAt"
    | "stopAt"
    | "attributes"
    | "errorName"
    | "errorCode"
  >
> & {
  /** When the run may be purged (rules/expiry.ts), for stores that have an index on it. */
  readonly expiresAt?: number | null;
};

/** The end of a run now, with the mail that its last entry consumes. */
export interface RunEnd extends Pick<Extract<Then, { kind: "end" }>, "status" | "output" | "error"> {
  readonly unsettled: number;
  readonly consumed: number | null;
}

/** Number and epoch of an entry: what the fence compares. */
export type EntryFence = Pick<JournalEntry, "seq" | "epoch">;
