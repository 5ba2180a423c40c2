import { key, NotKnownError, once, open } from "onceflow";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { takeTurns } from "../../kit/heavy.js";
import { acquire } from "../../servers/acquire.js";
import { signal } from "../../servers/process/processes.js";
import { chargeThroughRestarts } from "../restarts.js";

takeTurns();

/** Servers of their own, because they are killed. */
describe.skipIf(!inject("redis").ok)("a Redis server that dies", () => {
  async function ownServer(skip: (reason: string) => never) {
    const acquired = await acquire("redis");
    if (!acquired.ok) return skip(acquired.reason);
    const { running } = acquired;
    const { kill, restart, stop } = running;
    if (kill === undefined || restart === undefined) return skip("this server is not ours to kill");
    onTestFinished(() => stop());
    return { url: running.url, kill, restart, pid: () => running.pid as number };
  }

  test("is killed and restarted under load, appendfsync always: every key once, nobody hangs", async ({ skip }) => {
    const { url, kill, restart } = await ownServer(skip);
    const stores = await Promise.all([open(url), open(url), open(url)] as const);
    onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));
    await chargeThroughRestarts({ stores, kill, restart, keys: 400, customers: 24, kills: 4 });
  });

  test("falls silent with its connections open: what it was asked is not known in bounded time, and it goes on", async ({ skip }) => {
    const { url, pid } = await ownServer(skip);
    const store = await open(url);
    onTestFinished(() => store.close());
    await once(store, { key: key.of("before") }, () => 1);
    signal(pid(), "SIGSTOP");
    const asked = performance.now();
    const commit = store.commit({
      ledger: { verb: "renew", scope: "", key: "before", owner: "nobody", attempt: 1, leaseMs: 1000 },
    });
    try {
      await expect(commit).rejects.toThrow(NotKnownError);
      // The bound is the driver's 10 s, on its own timer: a stopped server cannot be asked for the time.
      expect(performance.now() - asked).toBeLessThan(20_000);
    } finally {
      signal(pid(), "SIGCONT");
    }
    expect((await once(store, { key: key.of("before") }, () => 2)).value).toBe(1);
  });
});
