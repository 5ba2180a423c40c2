import { InvalidInputError } from "../core/errors/errors.js";
import type { Batch } from "../core/ledger/operation.js";
import type { AuditEntry, Backend, PurgeQuery, Store, Tx } from "../core/store/store.js";

/** The crash points: before and after each durable write of the ledger, and around the commit of a handler's transaction. */
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
/** One of `crashPoints`. */
export type CrashPoint = (typeof crashPoints)[number];

/** Writes that a store makes by itself. A wrapper around the store does not see them; a wrapper around its backend does. */
const insideStore: readonly CrashPoint[] = ["before renew", "after renew", "before audit", "after audit"];

/**
 * Wraps a store or a backend so that it calls `die` at one crash point. `die` is usually
 * `() => process.kill(process.pid, "SIGKILL")`, in a process that the test has started for this.
 *
 * A wrapped backend has all crash points. A wrapped store has only those that its callers reach: not the heartbeat's `renew`,
 * nor `audit`. Around a backend, `die` must end the process: the store takes an error thrown there as an error of the database.
 * The heartbeat thread has its own connection and renews leases without the wrapper: open the store with `stallMsMax: 0`.
 *
 * @throws InvalidInputError when `point` is inside the store and `doomed` is a store, not a backend.
 *
 * @example
 * const store = withCrashPoint(await open(url, { stallMsMax: 0 }), "before settle", () => process.kill(process.pid, "SIGKILL"));
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
  if (insideStore.includes(point))
    throw new InvalidInputError("point", `"${point}" is inside the store; wrap the backend and pass the wrapped backend to createStore`);
  const commit = (batch: Batch) => {
    // Crash points are points of the ledger. Writes of runs and packets have none.
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
