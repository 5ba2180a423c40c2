import type { StartRun } from "../../core/runs/operation.js";
import { decode } from "../../core/values/codec.js";
import { decodeError } from "../../core/values/stored-error.js";
import type { ChildStart, StartedChild } from "../define/context.js";
import { ContextError, RunCancelledError, RunCycleError, RunFailedError, RunMismatchError, RunNotFoundError } from "../define/errors.js";
import type { Renamed } from "../define/renamed.js";
import type { OpenChild } from "../journal/ends/end-without-code.js";
import type { Delivery, Event } from "../journal/event.js";
import { childIdOf } from "../journal/identity.js";
import { mailToChild } from "../journal/mail/cancel-request.js";
import type { Draft } from "../journal/writer/draft.js";
import type { Divergence } from "../replay/divergence.js";
import { journaledName } from "../replay/journaled-name.js";
import type { ServingRun } from "../replay/serving-run.js";
import { type Child, type ChildOutcome, ChildWatch, type WatchingRun } from "./child-watch.js";

/** The run that starts child runs. */
interface ParentRun extends ServingRun, WatchingRun {
  readonly arrivals: ServingRun["arrivals"] & { decide(take: () => readonly { readonly event: Delivery }[], mail?: number): void };
  readonly draft: Pick<Draft, "startChild" | "startAfterCommit" | "send">;
  /** By request of the child: when the code first awaited its result, according to the journal. */
  readonly awaits: ReadonlyMap<string, number>;
  record(event: Event): void;
  diverge(divergence: Divergence): void;
}

/** The child runs of a run. They are created together with the journal entry, and send mail to the parent when they end. */
export class ChildRuns {
  readonly #run: ParentRun;
  readonly #children = new Map<string, Child>();
  readonly #journaled: readonly OpenChild[];
  readonly #watch: ChildWatch;
  /** Requests of the children that the last retry of this run has continued. */
  #retried: readonly string[] = [];

