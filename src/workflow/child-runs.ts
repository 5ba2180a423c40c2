import { decode } from "../core/codec.js";
import { hasEnded } from "../core/run.js";
import type { StartRun } from "../core/run-operation.js";
import { decodeError } from "../core/stored-error.js";
import { broughtBack } from "./aside.js";
import { ContextError, RunCancelledError, RunFailedError } from "./errors.js";
import type { Event } from "./event.js";
import type { Execution } from "./execution.js";
import { childIdOf } from "./identity.js";

interface Child {
  readonly request: string;
  readonly run: string;
  readonly result: Promise<unknown>;
  /** Its id was chosen by the code: it may be somebody else's run, which would not tell us of its end. */
  readonly named: boolean;
  /** It is ours: its mail will come. */
  ours: boolean;
  /** The store was asked whose it is, by this owner of ours. */
  looked: boolean;
  awaited: boolean;
  ended: boolean;
}

const lookMs = 250;

/** The runs that a run has started. They are created with the entry that says so, and send mail when they end. */
export class ChildRuns {
  readonly #execution: Execution;
  readonly #children = new Map<string, Child>();

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  /** Returns its id. */
  start(workflow: string, given: string | undefined, make: (id: string) => StartRun): string | undefined {
    const execution = this.#execution;
    const request = execution.requests.ordinal(`child ${workflow}`);
    const id = given ?? childIdOf(execution.id, request);
    const asked = execution.requests.ask(request, () => ["child", request, execution.now(), id, workflow]);
    if (asked === undefined) return undefined;
    const run = asked.event[0] === "child" ? asked.event[3] : id;
    const existing = this.#children.get(run);
    if (existing === undefined) {
      const child = this.#add(request, run, given !== undefined);
      if (child.named && !asked.known) execution.draft.afterCommit(() => void this.#checkParent(child));
    }
    if (!asked.known) execution.draft.startChild(make(run));
    return run;
  }

  result(run: string): Promise<unknown> {
    const child = this.#children.get(run);
    // Its end would not be journaled here: a replay could not be told of it.
    if (child === undefined)
      return Promise.reject(new ContextError(`the result of run "${run}", which this workflow did not start,`, "a step"));
    child.awaited = true;
    return child.result;
  }

  get waiting(): boolean {
    for (const { awaited, ended } of this.#children.values()) if (awaited && !ended) return true;
    return false;
  }

  /** Whose they are is being asked. */
  get looking(): boolean {
    for (const { looked, ended } of this.#children.values()) if (!looked && !ended) return true;
    return false;
  }

  /** Somebody else's runs are awaited: no mail will come, so we have to look again. */
  get elsewhere(): boolean {
    for (const { awaited, ours, ended } of this.#children.values()) if (awaited && !ours && !ended) return true;
    return false;
  }

  ended(run: string, payload: string, mail?: number): void {
    const child = this.#children.get(run);
    if (child === undefined || child.ended) return this.#execution.deliveries.add(null, mail);
    child.ended = true;
    const [status = "cancelled", output = null] = JSON.parse(payload) as [string?, (string | null)?];
    this.#execution.deliveries.add(["ended", child.request, this.#execution.now(), status, output], mail);
  }

  resume(): void {
    for (const child of this.#children.values()) if (child.named && !child.ended) void this.#checkParent(child);
  }

  #add(request: string, run: string, named: boolean): Child {
    let settle: (event: Event) => void = () => {};
    const result = new Promise((resolve, reject) => {
      settle = (event) => {
        child.ended = true;
        if (event[0] !== "ended") return;
        const [, , , status, output] = event;
        if (status === "completed") resolve(decode(output ?? "null"));
        else reject(status === "failed" ? new RunFailedError(run, decodeError(output ?? "{}")) : new RunCancelledError(run));
      };
    });
    result.catch(() => {});
    const child: Child = { request, run, result, named, ours: !named, looked: !named, awaited: false, ended: false };
    this.#children.set(run, child);
    this.#execution.deliveries.on(request, settle);
    return child;
  }

  /** A run with this id may have existed before, with another parent or none. */
  async #checkParent(child: Child): Promise<void> {
    const { store, id } = this.#execution;
    while (!this.#execution.gone && !child.ended && !child.ours) {
      const run = await store.runs.read(child.run).catch(() => undefined);
      if (run?.parent === id) child.ours = true;
      else if (run && hasEnded(run.status)) {
        const output = await broughtBack(store, child.run, run.output).catch(() => undefined);
        if (output !== undefined) this.ended(child.run, JSON.stringify([run.status, output]));
      }
      child.looked = true;
      this.#execution.touch();
      if (!child.ours) await new Promise<void>((go) => void store.clock.after(lookMs, go));
    }
  }
}
