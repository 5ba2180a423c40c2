import { Cluster, Redis } from "ioredis";
import { InvalidInputError, key, list, NotKnownError, once, type Store } from "onceflow";
import { redisStore } from "onceflow/store";
import { createClient } from "redis";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { beginOf } from "../../../src/testing/contract/ledger/operations.js";
import { poll } from "../../kit/poll.js";
import { silentProxy } from "./silent-proxy.js";

const redis = inject("redis");
const url = redis.ok ? redis.url : "";
const serverPort = redis.ok ? Number(new URL(url).port) : 0;

type Client = Parameters<typeof redisStore>[0]["client"];

/** Creates a client of each package as users do, and a function that ends it. */
const clients: Readonly<Record<string, (port: number) => Promise<{ client: Client; end: () => unknown }>>> = {
  "node-redis": async (port) => {
    const client = createClient({ url: `redis://127.0.0.1:${port}` });
    client.on("error", () => {});
    await client.connect();
    return { client, end: () => client.destroy() };
  },
  ioredis: async (port) => {
    const client = new Redis({ port, host: "127.0.0.1", lazyConnect: true });
    client.on("error", () => {});
    await client.connect();
    return { client, end: () => client.disconnect() };
  },
};

describe.skipIf(!redis.ok)("a client that the user passed", () => {
  describe.concurrent("on a connection that falls silent", () => {
    test.each(Object.entries(clients))("%s: the next command uses a connection that the store opened", async (name, make) => {
      const proxy = await silentProxy(serverPort);
      onTestFinished(() => proxy.close());
      const { client, end } = await make(proxy.port);
      onTestFinished(() => void end());
      const store = await redisStore({ client, prefix: `silent-${name}-${process.pid}` });
      onTestFinished(() => store.close());
      expect((await once(store, { key: key.of("before") }, () => 1)).status).toBe("executed");
      proxy.silence();
      const begin = beginOf({ key: "silent" });
      await expect(store.commit({ ledger: begin })).rejects.toThrow(NotKnownError);
      const before = proxy.connections;
      expect(await store.commit({ ledger: begin })).toMatchObject({ kind: "started", attempt: 1 });
      expect(proxy.connections).toBe(before + 1);
    });
  });

  test("a client that cannot be duplicated stays in use", async () => {
    const { client, end } = await (clients["node-redis"] as (typeof clients)[string])(serverPort);
    onTestFinished(() => void end());
    const whole = client as ReturnType<typeof createClient>;
    const bare = {
      isReady: true,
      sendCommand: (args: string[], options: object) => whole.sendCommand(args, options),
      close: async () => {},
      destroy() {},
      unref() {},
    };
    const store = await redisStore({ client: bare, prefix: `bare-${process.pid}` });
    onTestFinished(() => store.close());
    expect((await once(store, { key: key.of("one") }, () => 1)).status).toBe("executed");
  });

  describe("an ioredis client with a keyPrefix", () => {
    async function opened(keyPrefix: string, prefix: string): Promise<Store> {
      const client = new Redis({ port: serverPort, host: "127.0.0.1", keyPrefix });
      onTestFinished(() => client.disconnect());
      const store = await redisStore({ client, prefix, purgeEveryMs: 0 });
      onTestFinished(() => store.close());
      return store;
    }

    test.each(["app:", "{app}", "{app", "app}"])("%j: list and purge find every record", async (keyPrefix) => {
      const store = await opened(keyPrefix, `kp-${process.pid}`);
      for (const name of ["a", "b"]) await once(store, { key: key.of(name), retentionMs: 1 }, () => (name === "a" ? "x".repeat(200) : 1));
      expect((await list(store)).items.map((item) => item.key)).toEqual(["a", "b"]);
      let purged = 0;
      await poll(
        10_000,
        async () => {
          purged += await store.purge({ limit: 10 });
          return purged === 2 || undefined;
        },
        () => `${purged} of 2 records were purged`,
      );
    });

    test.each([
      ["{app}:", "onceflow"],
      ["{app}:x:", "onceflow"],
      ["{app}", ":onceflow"],
    ])("%j with prefix %j is refused, with the reason", async (keyPrefix, prefix) => {
      const error = await opened(keyPrefix, prefix).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(InvalidInputError);
      expect(String(error)).toMatch(/keyPrefix.*}:/);
    });

    test.each([{ keyPrefix: "{app}:" }, { redisOptions: { keyPrefix: "{app}:" } }])("a Cluster with %j is refused too", async (options) => {
      const client = new Cluster([{ host: "127.0.0.1", port: serverPort }], { lazyConnect: true, ...options });
      client.on("error", () => {});
      onTestFinished(() => client.disconnect());
      await expect(redisStore({ client })).rejects.toThrow(/keyPrefix/);
    });
  });
});
