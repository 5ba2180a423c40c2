import { join } from "node:path";
import { open } from "onceflow";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { NewPacket, PacketAnswer, PacketOperation } from "../../src/core/packets/operation.js";
import type { PacketKey, PacketRecord } from "../../src/core/packets/packet.js";
import { chooseDriver, openDatabase, type SqliteDatabase } from "../../src/stores/sqlite/driver.js";
import { dead, done, Hand, retry } from "../../src/testing/contract/packets/packet-operations.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { type WatchedPackets, watchedPackets } from "./watched-packets.js";

let path = "";

beforeEach(() => {
  const folder = temporaryFolder(onTestFinished);
  path = join(folder, "ledger.db");
});

/** The driver's handle on the same file. */
function handle(): SqliteDatabase {
  const database = openDatabase(path, chooseDriver());
  onTestFinished(() => void database.close());
  return database;
}

const watched = () => watchedPackets(handle(), path);

function claimedOf(answers: readonly (PacketAnswer | "again")[]): PacketRecord[] {
  return answers.flatMap((answer) => {
    if (answer === "again" || !("placed" in answer)) return expect.fail(JSON.stringify(answer));
    return answer.placed.map((each) => (each.kind === "claimed" ? each.packet : expect.fail(JSON.stringify(each))));
  });
}

async function sendTogether({ hand, packets }: WatchedPackets, length: number, fields: Partial<NewPacket> = {}): Promise<PacketRecord[]> {
  const sent = Array.from({ length }, () => hand.packet({ ...fields, claim: true }));
  return claimedOf(await packets.flush([hand.sendOf(sent)]));
}

/** Settles each packet and sends the next one. */
function hops({ hand }: WatchedPackets, packets: readonly PacketRecord[]): PacketOperation[] {
  return packets.map((packet) => hand.settleOf(packet, done, [hand.packet({ claim: true })]));
}

/** The number of packets in each bundle, the number of settled packets in each, and the number of rows. A packet takes four numbers, one with a key six. */
function inFile(database: SqliteDatabase, numbers = 4): { bundles: number[]; gone: number[]; rows: number } {
  const lengthsOf = ([sql, each]: readonly [string, number]) =>
    (database.prepare(sql).all() as { of: string }[]).map(({ of }) => (JSON.parse(of) as unknown[]).length / each);
  const { rows } = database.prepare("SELECT count(*) AS rows FROM onceflow_packets").get() as { rows: number };
  const bundles = lengthsOf(["SELECT packets AS of FROM onceflow_bundles ORDER BY no", numbers]);
  const gone = lengthsOf(["SELECT gone AS of FROM onceflow_bundles_gone ORDER BY bundle", 1]);
  return { bundles, gone, rows };
}

