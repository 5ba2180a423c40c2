import { InvalidInputError, RunningError } from "../core/errors/errors.js";
import { checkName } from "../core/ledger/key.js";
import type { Answer, Begin, Resolve, Settlement } from "../core/ledger/operation.js";
import { duration } from "../core/ledger/options.js";
import { newOwner } from "../core/ledger/owner.js";
import type { LedgerRecord } from "../core/ledger/record.js";
import { saveOutcome, sendBegin } from "../core/ledger/save.js";
import { encodeResult, noteOf } from "../core/ledger/settlement.js";
import { isPromise, promiseOfStore } from "../core/store/require-store.js";
import type { Store } from "../core/store/store.js";
import { decode } from "../core/values/codec.js";
import { decodeError, encodeError } from "../core/values/stored-error.js";
import { IdempotencyRecordNotFoundError } from "./errors.js";

/** What an {@link IdempotencyStore} keeps under a key. */
export interface IdempotencyRecord {
  readonly key: string;
  readonly status: "running" | "completed" | "failed";
  readonly result?: unknown;
  readonly error?: unknown;
  readonly createdAt?: Date;
  /** Null if the record is kept forever or is still running. */
  readonly expiresAt?: Date | null;
}

/** Options of `IdempotencyStore.start`. */
export interface StartOptions {
  /** How long the outcome is kept. Default: forever. */
  readonly ttlMs?: number;
}

/**
 * The interface that a flow needs from a custom store. The flow is only as safe as this store: it has no leases and no
 * fences, and keeps no progress. Prefer a store from `open(url)`.
 */
export interface IdempotencyStore {
  get(key: string): Promise<IdempotencyRecord | null | undefined>;
  /** Acquires the key. Must be atomic: of any number of concurrent callers exactly one gets `acquired: true`. */
  start(key: string, options?: StartOptions): Promise<{ readonly acquired: boolean; readonly record: IdempotencyRecord }>;
  complete(key: string, result: unknown): Promise<unknown>;
  fail(key: string, error: unknown): Promise<unknown>;
  delete(key: string): Promise<unknown>;
  /** Removes expired records. */
  cleanup(): Promise<unknown>;
}

/** Lease of a key that was started by hand. The heartbeat of the store renews it, because callers of `start` do not. */
const leaseMs = 10_000;

/**
 * An {@link IdempotencyStore} on top of a ledger. The heartbeat of this process holds a key that the process has started
 * until the key is completed, failed or deleted. If the process dies, the key is free again when its lease expires.
 */
export class LedgerIdempotencyStore implements IdempotencyStore {
  /** Returns the store that holds the keys, and opens it on first use. */
  readonly ledger: () => Promise<Store>;

  constructor(ledger: () => Promise<Store>) {
    let opening: Promise<Store> | undefined;
    this.ledger = () => {
      opening ??= ledger().catch((error: unknown) => {
        // Do not cache the failure: the next call tries again.
        opening = undefined;
        throw error;
      });
      return opening;
    };
  }

  /** Returns the record, or null if the key was never started, is free again, or has expired. */
  async get(key: string): Promise<IdempotencyRecord | null> {
    const reading = await (await this.ledger()).read(idOf(key));
    return reading && !isOver(reading.record, reading.now) ? recordOf(reading.record) : null;
  }

  /** Acquires the key for this process, or returns the record of the process or outcome that has it. */
  async start(key: string, { ttlMs }: StartOptions = {}): Promise<{ readonly acquired: boolean; readonly record: IdempotencyRecord }> {
    if (ttlMs !== undefined) duration("ttlMs", ttlMs, 1);
    const store = await this.ledger();
    const begin = beginOf(key, ttlMs ?? null);
    const answer = await sendBegin(store, begin);
    const record = (await this.get(key)) ?? { key, status: "running" };
    return { acquired: answer.kind === "started", record };
  }

  /** Stores the result. Throws IdempotencyRecordNotFoundError if the key is not running. */
  async complete(key: string, result: unknown): Promise<void> {
    const store = await this.ledger();
    await this.#settle(store, key, { state: "completed", outcome: await encodeResult(store, result) }, null);
  }

