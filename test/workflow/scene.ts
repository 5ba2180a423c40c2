import type { Store } from "onceflow";
import type { StepOptions } from "onceflow/workflow";
import { getRun, readJournal } from "onceflow/workflow/api";
import type { RunOperation } from "../../src/core/runs/operation.js";
import { gate } from "../kit/gate.js";
import { until } from "../kit/until.js";

/** Retries without waiting. */
export const quick = { backoff: { minMs: 1, maxMs: 1 } } satisfies StepOptions;

/** Waits until the run has this status. */
export async function untilStatus(store: Store, id: string, status: string): Promise<void> {
  await until(`run "${id}" is ${status}`, async () => (await getRun(id, { store }).status) === status);
}

/** Waits until no worker owns the run: it sleeps, waits or is parked. */
export async function untilReleased(store: Store, id: string): Promise<void> {
  await until(`no worker owns run "${id}"`, async () => (await store.runs.read(id))?.owner === null);
}

/** The journal as short texts, without times and values: "step charge#0", "done charge#0", … */
export async function story(store: Store, id: string): Promise<string[]> {
  return (await readJournal(id, { store })).map((item) => `${item.type} ${item.id}`);
}

/** A store whose commit can be held back, and that reports when it has read mail. */
export interface Held {
  readonly store: Store;
  /** Resolves when the held commit has been passed to this store. */
  readonly reached: Promise<void>;
  /** Resolves when a read has returned mail. */
  readonly heard: Promise<void>;
  free(): void;
}

/** Holds back the commits whose journal entry begins with `event`, for example "done charge#0". */
export function heldAt(store: Store, event: string): Held {
  const [reached, heard, freed] = [gate(), gate(), gate()];
  const first = JSON.stringify([event.split(" ")]).slice(0, -2);
  const commit = async (batch: { run?: RunOperation }) => {
    const entry = batch.run?.verb === "append" ? batch.run.entry : undefined;
    if (entry?.events?.startsWith(first)) {
      reached.open();
      await freed.opened;
    }
    return await store.commit(batch as never);
  };
  const mail: Store["runs"]["mail"] = async (run, after) => {
    const found = await store.runs.mail(run, after);
    if (found.length > 0) heard.open();
    return found;
  };
  const runs = { value: Object.create(store.runs, { mail: { value: mail } }) as unknown };
  const held = Object.create(store, { commit: { value: commit }, runs }) as Store;
  return { store: held, reached: reached.opened, heard: heard.opened, free: () => freed.open() };
}
