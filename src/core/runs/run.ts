/** One run of a workflow, as the store keeps it. Instants are milliseconds on the store's clock. */
export interface RunRecord {
  readonly id: string;
  readonly workflow: string;
  readonly status: RunStatus;
  /** The encoded arguments. */
  readonly input: string;
  /** Hash of the arguments. Null: not compared. */
  readonly fingerprint: string | null;
  /** The encoded result of a completed run, or the encoded error of a failed one. */
  readonly output: string | null;
  /** Message that says why an unknown or diverged run cannot continue. */
  readonly trouble: string | null;
  /** The worker that executes the run now. */
  readonly owner: string | null;
  /** Increases with every claim. */
  readonly epoch: number;
  /**
   * When any worker may claim the run: the end of its owner's lease, the time of its next timer, or at once. Null if only
   * mail can wake it, and after its end.
   */
  readonly wakeAt: number | null;
  /** Number of the newest mail that was sent to the run. */
  readonly mail: number;
  /** Number of the newest mail that is in the run's journal. */
  readonly consumed: number;
  /** The run that gets mail when this one ends. */
  readonly parent: string | null;
  /** Identifies the request that created the run, so that after a lost reply it finds its own success. */
  readonly creator: string;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** How long the run is kept after its end. Null: forever. */
  readonly retentionMs: number | null;
  /** Owners in a row whose lease expired while they had the run and it made no progress. Counted by the claim. */
  readonly deaths: number;
  /** How many of those owners executed the run alone, with no other run in the process. */
  readonly crashes: number;
  /** Whether the owner executes no other run beside it. */
  readonly alone: boolean;
  /** Workers whose code diverged from the journal. They do not claim the run before `avoidUntil`; other workers may at `wakeAt`. */
  readonly avoid: readonly string[];
  readonly avoidUntil: number | null;
  /** Number of steps of an ended run whose outcome is still unknown. The run is not purged before all of them are settled. */
  readonly unsettled: number;
  /** When the run is cancelled because it takes too long. Null: it has no deadline. */
  readonly deadlineAt: number | null;
  /**
   * From this time on any worker may end the run as cancelled without executing its code: the code that could clean up did not come in
   * time. Set by a cancellation, and for runs with a deadline. Null: never.
   */
  readonly stopAt: number | null;
  /** The tenant that the run belongs to. "": none. */
  readonly scope: string;
  /** Attributes by which the run is found: see `encodeAttributes`. Null: none. */
  readonly attributes: string | null;
  /** Name and code of the error of a failed run, which are not encrypted. Null if it has none, or the run ended under a version that did not store them. */
  readonly errorName: string | null;
  readonly errorCode: string | null;
}

/** Also part of the claim statements and indexes of the stores: changing it needs a migration. */
const suspectDeathsMin = 2;

/** Whether a run was in memory when two owners in a row crashed. It may be the cause, so a worker executes it alone. */
export function isSuspect({ deaths }: Pick<RunRecord, "deaths">): boolean {
  return deaths >= suspectDeathsMin;
}

/** How long a store keeps the row of a worker after its last heartbeat. */
export const workerKeptMs = 3_600_000;

/** A worker that executes runs, as the store knows it. */
export interface WorkerRecord {
  /** The owner under which it claims runs. */
  readonly id: string;
  readonly workflows: readonly string[];
  /** Version of the application, from the worker's options. */
  readonly version: string | null;
  readonly startedAt: number;
  /** Time of the last heartbeat. */
  readonly seenAt: number;
  /** Whether its lease has not expired. */
  readonly live: boolean;
}

export const runStatuses = ["pending", "running", "paused", "unknown", "diverged", "parked", "completed", "failed", "cancelled"] as const;
/**
 * `pending`: not claimed yet. `running`: also while it sleeps or waits. `paused`: by an operator; its code gets nothing until it is resumed. `unknown`: the outcome of a step is not known, and a person
 * must resolve it. `diverged`: the code does not match the journal. `parked`: processes crashed too often while they executed the
 * run alone; `wakeUp` retries it.
 */
export type RunStatus = (typeof runStatuses)[number];
export type EndStatus = "completed" | "failed" | "cancelled";

/** Whether a run with this status has ended. */
export function hasEnded(status: RunStatus): status is EndStatus {
  return status === "completed" || status === "failed" || status === "cancelled";
}

/** One commit of a run's owner: the events that happened, in order. `seq` counts from 1 without gaps. */
export interface JournalEntry {
  readonly seq: number;
  readonly epoch: number;
  readonly at: number;
  /** Encoded by the front end; opaque to the store. */
  readonly events: string;
}

/** A message to a run: a hook payload, a cancellation, the end of a child. It is consumed by the commit that writes it to the journal. */
export interface Mail {
  readonly seq: number;
  readonly kind: MailKind;
  /** The hook, step or child that the message is about. */
  readonly about: string | null;
  readonly payload: string | null;
  readonly at: number;
}

/**
 * `cancel` without a payload ends the run at once; with one, its code can clean up. `withdrawn`: the end of a child that was retried before the
 * run had read it; it means nothing.
 */
export type MailKind = "hook" | "cancel" | "wake" | "child" | "resolve" | "pause" | "resume" | "withdrawn";

/** The mail of such a run is marked as consumed, although its code may not have received it. */
export function isSetAside(status: RunStatus): boolean {
  return status === "parked" || status === "diverged";
}

const wakingPaused: ReadonlySet<MailKind> = new Set(["cancel", "resume"]);

/** Whether mail of this kind makes a run without an owner due. Mail for a paused run waits until it is resumed. Mirrored by PostgreSQL's statement for mail. */
export function wakesRun({ status }: Pick<RunRecord, "status">, kind: MailKind): boolean {
  return status !== "paused" || wakingPaused.has(kind);
}

/** A token to which mail for a run can be sent. It is unique while the hook exists. */
export interface HookRecord {
  readonly token: string;
  readonly run: string;
  /** Identifies the hook within its run. */
  readonly about: string;
  readonly metadata: string | null;
  readonly createdAt: number;
}
