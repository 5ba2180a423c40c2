import { open, type Store } from "onceflow";
import { serveEffects } from "onceflow/testing";
import { afterAll, beforeAll, describe, expect, inject, type TestContext, test } from "vitest";
import type { PacketRecord } from "../../src/core/packets/packet.js";
import {
  countersOf,
  dead,
  done,
  Hand,
  keyOf,
  notesOf,
  numbersOf,
  partOf,
  release,
  retry,
} from "../../src/testing/contract/packets/packet-operations.js";
import { sample } from "../kit/effort.js";
import { takeTurns } from "../kit/heavy.js";
import { poll } from "../kit/poll.js";
import { Program } from "../kit/program.js";
import { type CrashDatabase, mongoDatabase, postgresDatabase, sqliteDatabase } from "../ledger/crash-database.js";
import { type OwnMongo, ownMongo } from "../stores/mongodb/own-mongodb.js";
import type { Act, PacketDoom } from "./programs/crash-worker.js";

takeTurns();

/** Runs the crash table of docs/internals/packets.md: a process dies before or after each durable write, and another one starts. */
const boundMs = 30_000;
const leaseMs = 300;

async function die(doom: PacketDoom): Promise<void> {
  const { signal, stderr } = await new Program("packets/programs/crash-worker", [JSON.stringify(doom)], { onEnd: () => {} }).ended;
  expect(signal, stderr).toBe("SIGKILL");
}

interface Scene {
  readonly database: CrashDatabase;
  readonly store: Store;
  /** Sends the packets, and continues after the other process has died. */
  readonly hand: Hand;
}

const postgres = inject("postgres");
const mongodb = inject("mongodb");
let mongo: OwnMongo | undefined;
const databases = {
  SQLite: sqliteDatabase,
  PostgreSQL: (finished: TestContext["onTestFinished"]) => postgresDatabase(postgres.ok ? postgres.url : "", finished),
  "MongoDB (emulator)": (finished: TestContext["onTestFinished"]) => mongoDatabase(mongo?.ok ? mongo.url : "", finished),
} as const;
type Name = keyof typeof databases;

async function setScene(name: Name, { onTestFinished }: Pick<TestContext, "onTestFinished">): Promise<Scene> {
  const database = await databases[name](onTestFinished);
  const store = await open(database.url, { purgeEveryMs: 0, stallMsMax: 0 });
  onTestFinished(() => store.close());
  return { database, store, hand: await Hand.on(store) };
}

/** Claims until it has this many packets: those of a silent worker can be claimed after its lease has expired. */
async function claimed(hand: Hand, length: number): Promise<PacketRecord[]> {
  const got: PacketRecord[] = [];
  await poll(
    boundMs,
    async () => {
      got.push(...(await hand.claim()).claimed);
      return got.length >= length || undefined;
    },
    () => `only ${got.length} of ${length} could be claimed`,
  );
  return got;
}

interface Row {
  readonly does: string;
  /** Only on this database, where several packets can be stored in one row. */
  readonly on?: Name;
  /** The number of the last durable write on a server, where there are several. */
  readonly last?: { readonly [name in Exclude<Name, "SQLite">]: number };
  /** Prepares the operation during which the process dies. */
  readonly prepare: (scene: Scene) => Promise<Act>;
  /** Checks the state after the crash and the repeated operation. */
  readonly check: (scene: Scene, point: "before" | "after", act: Act) => Promise<void>;
}

/** Repeats the operation here, like a caller that got no answer. */
async function again({ store }: Scene, act: Act): Promise<unknown> {
  if (act.verb === "commit") return (await store.commit({ packet: act.operation })).kind;
  if (act.verb === "reinject" || act.verb === "discard") return await store.packets[act.verb](act.no);
  if (act.verb === "leave") return await store.packets.leave(act.worker);
  return act.verb === "purge" ? await store.packets.purge(100) : undefined;
}

const key = keyOf("k");

/** An execution with a part that waits at port a of a join, and the claimed packet of the branch that leads to port b. */
async function forked(hand: Hand, optional: readonly string[]): Promise<{ readonly execution: number; readonly branch: PacketRecord }> {
  const execution = await hand.trigger({ queue: "branch", reach: ["join.b"] });
  await hand.send(hand.packet({ execution, join: partOf("a", { optional }), reach: ["join.a"] }));
  return { execution, branch: await hand.take("branch") };
}

