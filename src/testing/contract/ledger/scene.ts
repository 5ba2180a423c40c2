import assert from "node:assert/strict";
import type { Answer, Begin } from "../../../core/ledger/operation.js";
import type { LedgerRecord, RecordId } from "../../../core/ledger/record.js";
import type { Reading, Store } from "../../../core/store/store.js";
import type { StoreOptions } from "../../../core/store/store-options.js";
import type { BusinessRows, ContractLedger, ContractTarget } from "../targets/target.js";
import { type Held, membersOf, start } from "./operations.js";

/** Longer than anything that a case waits for, even on a busy machine. */
const waitMsMax = 40_000;

/** The surroundings of one case: its own ledger, any number of handles on the ledger, and the ledger's time. */
export class Scene {
  readonly target: ContractTarget;
  readonly #ledger: ContractLedger;
  readonly #opened: Store[] = [];
  #store: Store | undefined;

  static async set(target: ContractTarget, options?: { readonly unopened: boolean }): Promise<Scene> {
    return new Scene(target, await target.create(options));
  }

  private constructor(target: ContractTarget, ledger: ContractLedger) {
    this.target = target;
    this.#ledger = ledger;
  }

  /** Opens another handle, as another process would. Its purge is off unless the case turns it on. */
  async open(options: StoreOptions = {}): Promise<Store> {
    const store = await this.#ledger.open({ purgeEveryMs: 0, ...options });
    this.#opened.push(store);
    return store;
  }

  /** The shared handle. Most cases need only this one. */
  async store(): Promise<Store> {
    this.#store ??= await this.open();
    return this.#store;
  }

  /** A lease long enough that the heartbeat renews it in time. */
  get leaseMs(): number {
    return this.target.leaseMs ?? 1000;
  }

  get business(): BusinessRows {
    assert.ok(this.#ledger.business, 'a target with the capability "transactions" must provide business rows');
    return this.#ledger.business;
  }

  async sever(): Promise<void> {
    await this.#ledger.sever?.();
  }

  /** Begins attempts and dies before it settles them: the handle is closed, so that no heartbeat renews their leases. */
  async die(...begins: readonly Begin[]): Promise<Held[]> {
    const doomed = await this.#ledger.open({ purgeEveryMs: 0 });
    try {
      return await Promise.all(begins.map((begin) => start(doomed, begin)));
    } finally {
      await doomed.close();
    }
  }

  /** Begins an attempt, dies, and waits until its lease has expired. */
  async dieAndLapse(begin: Begin): Promise<Held> {
    const [held] = await this.die({ ...begin, leaseMs: shortMs });
    assert.ok(held);
    await this.lapse(held.begin);
    return held;
  }

  async lapse(id: RecordId): Promise<void> {
    await this.reach(id, (await this.record(id)).leaseUntil);
  }

  /** Waits until the store's clock has reached `at`. */
  async reach(id: RecordId, at: number): Promise<void> {
    await this.until(`the store's time is ${at}`, async () => {
      const { now } = await this.reading(id);
      if (now < at) await this.pass(at - now);
      return now >= at;
    });
  }

  /** Polls until `look` returns true. */
  async until(what: string, look: () => Promise<boolean>): Promise<void> {
    const startedAt = performance.now();
    while (!(await look())) {
      assert.ok(performance.now() - startedAt < waitMsMax, `timed out after ${waitMsMax} ms waiting until ${what}`);
      await this.pass(2);
    }
  }

  /** Lets time pass until the promise is settled: poll loops need time to pass, on virtual time too. */
  async finish<T>(promise: Promise<T>): Promise<T> {
    let done = false;
    const end = () => {
      done = true;
    };
    promise.then(end, end);
    await this.until("the promise is settled", async () => done);
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

  /** Returns the answer, and asserts that the record was not changed. */
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

/** A lease that expires soon. */
export const shortMs = 60;
