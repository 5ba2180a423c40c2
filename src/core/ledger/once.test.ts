import { describe, expect, test } from "vitest";
import { gate } from "../../../test/kit/gate.js";
import { settled } from "../../../test/kit/until.js";
import { createMemoryLedger, memoryBackend } from "../../stores/memory/backend.js";
import { NotSavedError, UnreachableError } from "../errors/errors.js";
import { createStore } from "../store/create-store.js";
import type { Backend, Store } from "../store/store.js";
import { inspect } from "./inspect.js";
import { key } from "./key.js";
import { once } from "./once.js";

const k = key.of("once:1");

/** A memory store whose settles fail until the test allows them. */
function withFailingSaves() {
  const backend = memoryBackend(createMemoryLedger());
  let failing = true;
  let tries = 0;
  const failed: Backend = {
    ...backend,
    flush: async (operations) => {
      if (operations.some(({ verb }) => verb === "settle")) {
        tries += 1;
        if (failing) throw new UnreachableError("simulated: the store is down");
      }
      return backend.flush(operations);
    },
  };
  return {
    store: createStore(failed, { purgeEveryMs: 0 }),
    heal: () => {
      failing = false;
    },
    tries: () => tries,
  };
}

describe("once", () => {
  test("lazy members of an attempt are the same object at every access", async () => {
    const store = createStore(memoryBackend(createMemoryLedger()), { purgeEveryMs: 0 });
    await once(store, { key: k }, (attempt) => {
      expect(attempt.signal).toBe(attempt.signal);
      expect(attempt.startedAt).toBe(attempt.startedAt);
    });
    await store.close();
  });

  test("if the store is closed before the outcome is saved, the error says that it is not saved", async () => {
    const { store, tries } = withFailingSaves();
    const result = once(store, { key: k }, () => "done").catch((error: unknown) => error);
    await expect.poll(tries).toBeGreaterThan(0);
    await store.close();
    expect(await result).toBeInstanceOf(NotSavedError);
  });

  test("a failed save is not a failed operation: it is retried until it succeeds", async () => {
    const { store, heal, tries } = withFailingSaves();
    let calls = 0;
    const result = once(store, { key: k }, () => {
      calls += 1;
      return "done";
    });
    await expect.poll(tries).toBeGreaterThan(2);
    expect((await inspect(store, { key: k }))?.state).toBe("running");
    heal();
    expect(await result).toMatchObject({ status: "executed", value: "done", attempt: 1 });
    expect(calls).toBe(1);
  });

  test("a caller may stop waiting for the save; saving continues under the lease", async () => {
    const { store, heal, tries } = withFailingSaves();
    const giveUp = new AbortController();
    const result = once(store, { key: k, leaseMs: 100, signal: giveUp.signal }, () => "done");
    await expect.poll(tries).toBeGreaterThan(1);
    giveUp.abort(new Error("too long"));
    await expect(result).rejects.toThrow(NotSavedError);
    heal();
    await expect.poll(async () => (await inspect(store, { key: k }))?.state, { timeout: 5000 }).toBe("completed");
    expect((await inspect(store, { key: k }))?.attempts).toHaveLength(1);
  });

  test("an aborted caller does not start an attempt, and a waiting one stops waiting", async () => {
    const store = createStore(memoryBackend(createMemoryLedger()), { purgeEveryMs: 0 });
    const reason = new Error("gone home");
    await expect(once(store, { key: k, signal: AbortSignal.abort(reason) }, () => 1)).rejects.toBe(reason);
    expect(await inspect(store, { key: k })).toBeUndefined();

    const finish: (() => void)[] = [];
    const running = once(store, { key: k }, () => new Promise<void>((resolve) => void finish.push(resolve)));
    const waiting = new AbortController();
    const duplicate = once(store, { key: k, signal: waiting.signal }, () => undefined);
    await expect.poll(() => store.metrics.running).toBeGreaterThan(0);
    waiting.abort(reason);
    await expect(duplicate).rejects.toBe(reason);
    for (const end of finish) end();
    expect((await running).status).toBe("executed");
  });

  test("tx on a store without transactions is refused before anything is written", async () => {
    const store = createStore(memoryBackend(createMemoryLedger()), { purgeEveryMs: 0 });
    await expect(once(store, { key: k, tx: true }, () => 1)).rejects.toMatchObject({ code: "MISSING_CAPABILITY" });
    expect(await inspect(store, { key: k })).toBeUndefined();
  });

  test("a lost lease of a nested operation with the same key in another scope counts as an error of the handler, and is settled", async () => {
    let now = 1000;
    const ledger = createMemoryLedger(() => now);
    const [store, other] = [ledger, ledger].map((shared) => createStore(memoryBackend(shared), { purgeEveryMs: 0 })) as [Store, Store];
    const nested = { key: k, scope: "nested" };
    const overtaken = once(store, { key: k, leaseMs: 3_600_000 }, () =>
      once(store, { ...nested, leaseMs: 60_000 }, async () => {
        now += 60_000;
        await once(other, nested, () => "by another process");
        return "late";
      }),
    );
    await expect(overtaken).rejects.toMatchObject({ code: "LEASE_LOST", scope: "nested" });
    expect((await inspect(store, nested))?.attempts.map(({ verdict }) => verdict)).toEqual(["lapsed", "completed"]);
    expect(await inspect(store, { key: k })).toMatchObject({ state: "free", attempts: [{ verdict: "threw" }] });
  });

  test("ten thousand concurrent duplicates: one execution, and every caller gets its outcome", async () => {
    const store = createStore(memoryBackend(createMemoryLedger()), { purgeEveryMs: 0 });
    let calls = 0;
    const all = gate();
    const asking = Array.from({ length: 10_000 }, () =>
      once(store, { key: k, input: { order: 1 } }, async () => {
        calls += 1;
        await all.opened;
        return { id: "ch_1" };
      }),
    );
    // The others find the key running.
    await settled();
    all.open();
    const results = await Promise.all(asking);
    expect(calls).toBe(1);
    expect(results.filter(({ status }) => status === "executed")).toHaveLength(1);
    expect(results.every(({ value }) => (value as { id: string }).id === "ch_1")).toBe(true);
    expect(store.metrics.flushes).toBeLessThan(100);
  });
});
