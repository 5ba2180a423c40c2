import assert from "node:assert/strict";
import { NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import type { RunAnswer, RunOperation } from "../../../core/runs/operation.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { type ContractCase, contractCase, type Skip } from "../contract-case.js";
import { type Scene, shortMs } from "../ledger/scene.js";
import { begin, claim, firstOf, type Owned, ownedOf, runOf, submit } from "./run-operations.js";

const needsRuns: Skip = ({ name, capabilities }) => (capabilities.runs ? undefined : `${name} does not have the capability "runs"`);

/** A case for stores with runs. */
export function runCase(name: string, play: (scene: Scene) => Promise<void>, skip: Skip = () => undefined): ContractCase {
  return contractCase(name, play, (target) => needsRuns(target) ?? skip(target));
}

/** The time of the store's clock: an empty claim returns it, too. */
export async function timeOf(store: Store): Promise<number> {
  const { now, claimed } = await claim(store, { workflows: ["missing"], limit: 1 });
  assert.equal(claimed.length, 0);
  return now;
}

/** Waits until the store's clock has reached `at`. */
export async function reach(scene: Scene, store: Store, at: number): Promise<void> {
  await scene.until(`the store's time is ${at}`, async () => {
    const now = await timeOf(store);
    if (now < at) await scene.pass(at - now);
    return now >= at;
  });
}

/** Waits until the lease of the run's owner has expired, or until the run's timer is due. */
export async function lapse(scene: Scene, store: Store, id = "run"): Promise<void> {
  const { wakeAt } = await runOf(store, id);
  assert.ok(wakeAt !== null);
  await reach(scene, store, wakeAt);
}

/** A run whose first owner (`late`) wrote an entry and let its lease expire, and its next owner (`next`). */
export async function takenOver(scene: Scene, store: Store, id = "run"): Promise<{ readonly late: Owned; readonly next: Owned }> {
  const late = await begin(store, { id, first: firstOf({}, shortMs) });
  await lapse(scene, store, id);
  const claimed = (await claim(store)).claimed.find(({ run }) => run.id === id);
  assert.ok(claimed, `run "${id}" can be claimed when its lease has expired`);
  return { late, next: ownedOf(claimed) };
}

/** Everything that a store keeps of a run. */
export interface Picture {
  readonly run: RunRecord | undefined;
  readonly journal: readonly JournalEntry[];
  readonly mail: readonly Mail[];
  readonly hooks: readonly HookRecord[];
}

/** Reads one after the other: reads at the same time would make every handle open more connections. */
export async function picture(store: Store, id: string): Promise<Picture> {
  const run = await store.runs.read(id);
  const journal = await store.runs.journal(id, 0, 1000);
  const mail = await store.runs.mail(id, 0);
  const loaded = await store.runs.load(id);
  const hooks = [...(loaded?.hooks ?? [])].sort((a, b) => (a.token < b.token ? -1 : 1));
  return { run: run && { ...run }, journal: plain(journal), mail: plain(mail), hooks: plain(hooks) };
}

/** Copies rows into plain objects. Whether a driver returns plain rows is the subject of its own case. */
export function plain<T extends object>(rows: readonly T[]): T[] {
  return rows.map((row) => ({ ...row }));
}

/** Returns the answer, and asserts that nothing was written to these runs. */
export async function unchanged<T>(store: Store, ids: readonly string[], ask: () => Promise<T>): Promise<T> {
  const look = async () => {
    const pictures: Picture[] = [];
    for (const id of ids) pictures.push(await picture(store, id));
    return pictures;
  };
  const before = await look();
  const answer = await ask();
  assert.deepEqual(await look(), before, `a request answered ${JSON.stringify(answer)} changes nothing`);
  return answer;
}

/** Calls `look` in a loop while `work` runs. Fails if either fails. */
export async function meanwhile(scene: Scene, look: () => Promise<unknown>, work: () => Promise<unknown>): Promise<void> {
  let working = true;
  const looking = async () => {
    while (working) {
      await look();
      await scene.pass(1);
    }
  };
  const done = () => {
    working = false;
  };
  await Promise.all([looking(), work().finally(done)]);
}

/** Sends the operation again, unchanged, until it is answered, as a caller does whose reply was lost. */
export async function sendSafely(scene: Scene, store: Store, operation: RunOperation): Promise<RunAnswer> {
  for (;;) {
    try {
      return await submit(store, operation);
    } catch (error) {
      if (!(error instanceof UnreachableError || error instanceof NotKnownError)) throw error;
      await scene.pass(5);
    }
  }
}

export async function eventsOf(store: Store, id: string): Promise<string[]> {
  return (await store.runs.journal(id, 0, 1000)).map(({ events }) => events);
}