  /** `journaled`: children that the journal has no end of, and that are cancelled with this run. */
  constructor(run: ParentRun, journaled: readonly OpenChild[]) {
    this.#run = run;
    this.#journaled = journaled;
    this.#watch = new ChildWatch(run, {
      onEnd: (child, payload) => this.end(child.run, payload),
      onOwn: (child) => this.#sendDelayed(child),
      isRetried: (child) => this.#retried.includes(child.request),
    });
  }

  /** Undefined if the code must not continue in this process, see `Requests.ask`. */
  start({ workflow, given, refuse, onCancel, make, check }: ChildStart): StartedChild | undefined {
    const { requests, draft } = this.#run;
    const request = this.#requestFor(workflow);
    if (request === undefined) return undefined;
    const id = given ?? childIdOf(this.#run.id, request);
    const named = given !== undefined;
    const asked = requests.ask(request, () => {
      // Checked only for a new request, so that a run whose child is journaled continues.
      check();
      return { type: "child", id: request, at: this.#run.now(), run: id, workflow: workflow.name, check: named, onCancel };
    });
    if (asked === undefined) return undefined;
    const { event, known } = asked;
    const run = event.type === "child" ? event.run : id;
    const child =
      this.#children.get(run) ??
      this.#add({ request, run, named, created: known, onCancel: event.type === "child" ? event.onCancel : onCancel });
    // In version 0.1.0 the code did not wait for the mismatch check: a replay of such a journal must not wait either.
    const checks = event.type === "child" && event.check;
    const create = checks || !known ? make(run) : undefined;
    if (!known && create) draft.startChild(create);
    const mismatch = checks && create ? this.#expect(child, { request, workflow, create, refuse }) : undefined;
    if (named && !known) draft.startAfterCommit(() => this.#watchCreated(child));
    return { id: run, mismatch };
  }

  /** The request id of the next start of this workflow. Starts are counted together for the current and former names. */
  #requestFor(workflow: Renamed): string | undefined {
    const { requests } = this.#run;
    const n = requests.count(`child ${workflow.name}`);
    const idOf = (name: string) => requests.idOf(`child ${name}#${n}`);
    const name = journaledName({ kind: "workflow", renamed: workflow, has: (name) => requests.has(idOf(name)) });
    if (typeof name === "string") return idOf(name);
    this.#run.diverge(name);
    return undefined;
  }

  result(run: string): Promise<unknown> {
    const child = this.#children.get(run);
    // The end of another run is not journaled here, so a replay could not deliver it.
    if (child === undefined)
      return Promise.reject(new ContextError(`the result of run "${run}", which this workflow did not start,`, "a step"));
    if (child.named && !child.awaited && !child.ended) this.#noteAwait(child);
    child.awaited = true;
    return child.outcome.promise;
  }

  get waiting(): boolean {
    for (const { awaited, ended } of this.#children.values()) if (awaited && !ended) return true;
    return false;
  }

  /** True while the store is being read for a child. */
  get looking(): boolean {
    for (const { looked, ended, starts } of this.#children.values()) if (starts.size > 0 || !(looked || ended)) return true;
    return false;
  }

  /** True while the code awaits a run that sends no mail to this run, so that the store must be polled. */
  get elsewhere(): boolean {
    for (const { awaited, isOwnChild, ended } of this.#children.values()) if (awaited && !isOwnChild && !ended) return true;
    return false;
  }

  /** The child has ended, according to its mail or to the store. */
  end(run: string, payload: string, mail?: number): void {
    const child = this.#children.get(run);
    if (child !== undefined && !child.ended) return this.#run.arrivals.add(this.#endOf(child, payload), mail);
    // The end of a child of an earlier run with this id. The code may request the child before this mail is processed: then it is the end of that one, too.
    this.#run.arrivals.decide(() => {
      const known = this.#children.get(run);
      return known === undefined || known.ended ? [] : [{ event: this.#endOf(known, payload) }];
    }, mail);
  }

  #endOf(child: Child, payload: string): Delivery {
    child.ended = true;
    const [status = "cancelled", output = null] = JSON.parse(payload) as [string?, (string | null)?];
    return { type: "ended", id: child.request, at: this.#run.now(), status, output };
  }

  get any(): boolean {
    return this.#children.size > 0;
  }

  /** The run is being cancelled. Requests of the children whose result the code awaits, and gets a CancelledError instead. */
  get rejectable(): readonly string[] {
    return [...this.#children.values()].flatMap((child) => (isRejectable(child) ? [child.request] : []));
  }

  /** The run is being cancelled: the code that awaits a child now may get a CancelledError; code that awaits it later gets its end. */
  stop(): void {
    for (const child of this.#children.values()) {
      if (!isRejectable(child)) continue;
      child.stopped = child.outcome;
      child.outcome = newOutcome();
      child.awaited = false;
    }
  }

  /** Sends mail to the children that are cancelled with this run. Without a payload they end at once. */
  cancelOwn(payload: string | null): void {
    for (const child of this.#children.values()) {
      if (child.ended || child.onCancel !== undefined) continue;
      if (this.#isOwn(child)) this.#sendCancel(child, payload);
      else if (child.named && !child.looked) child.delayed = { payload };
    }
  }

  /** The run ends without its code. Of a run with an id that the code chose, it is not known here whether it is a child of this run. */
  cancelJournaled(payload: string | null): void {
    for (const { request, run } of this.#journaled) if (run === childIdOf(this.#run.id, request)) this.#sendCancel({ run }, payload);
  }

  /** False for a run that another run has started: this run must not cancel it. */
  #isOwn({ named, isOwnChild, run, request }: Child): boolean {
    return named ? isOwnChild : run === childIdOf(this.#run.id, request);
  }

  #sendCancel({ run }: Pick<Child, "run">, payload: string | null): void {
    this.#run.draft.send(mailToChild(this.#run.id, run, payload));
  }

  /** It is known now that a run with a chosen id is a child of this run. */
  #sendDelayed(child: Child): void {
    if (child.delayed !== undefined && !child.ended) this.#sendCancel(child, child.delayed.payload);
    child.delayed = undefined;
  }

  /** `retried`: what the last retry of this run has continued; undefined if it never was. A child that ended while the run had ended sent no mail. */
  resume(retried: readonly string[] | undefined): void {
    this.#retried = retried ?? [];
    for (const child of this.#children.values())
      if (!child.isOwnChild) this.#watch.look(child);
      // A child that is retried together with this run is still failed for a moment, and then reports its end.
      else if (retried?.includes(child.request) === false && child.created && !child.ended) void this.#watch.lookForEnd(child);
  }

  /** Journals that this run waits, so that runs which wait for it can detect a cycle: see `findCycle`. */
  #noteAwait(child: Child): void {
    const journaled = this.#run.awaits.get(child.request);
    child.awaitedAt = journaled ?? this.#run.now();
    if (journaled === undefined && !this.#run.gone) this.#run.record({ type: "await", id: child.request, at: child.awaitedAt });
  }

  #watchCreated(child: Child): void {
    child.created = true;
    this.#watch.look(child);
  }

  #expect(
    child: Child,
    { request, workflow, create, refuse }: { request: string; workflow: Renamed; create: StartRun; refuse: boolean },
  ): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const settle = (event: Delivery): void => {
        if (event.type !== "started") return;
        child.starts.delete(request);
        if (event.found === "refused") reject(new RunMismatchError(child.run));
        else resolve(event.found === "input");
      };
      child.starts.set(request, { workflow, fingerprint: create.fingerprint, scope: create.scope ?? "", refuse });
      const also = request === child.request ? child.settle : undefined;
      this.#run.answers.on(request, (event) => (event.type === "started" ? settle(event) : also?.(event)));
    });
  }

  #add({ request, run, named, created, onCancel }: Pick<Child, "request" | "run" | "named" | "created" | "onCancel">): Child {
    const settle = (event: Delivery): void => {
      if (event.type === "cancelled") return child.stopped?.reject(decodeError(event.error));
      child.ended = true;
      child.given = true;
      if (event.type !== "ended") return;
      const { status, output } = event;
      // Both: the child may have ended just before the run was cancelled.
      for (const outcome of [child.stopped, child.outcome])
        if (status === "completed") outcome?.resolve(decode(output ?? "null"));
        else outcome?.reject(errorOf(run, status, output));
    };
    // A fork may have copied the request: that child reports its end to the original.
    const isOwnChild = !named && run === childIdOf(this.#run.id, request);
    const state = { created, isOwnChild, looked: isOwnChild, awaited: false, ended: false, given: false };
    const since = { awaitedAt: undefined, stopped: undefined, delayed: undefined };
    const child: Child = { request, run, outcome: newOutcome(), onCancel, named, settle, starts: new Map(), ...since, ...state };
    this.#children.set(run, child);
    this.#run.answers.on(request, settle);
    return child;
  }
}

function newOutcome(): ChildOutcome {
  let settle: Omit<ChildOutcome, "promise"> | undefined;
  const promise = new Promise((resolve, reject) => {
    settle = { resolve, reject };
  });
  promise.catch(() => {});
  return { promise, ...(settle as Omit<ChildOutcome, "promise">) };
}

/** Depends only on what the code has got: an end that has arrived but comes after the cancellation must not count here, because a replay does not know of it. */
function isRejectable({ awaited, given, onCancel }: Child): boolean {
  return awaited && !given && onCancel !== "wait";
}

function errorOf(run: string, status: string, output: string | null): Error {
  if (status === "failed") return new RunFailedError(run, decodeError(output ?? "{}"));
  if (status === "absent") return new RunNotFoundError(run);
  if (status === "cycle") return new RunCycleError(run, JSON.parse(output ?? "[]") as string[]);
  return new RunCancelledError(run);
}