describe("statements for bundled packets", () => {
  test("a hundred hops in a flush insert one row and delete one row", async () => {
    const scene = await watched();
    const first = await sendTogether(scene, 100);
    scene.statements();
    const next = claimedOf(await scene.packets.flush(hops(scene, first)));
    const hop = ["SELECT onceflow_bundles", "SELECT onceflow_flows", "INSERT onceflow_bundles", "DELETE onceflow_bundles"];
    expect(scene.statements()).toEqual(hop);
    expect(inFile(scene.database)).toEqual({ bundles: [100], gone: [], rows: 0 });
    await scene.packets.flush(next.map((packet) => scene.hand.settleOf(packet, done)));
    expect(scene.statements()).toEqual(["SELECT onceflow_bundles", "DELETE onceflow_bundles"]);
    expect(inFile(scene.database)).toEqual({ bundles: [], gone: [], rows: 0 });
  });

  test("settling one by one writes the settled packets and not the bundle; the last settle deletes both", async () => {
    const scene = await watched();
    const [first, second, third] = (await sendTogether(scene, 3)) as [PacketRecord, PacketRecord, PacketRecord];
    scene.statements();
    for (const packet of [second, first]) {
      await scene.hand.done(packet);
      expect(scene.statements()).toEqual(["SELECT onceflow_bundles", "INSERT onceflow_bundles_gone"]);
    }
    expect(inFile(scene.database)).toEqual({ bundles: [3], gone: [2], rows: 0 });
    await scene.hand.done(third);
    expect(scene.statements()).toEqual(["SELECT onceflow_bundles", "DELETE onceflow_bundles", "DELETE onceflow_bundles_gone"]);
    expect(inFile(scene.database)).toEqual({ bundles: [], gone: [], rows: 0 });
  });

  test("a send of unclaimed packets reads bundles once in a flush, however many packets it sends", async () => {
    const scene = await watched();
    await sendTogether(scene, 3);
    scene.statements();
    const { hand } = scene;
    await scene.packets.flush(Array.from({ length: 20 }, () => hand.sendOf([hand.packet()])));
    expect(scene.statements().filter((text) => text.includes("bundles"))).toEqual(["SELECT onceflow_bundles"]);
  });

  test("a packet that is retried or dead becomes a row, and the others stay in the bundle", async () => {
    const scene = await watched();
    const [first, second] = (await sendTogether(scene, 4)) as [PacketRecord, PacketRecord];
    await scene.hand.settle(first, retry());
    await scene.hand.settle(second, dead);
    expect(inFile(scene.database)).toEqual({ bundles: [4], gone: [2], rows: 2 });
  });

  test("a worker that leaves has no bundles any more", async () => {
    const scene = await watched();
    const packets = await sendTogether(scene, 300);
    await scene.hand.done(packets[0] as PacketRecord);
    await scene.packets.leave(scene.hand.no);
    expect(inFile(scene.database)).toEqual({ bundles: [], gone: [], rows: 299 });
  });
});

describe("bundles", () => {
  test("hold up to 128 packets, and a single packet is a row", async () => {
    const scene = await watched();
    await sendTogether(scene, 257);
    expect(inFile(scene.database)).toEqual({ bundles: [128, 128], gone: [], rows: 1 });
  });

  test("are at most 64 KiB long; a packet that is longer than 4 KiB is a row", async () => {
    const scene = await watched();
    await sendTogether(scene, 20, { payload: "x".repeat(4096) });
    await sendTogether(scene, 2, { payload: "x".repeat(4097) });
    expect(inFile(scene.database)).toEqual({ bundles: [16, 4], gone: [], rows: 2 });
  });

  test("belong to one worker each, even if several send in one flush", async () => {
    const scene = await watched();
    const other = await Hand.on(scene.hand.store);
    const sends = Array.from({ length: 6 }, (_, i) => [scene.hand, other][i % 2] as Hand);
    await scene.packets.flush(sends.map((hand) => hand.sendOf([hand.packet({ claim: true })])));
    expect(inFile(scene.database)).toEqual({ bundles: [3, 3], gone: [], rows: 0 });
    await scene.packets.leave(other.no);
    expect(inFile(scene.database)).toEqual({ bundles: [3], gone: [], rows: 3 });
  });

  test("do not hold packets with a number of another worker, which would not be found there", async () => {
    const scene = await watched();
    const other = await Hand.on(scene.hand.store);
    const packets = [other.packet({ claim: true }), other.packet({ claim: true })];
    await scene.packets.flush([scene.hand.sendOf(packets)]);
    expect(inFile(scene.database)).toEqual({ bundles: [], gone: [], rows: 2 });
  });

  test("do not hold packets with their own dead-letter options, which share nothing with the others", async () => {
    const scene = await watched();
    const letter = { name: "dead", retentionMs: null, alert: { no: scene.hand.number(), queue: "alerts", payload: '"!"' } };
    await sendTogether(scene, 2, { letter });
    expect(inFile(scene.database)).toEqual({ bundles: [], gone: [], rows: 2 });
  });

  test("refuse a number that is given twice, and nothing is written", async () => {
    const scene = await watched();
    const packet = scene.hand.packet({ claim: true });
    await expect(scene.packets.flush([scene.hand.sendOf([packet, packet])])).rejects.toThrow(/number is used once/);
    expect(inFile(scene.database)).toEqual({ bundles: [], gone: [], rows: 0 });
  });
});