const rows: readonly Row[] = [
  {
    does: "a trigger with its key and packets",
    async prepare({ hand }) {
      const execution = hand.execution({ key: { scope: "", key: "t", fingerprint: null, retentionMs: null } });
      const packets = [hand.packet({ execution: execution.no }), hand.packet({ execution: execution.no })];
      return { verb: "commit", operation: hand.sendOf(packets, execution) };
    },
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetsSent");
      expect(await scene.store.packets.executions({ limit: 10 })).toHaveLength(1);
      expect(numbersOf((await scene.hand.claim()).claimed)).toEqual(act.verb === "commit" && numbersOf(act.operation.packets));
    },
  },
  {
    does: "a settle: its key, its packet, its outputs, the packets that it held",
    async prepare({ hand }) {
      const execution = await hand.trigger({ key, lane: { name: "lane", deadBlocks: false } });
      const packet = await hand.take();
      await hand.send(hand.packet({ key, claim: true }));
      return { verb: "commit", operation: hand.settleOf(packet, done, [hand.packet({ execution })], ['"out"']) };
    },
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetSettled");
      const { store, hand } = scene;
      expect((await store.read(key))?.record.state).toBe("completed");
      const [execution] = await store.packets.executions({ limit: 10 });
      expect(execution?.outputs).toEqual(['"out"']);
      expect(await countersOf(store, execution?.no ?? 0)).toEqual([1, 0, 0, false]);
      const next = await hand.take();
      expect((await hand.done(next)).ended.map(({ no }) => no)).toEqual([execution?.no]);
      expect((await store.packets.counts()).every(({ due, held, owned }) => due + held + owned === 0)).toBe(true);
    },
  },
  {
    does: "a settle after which no packet can fill an optional port: the join is released",
    // PostgreSQL: the quick statement, which does nothing here, and the transaction.
    last: { PostgreSQL: 2, "MongoDB (emulator)": 1 },
    async prepare({ hand }) {
      const { execution, branch } = await forked(hand, ["b"]);
      return { verb: "commit", operation: hand.settleOf(branch, done, [hand.packet({ execution, queue: "slow", reach: [] })]) };
    },
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetSettled");
      const { store, hand } = scene;
      const [execution] = await store.packets.executions({ limit: 10 });
      expect(await countersOf(store, execution?.no ?? 0)).toEqual([2, 0, 0, false]);
      expect((await hand.take()).parts).toEqual({});
      expect(await notesOf(store, execution?.no ?? 0)).toEqual(["joinReleased"]);
    },
  },
  {
    does: "a settle after which no packet can fill a required port: the join is skipped",
    // PostgreSQL: the quick statement, which does nothing here, and the transaction.
    last: { PostgreSQL: 2, "MongoDB (emulator)": 1 },
    async prepare({ hand }) {
      const { branch } = await forked(hand, []);
      return { verb: "commit", operation: hand.settleOf(branch, done) };
    },
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetSettled");
      const { store } = scene;
      const [execution] = await store.packets.executions({ limit: 10 });
      expect(await countersOf(store, execution?.no ?? 0)).toEqual([0, 0, 0, true]);
      expect(await notesOf(store, execution?.no ?? 0)).toEqual(["joinSkipped"]);
      expect((await store.packets.counts()).every(({ parts, due }) => parts + due === 0)).toBe(true);
    },
  },
  {
    does: "a discard of the dead letter that a join waited for",
    async prepare({ hand }) {
      const { execution, branch } = await forked(hand, ["b"]);
      await hand.send(hand.packet({ execution, queue: "slow", reach: [] }));
      await hand.settle(branch, dead);
      return { verb: "discard", no: branch.no };
    },
    async check(scene, point, act) {
      expect(await again(scene, act)).toBe(point === "before");
      const { store, hand } = scene;
      const [execution] = await store.packets.executions({ limit: 10 });
      expect(await countersOf(store, execution?.no ?? 0)).toEqual([2, 0, 0, false]);
      expect((await hand.take()).parts).toEqual({});
    },
  },
  {
    does: "a send of several packets that claims them",
    on: "SQLite",
    async prepare({ store }) {
      const sender = await Hand.on(store, leaseMs);
      return { verb: "commit", operation: sender.sendOf([1, 2, 3].map(() => sender.packet({ claim: true }))) };
    },
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetsSent");
      const got = await claimed(scene.hand, 3);
      expect(numbersOf(got).sort()).toEqual(act.verb === "commit" && numbersOf(act.operation.packets));
      expect(got.map(({ attempt, crashes }) => [attempt, crashes])).toEqual([1, 2, 3].map(() => [2, 1]));
    },
  },
  {
    does: "a settle of one of several packets, which sends several",
    async prepare({ store }) {
      const worker = await Hand.on(store, leaseMs);
      const [first] = await worker.send(...[1, 2, 3].map(() => worker.packet({ claim: true })));
      const packet = first?.kind === "claimed" ? first.packet : expect.fail();
      return { verb: "commit", operation: worker.settleOf(packet, done, [worker.packet({ claim: true }), worker.packet({ claim: true })]) };
    },
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetSettled");
      const { no, packets } = act.verb === "commit" && act.operation.verb === "settlePacket" ? act.operation : expect.fail();
      expect(await scene.store.packets.packet(no)).toBeUndefined();
      const got = await claimed(scene.hand, 4);
      expect(numbersOf(got).sort()).toEqual([no + 1, no + 2, ...numbersOf(packets)]);
      expect(got.every(({ attempt, crashes }) => attempt === 2 && crashes === 1)).toBe(true);
      expect((await scene.hand.claim()).claimed).toEqual([]);
    },
  },
  {
    does: "a retry of one of several packets",
    on: "SQLite",
    async prepare({ store }) {
      const worker = await Hand.on(store, leaseMs);
      const [first] = await worker.send(...[1, 2].map(() => worker.packet({ claim: true })));
      return { verb: "commit", operation: worker.settleOf(first?.kind === "claimed" ? first.packet : expect.fail(), retry(0, "[1]")) };
    },
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetSettled");
      const got = (await claimed(scene.hand, 2)).sort((a, b) => a.no - b.no);
      expect(got.map(({ attempt, crashes, history }) => [attempt, crashes, history])).toEqual([
        [2, 0, "[1]"],
        [2, 1, null],
      ]);
    },
  },
  {
    does: "a claim of the packets that a silent worker had left",
    on: "SQLite",
    async prepare({ store }) {
      const silent = await Hand.on(store, 0);
      const [first] = await silent.send(...[1, 2, 3].map(() => silent.packet({ claim: true })));
      await silent.done(first?.kind === "claimed" ? first.packet : expect.fail());
      return { verb: "claim", worker: (await Hand.on(store, leaseMs)).no };
    },
    async check({ hand }, point) {
      const got = await claimed(hand, 2);
      expect(got.map(({ crashes }) => crashes)).toEqual(point === "before" ? [1, 1] : [2, 2]);
      expect((await hand.claim()).claimed).toEqual([]);
    },
  },
  {
    does: "a settle as a dead letter",
    async prepare({ hand }) {
      const packet = await hand.sendAndClaim({ key });
      await hand.send(hand.packet({ key, claim: true }));
      return { verb: "commit", operation: hand.settleOf(packet, dead) };
    },
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetSettled");
      expect(await scene.store.packets.deadLetters({ limit: 10 })).toHaveLength(1);
      expect((await scene.hand.take()).attempt).toBe(1);
    },
  },
  {
    does: "a settle for a retry",
    prepare: async ({ hand }) => ({ verb: "commit", operation: hand.settleOf(await hand.sendAndClaim({ key }), retry(0, "[1]")) }),
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetSettled");
      expect(await scene.hand.take()).toMatchObject({ attempt: 2, crashes: 0, history: "[1]" });
    },
  },
  {
    does: "a note that a suspect is delivered alone",
    async prepare({ store }) {
      const worker = await Hand.on(store, leaseMs);
      return { verb: "commit", operation: worker.settleOf(await worker.sendAndClaim(), { kind: "trial", history: "[1]" }) };
    },
    async check(scene, point) {
      const [packet] = await claimed(scene.hand, 1);
      expect([packet?.attempt, packet?.crashes, packet?.history]).toEqual([2, 1, point === "before" ? null : "[1]"]);
    },
  },
  {
    does: "a release",
    prepare: async ({ hand }) => ({ verb: "commit", operation: hand.settleOf(await hand.sendAndClaim(), release) }),
    async check(scene, _, act) {
      expect(await again(scene, act)).toBe("packetSettled");
      expect(await scene.hand.take()).toMatchObject({ attempt: 2, since: 1, crashes: 0 });
    },
  },
  {
    does: "a claim of due packets and of packets of a silent worker",
    // PostgreSQL: a read, silent workers, a read, and the keys. MongoDB: silent workers, and the keys.
    last: { PostgreSQL: 4, "MongoDB (emulator)": 2 },
    async prepare({ store, hand }) {
      const silent = await Hand.on(store, 0);
      await silent.sendAndClaim({ key });
      await hand.send(hand.packet());
      return { verb: "claim", worker: (await Hand.on(store, leaseMs)).no };
    },
    async check({ hand }, point) {
      const got = await claimed(hand, 2);
      const crashes = got.map((packet) => packet.crashes).sort();
      expect(crashes).toEqual(point === "before" ? [0, 1] : [1, 2]);
    },
  },
  {
    does: "a renewal",
    async prepare({ store }) {
      const silent = await Hand.on(store, leaseMs);
      await silent.sendAndClaim();
      return { verb: "renew", worker: silent.no };
    },
    async check({ hand, store }, point) {
      if (point === "before") expect(await claimed(hand, 1)).toMatchObject([{ crashes: 1, attempt: 2 }]);
      else expect((await hand.claim()).nextAt).toBeGreaterThan((await hand.claim()).now + leaseMs);
      expect(await store.packets.counts()).toHaveLength(1);
    },
  },
  {
    does: "a worker that leaves",
    async prepare({ store }) {
      const leaver = await Hand.on(store);
      await leaver.sendAndClaim();
      return { verb: "leave", worker: leaver.no };
    },
    async check(scene, point, act) {
      if (point === "before") expect((await scene.hand.claim()).claimed).toEqual([]);
      await again(scene, act);
      expect(await scene.hand.take()).toMatchObject({ attempt: 2, since: 1, crashes: 0 });
    },
  },
  {
    does: "a worker that joins",
    // MongoDB: its number, and the worker.
    last: { PostgreSQL: 1, "MongoDB (emulator)": 2 },
    prepare: async () => ({ verb: "join" }),
    // No process knows the worker's number: it has no packets, and is removed after its lease has expired.
    async check({ hand }) {
      await poll(
        boundMs,
        async () => (await hand.claim()).nextAt === null || undefined,
        () => "the claims still wait for the worker",
      );
    },
  },
  {
    does: "a re-injection",
    async prepare({ hand }) {
      const execution = await hand.trigger({});
      const packet = await hand.take();
      await hand.settle(packet, dead);
      expect(await countersOf(hand.store, execution)).toEqual([0, 0, 1, true]);
      return { verb: "reinject", no: packet.no };
    },
    async check(scene, point, act) {
      expect(await again(scene, act)).toBe(point === "before");
      const packet = await scene.hand.take();
      expect(await countersOf(scene.store, packet.execution ?? 0)).toEqual([1, 0, 0, false]);
    },
  },
  {
    does: "a discard, which releases the packets that were blocked",
    async prepare({ hand }) {
      const lane = { name: "lane", deadBlocks: true };
      const packet = await hand.sendAndClaim({ lane });
      await hand.send(hand.packet({ lane }));
      await hand.settle(packet, dead);
      return { verb: "discard", no: packet.no };
    },
    async check(scene, point, act) {
      expect(await again(scene, act)).toBe(point === "before");
      expect(await scene.store.packets.deadLetters({ limit: 10 })).toEqual([]);
      await scene.hand.take();
    },
  },
  {
    does: "a pause",
    async prepare({ hand }) {
      await hand.send(hand.packet());
      return { verb: "pause" };
    },
    async check({ hand, store }, point) {
      expect(await store.packets.flowState("flow")).toBe(point === "before" ? "active" : "paused");
      expect((await hand.claim()).claimed).toHaveLength(point === "before" ? 1 : 0);
    },
  },
  {
    does: "a purge of an execution and of a blocking dead letter",
    // The writes of a purge: executions and dead letters.
    last: { PostgreSQL: 2, "MongoDB (emulator)": 2 },
    async prepare({ hand }) {
      await hand.begin(hand.execution({ retentionMs: 0 }));
      const lane = { name: "lane", deadBlocks: true };
      const packet = await hand.sendAndClaim({ lane, letter: { name: "letters", retentionMs: 0 } });
      await hand.send(hand.packet({ lane }));
      await hand.settle(packet, dead);
      return { verb: "purge" };
    },
    async check(scene, point, act) {
      // On MongoDB the transaction of the dead process may still be open, and a purge leaves out what it has written.
      let purged = 0;
      await poll(
        boundMs,
        async () => {
          purged += (await again(scene, act)) as number;
          return purged === (point === "before" ? 2 : 0) || undefined;
        },
        () => `${purged} were purged`,
      );
      expect(await scene.store.packets.executions({ limit: 10 })).toEqual([]);
      await scene.hand.take();
    },
  },
];

describe.for(Object.keys(databases) as Name[])("packets on %s: a process dies", (name) => {
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
