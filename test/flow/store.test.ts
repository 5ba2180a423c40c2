import { join } from "node:path";
import { MismatchError, open, type Store } from "onceflow";
import {
  create,
  createIdempotencyStore,
  FlowAlreadyRunningError,
  IdempotencyRecordNotFoundError,
  type IdempotencyStore,
  type RunOptions,
} from "onceflow/flow";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";

interface Order {
  readonly id: string;
  readonly amount: number;
}
const order: Order = { id: "o-1", amount: 10 };

describe("the methods of a store", () => {
  test("get, start, complete, fail, delete, cleanup", async () => {
    const store = createIdempotencyStore();
    expect(await store.get("k")).toBeNull();
    expect(await store.start("k", { ttlMs: 60_000 })).toMatchObject({ acquired: true, record: { key: "k", status: "running" } });
    expect(await store.start("k")).toMatchObject({ acquired: false, record: { status: "running" } });
    await store.complete("k", { paid: true });
    expect(await store.get("k")).toMatchObject({ status: "completed", result: { paid: true } });
    expect(await store.start("k")).toMatchObject({ acquired: false, record: { status: "completed", result: { paid: true } } });
    await store.delete("k");
    expect(await store.get("k")).toBeNull();
    expect(await store.start("k", { ttlMs: 1 })).toMatchObject({ acquired: true });
    await store.fail("k", new Error("declined"));
    await vi.waitFor(async () => expect(await store.get("k")).toBeNull());
    expect(await store.cleanup()).toBe(1);
    await store.start("running");
    await store.delete("running");
    expect(await store.start("running")).toMatchObject({ acquired: true });
    await (await store.ledger()).close();
  });

  test("run and start with key: undefined are refused, because an unkeyed run would repeat the effect", async () => {
    const body = vi.fn();
    const flow = create<Order>("payment", { idempotency: createIdempotencyStore() }).step("charge", body);
    const options = { key: undefined } as unknown as RunOptions;
    await expect(flow.run(order, options)).rejects.toMatchObject({ code: "INVALID_INPUT", field: "key" });
    await expect(flow.start(order, options).result).rejects.toMatchObject({ code: "INVALID_INPUT", field: "key" });
    expect(body).not.toHaveBeenCalled();
    expect((await flow.run(order)).status).toBe("completed");
  });

  test("complete and fail of a key that was not started", async () => {
    const store = createIdempotencyStore();
    await expect(store.complete("k", 1)).rejects.toBeInstanceOf(IdempotencyRecordNotFoundError);
    await expect(store.fail("k", new Error("no"))).rejects.toThrow(/"k"/);
    await store.start("k");
    await store.complete("k", 1);
    await expect(store.fail("k", new Error("no"))).rejects.toThrow(/completed/);
    expect(await store.get("k")).toMatchObject({ status: "completed", result: 1 });
    await store.delete("nothing");
  });

  test("a key that was completed by other code does not belong to a flow", async () => {
    const store = createIdempotencyStore();
    await store.start("k");
    await store.complete("k", "something else");
    await expect(create("payment", { idempotency: store }).run(order, { key: "k" })).rejects.toMatchObject({ code: "NOT_A_FLOW_RESULT" });
  });
});

describe("a store that the application implements", () => {
  function ownStore(): IdempotencyStore & { readonly records: Map<string, { status: string }> } {
    const records = new Map<string, { key: string; status: "running" | "completed" | "failed"; result?: unknown; error?: unknown }>();
    return {
      records,
      get: async (key) => records.get(key),
      start: async (key) => {
        const record = records.get(key);
        if (record) return { acquired: false, record };
        records.set(key, { key, status: "running" });
        return { acquired: true, record: { key, status: "running" } };
      },
      complete: async (key, result) => void records.set(key, { key, status: "completed", result }),
      fail: async (key, error) => void records.set(key, { key, status: "failed", error }),
      delete: async (key) => void records.delete(key),
      cleanup: async () => 0,
    };
  }

  test("is used as it is", async () => {
    const store = ownStore();
    const body = vi.fn();
    const flow = create<Order>("payment", { idempotency: store }).step("charge", body);
    const first = await flow.run(order, { key: "k" });
    expect(await flow.run(order, { key: "k" })).toEqual(first);
    expect(body).toHaveBeenCalledTimes(1);
    await flow.run(order, { key: "not kept", cacheResult: false });
    expect(store.records.has("not kept")).toBe(false);
    store.records.set("busy", { status: "running" });
    expect(await flow.run(order, { key: "busy" })).toMatchObject({ status: "running" });
    await expect(flow.run(order, { key: "busy", throwIfRunning: true })).rejects.toBeInstanceOf(FlowAlreadyRunningError);
    await expect(flow.resume("k")).rejects.toThrow(/keeps no progress/);
    const failing = create<Order>("payment", { idempotency: store }).step("charge", () => Promise.reject(new Error("declined")));
    await failing.run(order, { key: "bad" });
    expect(await failing.run(order, { key: "bad" })).toMatchObject({ status: "failed", error: { message: "declined" } });
  });

  test("anything else is refused, and the error says what is accepted", async () => {
    await expect(create("payment", { idempotency: {} as Store }).run(1, { key: "k" })).rejects.toThrow(/open\(url\)/);
  });
});

describe("invalid input", () => {
  const flow = create("payment", { idempotency: createIdempotencyStore() }).step("charge", () => {});
  test.each([
    [{ key: "" }, /key/],
    [{ key: "a\u0000b" }, /control/],
    [{ key: "k", ttlMs: 0 }, /ttlMs/],
    [{ key: "k", ttlMs: "1d" }, /ttlMs/],
    [{ key: "k", leaseMs: 1 }, /leaseMs/],
    [{ key: "k", onRunning: "panic" }, /onRunning/],
    [{ key: "k", onMismatch: "panic" }, /onMismatch/],
    [{ key: "k", cacheResult: 1 }, /cacheResult/],
    [{ key: "k", throwIfRunning: true, onRunning: "wait" }, /contradicts/],
  ])("run(…, %j) is refused before anything is written", async (options, message) => {
    await expect(flow.run(1, options as RunOptions)).rejects.toThrow(message);
    expect(await createIdempotencyStore().get("k")).toBeNull();
  });

  test("an input that cannot be stored is refused with its path", async () => {
    await expect(flow.run({ order: { callback: () => {} } }, { key: "fn" })).rejects.toThrow(/^input\.order\.callback: cannot be stored/);
  });

  test("inputs that differ only in what JSON cannot hold have different fingerprints", async () => {
    await flow.run({ at: new Date(0), list: new Set([1]) }, { key: "date" });
    await flow.run({ at: new Date(0), list: new Set([1]) }, { key: "date" });
    await expect(flow.run({ at: new Date(1), list: new Set([1]) }, { key: "date" })).rejects.toBeInstanceOf(MismatchError);
  });

  test("without its own store a flow uses the store of the process", async () => {
    const folder = temporaryFolder(onTestFinished);
    vi.stubEnv("ONCEFLOW_URL", `sqlite:${join(folder, "ambient.db")}`);
    await create<Order>("payment")
      .step("charge", () => {})
      .run(order, { key: "k" });
    vi.unstubAllEnvs();
    const store = await open(`sqlite:${join(folder, "ambient.db")}`);
    expect((await store.read({ scope: "", key: "k" }))?.record.state).toBe("completed");
    await store.close();
  });
});
