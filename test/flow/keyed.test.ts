import { LeaseLostError, list, MismatchError, type Store } from "onceflow";
import { create, FlowAlreadyRunningError, type FlowContext, IdempotencyRecordNotFoundError, type RunOptions } from "onceflow/flow";
import { dynamoTarget, memoryTarget, mongoTarget, postgresTarget, redisTarget, sqliteTarget } from "onceflow/testing";
import { afterAll, beforeAll, describe, expect, inject, type TestContext, test, vi } from "vitest";
import type { ContractTarget } from "../../src/testing/contract/targets/target.js";
import { gate } from "../kit/gate.js";
import { type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";

/** The URL of a running server. */
function given(name: "postgres" | "redis" | "dynamodb" | "mongodb"): string {
  const server = inject(name);
  if (!server.ok) throw new Error(server.reason);
  return server.url;
}

let database: FreshDatabase | undefined;
const targets: Record<string, () => Promise<ContractTarget & { close?(): Promise<void> }>> = {
  memory: async () => memoryTarget({ time: "real" }),
  SQLite: async () => sqliteTarget(),
  PostgreSQL: async () => {
    database = await freshDatabase(given("postgres"));
    return await postgresTarget({ url: database.url });
  },
  Redis: async () => redisTarget({ url: given("redis") }),
  DynamoDB: async () => dynamoTarget({ url: given("dynamodb") }),
  "MongoDB (an emulator, or the real one that is given)": async () => mongoTarget({ url: given("mongodb") }),
};

afterAll(async () => {
  await database?.drop();
});

interface Order {
  readonly id: string;
  readonly amount: number;
}
const order: Order = { id: "o-1", amount: 10 };

for (const [name, targetOf] of Object.entries(targets)) {
  describe(`keyed runs on ${name}`, () => {
    let target: Awaited<ReturnType<typeof targetOf>> | undefined;
    let missing = "";
    beforeAll(async () => {
      try {
        target = await targetOf();
      } catch (error) {
        // With CI=true a missing server has already failed the set-up.
        missing = error instanceof Error ? error.message : String(error);
      }
    });
    afterAll(() => target?.close?.());

    /** Stores on a database that no other test uses. */
    const ledger = async ({ skip, onTestFinished }: TestContext): Promise<() => Promise<Store>> => {
      if (target === undefined) return skip(missing);
      const ledger = await target.create();
      const stores: Store[] = [];
      onTestFinished(async () => {
        await Promise.all(stores.map((store) => store.close()));
        await ledger.remove();
      });
      return async () => {
        const store = await ledger.open({ purgeEveryMs: 0 });
        stores.push(store);
        return store;
      };
    };

    test("the second call gets the stored result, equal to the first, and nothing runs again", async (context) => {
      const handle = await ledger(context);
      const body = vi.fn();
      const flow = (store: Store) =>
        create<Order>("payment", { idempotency: store })
          .step("charge", body)
          .step("ship", () => {});
      const first = await flow(await handle()).run(order, { key: "payment:o-1" });
      const second = await flow(await handle()).run(order, { key: "payment:o-1" });
      expect(first.status).toBe("completed");
      expect(second).toEqual(first);
      expect(body).toHaveBeenCalledTimes(1);
    });

    test("a failure is stored, too: errors with their name, message, code and cause", async (context) => {
      const handle = await ledger(context);
      const body = vi.fn(() => {
        throw Object.assign(new RangeError("declined", { cause: new Error("no funds") }), { code: "E_CARD" });
      });
      const flow = create<Order>("payment", { idempotency: await handle() })
        .step("reserve", () => {}, { compensate: () => {} })
        .step("charge", body, { retries: 1 });
      const first = await flow.run(order, { key: "k" });
      const second = await flow.run(order, { key: "k" });
      expect(second).toEqual(first);
      expect(second.error).toMatchObject({ name: "RangeError", message: "declined", code: "E_CARD", cause: { message: "no funds" } });
      expect(second.compensations).toEqual([{ name: "reserve", status: "completed" }]);
      expect(body).toHaveBeenCalledTimes(2);
    });

    test('50 concurrent calls with one key give one execution and 49 equal results, or 49 times "running"', async (context) => {
      const handle = await ledger(context);
      const [one, two] = [await handle(), await handle()];
      const meanwhile = gate();
      const body = vi.fn(() => meanwhile.opened);
      const flows = [one, two].map((idempotency) => create<Order>("payment", { idempotency }).step("charge", body));
      const all = (options: RunOptions) => Array.from({ length: 50 }, (_, i) => flows[i % 2]?.run(order, { key: "k", ...options }));
      const waiting = all({ onRunning: "wait" });
      await vi.waitFor(() => expect(body).toHaveBeenCalled());
      const refused = await Promise.all(all({}));
      expect(refused).toEqual(refused.map(() => ({ name: "payment", status: "running", durationMs: 0, steps: [] })));
      meanwhile.open();
      const results = await Promise.all(waiting);
      expect(new Set(results.map((result) => JSON.stringify(result))).size).toBe(1);
      expect(results[0]?.status).toBe("completed");
      expect(body).toHaveBeenCalledTimes(1);
    });

    test('throwIfRunning and onRunning: "throw" name flow and key', async (context) => {
      const handle = await ledger(context);
      const meanwhile = gate();
      const flow = create<Order>("payment", { idempotency: await handle() }).step("charge", () => meanwhile.opened);
      const first = flow.run(order, { key: "k" });
      await vi.waitFor(async () => expect(await flow.run(order, { key: "k" })).toMatchObject({ status: "running" }));
      for (const options of [{ throwIfRunning: true }, { onRunning: "throw" }] as const) {
        const error = await flow.run(order, { key: "k", ...options }).catch((error: unknown) => error);
        expect(error).toBeInstanceOf(FlowAlreadyRunningError);
        expect(error).toMatchObject({ flow: "payment", key: "k", retryable: true, message: expect.stringMatching(/"payment".*"k"/) });
      }
      expect(await flow.run(order, { key: "k", onRunning: "wait", waitMs: 20 })).toMatchObject({ status: "running" });
      meanwhile.open();
      await first;
    });

    test("the same key with another input, or in another flow, is refused, or replayed if configured", async (context) => {
      const handle = await ledger(context);
      const store = await handle();
      const body = vi.fn();
      const flow = create<Order>("payment", { idempotency: store }).step("charge", body);
      const first = await flow.run(order, { key: "k" });
      await expect(flow.run({ ...order, amount: 11 }, { key: "k" })).rejects.toBeInstanceOf(MismatchError);
      await expect(create<Order>("refund", { idempotency: store }).run(order, { key: "k" })).rejects.toBeInstanceOf(MismatchError);
      expect(await flow.run({ ...order, amount: 11 }, { key: "k", onMismatch: "replay" })).toEqual(first);
      expect(await flow.run({ amount: 10, id: "o-1" }, { key: "k" })).toEqual(first);
      expect(body).toHaveBeenCalledTimes(1);
    });

    test("cacheResult: false keeps other calls out while the flow runs, and stores no result", async (context) => {
      const handle = await ledger(context);
      const meanwhile = gate();
      const body = vi.fn(() => meanwhile.opened);
      const flow = create<Order>("payment", { idempotency: await handle() }).step("charge", body);
      const first = flow.run(order, { key: "k", cacheResult: false });
      await vi.waitFor(() => expect(body).toHaveBeenCalled());
      expect(await flow.run(order, { key: "k", cacheResult: false })).toMatchObject({ status: "running" });
      meanwhile.open();
      expect((await first).status).toBe("completed");
      expect(await flow.run({ ...order, amount: 5 }, { key: "k", cacheResult: false })).toMatchObject({ status: "completed" });
      expect(body).toHaveBeenCalledTimes(2);
    });

    test("ttlMs is retention: after it the key can be used again", async (context) => {
      const handle = await ledger(context);
      const body = vi.fn();
      const flow = create<Order>("payment", { idempotency: await handle() }).step("charge", body);
      await flow.run(order, { key: "k", ttlMs: 1 });
      await vi.waitFor(async () => {
        await flow.run(order, { key: "k", ttlMs: 60_000 });
        expect(body).toHaveBeenCalledTimes(2);
      });
      await flow.run(order, { key: "k", ttlMs: 60_000 });
      expect(body).toHaveBeenCalledTimes(2);
    });

    test("a run that takes longer than its ttl and its lease is not executed twice", async (context) => {
      const handle = await ledger(context);
      const [one, two] = [await handle(), await handle()];
      const meanwhile = gate();
      const body = vi.fn(() => meanwhile.opened);
      const flows = [one, two].map((idempotency) => create<Order>("payment", { idempotency }).step("charge", body));
      const options = { key: "k", ttlMs: 1, leaseMs: 900 };
      const first = flows[0]?.run(order, options);
      await vi.waitFor(() => expect(body).toHaveBeenCalled());
      // A lease is renewed after a third of its length: this is longer than a lease.
      for (const enough = one.metrics.renewed + 4; one.metrics.renewed < enough; )
        expect(await flows[1]?.run(order, options)).toMatchObject({ status: "running" });
      meanwhile.open();
      expect(await first).toMatchObject({ status: "completed" });
      expect(body).toHaveBeenCalledTimes(1);
    });

    test("a cancelled run frees its key after its compensations", async (context) => {
      const handle = await ledger(context);
      const controller = new AbortController();
      const undone = vi.fn();
      const flow = create<Order>("payment", { idempotency: await handle() })
        .step("charge", () => {}, { compensate: undone })
        .step("ship", (ctx) => (ctx.runAttempt === 1 ? controller.abort(new Error("enough")) : undefined))
        .step("mail", () => {});
      const first = await flow.run(order, { key: "k", signal: controller.signal });
      expect(first).toMatchObject({ status: "cancelled", error: { message: "enough" } });
      expect(undone).toHaveBeenCalledTimes(1);
      expect(await flow.run(order, { key: "k" })).toMatchObject({ status: "completed", steps: [{}, {}, {}] });
    });

    test("steps get stable keys, one per step, and another one for its compensation", async (context) => {
      const handle = await ledger(context);
      const keys: (string | undefined)[] = [];
      const note = (ctx: FlowContext<Order>) => void keys.push(ctx.stepKey);
      const flow = create<Order>("payment", { idempotency: await handle() })
        .step("charge", note, { compensate: note })
        .step(
          "ship",
          (ctx) => {
            note(ctx);
            throw new Error("no");
          },
          { retries: 1 },
        );
      await flow.run(order, { key: "k", cacheResult: false });
      const [charge, ship, again, undo] = keys;
      expect(again).toBe(ship);
      expect(new Set([charge, ship, undo]).size).toBe(3);
      for (const key of keys) expect(key).toMatch(/^[0-9a-f]{64}$/);
      await flow.run(order, { key: "k", cacheResult: false });
      expect(keys.slice(4)).toEqual(keys.slice(0, 4));
      await flow.run(order, { key: "other", cacheResult: false });
      expect(keys[8]).not.toBe(charge);
      await create<Order>("payment")
        .step("charge", (ctx) => void keys.push(ctx.stepKey, ctx.key))
        .run(order);
      expect(keys.slice(-2)).toEqual([undefined, undefined]);
    });

    test("a run that was taken over cannot settle: it rejects, and the result of the other run stands", async (context) => {
      const handle = await ledger(context);
      const [one, two] = [await handle(), await handle()];
      const meanwhile = gate();
      const flow = create<Order>("payment", { idempotency: one })
        .step("charge", () => meanwhile.opened)
        .step("ship", () => {});
      const late = flow.run(order, { key: "k", leaseMs: 60_000 });
      await vi.waitFor(async () => expect((await two.read({ scope: "", key: "k" }))?.record.state).toBe("running"));
      // Another caller frees the key in the run's name and executes it: the first run sees the same as after a takeover.
      const { owner = "", attempt = 0 } = (await two.read({ scope: "", key: "k" }))?.record ?? {};
      await two.commit({
        ledger: { verb: "settle", scope: "", key: "k", owner, attempt, to: { state: "free", forget: true }, note: null },
      });
      const winner = create<Order>("payment", { idempotency: two }).step("charge", () => {});
      const won = await winner.run(order, { key: "k" });
      meanwhile.open();
      await expect(late).rejects.toBeInstanceOf(LeaseLostError);
      expect(await winner.run(order, { key: "k" })).toEqual(won);
    });

    test("a run of one step takes one begin and one settle, each further step one more commit, and a replay one", async (context) => {
      const handle = await ledger(context);
      const store = await handle();
      const flow = (steps: number) => {
        const flow = create<Order>(`of ${steps}`, { idempotency: store });
        for (let i = 0; i < steps; i++) flow.step(`s${i}`, () => {});
        return flow;
      };
      const flushes = async (run: () => Promise<unknown>) => {
        const before = store.metrics.flushes;
        await run();
        return store.metrics.flushes - before;
      };
      const durable = store.capabilities.durable;
      expect(await flushes(() => flow(1).run(order, { key: "1" }))).toBe(2);
      expect(await flushes(() => flow(3).run(order, { key: "3" }))).toBe(durable ? 4 : 2);
      expect(await flushes(() => flow(3).run(order, { key: "not durable", durable: false }))).toBe(2);
      expect(await flushes(() => flow(3).run(order, { key: "3" }))).toBe(1);
    });

    test("a context that cannot be stored fails the step that left it, with the value's path, and compensates it", async (context) => {
      const handle = await ledger(context);
      const store = await handle();
      const undone: string[] = [];
      const undo = (name: string) => ({ compensate: (ctx: FlowContext<Order>) => void undone.push(`${name} ${ctx.has("order")}`) });
      const flow = create<Order>("payment", { idempotency: store })
        .step("reserve", () => {}, undo("reserve"))
        .step("charge", (ctx) => ctx.set("order", { lines: [{ price: () => 1 }] }), undo("charge"))
        .step("ship", () => {});
      const result = await flow.run(order, { key: "k" });
      if (!store.capabilities.durable) return expect(result.status).toBe("completed");
      expect(result).toMatchObject({ status: "failed", steps: [{ status: "completed" }, { name: "charge", status: "failed" }] });
      expect(result.error).toMatchObject({ message: expect.stringMatching(/^context\.order\.lines\[0\]\.price: cannot be stored/) });
      expect(undone).toEqual(["charge true", "reserve true"]);
      expect(await flow.run(order, { key: "k", durable: false })).toMatchObject({ status: "failed", durationMs: result.durationMs });
      expect(await flow.run(order, { key: "other", durable: false })).toMatchObject({ status: "completed" });
    });

    test("resume returns the stored result, and throws if there is nothing to resume", async (context) => {
      const handle = await ledger(context);
      const flow = create<Order>("payment", { idempotency: await handle() }).step("charge", () => {});
      await expect(flow.resume("k")).rejects.toBeInstanceOf(IdempotencyRecordNotFoundError);
      const first = await flow.run(order, { key: "k" });
      expect(await flow.resume("k")).toEqual(first);
      await flow.run(order, { key: "free", cacheResult: false });
      await expect(flow.resume("free")).rejects.toThrow(/flow "payment" has no run to resume/);
      expect(await flow.recover()).toEqual([]);
    });

    test("recover continues all abandoned runs, and leaves running ones and those of other flows alone", async (context) => {
      const handle = await ledger(context);
      const [doomed, store] = [await handle(), await handle()];
      const left = (flow: string, key: string, leaseMs: number) => {
        const never = create<Order>(flow, { idempotency: doomed })
          .step("charge", () => {})
          .step("ship", () => new Promise(() => {}));
        const telling = new Promise<void>((resolve) => {
          void (async () => {
            for await (const { type } of never.start({ ...order, id: key }, { key, leaseMs })) if (type === "stepComplete") resolve();
          })().catch(() => {});
        });
        return telling;
      };
      await Promise.all([left("payment", "a", 300), left("payment", "b", 300), left("refund", "c", 300), left("payment", "runs", 60_000)]);
      // Its heartbeat ends with it, so that the lease of its run expires.
      await doomed.close();
      const seen: string[] = [];
      const flow = create<Order>("payment", { idempotency: store })
        .step("charge", (ctx) => void seen.push(`charge ${ctx.input.id}`))
        .step("ship", (ctx) => void seen.push(`ship ${ctx.input.id} ${ctx.runAttempt}`));
      const results = await vi.waitFor(async () => {
        const results = await flow.recover();
        expect(results.length).toBeGreaterThan(0);
        return results;
      });
      while (results.length < 2) results.push(...(await flow.recover()));
      expect(results.map(({ status }) => status)).toEqual(["completed", "completed"]);
      const charged = store.capabilities.durable ? [] : ["charge a", "charge b"];
      expect(seen.sort()).toEqual([...charged, "ship a 2", "ship b 2"]);
      expect(await flow.recover()).toEqual([]);
    });

    test("the ledger's own functions see its keys", async (context) => {
      const handle = await ledger(context);
      const store = await handle();
      await create<Order>("payment", { idempotency: store, scope: "tenant" })
        .step("charge", () => {})
        .run(order, { key: "good" });
      const failing = create<Order>("payment", { idempotency: store, scope: "tenant" }).step("charge", () =>
        Promise.reject(new Error("declined")),
      );
      await failing.run(order, { key: "bad" });
      const { items } = await list(store, { scope: "tenant" });
      expect(items.map(({ key, state }) => [key, state])).toEqual([
        ["bad", "failed"],
        ["good", "completed"],
      ]);
    });
  });
}