describe("packets with keys", () => {
  const keyOf = (key: string, fields: Partial<PacketKey> = {}): PacketKey => ({
    ...{ scope: "keys", key, fingerprint: `print of ${key}`, retentionMs: 1000, onMismatch: "acknowledge" as const },
    ...fields,
  });
  const countOf = (statements: readonly string[]) => {
    const counts: Record<string, number> = {};
    for (const statement of statements) counts[statement] = (counts[statement] ?? 0) + 1;
    return counts;
  };

  test("a hop with a key settles its record unread, reads and begins the next record, and writes no packet row", async () => {
    const scene = await watched();
    const { hand, packets } = scene;
    const next = () => hand.packet({ claim: true, key: keyOf(`k${hand.number()}`) });
    const first = claimedOf(await packets.flush([hand.sendOf(Array.from({ length: 100 }, next))]));
    expect(inFile(scene.database, 6)).toEqual({ bundles: [100], gone: [], rows: 0 });
    scene.statements();
    claimedOf(await packets.flush(first.map((packet) => hand.settleOf(packet, done, [next()]))));
    expect(countOf(scene.statements())).toEqual({
      "SELECT onceflow_bundles": 1,
      "UPDATE onceflow_records": 100,
      "SELECT onceflow_packets": 100,
      "SELECT onceflow_flows": 1,
      "SELECT onceflow_records": 100,
      "INSERT onceflow_records": 100,
      "INSERT onceflow_bundles": 1,
      "DELETE onceflow_bundles": 1,
    });
    expect(inFile(scene.database, 6)).toEqual({ bundles: [100], gone: [], rows: 0 });
  });

  test("another process reads the packets as they were sent", async () => {
    const [scene, elsewhere] = [await watched(), await watched()];
    const { hand } = scene;
    const keys = [
      keyOf("a"),
      null,
      keyOf("a", { scope: "other" }),
      keyOf('"ö" 🐎 {{x}}', { fingerprint: null, retentionMs: null }),
      keyOf("b", { onMismatch: "deadLetter" }),
      keyOf("c", { fingerprint: "" }),
    ];
    const sent = keys.map((key, i) => hand.packet({ claim: true, key, payload: JSON.stringify(`🐎 ${i}`) }));
    const claimed = claimedOf(await scene.packets.flush([hand.sendOf(sent)]));
    expect(inFile(scene.database).rows).toBe(0);
    for (const [i, packet] of claimed.entries()) {
      expect(packet.key).toEqual(keys[i]);
      expect(await elsewhere.packets.packet(packet.no)).toEqual(packet);
    }
  });

  test("a packet does not settle its key if the record was removed and begun by another packet meanwhile", async () => {
    const [scene, elsewhere] = [await watched(), await watched()];
    const [first] = await sendTogether(scene, 1, { key: keyOf("k") });
    const record = "FROM onceflow_records WHERE scope = 'keys' AND key = 'k'";
    scene.database.exec(`DELETE ${record}`);
    const [second] = await sendTogether(elsewhere, 1, { key: keyOf("k") });
    const stateOf = () => scene.database.prepare(`SELECT state, owner, attempt, rev ${record}`).get();
    const begun = { state: "running", owner: `packet:${second?.no}`, attempt: 1, rev: 1 };
    expect(stateOf()).toEqual(begun);
    await scene.hand.done(first as PacketRecord);
    expect(stateOf()).toEqual(begun);
    await elsewhere.hand.done(second as PacketRecord);
    expect(stateOf()).toEqual({ ...begun, state: "completed", rev: 2 });
  });
});

