import { key, NotKnownError, once, open } from "onceflow";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { takeTurns } from "../../kit/heavy.js";
import { acquire } from "../../servers/acquire.js";
import { signal } from "../../servers/process/processes.js";
import { chargeThroughRestarts } from "../restarts.js";

takeTurns();

/** The tests use their own servers, because they kill them. */
describe.skipIf(!inject("redis").ok)("a Redis server that dies", () => {
  async function ownServer(skip: (reason: string) => never) {
    const acquired = await acquire("redis");
    if (!acquired.ok) return skip(acquired.reason);
    const { running } = acquired;
    const { kill, restart, stop } = running;
    if (kill === undefined || restart === undefined) return skip("the tests did not start this server, so they cannot kill it");
    onTestFinished(() => stop());
    return { url: running.url, kill, restart, pid: () => running.pid as number };
  }

  test("is killed and restarted under load, appendfsync always: every key runs once, and no caller hangs", async ({ skip }) => {
    const { url, kill, restart } = await ownServer(skip);
    const stores = await Promise.all([open(url), open(url), open(url)] as const);
    onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));
    await chargeThroughRestarts({ stores, kill, restart, keys: 400, customers: 24, kills: 4 });
  });

  test("stops answering with its connections open: a commit throws NotKnownError in bounded time, and works again later", async ({
    skip,
  }) => {
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
      // The bound is the driver's 10 s, on its own timer: a stopped server cannot report the time.
      expect(performance.now() - asked).toBeLessThan(20_000);
    } finally {
      signal(pid(), "SIGCONT");
    }
    expect((await once(store, { key: key.of("before") }, () => 2)).value).toBe(1);
  });
});
