import assert from "node:assert/strict";
import type { Answer, Begin } from "../../../core/ledger/operation.js";
import type { LedgerRecord, RecordId } from "../../../core/ledger/record.js";
import type { Reading, Store } from "../../../core/store/store.js";
import type { StoreOptions } from "../../../core/store/store-options.js";
import type { BusinessRows, ContractLedger, ContractTarget } from "../targets/target.js";
import { type Held, membersOf, start } from "./operations.js";

/** Nothing that a case waits for takes this long, also on a busy machine. */
const waitMsMax = 40_000;

/** What a case plays on: a ledger of its own, any number of handles on it, and its time. */
export class Scene {
  readonly target: ContractTarget;
  readonly #ledger: ContractLedger;
  readonly #opened: Store[] = [];
  #store: Store | undefined;

  static async set(target: ContractTarget): Promise<Scene> {
    return new Scene(target, await target.create());
  }

  private constructor(target: ContractTarget, ledger: ContractLedger) {
    this.target = target;
    this.#ledger = ledger;
  }

  /** Another handle, as another process would have it. Its purge is off unless the case is about it. */
  async open(options: StoreOptions = {}): Promise<Store> {
    const store = await this.#ledger.open({ purgeEveryMs: 0, ...options });
    this.#opened.push(store);
    return store;
  }

  /** The handle that most cases need only one of. */
  async store(): Promise<Store> {
    this.#store ??= await this.open();
    return this.#store;
  }

  /** A lease that a heartbeat holds. */
  get leaseMs(): number {
    return this.target.leaseMs ?? 1000;
  }

  get business(): BusinessRows {
    assert.ok(this.#ledger.business, "a target with the capability transactions has to bring business rows");
    return this.#ledger.business;
  }

  async sever(): Promise<void> {
    await this.#ledger.sever?.();
  }

  /** Begins, and dies before it settles: the handle is closed, so that nobody renews its leases any more. */
  async die(...begins: readonly Begin[]): Promise<Held[]> {
    const doomed = await this.#ledger.open({ purgeEveryMs: 0 });
    try {
      return await Promise.all(begins.map((begin) => start(doomed, begin)));
    } finally {
      await doomed.close();
    }
  }

  /** The same, and the lease is over. */
  async dieAndLapse(begin: Begin): Promise<Held> {
    const [held] = await this.die({ ...begin, leaseMs: shortMs });
    assert.ok(held);
    await this.lapse(held.begin);
    return held;
  }

  async lapse(id: RecordId): Promise<void> {
    await this.reach(id, (await this.record(id)).leaseUntil);
  }

  /** Waits until the store's own clock says `at`. */
  async reach(id: RecordId, at: number): Promise<void> {
    await this.until(`the store's time is ${at}`, async () => {
      const { now } = await this.reading(id);
      if (now < at) await this.pass(at - now);
      return now >= at;
    });
  }

  /** Looks until it is so. */
  async until(what: string, look: () => Promise<boolean>): Promise<void> {
    const startedAt = performance.now();
    while (!(await look())) {
      assert.ok(performance.now() - startedAt < waitMsMax, `it did not come about within ${waitMsMax} ms that ${what}`);
      await this.pass(2);
    }
  }

  /** Lets time pass until the promise is settled: whoever polls gets on with it, also on virtual time. */
  async finish<T>(promise: Promise<T>): Promise<T> {
    let done = false;
    const end = () => {
      done = true;
    };
    promise.then(end, end);
    await this.until("what was begun has ended", async () => done);
    return await promise;
  }

  async pass(ms: number): Promise<void> {
    if (this.#ledger.pass) await this.#ledger.pass(ms);
    else await new Promise((resolve) => setTimeout(resolve, ms));
  }

  async reading({ scope, key }: RecordId): Promise<Reading> {
    const reading = await (await this.store()).read({ scope, key });
    assert.ok(reading, `there is a record of key "${key}" in scope "${scope}"`);
    return reading;
  }

  async record(id: RecordId): Promise<LedgerRecord> {
    return membersOf((await this.reading(id)).record);
  }

  /** What was answered, and that the record is as it was: nothing was written. */
  async unchanged(id: RecordId, ask: () => Promise<Answer>): Promise<Answer> {
    const before = await this.record(id);
    const answer = await ask();
    assert.deepEqual(await this.record(id), before, `a request answered "${answer.kind}" changes nothing`);
    return answer;
  }

  async strike(): Promise<void> {
    await Promise.all(this.#opened.map((store) => store.close()));
    await this.#ledger.remove();
  }
}

/** A lease that is soon over. */
export const shortMs = 60;
