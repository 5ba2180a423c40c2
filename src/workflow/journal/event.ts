import type { ChunkKind } from "../../core/runs/chunk.js";

/**
 * An event of a journal. `id` identifies the request that the event belongs to: "charge#0" is the first call of the step
 * "charge" in its run, "charge:order-1" the call with that `key`, "sleep#2" the third sleep. `at` is the time of the store.
 * For the stored form see codec.ts.
 *
 * Requests are made by the code; deliveries are the answers to the code, in order; notes are neither.
 */
export type Event = Request | Delivery | Note;

/** A request of the code. A replay finds it by its id; the order among requests does not matter. */
export type Request = StepStart | StepMismatch | SleepRequest | HookRequest | HookDrop | ChildRequest | ChunkWrite | AttributesRequest;

/** An answer to the code. A replay gives the same answers in the same order. */
export type Delivery =
  | StepDone
  | StepFailure
  | SleepEnd
  | HookAnswer
  | HookPayload
  | StartAnswer
  | ChildEnd
  | BodyAbort
  | Stop
  | RequestCancelled
  | Cancel;

/** Information for owners of the run and for operators, which the code does not see. */
type Note =
  | StepDoubt
  | ChildAwait
  | CallAcceptance
  | HookMetadata
  | Park
  | Unpark
  | Pause
  | Resume
  | Fence
  | Claim
  | Clearance
  | RunEnd
  | Retry
  | Fork;

/** An attempt of a step starts. Attempt 1 is also the request; attempt 0 is a request whose first attempt has not started. */
export interface StepStart {
  readonly type: "step";
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  /** Fingerprint of the arguments. Version 0.1.0 wrote "" if a part of them could not be encoded. */
  readonly fingerprint: string;
  /** The fingerprint covers only those parts of the arguments that can be encoded. */
  readonly partial: boolean;
}

/** The code called a step again with the key of an earlier call and other arguments, and got an error. */
interface StepMismatch {
  readonly type: "mismatch";
  readonly id: string;
  readonly at: number;
  readonly fingerprint: string;
}

export interface StepDone {
  readonly type: "done";
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  /** Encoded. */
  readonly value: string;
  readonly how?: How | undefined;
  /**
   * Here and in a failure: identifies the writer of an entry after the end of the run, where two callers could write the same
   * content at the same time.
   */
  readonly by?: string | undefined;
}

/** With `retryAt`: a failed attempt, which is a note. Without: the step has failed for good, which is a delivery. */
export interface StepFailure {
  readonly type: "fail";
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  /** Encoded. */
  readonly error: string;
  readonly retryAt: number | null;
  readonly how?: How | undefined;
  readonly by?: string | undefined;
}

/** It is unknown whether this attempt had its effect. */
interface StepDoubt {
  readonly type: "doubt";
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  readonly why: string;
}

interface SleepRequest {
  readonly type: "sleep";
  readonly id: string;
  readonly at: number;
  readonly until: number;
}

interface SleepEnd {
  readonly type: "woke";
  readonly id: string;
  readonly at: number;
}

interface HookRequest {
  readonly type: "hook";
  readonly id: string;
  readonly at: number;
  readonly token: string;
  /** URL of a webhook. */
  readonly url?: string | undefined;
}

/** Whether the token was in use by another hook. */
interface HookAnswer {
  readonly type: "hooked";
  readonly id: string;
  readonly at: number;
  readonly conflict: boolean;
  /** In a conflict: the run that has the token. Journals of version 0.1.0 do not have it. */
  readonly run?: string | undefined;
}

interface HookPayload {
  readonly type: "got";
  readonly id: string;
  readonly at: number;
  /** Encoded. */
  readonly payload: string;
}

/** The code disposed of the hook with this id. */
interface HookDrop {
  readonly type: "drop";
  readonly id: string;
  readonly at: number;
}

interface ChildRequest {
  readonly type: "child";
  readonly id: string;
  readonly at: number;
  readonly run: string;
  readonly workflow: string;
  /** The code waits for "started", which says whether the run with this id has the expected workflow and input. */
  readonly check: boolean;
  /** What a cancellation of this run means for the child. Absent: it is cancelled, too. */
  readonly onCancel?: "abandon" | "wait" | undefined;
}

interface StartAnswer {
  readonly type: "started";
  readonly id: string;
  readonly at: number;
  /** "input": the run was started with another input. "refused": the code got an error instead of the run. */
  readonly found: "same" | "input" | "refused";
}

/** The code awaits the result of a child whose id it chose. */
interface ChildAwait {
  readonly type: "await";
  readonly id: string;
  readonly at: number;
}

/** The code has written a chunk or the end of a stream. The chunk itself is stored in the stream. */
interface ChunkWrite {
  readonly type: "write";
  readonly id: string;
  readonly at: number;
  readonly kind: ChunkKind;
}

/** The code has changed the attributes of the run, which are written in the same commit. */
export interface AttributesRequest {
  readonly type: "attributes";
  readonly id: string;
  readonly at: number;
  /** The new texts by name; null: removed. */
  readonly set: Readonly<Record<string, string | null>>;
  /** In the first change of a run: the attributes before it. */
  readonly was?: Readonly<Record<string, string>> | undefined;
  /** Encoded: all attributes after the change. Not stored in the journal, but in the run, with the entry. */
  readonly result?: string | null | undefined;
}

export interface ChildEnd {
  readonly type: "ended";
  readonly id: string;
  readonly at: number;
  /** How the child ended; "absent" if it was removed before; "cycle" if it waits for this run: see `findCycle`. */
  readonly status: string;
  readonly output: string | null;
}

