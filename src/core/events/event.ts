import type { EndStatus } from "../runs/run.js";

/**
 * Events of a process, published on channels of `node:diagnostics_channel` after the commit that they are about. They contain names, ids,
 * numbers and durations; never inputs, results, payloads or error messages. `store` is the kind of store: `sqlite`, `postgres`, ….
 */
export interface Events {
  readonly "onceflow:run": RunEvent;
  readonly "onceflow:step": StepEvent;
  readonly "onceflow:once": OnceEvent;
  readonly "onceflow:delivery": DeliveryEvent;
  readonly "onceflow:message": MessageEvent;
  readonly "onceflow:request": RequestEvent;
  readonly "onceflow:flush": FlushEvent;
  readonly "onceflow:lease": LeaseEvent;
}

/** Name of a channel. */
export type EventName = keyof Events;

interface AboutRun {
  readonly store: string;
  readonly run: string;
  /** Undefined if the writer of the entry does not know the name. */
  readonly workflow: string | undefined;
}

/** What happened to a run, by a commit of this process. */
export type RunEvent =
  /** The run was created by this process. Children that a run starts are reported by the worker that claims them. */
  | (AboutRun & { readonly type: "started"; readonly parent: string | null })
  /** A worker of this process owns the run now. `takenOver`: the lease of its last owner had expired. `epoch` 1 is the first owner. */
  | (AboutRun & { readonly type: "claimed"; readonly worker: string; readonly epoch: number; readonly takenOver: boolean })
  /** The replay of a run with a journal is complete: its code goes on from here. */
  | (AboutRun & { readonly type: "resumed"; readonly worker: string; readonly epoch: number; readonly takenOver: boolean })
  /** The run has no owner until `wakeAt` (store's time, ms) or until mail arrives. `paused`: by an operator. */
  | (AboutRun & { readonly type: "rested" | "paused"; readonly epoch: number; readonly wakeAt: number | null })
  /** The run was set aside, and needs a person or other code. `unknown`: the outcome of a step is not known. */
  | (AboutRun & { readonly type: "unknown" | "diverged" | "parked"; readonly epoch: number })
  /** `unsettled`: steps whose outcome was still unknown. */
  | (AboutRun & { readonly type: "ended"; readonly epoch: number; readonly status: EndStatus; readonly unsettled: number })
  /** An operator has retried the failed run. */
  | (AboutRun & { readonly type: "retried" })
  /** An operator has deleted the ended run. */
  | (AboutRun & { readonly type: "removed" });

interface AboutAttempt {
  readonly store: string;
  readonly run: string;
  readonly workflow: string;
  /** Name of the step. */
  readonly step: string;
  /** The same for all attempts of the call. Providers get it as their idempotency key. */
  readonly stepId: string;
  readonly attempt: number;
}

/** An attempt of a step. A replay publishes nothing. */
export type StepEvent =
  /** The entry with the attempt is durable, and the body is called. */
  | (AboutAttempt & { readonly type: "begin" })
  /**
   * The entry with the verdict is durable. `ms`: how long the body took; undefined if it did not run in this process, or began before the channel had a
   * subscriber. `how` is set if the verdict is not the body's own.
   */
  | (AboutAttempt & {
      readonly type: "verdict";
      readonly verdict: "completed" | "failed" | "retry" | "unknown";
      readonly ms: number | undefined;
      readonly how: string | undefined;
    });

/** A call of `once`, also by an inbox, an HTTP handler or a keyed flow, is over. */
export interface OnceEvent {
  readonly store: string;
  readonly scope: string;
  readonly key: string;
  readonly answer: OnceAnswer;
  /** Undefined if the call got no attempt's outcome. */
  readonly attempt: number | undefined;
  readonly ms: number;
}

/**
 * `executed`: the handler ran in this call, and its result is stored. `threw`: the handler ran and threw. `replayed`: a stored result or error was
 * returned. `error`: the call failed for another reason (the store was unreachable, the lease was lost, the signal aborted).
 */
export type OnceAnswer = "executed" | "threw" | "replayed" | "running" | "unknown" | "mismatch" | "gone" | "error";

/** A delivery of a packet to a node of a flow graph was settled. */
export interface DeliveryEvent {
  readonly store: string;
  readonly flow: string;
  readonly node: string;
  readonly edge: string;
  readonly execution: string | undefined;
  readonly packet: string;
  readonly attempt: number;
  readonly outcome: "done" | "retry" | "dead";
  /** Code of the failure. */
  readonly code: string | undefined;
  readonly ms: number;
}

/** A message was handled by an inbox, or published by the relay of an outbox. */
export type MessageEvent =
  | {
      readonly type: "handled";
      readonly store: string;
      /** Name of the consumer. */
      readonly inbox: string;
      readonly id: string | undefined;
      readonly outcome: "processed" | "duplicate" | "dead" | "retry" | "held";
      readonly attempt: number | undefined;
      readonly ms: number;
    }
  | {
      readonly type: "published";
      readonly store: string;
      readonly outbox: string;
      /** Undefined if this process cannot decrypt the message. */
      readonly id: string | undefined;
      /** `stale`: another relay owns the message and publishes it again. */
      readonly outcome: "done" | "retry" | "dead" | "stale";
      readonly attempt: number;
      readonly ms: number;
    };

/** A request with an idempotency key was answered. */
export interface RequestEvent {
  readonly store: string;
  readonly method: string;
  /** Status of the response; undefined if the handler threw. */
  readonly status: number | undefined;
  /** Whether the handler was called by this request. */
  readonly executed: boolean;
  readonly ms: number;
}

/** A flush of group commit: one call of the database. */
export interface FlushEvent {
  readonly store: string;
  readonly kind: "record" | "run" | "packet";
  /** Number of operations. */
  readonly members: number;
  readonly ms: number;
  /** False: the database answered with an error, or not at all. */
  readonly ok: boolean;
}

/**
 * A lease of this process. `key`: of one attempt of `once`. `runs`: of all runs of a worker. `packets`: of all packets of a worker. `lost`: the lease
 * expired or another owner has it; for a worker of runs also the loss of a single run, which is then named.
 */
export type LeaseEvent =
  | {
      readonly type: "renewed" | "lost";
      readonly store: string;
      readonly of: "key";
      readonly scope: string;
      readonly key: string;
      readonly attempt: number;
    }
  | {
      readonly type: "renewed" | "lost";
      readonly store: string;
      readonly of: "runs";
      readonly worker: string;
      readonly run: string | undefined;
    }
  | { readonly type: "renewed" | "lost"; readonly store: string; readonly of: "packets"; readonly worker: number };
