import type { StartRun } from "../../core/runs/operation.js";
import { decode } from "../../core/values/codec.js";
import { decodeError } from "../../core/values/stored-error.js";
import type { ChildStart, StartedChild } from "../define/context.js";
import { ContextError, RunCancelledError, RunCycleError, RunFailedError, RunMismatchError, RunNotFoundError } from "../define/errors.js";
import type { Renamed } from "../define/renamed.js";
import type { Draft } from "../journal/draft.js";
import type { Delivery, Event } from "../journal/event.js";
import { childIdOf } from "../journal/identity.js";
import type { Divergence } from "../replay/divergence.js";
import { journaledName } from "../replay/journaled-name.js";
import type { ServingRun } from "../replay/serving-run.js";
import { type Child, ChildWatch, type WatchingRun } from "./child-watch.js";

/** The run that starts child runs. */
interface ParentRun extends ServingRun, WatchingRun {
  readonly arrivals: ServingRun["arrivals"];
  readonly draft: Pick<Draft, "startChild" | "startAfterCommit">;
  /** By request of the child: when the code first awaited its result, according to the journal. */
  readonly awaits: ReadonlyMap<string, number>;
  record(event: Event): void;
  diverge(divergence: Divergence): void;
}

/** The child runs of a run. They are created together with the journal entry, and send mail to the parent when they end. */
export class ChildRuns {
  readonly #run: ParentRun;
  readonly #children = new Map<string, Child>();
  readonly #watch: ChildWatch;

  constructor(run: ParentRun) {
    this.#run = run;
    this.#watch = new ChildWatch(run, (child, payload) => this.end(child.run, payload));
  }

  /** Undefined if the code must not continue in this process, see `Requests.ask`. */
  start({ workflow, given, refuse, make, check }: ChildStart): StartedChild | undefined {
    const { requests, draft } = this.#run;
    const request = this.#requestFor(workflow);
    if (request === undefined) return undefined;
    const id = given ?? childIdOf(this.#run.id, request);
    const named = given !== undefined;
    const asked = requests.ask(request, () => {
      // Checked only for a new request, so that a run whose child is journaled continues.
      check();
      return { type: "child", id: request, at: this.#run.now(), run: id, workflow: workflow.name, check: named };
    });
    if (asked === undefined) return undefined;
    const { event, known } = asked;
    const run = event.type === "child" ? event.run : id;
    const child = this.#children.get(run) ?? this.#add({ request, run, named, created: known });
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
    return child.result;
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
    if (child === undefined || child.ended) return this.#run.arrivals.add(null, mail);
    child.ended = true;
    const [status = "cancelled", output = null] = JSON.parse(payload) as [string?, (string | null)?];
    this.#run.arrivals.add({ type: "ended", id: child.request, at: this.#run.now(), status, output }, mail);
  }

  resume(): void {
    for (const child of this.#children.values()) if (child.named) this.#watch.look(child);
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
      child.starts.set(request, { workflow, fingerprint: create.fingerprint, refuse });
      const also = request === child.request ? child.settle : undefined;
      this.#run.answers.on(request, (event) => (event.type === "started" ? settle(event) : also?.(event)));
    });
  }

  #add({ request, run, named, created }: Pick<Child, "request" | "run" | "named" | "created">): Child {
    let settle: (event: Delivery) => void = () => {};
    const result = new Promise((resolve, reject) => {
      settle = (event) => {
        child.ended = true;
        if (event.type !== "ended") return;
        const { status, output } = event;
        if (status === "completed") resolve(decode(output ?? "null"));
        else reject(errorOf(run, status, output));
      };
    });
    result.catch(() => {});
    const state = { created, isOwnChild: !named, looked: !named, awaited: false, ended: false };
    const child: Child = { request, run, result, named, settle, starts: new Map(), awaitedAt: undefined, ...state };
    this.#children.set(run, child);
    this.#run.answers.on(request, settle);
    return child;
  }
}

function errorOf(run: string, status: string, output: string | null): Error {
  if (status === "failed") return new RunFailedError(run, decodeError(output ?? "{}"));
  if (status === "absent") return new RunNotFoundError(run);
  if (status === "cycle") return new RunCycleError(run, JSON.parse(output ?? "[]") as string[]);
  return new RunCancelledError(run);
}
