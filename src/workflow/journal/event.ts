import type { ChunkKind } from "../../core/runs/chunk.js";

/**
 * What a journal is made of. Most events name what they are about by `id`: "charge#0" is the first call of the step
 * "charge" in its run, "charge:order-1" the call that its `key` option named so, "sleep#2" the third sleep. `at` is the
 * store's time. How an event is stored: see codec.ts.
 *
 * Requests are what the code asked for; deliveries are what the code was answered, in this order; notes are neither.
 */
export type Event = Request | Delivery | Note;

/** What the code asked for. Found by its id at a replay; the order among requests does not count. */
export type Request = StepStart | StepMismatch | SleepRequest | HookRequest | HookDrop | ChildRequest | ChunkWrite;

/** What the code was answered. A replay gives the same answers in the same order. */
export type Delivery = StepDone | StepFailure | SleepEnd | HookAnswer | HookPayload | StartAnswer | ChildEnd | BodyAbort | Cancel;

/** Neither: what owners and people have to know. */
type Note = StepDoubt | ChildAwait | CallAcceptance | Park | Unpark | Fence | Claim | Clearance | RunEnd;

/** A step's attempt begins; with attempt 1 also the request, with 0 only that. */
export interface StepStart {
  readonly type: "step";
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  /** Of the arguments. Version 0.1.0 wrote "" where a part of them could not be encoded. */
  readonly fingerprint: string;
  /** The fingerprint is of those parts of the arguments that can be encoded. */
  readonly partial: boolean;
}

/** The code called a step again under the key of an earlier call, with other arguments, and got an error. */
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
   * Here and in a failure: names the writer of an entry after the end of the run, where two callers could write the same
   * words at the same time.
   */
  readonly by?: string | undefined;
}

/** With `retryAt` a note; without, the step has failed for good. */
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

/** Whether this attempt had its effect cannot be told from here. */
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
  /** Where a webhook is served. */
  readonly url?: string | undefined;
}

/** Whether the token belongs to another hook. */
interface HookAnswer {
  readonly type: "hooked";
  readonly id: string;
  readonly at: number;
  readonly conflict: boolean;
  /** The run that has the token, in a conflict. Journals of 0.1.0 do not have it. */
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
  /** The code waits for "started", which says whether the run that has this id is the one that the code means. */
  readonly check: boolean;
}

interface StartAnswer {
  readonly type: "started";
  readonly id: string;
  readonly at: number;
  /** "input": the run was started with another input. "refused": the code got an error instead of the run. */
  readonly found: "same" | "input" | "refused";
}

/** The code has asked for the result of a child whose id it chose. */
interface ChildAwait {
  readonly type: "await";
  readonly id: string;
  readonly at: number;
}

/** A chunk that the code has written, or the end of a stream; the chunk itself is in the stream. */
interface ChunkWrite {
  readonly type: "write";
  readonly id: string;
  readonly at: number;
  readonly kind: ChunkKind;
}

interface ChildEnd {
  readonly type: "ended";
  readonly id: string;
  readonly at: number;
  /** How the child ended; "absent", when it was removed before; "cycle", when it waits for this run: see `findCycle`. */
  readonly status: string;
  readonly output: string | null;
}

/** The body of a step aborted a controller that the code had handed to it. */
interface BodyAbort {
  readonly type: "aborted";
  readonly id: string;
  readonly at: number;
  /** Encoded. */
  readonly reason: string;
}

/** From here on the code gets no further answers. */
interface Cancel {
  readonly type: "cancel";
  readonly id: "run";
  readonly at: number;
}

/** A person accepts the journaled call as the one that the code asks for, whatever its arguments are. */
interface CallAcceptance {
  readonly type: "accept";
  readonly id: string;
  readonly at: number;
}

/**
 * The run is set aside ("diverged" or "parked") with unread mail: mail after `mail` is counted as taken in, so that it does
 * not wake the run at once, and was not.
 */
interface Park {
  readonly type: "park";
  readonly at: number;
  readonly mail: number;
}

/** The run goes on, under code that matches: the mail of `park` is taken in with this entry. */
interface Unpark {
  readonly type: "unpark";
  readonly at: number;
}

/** In the place of a transaction's entry, whose commit can no longer come. */
interface Fence {
  readonly type: "fence";
  readonly owner: string;
  readonly at: number;
}

/** A worker took the run over from an owner that fell silent. */
export interface Claim {
  readonly type: "claim";
  readonly owner: string;
  readonly at: number;
  /**
   * Where the owner executes the run alone: how many owners died so far that executed it alone; 0 after a person has
   * asked for one more try.
   */
  readonly crashes?: number | undefined;
}

/** The run was executed alone for long enough, and its process lives: the run is no suspect any more. */
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
 * How a verdict came about, when not by the body itself.
 *
 * reconciled: found by `reconcile`. resolved: said by a person. abandoned: left behind when the run ended. timeout: the
 * body took longer than `timeoutMs`. crashed: only in journals of 0.1.0, where a step failed whose processes died too often.
 * late: by the body, in an entry after the end of the run.
 */
export type How = "reconciled" | "resolved" | "abandoned" | "timeout" | "crashed" | "late";

export type EventType = Event["type"];

/** What a journal says about the attempts of one step call. */
export type AttemptEvent = StepStart | StepDone | StepFailure | StepDoubt;

const requests: ReadonlySet<EventType> = new Set(["sleep", "hook", "child", "drop", "write", "mismatch"]);

export function isRequest(event: Event): event is Request {
  return event.type === "step" ? event.attempt <= 1 : requests.has(event.type);
}

const deliveries: ReadonlySet<EventType> = new Set(["done", "woke", "hooked", "got", "started", "ended", "aborted", "cancel"]);

export function isDelivery(event: Event): event is Delivery {
  return event.type === "fail" ? event.retryAt === null : deliveries.has(event.type);
}

export function isAttemptEvent(event: Event): event is AttemptEvent {
  const { type } = event;
  return type === "step" || type === "done" || type === "fail" || type === "doubt";
}

/** The last thing that the journal says of a call itself: claims of its run stand in between. */
export function lastAttemptEvent(log: readonly (AttemptEvent | Claim)[]): AttemptEvent | undefined {
  return log.findLast((event) => event.type !== "claim");
}
