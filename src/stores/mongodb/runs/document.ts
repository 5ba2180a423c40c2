import type { Binary, UpdateFilter } from "mongodb";
import type { ChunkKind } from "../../../core/runs/chunk.js";
import type { LogEntry } from "../../../core/runs/log.js";
import type { RunUpdate } from "../../../core/runs/rules/table.js";
import type { HookRecord, JournalEntry, Mail, RunRecord, WorkerRecord } from "../../../core/runs/run.js";
import { now } from "../ledger/expressions.js";

/**
 * A run as it is stored. `owner`, `wakeAt` and `expiresAt` are absent, not null, so that the indexes of the queue, of owners and of the
 * purge contain only the documents they are for.
 */
export interface RunDocument extends Omit<RunRecord, "id" | "owner" | "wakeAt" | "input" | keyof Rare> {
  readonly _id: string;
  /**
   * Different for every run that ever had this id. All documents of a run carry it, so that they never belong to a later run with
   * the same id.
   */
  readonly no: string;
  /** Null: the input is long and stored in the journal as entry 0, because every renewal rewrites this document. */
  readonly input: string | null;
  readonly owner?: string;
  readonly wakeAt?: number;
  readonly expiresAt?: number;
  /** Increases when one of its streams grows. */
  readonly grown?: number;
  /** Absent members mean 0, false or an empty list. Documents of older versions do not have them. */
  readonly deaths?: number;
  readonly crashes?: number;
  readonly alone?: boolean;
  readonly avoid?: readonly string[];
  readonly avoidUntil?: number;
  readonly unsettled?: number;
  readonly deadlineAt?: number;
  readonly stopAt?: number;
  readonly scope?: string;
  readonly attributes?: string;
  /** Each attribute as one text, for the index: see `termOf`. */
  readonly terms?: readonly string[];
  readonly errorName?: string;
  readonly errorCode?: string;
  /** Increases when mail of the run is withdrawn: that write must conflict with a claim, which reads the mail. */
  readonly withdrawn?: number;
}

type Rare = Pick<
  RunRecord,
  | ("deaths" | "crashes" | "alone" | "avoid" | "avoidUntil" | "unsettled" | "deadlineAt" | "stopAt")
  | ("scope" | "attributes" | "errorName" | "errorCode")
>;

/** A worker that executes runs. */
export interface WorkerDocument extends Omit<WorkerRecord, "id" | "live"> {
  readonly _id: string;
  readonly leaseUntil: number;
}

export interface EntryDocument extends JournalEntry {
  readonly _id: string;
}

export interface MailDocument extends Mail {
  readonly _id: string;
  readonly run: string;
}

/** An entry of the operator log. Its id is the action's id, so an action is written once. */
export interface LogDocument extends Omit<LogEntry, "id"> {
  readonly _id: string;
}

export interface HookDocument extends Omit<HookRecord, "token"> {
  /** That of the run. Absent: none. */
  readonly scope?: string;
  /** The token, which is unique. */
  readonly _id: string;
  readonly no: string;
}

export interface ChunkDocument {
  /** Contains run, stream and index, so that an index is used once, and sorts in the order of the stream. */
  readonly _id: string;
  readonly no: string;
  readonly stream: string;
  readonly place: number;
  readonly writer: string;
  readonly n: number;
  readonly attempt: number;
  readonly kind: ChunkKind;
  readonly data: string | Binary | Uint8Array | null;
  /** The stream, if this chunk ends it; absent otherwise, so that its index contains only ends. */
  readonly ends?: string;
}

export const inputLengthMax = 1000;

const digits = 12;

/** The fence: an entry's number is part of its unique id, so it is used once. Ids sort in the order of the journal. */
export const entryId = (no: string, seq: number): string => `${no}\0${String(seq).padStart(digits, "0")}`;

/** All entries of a run after this one. */
export const entriesAfter = (no: string, seq: number) => ({ _id: { $gt: entryId(no, Math.max(seq, 0)), $lt: `${no}\u0001` } });

export const mailId = (no: string, key: string): string => `${no}\0${key}`;

