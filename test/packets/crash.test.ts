import { open } from "onceflow";
import { serveEffects } from "onceflow/testing";
import { afterAll, beforeAll, describe, expect, inject, type TestContext, test } from "vitest";
import type { PacketRecord } from "../../src/core/packets/packet.js";
import { Hand } from "../../src/testing/contract/packets/packet-operations.js";
import { sample } from "../kit/effort.js";
import { takeTurns } from "../kit/heavy.js";
import { Program } from "../kit/program.js";
import { mongoDatabase, postgresDatabase, sqliteDatabase } from "../ledger/crash-database.js";
import { type OwnMongo, ownMongo } from "../stores/mongodb/own-mongodb.js";
import { boundMs, claimed, type DatabaseName, leaseMs, rows, type Scene } from "./crash-rows.js";
import type { PacketDoom } from "./programs/crash-worker.js";

takeTurns();

async function die(doom: PacketDoom): Promise<void> {
  const { signal, stderr } = await new Program("packets/programs/crash-worker", [JSON.stringify(doom)], { onEnd: () => {} }).ended;
  expect(signal, stderr).toBe("SIGKILL");
}

const postgres = inject("postgres");
const mongodb = inject("mongodb");
let mongo: OwnMongo | undefined;
const databases = {
  SQLite: sqliteDatabase,
  PostgreSQL: (finished: TestContext["onTestFinished"]) => postgresDatabase(postgres.ok ? postgres.url : "", finished),
  "MongoDB (emulator)": (finished: TestContext["onTestFinished"]) => mongoDatabase(mongo?.ok ? mongo.url : "", finished),
} as const satisfies Record<DatabaseName, unknown>;

async function setScene(name: DatabaseName, { onTestFinished }: Pick<TestContext, "onTestFinished">): Promise<Scene> {
  const database = await databases[name](onTestFinished);
  const store = await open(database.url, { purgeEveryMs: 0, stallMsMax: 0 });
  onTestFinished(() => store.close());
  return { database, store, hand: await Hand.on(store) };
}

/** Runs the crash table of docs/internals/packets.md: a process dies before or after each durable write, and another one starts. */
describe.for(Object.keys(databases) as DatabaseName[])("packets on %s: a process dies", (name) => {
  const server = { SQLite: undefined, PostgreSQL: postgres, "MongoDB (emulator)": mongodb }[name];
  test.skipIf(server === undefined || server.ok)("needs its server", ({ skip }) => skip(server?.ok === false ? server.reason : ""));
  if (server?.ok === false) return;
  if (name === "MongoDB (emulator)") {
    beforeAll(async () => {
      mongo = await ownMongo();
    });
    afterAll(async () => {
      if (mongo?.ok) await mongo.stop();
    });
  }

  const some = rows.filter(({ on = name }) => on === name);
  // The emulator is slow: the rows that it runs are a third in the full tier, too.
  const chosen = name.startsWith("MongoDB") ? some.filter((_, i) => i % 3 === 0) : some;
  for (const row of sample(chosen, name === "SQLite" ? 2 : 6)) {
    for (const point of ["before", "after"] as const) {
      test(`${point} ${row.does} is durable`, { timeout: boundMs * 2 }, async (context) => {
        const scene = await setScene(name, context);
        const act = await row.prepare(scene);
        const before = await scene.database.ours();
        const nth = name !== "SQLite" && point === "after" ? (row.last?.[name] ?? 1) : 1;
        await die({ url: scene.database.url, act, point, nth });
        if (point === "before") expect(await scene.database.ours()).toEqual(before);
        else expect(await scene.database.ours()).not.toEqual(before);
        await row.check(scene, point, act);
      });
    }
  }

  /** Calls at the provider, under the packet's number; of two calls one is applied. */
  const deliveries = [
    ["before", 1, "not claimed: the next worker delivers it", 1, 0],
    ["after", 1, "claimed by a dead worker: the next worker delivers it after the lease has expired", 1, 1],
    ["before", 2, "delivered but not settled: delivered again", 2, 1],
    ["after", 2, "settled: not delivered again", 1, 0],
  ] as const;
  for (const [point, nth, is, rawCalls, crashes] of deliveries) {
    test(`${point} ${nth === 1 ? "the claim" : "the settle"} of a delivery: ${is}`, { timeout: boundMs * 2 }, async (context) => {
      const { database, store, hand } = await setScene(name, context);
      const provider = await serveEffects({ honoursKeys: true });
      context.onTestFinished(() => provider.close());
      const packet = hand.packet();
      await hand.send(packet);
      const { no: worker } = await Hand.on(store, leaseMs);
      await die({ url: database.url, act: { verb: "deliver", worker, providerUrl: provider.url }, point, nth });
      if (point === "after" && nth === 2) expect(await store.packets.packet(packet.no)).toBeUndefined();
      else {
        const [next] = await claimed(hand, 1);
        expect(next?.crashes).toBe(crashes);
        await fetch(provider.url, {
          method: "POST",
          headers: { "idempotency-key": String(packet.no), "x-attempt": String(next?.attempt) },
        });
        await hand.done(next as PacketRecord);
      }
      expect(provider.effects.rawCalls(String(packet.no))).toBe(rawCalls);
      expect(provider.effects.applied(String(packet.no))).toBe(1);
      expect((await hand.claim()).claimed).toEqual([]);
    });
  }
});
