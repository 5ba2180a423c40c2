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

/** The run that has started them. */
interface ParentRun extends ServingRun, WatchingRun {
  readonly arrivals: ServingRun["arrivals"];
  readonly draft: Pick<Draft, "startChild" | "startAfterCommit">;
  /** When the code first asked for a child's result, by the journal. */
  readonly awaits: ReadonlyMap<string, number>;
  record(event: Event): void;
  diverge(divergence: Divergence): void;
}

/** The runs that a run has started. They are created with the entry that says so, and send mail when they end. */
export class ChildRuns {
  readonly #run: ParentRun;
  readonly #children = new Map<string, Child>();
  readonly #watch: ChildWatch;

  constructor(run: ParentRun) {
    this.#run = run;
    this.#watch = new ChildWatch(run, (child, payload) => this.end(child.run, payload));
  }

  /** Undefined: the code has no future here. */
  start({ workflow, given, refuse, make, check }: ChildStart): StartedChild | undefined {
    const { requests, draft } = this.#run;
    const request = this.#requestFor(workflow);
    if (request === undefined) return undefined;
    const id = given ?? childIdOf(this.#run.id, request);
    const named = given !== undefined;
    const asked = requests.ask(request, () => {
      // Here, so that a run that has its child goes on.
      check();
      return { type: "child", id: request, at: this.#run.now(), run: id, workflow: workflow.name, check: named };
    });
    if (asked === undefined) return undefined;
    const { event, known } = asked;
    const run = event.type === "child" ? event.run : id;
    const child = this.#children.get(run) ?? this.#add({ request, run, named, created: known });
    // A journal of 0.1.0 does not say that the code waits for the answer: its replay must not wait either.
    const checks = event.type === "child" && event.check;
    const create = checks || !known ? make(run) : undefined;
    if (!known && create) draft.startChild(create);
    const mismatch = checks && create ? this.#expect(child, { request, workflow, create, refuse }) : undefined;
    if (named && !known) draft.startAfterCommit(() => this.#watchCreated(child));
    return { id: run, mismatch };
  }

  /** Starts of a workflow are counted over all its names. */
  #requestFor(workflow: Renamed): string | undefined {
    const { requests } = this.#run;
    const n = requests.count(`child ${workflow.name}`);
    const has = (name: string) => requests.has(`child ${name}#${n}`);
    const name = journaledName({ kind: "workflow", renamed: workflow, has });
    if (typeof name === "string") return `child ${name}#${n}`;
    this.#run.diverge(name);
    return undefined;
  }

  result(run: string): Promise<unknown> {
    const child = this.#children.get(run);
    // Its end would not be journaled here: a replay could not deliver it.
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

  /** The store is being asked about one of them. */
  get looking(): boolean {
    for (const { looked, ended, starts } of this.#children.values()) if (starts.size > 0 || !(looked || ended)) return true;
    return false;
  }

  /** A run is awaited that sends no mail to this run: the store has to be asked again and again. */
  get elsewhere(): boolean {
    for (const { awaited, ours, ended } of this.#children.values()) if (awaited && !ours && !ended) return true;
    return false;
  }

  /** The child has ended so, by its mail or as the store says. */
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

  /** So that other runs, which may wait for this one, can tell that it waits: see `findCycle`. */
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
    const state = { created, ours: !named, looked: !named, awaited: false, ended: false };
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
