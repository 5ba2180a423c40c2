import type { Store } from "onceflow";
import { expect } from "vitest";
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
import { poll } from "../kit/poll.js";
import type { CrashDatabase } from "../ledger/crash-database.js";
import type { Act } from "./programs/crash-worker.js";

export const boundMs = 30_000;
/** The lease of the worker that dies. */
export const leaseMs = 300;

/** The databases on which a process dies. */
export type DatabaseName = "SQLite" | "PostgreSQL" | "MongoDB (emulator)";

export interface Scene {
  readonly database: CrashDatabase;
  readonly store: Store;
  /** Sends the packets, and continues after the other process has died. */
  readonly hand: Hand;
}

/** Claims until it has this many packets: those of a silent worker can be claimed after its lease has expired. */
export async function claimed(hand: Hand, length: number): Promise<PacketRecord[]> {
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
  readonly on?: DatabaseName;
  /** The number of the last durable write on a server, where there are several. */
  readonly last?: { readonly [name in Exclude<DatabaseName, "SQLite">]: number };
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
const entry = { node: "n", startedAt: 1, ms: 1, code: null, joined: [], details: "{}", entriesMax: 10 };

/** An execution with a part that waits at port a of a join, and the claimed packet of the branch that leads to port b. */
async function forked(hand: Hand, optional: readonly string[]): Promise<{ readonly execution: number; readonly branch: PacketRecord }> {
  const execution = await hand.trigger({ queue: "branch", reach: ["join.b"] });
  await hand.send(hand.packet({ execution, join: partOf("a", { optional }), reach: ["join.a"] }));
  return { execution, branch: await hand.take("branch") };
}

/** The crash table of docs/internals/packets.md: one row for each durable write. */
export const rows: readonly Row[] = [
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
      const operation = hand.settleOf(packet, done, [hand.packet({ execution })], ['"out"']);
      return { verb: "commit", operation: { ...operation, entry } };
    },
    async check(scene, point, act) {
      const history = async () => (await scene.store.packets.deliveries({ limit: 10 })).map(({ verdict }) => verdict);
      expect(await history()).toEqual(point === "before" ? [] : ["completed"]);
      expect(await again(scene, act)).toBe("packetSettled");
      const { store, hand } = scene;
      expect((await store.read(key))?.record.state).toBe("completed");
      const [execution] = await store.packets.executions({ limit: 10 });
      expect(execution?.outputs).toEqual(['"out"']);
      expect(await history()).toEqual(["completed"]);
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
