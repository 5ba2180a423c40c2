import { decode, decodeError } from "../core/codec.js";
import { hasEnded } from "../core/run.js";
import type { StartRun } from "../core/run-operation.js";
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
  awaited: boolean;
  ended: boolean;
}

const lookMs = 250;

/** The runs that a run has started. They are created with the entry that says so, and send mail when they end. */
export class ChildRuns {
  readonly #execution: Execution;
  readonly #children = new Map<string, Child>();
  #watched = 0;

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  /** Returns its id. */
  start(workflow: string, given: string | undefined, make: (id: string) => StartRun): string | undefined {
    const execution = this.#execution;
    const request = execution.ordinal(`child ${workflow}`);
    const id = given ?? childIdOf(execution.id, request);
    const asked = execution.request(request, () => ["child", request, execution.now(), id, workflow]);
    if (asked === undefined) return undefined;
    const run = asked.event[0] === "child" ? asked.event[3] : id;
    const existing = this.#children.get(run);
    if (existing === undefined) {
      const child = this.#add(request, run, given !== undefined);
      if (child.named && !asked.known) execution.afterCommit(() => void this.#checkParent(child));
    }
    if (!asked.known) execution.startChild(make(run));
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

  /** Somebody else's runs that we have to look after ourselves. */
  get watching(): boolean {
    return this.#watched > 0;
  }

  ended(run: string, payload: string, mail?: number): void {
    const child = this.#children.get(run);
    if (child === undefined || child.ended) return this.#execution.deliver(null, mail);
    child.ended = true;
    const [status = "cancelled", output = null] = JSON.parse(payload) as [string?, (string | null)?];
    this.#execution.deliver(["ended", child.request, this.#execution.now(), status, output], mail);
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
    const child: Child = { request, run, result, named, awaited: false, ended: false };
    this.#children.set(run, child);
    this.#execution.on(request, settle);
    return child;
  }

  /** A run with this id may have existed before, with another parent or none. */
  async #checkParent(child: Child): Promise<void> {
    this.#watched += 1;
    const { store, id } = this.#execution;
    try {
      while (!this.#execution.gone && !child.ended) {
        const run = await store.runs.read(child.run).catch(() => undefined);
        if (run?.parent === id) return;
        if (run && hasEnded(run.status)) return this.ended(child.run, JSON.stringify([run.status, run.output]));
        await new Promise<void>((go) => void store.clock.after(lookMs, go));
      }
    } finally {
      this.#watched -= 1;
      this.#execution.host.touch(this.#execution);
    }
  }
}
