import { InvalidInputError } from "../core/errors/errors.js";
import type { Batch } from "../core/ledger/operation.js";
import type { AuditEntry, Backend, PurgeQuery, Store, Tx } from "../core/store/store.js";

/** Where to die: before or after each durable write of the ledger, and around the commit of a handler's transaction. */
export const crashPoints = [
  "before begin",
  "after begin",
  "before renew",
  "after renew",
  "before settle",
  "after settle",
  "before resolve",
  "after resolve",
  "before audit",
  "after audit",
  "before purge",
  "after purge",
  "before transaction",
  "before commit",
  "after commit",
] as const;
export type CrashPoint = (typeof crashPoints)[number];

/** A store does these by itself: nobody who calls it can stand before or after them. */
const byItself: readonly CrashPoint[] = ["before renew", "after renew", "before audit", "after audit"];

/**
 * The same store, on which `die` is called at one point: `process.kill(process.pid, "SIGKILL")` in a process that a
 * test has started for that.
 *
 * A backend has all of the points, a store those that its callers reach: not the heartbeat's `renew`, nor `audit`. Under
 * a backend `die` has to end the process: what it throws there is taken as the database's refusal. The heartbeat thread, with
 * a connection of its own, renews past a backend that is wrapped: open it with `stallMsMax: 0`.
 */
export function withCrashPoint<Doomed extends Store | Backend>(doomed: Doomed, point: CrashPoint, die: () => void): Doomed {
  const around = aroundWrites(point, die);
  return Object.create(doomed, "flush" in doomed ? ofBackend(doomed, around) : ofStore(doomed, point, around)) as Doomed;
}

type Around = ReturnType<typeof aroundWrites>;

function aroundWrites(point: CrashPoint, die: () => void) {
  const at = (here: string) => {
    if (here === point) die();
  };
  return {
    async writes<T>(verbs: readonly string[], write: () => Promise<T>): Promise<T> {
      for (const verb of verbs) at(`before ${verb}`);
      const answer = await write();
      for (const verb of verbs) at(`after ${verb}`);
      return answer;
    },
    async transaction<T>(on: Pick<Store, "transact">, work: (tx: Tx) => Promise<T>): Promise<T> {
      at("before transaction");
      const result = await on.transact(async (tx) => {
        const inside = await work(tx);
        at("before commit");
        return inside;
      });
      at("after commit");
      return result;
    },
  };
}

function ofStore(store: Store, point: CrashPoint, around: Around): PropertyDescriptorMap {
  if (byItself.includes(point))
    throw new InvalidInputError("point", `"${point}" is inside of a store: wrap its backend, and make the store of that by createStore`);
  const commit = (batch: Batch) => {
    // The points are those of the ledger: writes of runs and packets pass.
    if ("run" in batch) return store.commit(batch);
    if ("packet" in batch) return store.commit(batch);
    return around.writes([batch.ledger.verb], () => store.commit(batch));
  };
  return {
    commit: { value: commit },
    purge: { value: (query: PurgeQuery) => around.writes(["purge"], () => store.purge(query)) },
    transact: { value: <T>(work: (tx: Tx) => Promise<T>) => around.transaction(store, work) },
  };
}

function ofBackend(backend: Backend, around: Around): PropertyDescriptorMap {
  const flush: Backend["flush"] = (operations) =>
    around.writes(
      operations.map(({ verb }) => verb),
      () => backend.flush(operations),
    );
  const transact = <T>(work: (tx: Tx) => Promise<T>) => around.transaction(backend as Pick<Store, "transact">, work);
  return {
    flush: { value: flush },
    audit: { value: (entries: readonly AuditEntry[]) => around.writes(["audit"], () => backend.audit(entries)) },
    purge: { value: (query: PurgeQuery) => around.writes(["purge"], () => backend.purge(query)) },
    ...(backend.transact === undefined ? {} : { transact: { value: transact } }),
  };
}
