import type { Claimed, ClaimQuery, Claims, RunBackend } from "../../../core/runs/operation.js";
import { applyRun } from "../../../core/runs/rules/apply.js";
import { chooseDue, claimableAt, claimedBy, isWanted, mayClaimSuspects, nextClaimAt } from "../../../core/runs/rules/claim.js";
import { expiryOf } from "../../../core/runs/rules/expiry.js";
import { type Mail, type RunRecord, type WorkerRecord, workerKeptMs } from "../../../core/runs/run.js";
import { comparePositions, countByStatus, matches, mergeRuns, orderOf, positionOf } from "../../../core/runs/search/filter.js";
import { pathOf } from "../../../core/runs/search/served.js";
import { type MemoryRuns, MemoryRunTable } from "./table.js";

/** Every method is atomic, because it has no await inside. */
export function memoryRunBackend(memory: MemoryRuns, now: () => number): RunBackend {
  const { runs, journals, hooks } = memory;
  const table = new MemoryRunTable(memory, now);
  return {
    flush: async (operations) =>
      operations.map((operation) => {
        // The same time for a whole operation.
        const at = now();
        return applyRun(new MemoryRunTable(memory, () => at), operation);
      }),
    claim: async (query) => claim(memory, table, query),
    load: async (id) => load(memory, id, true),
    async renew({ owner, leaseMs, signOfLife }) {
      if (signOfLife) sawWorker(memory, { id: owner, ...signOfLife }, now(), leaseMs);
      const held = [...runs.values()].filter((run) => run.owner === owner);
      for (const run of held) table.changeRun(run.id, { wakeAt: now() + leaseMs });
      return held.map(({ id, creator, epoch, mail }) => ({ id, creator, epoch, mail }));
    },
    async workers() {
      const rows = [...memory.workers.values()].filter(({ seenAt }) => seenAt > now() - workerKeptMs);
      const records = rows.map(({ leaseUntil, ...row }): WorkerRecord => ({ ...row, live: leaseUntil > now() }));
      return records.sort((a, b) => Number(b.live) - Number(a.live) || b.seenAt - a.seenAt);
    },
    held: async (owner, limit) =>
      [...runs.values()]
        .filter((run) => run.owner === owner)
        .slice(0, limit)
        .map(({ id, workflow }) => ({ id, workflow })),
    workflows: async (after, limit) =>
      [...new Set([...runs.values()].map(({ workflow }) => workflow))]
        .filter((name) => name > after)
        .sort()
        .slice(0, limit),
    leave: async (owner) => void memory.workers.delete(owner),
    mail: async (run, after) => mailAfter(memory, run, after),
    read: async (id) => runs.get(id),
    journal: async (id, after, limit) => (journals.get(id) ?? []).filter(({ seq }) => seq > after).slice(0, limit),
    async list(query) {
      pathOf(query);
      const { after, limit } = query;
      const order = orderOf(query);
      const found = [...runs.values()].filter((run) => {
        return matches(run, query) && (after === undefined || comparePositions(after, positionOf(run, order), order) < 0);
      });
      return mergeRuns([found, []], order, limit);
    },
    async count(filter, max) {
      const path = pathOf(filter);
      const found = [...runs.values()].filter((run) => matches(run, filter));
      return countByStatus(path === "listed" || path === "ended" ? found : found.slice(0, max), max);
    },
    async hooks({ scope, run, after = "", limit }) {
      const found = [...hooks.values()].filter((hook) => {
        if (run !== undefined && hook.run !== run) return false;
        return hook.token > after && (scope === undefined || runs.get(hook.run)?.scope === scope);
      });
      return found.sort((a, b) => (a.token < b.token ? -1 : 1)).slice(0, limit);
    },
    hook: async (token) => hooks.get(token),
    overdueStops: async (limit) =>
      [...runs.values()]
        .filter((run) => run.stopAt !== null && run.stopAt <= now() && run.endedAt === null && isUnowned(run, now()))
        .sort((a, b) => (a.stopAt ?? 0) - (b.stopAt ?? 0))
        .slice(0, limit)
        .map(({ id }) => id),
    log: async ({ subject, id, before = Number.POSITIVE_INFINITY, limit }) =>
      memory.log
        .filter((entry) => entry.no < before && (subject ?? entry.subject) === entry.subject && (id ?? entry.id) === entry.id)
        .reverse()
        .slice(0, limit),
    chunks: async (query) => memory.chunks.read(query),
    tail: async (run, stream) => memory.chunks.tail(run, stream),
    purge: async (limit) => purge(memory, now(), limit),
    watch(changed) {
      memory.watchers.add(changed);
      return () => void memory.watchers.delete(changed);
    },
  };
}

/** No worker executes the run: it has no owner, or the owner's lease has expired. */
function isUnowned({ owner, wakeAt }: RunRecord, now: number): boolean {
  return owner === null || (wakeAt !== null && wakeAt <= now);
}

function claim(memory: MemoryRuns, table: MemoryRunTable, query: ClaimQuery): Claims {
  const now = table.now();
  const { owner, leaseMs } = query;
  const wanted = [...memory.runs.values()].filter((run) => isWanted(run, query));
  const queue = wanted.map((run) => ({ run, deaths: run.deaths, at: claimableAt(run, owner) })).sort((a, b) => a.at - b.at);
  const due = chooseDue(queue, query, now);
  const claimed = due.map(({ run }) => {
    table.changeRun(run.id, { ...claimedBy(owner, run, now), wakeAt: now + leaseMs });
    return load(memory, run.id, run.owner !== null) as Claimed;
  });
  const left = queue.filter((one) => !due.includes(one));
  return { now, claimed, nextAt: nextClaimAt(left, mayClaimSuspects(query, due)) };
}

function purge({ runs, journals, mailboxes, chunks, workers }: MemoryRuns, now: number, limit: number): number {
  let gone = 0;
  // The oldest come first, so a batch visits few of them.
  for (const run of runs.values()) {
    if (gone === limit) break;
    if ((expiryOf(run) ?? Number.POSITIVE_INFINITY) > now) continue;
    for (const table of [runs, journals, mailboxes, chunks]) table.delete(run.id);
    gone += 1;
  }
  for (const { id, seenAt } of workers.values()) if (seenAt <= now - workerKeptMs) workers.delete(id);
  return gone;
}

function sawWorker(
  { workers }: MemoryRuns,
  worker: Pick<WorkerRecord, "id" | "workflows" | "version">,
  now: number,
  leaseMs: number,
): void {
  const startedAt = workers.get(worker.id)?.startedAt ?? now;
  workers.set(worker.id, { ...worker, startedAt, seenAt: now, leaseUntil: now + leaseMs });
}

function load(memory: MemoryRuns, id: string, lapsed: boolean): Claimed | undefined {
  const run = memory.runs.get(id);
  if (run === undefined) return undefined;
  const journal = [...(memory.journals.get(id) ?? [])];
  const hooks = [...memory.hooks.values()].filter((hook) => hook.run === id);
  return { run, lapsed, journal, mail: mailAfter(memory, id, run.consumed), hooks };
}

function mailAfter({ mailboxes }: MemoryRuns, run: string, after: number): Mail[] {
  return (mailboxes.get(run)?.mail ?? []).filter(({ seq }) => seq > after);
}
