import type { Chunk, Voided } from "../chunk.js";
import type { Then } from "../operation.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../run.js";

/**
 * The rows that the rules of runs read and write, under one lock and without an await in between. Memory and SQLite bring
 * their own rows. PostgreSQL and MongoDB load the rows that an operation may touch, apply the rules to them, and write the
 * difference.
 */
export interface RunTable {
  /** One instant for a whole operation. */
  now(): number;

  run(id: string): RunState | undefined;
  /** The whole run, for a caller that gets to see it. */
  record(id: string): RunRecord | undefined;
  /** False: a run with this id exists. */
  insertRun(run: RunRecord): boolean;
  changeRun(id: string, to: RunUpdate): void;
  /** In one go: ends a run that has neither a parent nor hooks. False: nothing was done, and `run` has to be asked. */
  endPlain?(id: string, end: RunEnd): boolean;

  lastEntry(run: string): EntryPlace | undefined;
  entry(run: string, seq: number): Pick<JournalEntry, "epoch" | "events"> | undefined;
  insertEntry(run: string, entry: JournalEntry): void;
  /** In one go: checks the fence (`canAppend`) and inserts the entry. False: not inserted, and `run` has to be asked why. */
  insertFenced?(run: string, entry: JournalEntry): boolean;

  hasMail(run: string, key: string): boolean;
  /** False: the run has mail with this key. */
  insertMail(run: string, key: string, mail: Mail): boolean;

  hook(token: string): Pick<HookRecord, "run" | "about"> | undefined;
  /** False: the token is taken. */
  insertHook(hook: HookRecord): boolean;
  removeHook(run: string, token: string): void;
  removeHooks(run: string): void;

  hasEndedStream(run: string, stream: string): boolean;
  /** The first place of a stream that has no chunk. */
  nextPlace(run: string, stream: string): number;
  /** False: the writer has a chunk with this count in the stream. */
  insertChunk(run: string, place: number, chunk: Chunk): boolean;
  /** The attempt that has written the chunk with this writer and count. */
  chunkAttempt(run: string, chunk: Chunk): number;
  /** Takes the place of the chunk with the same writer and count. */
  replaceChunk(run: string, chunk: Chunk): void;
  /** Makes all chunks void that earlier attempts of the writer have left. */
  voidChunks(run: string, voided: Voided): void;
  /** Streams of the run have changed: readers may wait for that. */
  grown?(run: string): void;
}

/** The part of a run by which the rules decide. */
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
>;

/** The part of a run that changes after its start. */
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
  >
> & {
  /** When it may be purged (rules/expiry.ts), for a store that finds it by that. */
  readonly expiresAt?: number | null;
};

/** The end of a run at this instant, with the mail that its last entry has taken in. */
export interface RunEnd extends Pick<Extract<Then, { kind: "end" }>, "status" | "output"> {
  readonly unsettled: number;
  readonly consumed: number | null;
}

export type EntryPlace = Pick<JournalEntry, "seq" | "epoch">;
