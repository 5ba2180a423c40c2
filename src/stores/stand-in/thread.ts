import { parentPort, workerData } from "node:worker_threads";
import type { Renew } from "../../core/operation.js";
import type { Backend, HeldLease } from "../../core/store.js";
import { openPostgres } from "../postgres/open.js";
import { openSqlite } from "../sqlite/open.js";
import { monotonicMs, type StandInData, type StandInMessage } from "./stand-in.js";

/** Runs in a thread of its own: see stand-in.ts. */
const { target, stallMsMax, aliveAt } = workerData as StandInData;
const held = new Map<string, HeldLease>();
let timer: NodeJS.Timeout | undefined;
let backend: Promise<Backend> | undefined;

parentPort?.on("message", ({ hold, drop }: StandInMessage) => {
  for (const owner of drop) held.delete(owner);
  for (const lease of hold) held.set(lease.owner, lease);
  watch();
});

/** Four looks in a lease: a stall is seen at half of it, and renewed before three quarters are over. */
function watch(): void {
  if (timer !== undefined || held.size === 0) return;
  const everyMs = Math.min(...[...held.values()].map((lease) => lease.leaseMs)) / 4;
  timer = setTimeout(() => {
    timer = undefined;
    void look(everyMs * 2).finally(watch);
  }, everyMs);
}

async function look(stalledAfterMs: number): Promise<void> {
  const silentMs = Number(monotonicMs() - Atomics.load(aliveAt, 0));
  if (silentMs < stalledAfterMs) return;
  if (silentMs > stallMsMax) return held.clear();
  try {
    backend ??= open();
    await renewAll(await backend);
  } catch {
    // The store can't be reached from here either. The next look tries again, on a new connection.
    backend = undefined;
  }
}

function open(): Promise<Backend> {
  return target.kind === "sqlite" ? openSqlite(target) : openPostgres(target);
}

async function renewAll({ flush }: Backend): Promise<void> {
  const leases = [...held.values()].sort((a, b) => (a.scope === b.scope ? (a.key < b.key ? -1 : 1) : a.scope < b.scope ? -1 : 1));
  // One operation per record and flush: two attempts of one record cannot both be live, the later one counts.
  const byRecord = new Map(leases.map((lease) => [`${lease.scope}\0${lease.key}`, lease]));
  const operations = [...byRecord.values()].map(({ scope, key, owner, attempt, leaseMs }): Renew => {
    return { verb: "renew", scope, key, owner, attempt, leaseMs };
  });
  const verdicts = await flush(operations);
  for (const [i, verdict] of verdicts.entries()) {
    const owner = operations[i]?.owner;
    if (owner !== undefined && verdict !== "again" && verdict.answer.kind === "stale") held.delete(owner);
  }
}