/** The body of a step aborted a controller that the code had passed to it. */
interface BodyAbort {
  readonly type: "aborted";
  readonly id: string;
  readonly at: number;
  /** Encoded. */
  readonly reason: string;
}

/**
 * The run is being cancelled: what its code waits for rejects, by a "cancelled" delivery for each request, and the code can clean up until the
 * time `until`. The run ends as cancelled when the code ends.
 */
export interface Stop {
  readonly type: "stop";
  readonly id: "run";
  readonly at: number;
  readonly reason: string;
  readonly until: number;
}

/** The code waits for this request, and gets a CancelledError instead of the answer. */
interface RequestCancelled {
  readonly type: "cancelled";
  readonly id: string;
  readonly at: number;
  /** Encoded. */
  readonly error: string;
}

/** The run ends as cancelled at once: the code gets no further deliveries. */
interface Cancel {
  readonly type: "cancel";
  readonly id: "run";
  readonly at: number;
  /** "cleanup": the code did not end within its time for cleaning up. */
  readonly why?: "cleanup" | undefined;
}

/** Metadata of a hook, so that the hook can be registered again when the run is retried. Follows the request of the hook. */
interface HookMetadata {
  readonly type: "metadata";
  readonly id: string;
  readonly at: number;
  readonly metadata: string;
}

/** An operator has paused the run: later deliveries are recorded, and the code gets them when the run is resumed. */
interface Pause {
  readonly type: "pause";
  readonly at: number;
}

interface Resume {
  readonly type: "resume";
  readonly at: number;
}

/**
 * An operator has retried the failed run. Without meaning from here on: the end before this event, the final failures of the steps in `cuts`, and what the code
 * requested after the first of them. See retries.ts.
 */
export interface Retry {
  readonly type: "retry";
  readonly at: number;
  readonly cuts: readonly string[];
  /** Requests that had begun after the cut, and get new ids. */
  readonly renewed: readonly string[];
  /** Mail up to this number was sent before the retry. Absent: the time of the mail says so. */
  readonly mail?: number | undefined;
}

/** The events before this one are a copy from another run: see lineage.ts. */
export interface Fork {
  readonly type: "fork";
  readonly run: string;
  readonly at: number;
  /** Later steps of this run have the step ids that they would have in the other run. */
  readonly sameKeys: boolean;
}

/** An operator accepts the journaled call, whatever arguments the code calls the step with. */
interface CallAcceptance {
  readonly type: "accept";
  readonly id: string;
  readonly at: number;
}

/**
 * The run is set aside ("diverged" or "parked") with unread mail: mail after `mail` is marked as consumed without being read,
 * so that it does not wake the run immediately.
 */
interface Park {
  readonly type: "park";
  readonly at: number;
  readonly mail: number;
}

/** The run continues under matching code: the mail of `park` is read from here on. */
interface Unpark {
  readonly type: "unpark";
  readonly at: number;
}

/** Takes the number of a transaction's entry, so that its late commit is rejected. */
interface Fence {
  readonly type: "fence";
  readonly owner: string;
  readonly at: number;
}

/** A worker took over the run from an owner whose lease had expired. */
export interface Claim {
  readonly type: "claim";
  readonly owner: string;
  readonly at: number;
  /**
   * Set if the owner executes the run alone: the number of owners so far that died while they executed it alone; 0 after an
   * operator has requested another try.
   */
  readonly crashes?: number | undefined;
}

/** The run was executed alone for long enough without a crash: it is no longer a suspect. */
interface Clearance {
  readonly type: "cleared";
  readonly at: number;
}

export interface RunEnd {
  readonly type: "end";
  readonly status: string;
  readonly at: number;
  readonly output: string | null;
}

/**
 * How a verdict was reached, if not by the body itself.
 *
 * reconciled: by `reconcile`. resolved: by an operator. abandoned: the body still ran when the run ended. timeout: the body
 * took longer than `timeoutMs`. crashed: only in journals of version 0.1.0, where a step failed if its processes crashed too
 * often. late: by the body, in an entry after the end of the run.
 */
export type How = "reconciled" | "resolved" | "abandoned" | "timeout" | "crashed" | "late";

export type EventType = Event["type"];

/** An event of a step call. */
export type AttemptEvent = StepStart | StepDone | StepFailure | StepDoubt;

const requests: ReadonlySet<EventType> = new Set(["sleep", "hook", "child", "drop", "write", "mismatch", "attributes"]);

export function isRequest(event: Event): event is Request {
  return event.type === "step" ? event.attempt <= 1 : requests.has(event.type);
}

const deliveries: ReadonlySet<EventType> = new Set([
  "done",
  "woke",
  "hooked",
  "got",
  "started",
  "ended",
  "aborted",
  "stop",
  "cancelled",
  "cancel",
]);

export function isDelivery(event: Event): event is Delivery {
  return event.type === "fail" ? event.retryAt === null : deliveries.has(event.type);
}

export function isAttemptEvent(event: Event): event is AttemptEvent {
  const { type } = event;
  return type === "step" || type === "done" || type === "fail" || type === "doubt";
}

/** The last event of the call itself, without claims and retries of its run in between. */
export function lastAttemptEvent(log: readonly (AttemptEvent | Claim | Retry)[]): AttemptEvent | undefined {
  return log.findLast((event) => event.type !== "claim" && event.type !== "retry");
}
