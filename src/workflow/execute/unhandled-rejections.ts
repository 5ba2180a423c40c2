import { promiseHooks } from "node:v8";
import { locationIn, usersFrames } from "../../core/errors/frames.js";
import { currentRun, type NotedRejections } from "../define/context.js";

interface RejectingRun {
  readonly id: string;
  readonly workflow: { readonly where: string };
}

/**
 * Promises of one run that were rejected before the code awaited them. Such a rejection does not fail the run: its time is not
 * in the journal, and the code may still await the promise. If the run ends first, there is a warning.
 */
export class UnhandledRejections implements NotedRejections {
  readonly #run: RejectingRun;
  /** By promise. Nearly no run has any. */
  #reasons: Map<object, unknown> | undefined;
  #ended = false;

  constructor(run: RejectingRun) {
    this.#run = run;
  }

  add(promise: object, reason: unknown): void {
    if (this.#ended) return this.#warn(reason);
    this.#reasons ??= new Map();
    if (this.#reasons.size < keptMax) this.#reasons.set(promise, reason);
  }

  /** Shown when a promise of the run is printed. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `run "${this.#run.id}"`;
  }

  handled(promise: object): void {
    this.#reasons?.delete(promise);
  }

  /** The run has ended: its code will not await these promises any more. */
  warnAtEnd(): void {
    this.#ended = true;
    for (const reason of this.#reasons?.values() ?? []) this.#warn(reason);
    this.#reasons = undefined;
  }

  #warn(reason: unknown): void {
    const { id, workflow } = this.#run;
    const what = reason instanceof Error ? `${reason.name}: ${reason.message}` : String(reason);
    const [frame] = usersFrames((reason instanceof Error && reason.stack) || "");
    const where = frame === undefined ? workflow.where : locationIn(frame);
    process.emitWarning(
      `run "${id}" ended without awaiting a promise of its code that was rejected: ${what}, at ${where}. ` +
        "Await the promise, or handle its rejection with .catch().",
      { type: "OnceflowWarning", code: "ONCEFLOW_UNHANDLED_REJECTION" },
    );
  }
}

/** Maximum number of rejections that are kept, and warned about, per run. */
const keptMax = 100;

/** By promise that was rejected. */
const rejectionsOf = new WeakMap<object, NotedRejections>();
let guarding = false;

/**
 * Node 20 and 22 emit the event in the async context that created the promise. Node 24 and later emit it in the context that
 * rejected the promise, which may be the socket of a client that all runs share. There, promises are marked with their run when
 * they are created, which costs about as much as async contexts cost on Node 20 and 22.
 */
const notesPromises = Number.parseInt(process.versions.node, 10) >= 24;
/** The mark is a property of the promise: a WeakMap of all promises would be expensive for the garbage collector. */
const maker = Symbol("onceflow.maker");
type Made = { [maker]?: NotedRejections };

function notePromises(): void {
  promiseHooks.onInit((promise) => {
    const rejections = currentRun()?.rejections;
    if (rejections !== undefined) (promise as Made)[maker] = rejections;
  });
}

/**
 * Prevents an unhandled rejection in workflow code or a step body from ending this process. By default Node would end it, and
 * the next worker would replay the run and end, too.
 *
 * Node learns from the return value of `process.emit` whether a listener has handled the rejection. `process.emit` is wrapped
 * instead of adding a listener: a listener would change how Node treats rejections of all other code, and listeners of the
 * application, which often end the process, would still be called. Rejections of other code are not affected.
 */
export function guardRejections(): void {
  if (guarding) return;
  guarding = true;
  if (notesPromises) notePromises();
  const emit = process.emit as (...args: unknown[]) => boolean;
  const guarded = function (this: NodeJS.Process, ...args: unknown[]): boolean {
    return isOfRun(args) || emit.apply(this, args);
  };
  process.emit = guarded as typeof process.emit;
}

function isOfRun([event, first, second]: readonly unknown[]): boolean {
  switch (event) {
    case "unhandledRejection":
      return noteRejection(second as object, first);
    // With --unhandled-rejections=strict this comes before the event above.
    case "uncaughtException":
      return second === "unhandledRejection" && currentRun() !== undefined;
    case "rejectionHandled":
      return noteHandled(first as object);
    default:
      return false;
  }
}

function noteRejection(promise: object, reason: unknown): boolean {
  const rejections = notesPromises ? (promise as Made)[maker] : currentRun()?.rejections;
  if (rejections === undefined) return false;
  rejectionsOf.set(promise, rejections);
  rejections.add(promise, reason);
  return true;
}

function noteHandled(promise: object): boolean {
  const rejections = rejectionsOf.get(promise);
  rejections?.handled(promise);
  return rejections !== undefined;
}
