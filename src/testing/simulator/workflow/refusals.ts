import { StoreRefusedError } from "../../../core/errors/errors.js";
import type { Append, Claimed, RunOperation } from "../../../core/runs/operation.js";
import { decodeEvents, storedParts } from "../../../workflow/journal/codec.js";
import type { Event } from "../../../workflow/journal/event.js";
import { PromiseBroken } from "../observer.js";
import type { Random } from "../random.js";
import type { WithRuns } from "./run-faults.js";
import type { KnownRun, RunObserver } from "./run-observer.js";

/** The token of a hook, the input of a child, a chunk of the code, the result of a step, the output of a run. */
const refusable = ["hook", "child", "write", "done", "end"] as const;

export interface RefusalPlan {
  readonly of: (typeof refusable)[number];
  /** How many data of that kind the store takes before the one that it refuses. */
  readonly after: number;
  /** Nothing else goes wrong: so whatever happens after a refusal happens because of it. */
  readonly calm: boolean;
}

/** Drawn from randomness of its own: a world without refusals is the one that its seed always had. */
export function refusalPlanOf(random: Random): RefusalPlan | undefined {
  if (!random.chance(0.1)) return undefined;
  return { of: random.pick(refusable), after: random.between(0, 2), calm: random.chance(0.5) };
}

/** An entry that the store refused. */
interface RefusedEntry {
  readonly run: string;
  readonly epoch: number;
  readonly owner: string | undefined;
  /** Of an entry that was to make its run. */
  readonly creator: string | undefined;
  readonly events: readonly Event[];
  /** It was refused when nothing else could go wrong. */
  readonly calm: boolean;
}

interface RefusalOptions {
  readonly plan: RefusalPlan | undefined;
  readonly observer: RunObserver;
  readonly storm: { readonly over: boolean };
  readonly isDead: (owner: string) => boolean;
}

export const refusalText = "simulated: the store cannot keep this";

/** A store that refuses one datum of a world for good: every entry that has it, and every flush that has such an entry. */
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
            for (const operation of operations) observer.guard(() => this.#mustNotBeginAgain(operation));
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
        // The step has failed then, and its code may go on.
        appendWithin: async (tx, append: Append) => {
          if (this.#isRefused(append)) throw new StoreRefusedError(refusalText);
          return (await runs.appendWithin?.(tx, append)) ?? { kind: "overtaken" };
        },
      },
    };
  }

  /** What was refused to the owner that has ended the run. */
  last({ id, entries, owners, creator }: KnownRun): RefusedEntry[] {
    const epoch = entries.find(({ events }) => decodeEvents(events).some(({ type }) => type === "end"))?.epoch ?? 0;
    return this.#refused.filter((refused) => {
      if (refused.run !== id || refused.epoch !== epoch) return false;
      return refused.creator === undefined ? refused.owner === owners.get(epoch)?.owner : refused.creator === creator;
    });
  }

  /** Each datum is known by its run and its place in the run, so that it is the same one in every attempt to write it. */
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
    observer.note(() => `the store refuses an entry of ${run}: ${events.map((event) => `${event.type} ${aboutOf(event)}`).join(", ")}`);
    const known = observer.run(run);
    if (known?.ended) return;
    const of =
      operation.verb === "start"
        ? { epoch: 1, owner: operation.first?.owner, creator: operation.creator }
        : { epoch: operation.epoch, owner: known?.owners.get(operation.epoch)?.owner, creator: undefined };
    this.#refused.push({ run, ...of, events, calm: storm.over });
  }

  /** The owner that heard of a refusal knows what its steps have done. */
  #mustNotBeginAgain(operation: RunOperation): void {
    if (operation.verb !== "append") return;
    const { id: run, epoch } = operation;
    const done = this.#refused
      .filter((refused) => refused.run === run && refused.epoch === epoch && refused.creator === undefined)
      .flatMap(({ events }) => events.flatMap((event) => (event.type === "done" ? [event.id] : [])));
    for (const event of eventsOf(operation))
      if (event.type === "step" && event.attempt > 1 && done.includes(event.id))
        throw new PromiseBroken(`${run}: ${event.id} begins again, and the entry that says it is done was refused to the same owner`);
  }

  /** Where nothing else goes wrong, an owner that lives brings a refused run to its end: the next owner would do steps again. */
  #claimed({ run: { id, epoch } }: Claimed): void {
    const { isDead } = this.#options;
    for (const { run, epoch: before, owner, creator, calm } of this.#refused)
      if (calm && run === id && before === epoch - 1 && creator === undefined && owner !== undefined && !isDead(owner))
        throw new PromiseBroken(`${id}: claimed after an entry of it was refused, and the owner that heard so lives`);
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

/** A result without its value can be kept, and so can an error. What a person says about a step is other data. */
function isDatum(event: Event): boolean {
  if (event.type === "done") return event.value !== "null" && event.how !== "resolved";
  return event.type !== "end" || event.status === "completed";
}
