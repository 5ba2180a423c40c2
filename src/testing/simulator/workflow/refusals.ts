import { StoreRefusedError } from "../../../core/errors/errors.js";
import type { Append, Claimed, RunOperation } from "../../../core/runs/operation.js";
import { decodeEvents, storedParts } from "../../../workflow/journal/codec.js";
import type { Event } from "../../../workflow/journal/event.js";
import { PromiseBroken } from "../observer.js";
import type { Random } from "../random.js";
import type { KnownRun } from "./known-run.js";
import type { WithRuns } from "./run-faults.js";
import type { RunObserver } from "./run-observer.js";

/** The events whose data the store may reject: hook tokens, child inputs, stream chunks, step results and run outputs. */
const refusable = ["hook", "child", "write", "done", "end"] as const;

export interface RefusalPlan {
  readonly of: (typeof refusable)[number];
  /** How many values of that kind the store accepts before the one that it rejects. */
  readonly after: number;
  /** No other fault is injected, so that everything after a rejection is a consequence of it. */
  readonly calm: boolean;
}

/** Uses a separate random source, so that the other draws of a seed do not change. */
export function refusalPlanOf(random: Random): RefusalPlan | undefined {
  if (!random.chance(0.1)) return undefined;
  return { of: random.pick(refusable), after: random.between(0, 2), calm: random.chance(0.5) };
}

/** A journal entry that the store rejected. */
interface RefusedEntry {
  readonly run: string;
  readonly epoch: number;
  readonly owner: string | undefined;
  /** Only if the entry was to create its run. */
  readonly creator: string | undefined;
  readonly events: readonly Event[];
  /** The entry was rejected after the other faults had stopped. */
  readonly calm: boolean;
}

interface RefusalOptions {
  readonly plan: RefusalPlan | undefined;
  readonly observer: RunObserver;
  readonly storm: { readonly over: boolean };
  readonly isDead: (owner: string) => boolean;
}

export const refusalText = "simulated: the store rejects this value";

/** A store that permanently rejects one value of the world: every entry with this value, and every flush with such an entry. */
export class Refusals {
  readonly #options: RefusalOptions;
  readonly #seen = new Set<string>();
  readonly #refused: RefusedEntry[] = [];

  constructor(options: RefusalOptions) {
    this.#options = options;
  }

  over(backend: WithRuns): WithRuns {
    const { runs } = backend;
    const { observer, plan } = this.#options;
    if (plan === undefined) return backend;
    return {
      ...backend,
      runs: {
        ...runs,
        flush: async (operations) => {
          const bad = operations.filter((operation) => this.#isRefused(operation));
          if (bad.length === 0) {
            for (const operation of operations) observer.guard(() => this.#mustNotRepeatStep(operation));
            return await runs.flush(operations);
          }
          for (const operation of bad) this.#note(operation);
          throw new StoreRefusedError(refusalText);
        },
        claim: async (query) => {
          const claims = await runs.claim(query);
          for (const claimed of claims.claimed) observer.guard(() => this.#claimed(claimed));
          return claims;
        },
        // In a transaction the rejection fails the step, and the run may continue.
        appendWithin: async (tx, append: Append) => {
          if (this.#isRefused(append)) throw new StoreRefusedError(refusalText);
          return (await runs.appendWithin?.(tx, append)) ?? { kind: "overtaken" };
        },
      },
    };
  }

  /** The rejected entries of the owner that ended the run. */
  last({ id, entries, owners, creator }: KnownRun): RefusedEntry[] {
    const epoch = entries.find(({ events }) => decodeEvents(events).some(({ type }) => type === "end"))?.epoch ?? 0;
    return this.#refused.filter((refused) => {
      if (refused.run !== id || refused.epoch !== epoch) return false;
      return refused.creator === undefined ? refused.owner === owners.get(epoch)?.owner : refused.creator === creator;
    });
  }

  /** A value is identified by its run and its position in the run, so that each retry of the write is rejected again. */
  #isRefused(operation: RunOperation): boolean {
    const { plan } = this.#options;
    if (plan === undefined) return false;
    return eventsOf(operation).some((event) => {
      if (event.type !== plan.of || !isDatum(event)) return false;
      const datum = `${"id" in operation ? operation.id : ""} ${aboutOf(event)}`;
      if (this.#seen.size <= plan.after) this.#seen.add(datum);
      return [...this.#seen].indexOf(datum) === plan.after;
    });
  }

  #note(operation: RunOperation): void {
    const { observer, storm } = this.#options;
    if (operation.verb !== "start" && operation.verb !== "append") return;
    const { id: run } = operation;
    const events = eventsOf(operation);
    observer.note(() => `the store rejects an entry of ${run}: ${events.map((event) => `${event.type} ${aboutOf(event)}`).join(", ")}`);
    const known = observer.run(run);
    if (known?.ended) return;
    const of =
      operation.verb === "start"
        ? { epoch: 1, owner: operation.first?.owner, creator: operation.creator }
        : { epoch: operation.epoch, owner: known?.owners.get(operation.epoch)?.owner, creator: undefined };
    this.#refused.push({ run, ...of, events, calm: storm.over });
  }

  /** The owner of a rejected entry knows which of its steps are done, and must not run them again. */
  #mustNotRepeatStep(operation: RunOperation): void {
    if (operation.verb !== "append") return;
    const { id: run, epoch } = operation;
    const done = this.#refused
      .filter((refused) => refused.run === run && refused.epoch === epoch && refused.creator === undefined)
      .flatMap(({ events }) => events.flatMap((event) => (event.type === "done" ? [event.id] : [])));
    for (const event of eventsOf(operation))
      if (event.type === "step" && event.attempt > 1 && done.includes(event.id))
        throw new PromiseBroken(`${run}: ${event.id} starts again, although the same owner had its result in a rejected entry`);
  }

  /** Without other faults, a live owner must end a run after a rejected entry: a new owner would repeat steps. */
  #claimed({ run: { id, epoch } }: Claimed): void {
    const { isDead } = this.#options;
    for (const { run, epoch: before, owner, creator, calm } of this.#refused)
      if (calm && run === id && before === epoch - 1 && creator === undefined && owner !== undefined && !isDead(owner))
        throw new PromiseBroken(`${id}: claimed after a rejected entry, although the owner that got the rejection is alive`);
  }
}

function eventsOf(operation: RunOperation): Event[] {
  if (operation.verb === "appendLate") return decodeEvents(operation.events);
  const entry = operation.verb === "append" ? operation.entry : operation.verb === "start" ? operation.first?.entry : undefined;
  return decodeEvents(entry?.events ?? "[]");
}

function aboutOf(event: Event): string {
  return storedParts(event).about;
}

/** The store accepts results without a value and errors. The resolution of an operator is a different value than the result of the step. */
function isDatum(event: Event): boolean {
  if (event.type === "done") return event.value !== "null" && event.how !== "resolved";
  return event.type !== "end" || event.status === "completed";
}
