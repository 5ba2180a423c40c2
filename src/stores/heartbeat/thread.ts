import { workerData } from "node:worker_threads";
import type { Renew } from "../../core/ledger/operation.js";
import type { Backend, HeldLease } from "../../core/store/store.js";
import type { HeartbeatData } from "./heartbeat-thread.js";
import { type Held, LeaseBoard } from "./lease-board.js";

/** The part of a backend that is needed to renew leases. */
type Renewing = Pick<Backend, "flush" | "runs" | "packets">;

/**
 * Loads the store's code and driver, and returns a function that connects to the store at this address. It connects without
 * checking the store, because this process has opened and checked it before.
 */
export type Prepare<Address> = (address: Address) => Promise<() => Promise<Renewing>>;

/**
 * The main loop of the heartbeat thread: `heartbeat.ts` of each store calls it. Nothing else runs in that thread, so it may
 * block while it sleeps.
 */
export async function renewStalledLeases<Address>(store: string, prepare: Prepare<Address>): Promise<never> {
  const { store: expected, address, stallMsMax, board: memory } = workerData as HeartbeatData<Address>;
  // In a bundle the threads of all stores have one file name, heartbeat.js.
  if (store !== expected) throw new Error(`heartbeat.js is the thread of the ${store} store, and this is a ${expected} store`);
  const board = new LeaseBoard(memory);
  const leases = new StalledLeases(board, stallMsMax, async () => (await prepare(address))());
  // Loading a store and its driver can take a large part of a short lease, so load them before they are needed. But not at once: a store
  // that is soon closed does not need them.
  board.sleep(board.leaseMsMin / 10);
  await prepare(address).catch(() => {});
  for (;;) {
    await leases.look();
    // Four checks per shortest lease: a blocked event loop is noticed after half a lease, and the lease renewed before three quarters.
    board.sleep(board.leaseMsMin / 4);
  }
}

class StalledLeases {
  readonly #board: LeaseBoard;
  readonly #stallMsMax: number;
  readonly #connect: () => Promise<Renewing>;
  #connected: Promise<Renewing> | undefined;
  #renewedAt = new Map<string, number>();

  constructor(board: LeaseBoard, stallMsMax: number, connect: () => Promise<Renewing>) {
    this.#board = board;
    this.#stallMsMax = stallMsMax;
    this.#connect = connect;
  }

  async look(): Promise<void> {
    const silentMs = this.#board.silentMs();
    if (silentMs < this.#board.leaseMsMin / 2 || silentMs > this.#stallMsMax) return;
    // A healthy event loop beats every third of the shortest lease that it holds now, which may be long: so compare with each
    // lease's length.
    const isDue = ({ owner, leaseMs }: Held) => Math.min(silentMs, this.#sinceRenewed(owner) * 2) >= leaseMs / 2;
    const due = this.#board.read().filter(isDue);
    if (due.length > 0) await this.#renew(due);
  }

  #sinceRenewed(owner: string): number {
    return performance.now() - (this.#renewedAt.get(owner) ?? Number.NEGATIVE_INFINITY);
  }

  async #renew(leases: readonly Held[]): Promise<void> {
    try {
      this.#connected ??= this.#connect();
      const { flush, runs, packets } = await this.#connected;
      const records = leases.filter((lease) => "key" in lease);
      const verdicts = records.length > 0 ? await flush(inOrder(records).map(toRenew)) : [];
      for (const verdict of verdicts) if (verdict instanceof Error) throw verdict;
      for (const lease of leases) {
        if ("runs" in lease) await runs?.renew(lease);
        if ("worker" in lease) await packets?.renew(lease.worker, lease.leaseMs);
      }
      const renewed = leases.map(({ owner }) => [owner, performance.now()] as const);
      this.#renewedAt = new Map([...this.#renewedAt, ...renewed].slice(-this.#board.slots));
    } catch {
      // The store cannot be reached from this thread either. The next check tries again on a new connection.
      this.#connected = undefined;
    }
  }
}

/** Sorted by record, one lease per record: of two attempts of a record the later one counts. */
function inOrder(leases: readonly HeldLease[]): HeldLease[] {
  const byRecord = new Map<string, HeldLease>();
  for (const lease of leases) {
    const row = `${lease.scope}\0${lease.key}`;
    const other = byRecord.get(row);
    if (other === undefined || other.attempt < lease.attempt) byRecord.set(row, lease);
  }
  return [...byRecord].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, lease]) => lease);
}

function toRenew({ scope, key, owner, attempt, leaseMs }: HeldLease): Renew {
  return { verb: "renew", scope, key, owner, attempt, leaseMs };
}
