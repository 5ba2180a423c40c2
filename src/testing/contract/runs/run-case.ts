import assert from "node:assert/strict";
import { NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import type { RunAnswer, RunOperation } from "../../../core/runs/operation.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { type ContractCase, contractCase, type Skip } from "../contract-case.js";
import { type Scene, shortMs } from "../ledger/scene.js";
import { begin, claim, firstOf, type Owned, ownedOf, runOf, submit } from "./run-operations.js";

const needsRuns: Skip = ({ name, capabilities }) => (capabilities.runs ? undefined : `${name} has not the capability "runs"`);

/** A promise of queue and journal. */
export function runCase(name: string, play: (scene: Scene) => Promise<void>, skip: Skip = () => undefined): ContractCase {
  return contractCase(name, play, (target) => needsRuns(target) ?? skip(target));
}

/** The store's own time. Whoever has nothing to claim still learns it. */
export async function timeOf(store: Store): Promise<number> {
  const { now, claimed } = await claim(store, { workflows: ["nobody's"], limit: 1 });
  assert.equal(claimed.length, 0);
  return now;
}

/** Waits until the store's own clock says `at`. */
export async function reach(scene: Scene, store: Store, at: number): Promise<void> {
  await scene.until(`the store's time is ${at}`, async () => {
    const now = await timeOf(store);
    if (now < at) await scene.pass(at - now);
    return now >= at;
  });
}

/** Waits until whoever had the run has lost it, or until its timer is due. */
export async function lapse(scene: Scene, store: Store, id = "run"): Promise<void> {
  const { wakeAt } = await runOf(store, id);
  assert.ok(wakeAt !== null);
  await reach(scene, store, wakeAt);
}

/** A run whose owner wrote its first entry and fell silent, and whoever has claimed it since. */
export async function takenOver(scene: Scene, store: Store, id = "run"): Promise<{ readonly late: Owned; readonly next: Owned }> {
  const late = await begin(store, { id, first: firstOf({}, shortMs) });
  await lapse(scene, store, id);
  const claimed = (await claim(store)).claimed.find(({ run }) => run.id === id);
  assert.ok(claimed, `run "${id}" can be claimed once its lease is over`);
  return { late, next: ownedOf(claimed) };
}

/** Everything that a store keeps of a run. */
export interface Picture {
  readonly run: RunRecord | undefined;
  readonly journal: readonly JournalEntry[];
  readonly mail: readonly Mail[];
  readonly hooks: readonly HookRecord[];
}

/** One after the other: at once they would have every handle open more connections than it needs. */
export async function picture(store: Store, id: string): Promise<Picture> {
  const run = await store.runs.read(id);
  const journal = await store.runs.journal(id, 0, 1000);
  const mail = await store.runs.mail(id, 0);
  const loaded = await store.runs.load(id);
  const hooks = [...(loaded?.hooks ?? [])].sort((a, b) => (a.token < b.token ? -1 : 1));
  return { run: run && { ...run }, journal: plain(journal), mail: plain(mail), hooks: plain(hooks) };
}

/** Without what a driver may have left in them: whether it has is a case of its own. */
export function plain<T extends object>(rows: readonly T[]): T[] {
  return rows.map((row) => ({ ...row }));
}

/** What was answered, and that these runs are as they were: nothing was written. */
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

/** Looks again and again while the work goes on; both have to go well. */
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

/** Sent again, unchanged, until it is answered: what every caller does whose reply was lost. */
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