describe("a flush that is refused", () => {
  test("settles nothing, and the packets can be settled again", async () => {
    const scene = await watched();
    const [first, second, third] = (await sendTogether(scene, 3)) as [PacketRecord, PacketRecord, PacketRecord];
    const { hand, packets } = scene;
    const poison = hand.sendOf([hand.packet({ payload: '"\0"' })]);
    const settles = [
      hand.settleOf(first, done, [hand.packet({ claim: true }), hand.packet({ claim: true })]),
      hand.settleOf(second, retry()),
    ];
    await expect(packets.flush([...settles, poison])).rejects.toThrow(/NUL/);
    expect(inFile(scene.database)).toEqual({ bundles: [3], gone: [], rows: 0 });
    for (const { no } of [first, second, third]) expect(await packets.packet(no)).toMatchObject({ no, owner: hand.no, attempt: 1 });
    expect(claimedOf(await packets.flush(settles))).toHaveLength(2);
    expect(inFile(scene.database)).toEqual({ bundles: [3, 2], gone: [2], rows: 1 });
    expect(await packets.packet(first.no)).toBeUndefined();
    expect(await packets.packet(third.no)).toBeDefined();
  });

  test("bundles nothing, even if it is refused because of a packet for the bundle", async () => {
    const scene = await watched();
    const { hand, packets } = scene;
    const sent = [hand.packet({ claim: true }), hand.packet({ claim: true, payload: '"\0"' })];
    await expect(packets.flush([hand.sendOf(sent)])).rejects.toThrow(/NUL/);
    expect(inFile(scene.database)).toEqual({ bundles: [], gone: [], rows: 0 });
    for (const { no } of sent) expect(await packets.packet(no)).toBeUndefined();
    expect(claimedOf(await packets.flush([hand.sendOf([sent[0] as NewPacket, hand.packet({ claim: true })])]))).toHaveLength(2);
  });
});

/** A send without an execution leaves no trace when all its packets are settled. Sent again, it makes a bundle with the same number. */
test("a cached bundle is not mistaken for a later bundle with the same number and other packets", async () => {
  const [scene, elsewhere] = [await watched(), await watched()];
  const { hand } = scene;
  const send = hand.sendOf([hand.packet({ claim: true }), hand.packet({ claim: true })]);
  const [first, second] = claimedOf(await scene.packets.flush([send])) as [PacketRecord, PacketRecord];
  const same = new Hand(elsewhere.hand.store, hand.no);
  await elsewhere.packets.flush([same.settleOf(first, done), same.settleOf(second, done)]);
  const others = claimedOf(await elsewhere.packets.flush([hand.sendOf([hand.packet({ claim: true })]), send])).slice(0, 1);
  await scene.packets.flush([hand.settleOf(first, done), hand.settleOf(second, done)]);
  expect(inFile(scene.database)).toEqual({ bundles: [3], gone: [2], rows: 0 });
  for (const { no } of others) expect(await elsewhere.packets.packet(no)).toMatchObject({ no });
});

test("at most 10,000 packets are cached, and the others are read from the file", async () => {
  const scene = await watched();
  const sent: PacketRecord[] = [];
  for (let i = 0; i < 11; i++) sent.push(...(await sendTogether(scene, 1000)));
  expect(inFile(scene.database).bundles).toHaveLength(88);
  scene.statements();
  for (const packet of [sent[0], sent[5500], sent[10_999]]) await scene.hand.done(packet as PacketRecord);
  expect(scene.statements().slice(0, 3)).toEqual(["SELECT onceflow_packets", "SELECT onceflow_bundles", "SELECT onceflow_bundles"]);
  expect(inFile(scene.database)).toMatchObject({ gone: [1, 1, 1], rows: 0 });
  for (const at of [0, 1, 5500, 5501, 10_999]) {
    const packet = await scene.packets.packet(sent[at]?.no ?? 0);
    expect(packet === undefined, `packet ${at}`).toBe(at % 5500 === 0 || at === 10_999);
  }
});

test("a process that was restarted settles the rest of a bundle under its old number", async () => {
  const store = await open(`sqlite:${path}`, { purgeEveryMs: 0 });
  const hand = await Hand.on(store);
  const placed = await hand.send(...Array.from({ length: 4 }, () => hand.packet({ claim: true })));
  const packets = placed.map((each) => (each.kind === "claimed" ? each.packet : expect.fail()));
  await hand.done(packets[2] as PacketRecord);
  await store.close();
  const scene = await watched();
  const again = new Hand(scene.hand.store, hand.no);
  for (const packet of packets) await again.done(packet);
  expect(inFile(scene.database)).toEqual({ bundles: [], gone: [], rows: 0 });
});
