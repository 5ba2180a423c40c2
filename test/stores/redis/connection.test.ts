import { execFileSync } from "node:child_process";
import { type AddressInfo, createServer } from "node:net";
import { InvalidInputError, key as keyOf, NotKnownError, once, open, type Store, UnreachableError } from "onceflow";
import { redisStore } from "onceflow/store";
import { type CuttingProxy, cuttingProxy } from "onceflow/testing";
import { createClient } from "redis";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from "vitest";
import { beginIn, lostThings, testLostMessages } from "../lost-messages.js";

const redis = inject("redis");
const url = redis.ok ? redis.url : "";

/** Requests and replies are lost on a real connection to a real server. */
describe.skipIf(!redis.ok)("a Redis connection that breaks", () => {
  let proxy: CuttingProxy;
  let store: Store;
  let keys = 0;
  let key = "";

  beforeAll(async () => {
    const { hostname, port } = new URL(url);
    proxy = await cuttingProxy({ host: hostname, port: Number(port) });
    store = await open(`redis://127.0.0.1:${proxy.port}/0?prefix=connection-${process.pid}`);
  });
  afterAll(async () => {
    await store.close();
    await proxy.close();
  });
  beforeEach(() => {
    keys += 1;
    key = `cut-${keys}`;
  });

  for (const what of lostThings) testLostMessages(what, () => ({ store, proxy, key }));

  test("a client that the user passed throws NotKnownError, too, reconnects by itself, and is not closed with the store", async () => {
    const client = createClient({ url: `redis://127.0.0.1:${proxy.port}` });
    client.on("error", () => {});
    await client.connect();
    onTestFinished(() => client.destroy());
    const own = await redisStore({ client, prefix: `connection-${process.pid}` });
    proxy.cutNext("reply");
    await expect(own.commit({ ledger: beginIn({ key }, "me") })).rejects.toThrow(NotKnownError);
    expect(await own.commit({ ledger: beginIn({ key }, "me") })).toMatchObject({ kind: "started", attempt: 1 });
    await own.close();
    expect(await client.sendCommand(["PING"])).toBe("PONG");
  });

  test("an unreachable server is reported in bounded time", async () => {
    const error = await open("redis://me:secret@127.0.0.1:1").catch((e: unknown) => e);
    expect(error).toBeInstanceOf(UnreachableError);
    expect(String(error)).toContain("cannot connect");
    expect(String(error)).not.toContain("secret");
  });

  test("a server that accepts and never answers does not hang the caller", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((listening) => void silent.listen(0, "127.0.0.1", listening));
    await expect(open(`redis://127.0.0.1:${(silent.address() as AddressInfo).port}`)).rejects.toThrow(UnreachableError);
    silent.close();
  });

  test("an open store does not keep the process alive, and a pending operation does", () => {
    const program = `
      import { key, once, open } from ${JSON.stringify(new URL("../../../dist/exports/index.js", import.meta.url).href)};
      const store = await open(process.argv[1]);
      const { status } = await once(store, { key: key.of("alive") }, () => 1);
      console.log(status);`;
    const run = () =>
      execFileSync(process.execPath, ["--input-type=module", "-e", program, `${url}?prefix=alive-${process.pid}`], {
        encoding: "utf8",
        timeout: 20_000,
      });
    expect([run(), run()].map((text) => text.trim())).toEqual(["executed", "replayed"]);
  });
});

describe("the URL of a Redis store", () => {
  test.each([
    ["redis://host:port", /malformed/],
    ["redis://a,b", /several hosts/],
    ["redis+cluster://a,b/1", /only one/],
    ["redis+sentinel://a", /name of the master/],
    ["redis://me:secret%zz@host", /malformed/],
    ["redis://127.0.0.1?prefx=a", /unknown parameter "prefx"/],
    ["redis://127.0.0.1?strict=yes", /true or false/],
    ["redis://127.0.0.1?waitReplicas=0", /count must be/],
    ["redis://127.0.0.1?prefix=a%7Bb", /prefix: must be/],
  ])("%s is refused", async (text, message) => {
    const error = await open(text).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(String(error)).toMatch(message);
    expect(String(error)).not.toContain("secret");
  });

  test.skipIf(!redis.ok)("names a database and a prefix: two stores with different ones share no data", async () => {
    const name = `url-${process.pid}`;
    const urls = [`${url}/0?prefix=${name}-a`, `${url}/0?prefix=${name}-b`, `${url}/1?prefix=${name}-a`];
    for (const each of urls) {
      const store = await open(each);
      expect((await once(store, { key: keyOf.of("one") }, () => each)).status).toBe("executed");
      await store.close();
    }
  });

  test("a sentinel client and other objects are refused as clients", async () => {
    await expect(redisStore({ client: {} as never })).rejects.toThrow(InvalidInputError);
    await expect(redisStore({ client: { sendCommand() {}, getSentinelNode() {} } as never })).rejects.toThrow(/redis\+sentinel/);
  });
});
