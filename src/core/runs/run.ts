/** One execution of a workflow, as the store keeps it. Instants are milliseconds on the store's clock. */
export interface RunRecord {
  readonly id: string;
  readonly workflow: string;
  readonly status: RunStatus;
  /** The encoded arguments, and the hash of what counts of them. */
  readonly input: string;
  readonly fingerprint: string | null;
  /** The encoded result of a completed run, the encoded error of a failed one. */
  readonly output: string | null;
  /** Why a run that is unknown or diverged cannot go on, in words. */
  readonly trouble: string | null;
  /** Who executes it now. */
  readonly owner: string | null;
  /** +1 at every claim. */
  readonly epoch: number;
  /**
   * When any worker may claim it: the end of its owner's lease, the time of its next timer, or at once. Null when only
   * mail can wake it, and when it has ended.
   */
  readonly wakeAt: number | null;
  /** The newest mail that was ever sent to it, and up to which mail its journal has taken in. */
  readonly mail: number;
  readonly consumed: number;
  /** The run that is told when this one ends. */
  readonly parent: string | null;
  /** Who created it: names the request, so that a lost reply finds its own success. */
  readonly creator: string;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** How long it is kept after its end. Null: for ever. */
  readonly retentionMs: number | null;
  /** Owners in a row that fell silent while they had the run, without the run having got further. Counted by the claim. */
  readonly deaths: number;
  /** How many of the owners that fell silent executed the run alone: with no other run in the process. */
  readonly crashes: number;
  /** Its owner executes no other run beside it. */
  readonly alone: boolean;
  /** Workers whose code diverged from the journal. They do not claim the run before `avoidUntil`; others may at `wakeAt`. */
  readonly avoid: readonly string[];
  readonly avoidUntil: number | null;
  /** Steps of an ended run whose outcome is still unknown. The run is not purged before all of them are settled. */
  readonly unsettled: number;
}

/** Also in the claims and indexes of the stores: changing it needs a migration. */
const suspectDeathsMin = 2;

/** The run was in memory when two owners in a row died: it may be what killed them, so a worker executes it alone. */
export function isSuspect({ deaths }: Pick<RunRecord, "deaths">): boolean {
  return deaths >= suspectDeathsMin;
}

/** How long a store keeps the row of a worker that shows no sign of life. */
export const workerKeptMs = 3_600_000;

/** A worker that executes runs, as the store knows it. */
export interface WorkerRecord {
  /** The owner under which it claims runs. */
  readonly id: string;
  readonly workflows: readonly string[];
  /** Of the application, as its worker was given it. */
  readonly version: string | null;
  readonly startedAt: number;
  /** Its last sign of life. */
  readonly seenAt: number;
  /** Its lease has not run out. */
  readonly live: boolean;
}

/**
 * pending: nobody has claimed it yet. running: also while it sleeps or waits. unknown: a step's outcome can't be told
 * from here, a person must say. diverged: its code asks for something else than its journal says. parked: its processes died
 * too often while they executed it alone; `wakeUp` tries again.
 */
export const runStatuses = ["pending", "running", "unknown", "diverged", "parked", "completed", "failed", "cancelled"] as const;
export type RunStatus = (typeof runStatuses)[number];
export type EndStatus = "completed" | "failed" | "cancelled";

export function hasEnded(status: RunStatus): status is EndStatus {
  return status === "completed" || status === "failed" || status === "cancelled";
}

/** One commit of a run's owner: what happened, in order. `seq` counts from 1 without gaps. */
export interface JournalEntry {
  readonly seq: number;
  readonly epoch: number;
  readonly at: number;
  /** Encoded by the front end; the store does not look inside. */
  readonly events: string;
}

/** Something from outside for a run. Its owner takes it in with the commit that journals it. */
export interface Mail {
  readonly seq: number;
  readonly kind: MailKind;
  /** The hook, step or child that it is about. */
  readonly about: string | null;
  readonly payload: string | null;
  readonly at: number;
}

export type MailKind = "hook" | "cancel" | "wake" | "child" | "resolve";

/** A token under which mail reaches a run: unique while the hook exists. */
export interface HookRecord {
  readonly token: string;
  readonly run: string;
  /** Which hook of its run. */
  readonly about: string;
  readonly metadata: string | null;
  readonly createdAt: number;
}