const members = [
  ...["no", "workflow", "status", "input", "fingerprint", "output", "trouble", "owner", "epoch", "wakeAt", "mail", "consumed"],
  ...["parent", "creator", "createdAt", "startedAt", "endedAt", "retentionMs"],
  ...["deaths", "crashes", "alone", "avoid", "avoidUntil", "unsettled", "deadlineAt", "stopAt"],
  ...["scope", "attributes", "errorName", "errorCode"],
];

export const runAndNow = { ...Object.fromEntries(members.map((name) => [name, 1])), now };

export type RunAndNow = RunDocument & { readonly now: number };

export function toRun(document: RunDocument, input: string): RunRecord {
  const { _id: id, workflow, status, fingerprint, output, trouble, owner = null, epoch, wakeAt = null, mail, consumed } = document;
  const { parent, creator, createdAt, startedAt, endedAt, retentionMs } = document;
  const { deaths = 0, crashes = 0, alone = false, avoid = [], avoidUntil = null, unsettled = 0 } = document;
  const { deadlineAt = null, stopAt = null, scope = "", attributes = null, errorName = null, errorCode = null } = document;
  return {
    ...{ id, workflow, status, input, fingerprint, output, trouble, owner, epoch, wakeAt, mail, consumed },
    ...{ parent, creator, createdAt, startedAt, endedAt, retentionMs },
    ...{ deaths, crashes, alone, avoid, avoidUntil, unsettled, deadlineAt, stopAt },
    ...{ scope, attributes, errorName, errorCode },
  };
}

/** The document of a new run. Rarely used members are left out while they have their default value. */
export function toDocument(run: RunRecord, no: string): RunDocument {
  const { id: _id, input, owner, wakeAt, deadlineAt, stopAt, scope, attributes, errorName, errorCode, ...others } = run;
  const { deaths: _d, crashes: _c, alone: _a, avoid: _v, avoidUntil: _u, unsettled: _s, ...kept } = others;
  return {
    ...{ _id, no, ...kept, input: input.length > inputLengthMax ? null : input },
    ...(owner !== null && { owner }),
    ...(wakeAt !== null && { wakeAt }),
    ...(deadlineAt !== null && { deadlineAt }),
    ...(stopAt !== null && { stopAt }),
    ...(scope !== "" && { scope }),
    ...(attributes !== null && { attributes, terms: termsOf(attributes) }),
    ...(errorName !== null && { errorName }),
    ...(errorCode !== null && { errorCode }),
  };
}

/** An attribute, as the index has it. A name has no space. */
export function termOf(name: string, text: string): string {
  return `${name} ${text}`;
}

export function termsOf(attributes: string): string[] {
  return Object.entries(JSON.parse(attributes) as Record<string, string>).map(([name, text]) => termOf(name, text));
}

const absentWhenNull = new Set([
  "owner",
  "wakeAt",
  "expiresAt",
  "avoidUntil",
  "deadlineAt",
  "stopAt",
  "attributes",
  "terms",
  "errorName",
  "errorCode",
]);

/** Converts a change made by the rules to a MongoDB update. */
export function updateOf(to: RunUpdate): UpdateFilter<RunDocument> {
  const { attributes } = to;
  const terms = attributes === undefined ? {} : { terms: attributes === null ? null : termsOf(attributes) };
  const members = Object.entries({ ...to, ...terms }).map(([name, value]) => {
    const isAbsent =
      value === null ? absentWhenNull.has(name) : Array.isArray(value) ? value.length === 0 : name === "unsettled" && value === 0;
    return [name, isAbsent ? undefined : value] as const;
  });
  const set = members.filter(([, value]) => value !== undefined);
  const unset = members.filter(([, value]) => value === undefined).map(([name]) => [name, ""]);
  return {
    ...(set.length > 0 && { $set: Object.fromEntries(set) }),
    ...(unset.length > 0 && { $unset: Object.fromEntries(unset) }),
  } as UpdateFilter<RunDocument>;
}

export function toEntry({ seq, epoch, at, events }: EntryDocument): JournalEntry {
  return { seq, epoch, at, events };
}

export function toMail({ seq, kind, about, payload, at }: MailDocument): Mail {
  return { seq, kind, about, payload, at };
}

export function toHook({ _id: token, run, about, metadata, createdAt }: HookDocument): HookRecord {
  return { token, run, about, metadata, createdAt };
}