  /** Stores the error. Throws IdempotencyRecordNotFoundError if the key is not running. */
  async fail(key: string, error: unknown): Promise<void> {
    await this.#settle(await this.ledger(), key, { state: "failed", outcome: encodeError(error) }, noteOf(error));
  }

  /** Deletes the record, also of a running key. Throws RunningError if another process acquires the key at the same moment. */
  async delete(key: string): Promise<void> {
    const store = await this.ledger();
    const reading = await store.read(idOf(key));
    if (reading === undefined) return;
    const { record, now } = reading;
    const to = { state: "free", forget: true } as const;
    if (record.state === "running" && now < record.leaseUntil) return await this.#settle(store, key, to, "deleted");
    const erase: Resolve = { verb: "resolve", ...idOf(key), owner: newOwner(), attempt: record.attempt, to, note: "deleted", erase: true };
    const answer = await saveOutcome(store, erase);
    if (answer.kind !== "settled") throw new RunningError({ ...idOf(key), attempt: record.attempt + 1, retryAfterMs: leaseMs });
  }

  /** Removes expired records and returns how many it removed. */
  async cleanup(): Promise<number> {
    const store = await this.ledger();
    let removed = 0;
    for (;;) {
      const page = await store.purge({ limit: pageMax });
      removed += page;
      if (page < pageMax) return removed;
    }
  }

  /** Settles in the name of the current owner of the key: the IdempotencyStore interface does not identify callers. */
  async #settle(store: Store, key: string, to: Settlement, note: string | null): Promise<void> {
    const reading = await store.read(idOf(key));
    const { state, owner, attempt } = reading?.record ?? {};
    if (owner === undefined || attempt === undefined || state === "free") throw new IdempotencyRecordNotFoundError(key);
    const answer: Answer = await saveOutcome(store, { verb: "settle", ...idOf(key), owner, attempt, to, note });
    if (answer.kind !== "settled")
      throw new IdempotencyRecordNotFoundError(key, `the record is ${state}, not running; delete it first, or use another key`);
    store.release(owner, idOf(key));
  }
}

const pageMax = 500;

/** The ledger behind the option `idempotency`, or undefined if the option is a custom IdempotencyStore. */
export async function ledgerOf(given: IdempotencyStore | Store): Promise<Store | undefined> {
  if (given instanceof LedgerIdempotencyStore) return await given.ledger();
  if (typeof given === "object" && given !== null) {
    if ("commit" in given && typeof given.commit === "function") return given;
    const methods = ["get", "start", "complete", "fail", "delete"] as const;
    if (methods.every((method) => typeof (given as IdempotencyStore)[method] === "function")) return undefined;
  }
  if (isPromise(given)) throw new InvalidInputError("idempotency", promiseOfStore);
  throw new InvalidInputError(
    "idempotency",
    "must be a store from open(url), createIdempotencyStore(), redisIdempotencyStore(…) or dynamoIdempotencyStore(…), or an object with get, start, complete, fail and delete",
  );
}

function idOf(key: string): { readonly scope: string; readonly key: string } {
  checkName("key", key);
  return { scope: "", key };
}

function beginOf(key: string, retentionMs: number | null): Begin {
  const rest = { fingerprint: null, effect: "idempotent", leaseMs, retentionMs, horizonMs: 0, reconcileAfterMs: 0 } as const;
  return { verb: "begin", ...idOf(key), owner: newOwner(), ...rest, over: null, progress: null };
}

function isOver({ state, goneAt }: LedgerRecord, now: number): boolean {
  return state === "free" || (goneAt !== null && now >= goneAt);
}

function recordOf({ key, state, outcome, createdAt, expiresAt }: LedgerRecord): IdempotencyRecord {
  const times = { createdAt: new Date(createdAt), expiresAt: expiresAt === null ? null : new Date(expiresAt) };
  if (state === "completed") return { key, status: "completed", ...(outcome === null ? {} : { result: decode(outcome) }), ...times };
  if (state === "failed") return { key, status: "failed", error: decodeError(outcome ?? "{}"), ...times };
  return { key, status: "running", ...times };
}
