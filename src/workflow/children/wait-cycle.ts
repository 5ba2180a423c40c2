import { hasEnded, type RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { readOpenRequests } from "../journal/read-open-requests.js";

/** A run counts as standing still when its journal has not grown for this long. */
export const quietMs = 1000;
const runsMax = 100;
const entriesMax = 10_000;

interface Waiting {
  readonly run: RunRecord;
  /** The runs that it has started or means, and whose end it has not seen. */
  readonly waitsFor: ReadonlySet<string>;
  /** Of those, the ones with an id that its code chose, and whose result its code has asked for. */
  readonly awaits: ReadonlySet<string>;
}

interface CycleQuery {
  readonly waiter: string;
  readonly awaited: string;
  /** The store's time. */
  readonly now: number;
}

/**
 * The runs of a cycle of which `waiter` is the one to break it. Undefined: there is none, or another run breaks it.
 *
 * A journal does not say whether code waits for all of its children or for the first of them. So a cycle counts only
 * when every run that can be reached from it stands still and has nothing but other such runs to wait for: no step, no
 * sleep, no hook, no mail. Then nothing can happen there any more. The walk ends at the first run that can go on.
 *
 * A parent hears of its children by mail and does not look; but a child is created after its parent, so a cycle always
 * has runs that do. Of these, the one with the smallest id breaks the cycle.
 */
export async function findCycle(store: Store, { waiter, awaited, now }: CycleQuery): Promise<readonly string[] | undefined> {
  const standing = new Map<string, Waiting>();
  const ids = [waiter, awaited];
  for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
    if (standing.has(id)) continue;
    const waiting = standing.size < runsMax ? await standsStill(store, id, now) : undefined;
    if (waiting === undefined) return undefined;
    standing.set(id, waiting);
    ids.push(...waiting.waitsFor);
  }
  const path = pathBetween(standing, awaited, waiter);
  if (path === undefined) return undefined;
  const breakers = [...standing.values()].filter(
    (waiting) => isOnCycle(standing, waiter, waiting.run.id) && looksAround(standing, waiting),
  );
  const [first] = breakers.map(({ run }) => run.id).sort();
  return first === waiter ? path : undefined;
}

/** Undefined: it has ended, or can go on by itself. */
async function standsStill(store: Store, id: string, now: number): Promise<Waiting | undefined> {
  const run = await store.runs.read(id);
  if (run === undefined || hasEnded(run.status) || run.status !== "running") return undefined;
  // The owner of a run that is in memory takes its mail in, and some mail leaves no entry.
  if (run.owner === null && run.mail > run.consumed) return undefined;
  const journal = await readOpenRequests(store, id, entriesMax);
  if (journal === undefined || (journal.lastAt ?? 0) > now - quietMs) return undefined;
  const { steps, sleeps, hooks, children, awaited } = journal.open;
  if (steps.size + sleeps.size + hooks.size > 0 || children.size === 0) return undefined;
  // In memory it may wait for a promise that no journal knows of, unless it has said that it waits for one of these.
  const awaits = new Set([...children].flatMap(([request, child]) => (awaited.has(request) ? [child] : [])));
  if (run.owner !== null && awaits.size === 0) return undefined;
  return { run, waitsFor: new Set(children.values()), awaits };
}

/** The runs from one to the other, in the order in which they wait; the last one first, for it is where a reader begins. */
function pathBetween(standing: ReadonlyMap<string, Waiting>, from: string, to: string): readonly string[] | undefined {
  const before = new Map<string, string | undefined>([[from, undefined]]);
  const ids = [from];
  for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
    if (id === to) return pathTo(before, to);
    for (const next of standing.get(id)?.waitsFor ?? []) {
      if (before.has(next)) continue;
      before.set(next, id);
      ids.push(next);
    }
  }
  return undefined;
}

function pathTo(before: ReadonlyMap<string, string | undefined>, last: string): readonly string[] {
  const path: string[] = [];
  for (let id = before.get(last); id !== undefined; id = before.get(id)) path.unshift(id);
  return [last, ...path];
}

/** It looks, and not only waits for mail, at a run of a cycle that it is part of. */
function looksAround(standing: ReadonlyMap<string, Waiting>, { run: { id }, awaits }: Waiting): boolean {
  for (const next of awaits) if (standing.get(next)?.run.parent !== id && pathBetween(standing, next, id) !== undefined) return true;
  return false;
}

function isOnCycle(standing: ReadonlyMap<string, Waiting>, of: string, id: string): boolean {
  return of === id || (pathBetween(standing, of, id) !== undefined && pathBetween(standing, id, of) !== undefined);
}
