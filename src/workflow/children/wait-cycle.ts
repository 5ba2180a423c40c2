import { hasEnded, type RunRecord } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { readOpenRequests } from "../journal/history/read-open-requests.js";

/** A run counts as idle if its journal has not grown for this long. */
export const quietMs = 1000;
const runsMax = 100;
const entriesMax = 10_000;

interface Waiting {
  readonly run: RunRecord;
  /** The runs that this run has started and whose end it has not received. */
  readonly waitsFor: ReadonlySet<string>;
  /** The subset of `waitsFor` with ids chosen by the code, whose results the code awaits. */
  readonly awaits: ReadonlySet<string>;
}

interface CycleQuery {
  readonly waiter: string;
  readonly awaited: string;
  /** Time of the store. */
  readonly now: number;
}

/**
 * Finds a cycle of waiting runs that `waiter` has to break. Undefined if there is none, or another run breaks it.
 *
 * A journal does not show whether code waits for all of its children or for the first of them. So a cycle counts only if
 * every run that is reachable from it is idle and waits for nothing except other such runs: no step, sleep, hook or mail.
 * Then none of them can continue. The search stops at the first run that can.
 *
 * A parent learns about its children by mail and does not poll. But a child is created after its parent, so every cycle has
 * runs that poll. Of these, the run with the smallest id breaks the cycle.
 */
export async function findCycle(store: Store, { waiter, awaited, now }: CycleQuery): Promise<readonly string[] | undefined> {
  const idle = new Map<string, Waiting>();
  const ids = [waiter, awaited];
  for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
    if (idle.has(id)) continue;
    const waiting = idle.size < runsMax ? await readIfIdle(store, id, now) : undefined;
    if (waiting === undefined) return undefined;
    idle.set(id, waiting);
    ids.push(...waiting.waitsFor);
  }
  const path = pathBetween(idle, awaited, waiter);
  if (path === undefined) return undefined;
  const breakers = [...idle.values()].filter((waiting) => isOnCycle(idle, waiter, waiting.run.id) && pollsCycle(idle, waiting));
  const [first] = breakers.map(({ run }) => run.id).sort();
  return first === waiter ? path : undefined;
}

/** Undefined if the run has ended, or can continue by itself. */
async function readIfIdle(store: Store, id: string, now: number): Promise<Waiting | undefined> {
  const run = await store.runs.read(id);
  if (run === undefined || hasEnded(run.status) || run.status !== "running") return undefined;
  // Unread mail wakes a run without an owner. The owner of a run in memory reads mail itself, and some mail leaves no entry.
  if (run.owner === null && run.mail > run.consumed) return undefined;
  const journal = await readOpenRequests(store, id, entriesMax);
  if (journal === undefined || (journal.lastAt ?? 0) > now - quietMs) return undefined;
  const { steps, sleeps, hooks, children, awaited } = journal.open;
  if (steps.size + sleeps.size + hooks.size > 0 || children.size === 0) return undefined;
  // A run in memory may wait for a promise that is not journaled, unless it has journaled that it awaits one of these runs.
  const awaits = new Set([...children].flatMap(([request, child]) => (awaited.has(request) ? [child] : [])));
  if (run.owner !== null && awaits.size === 0) return undefined;
  return { run, waitsFor: new Set(children.values()), awaits };
}

/** The runs from `from` to `to`, in the order in which they wait. `to` is moved to the front, because a reader begins with it. */
function pathBetween(idle: ReadonlyMap<string, Waiting>, from: string, to: string): readonly string[] | undefined {
  const before = new Map<string, string | undefined>([[from, undefined]]);
  const ids = [from];
  for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
    if (id === to) return pathTo(before, to);
    for (const next of idle.get(id)?.waitsFor ?? []) {
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

/** Whether this run polls a run of a cycle that it is part of, instead of waiting for mail only. */
function pollsCycle(idle: ReadonlyMap<string, Waiting>, { run: { id }, awaits }: Waiting): boolean {
  for (const next of awaits) if (idle.get(next)?.run.parent !== id && pathBetween(idle, next, id) !== undefined) return true;
  return false;
}

function isOnCycle(idle: ReadonlyMap<string, Waiting>, of: string, id: string): boolean {
  return of === id || (pathBetween(idle, of, id) !== undefined && pathBetween(idle, id, of) !== undefined);
}
