import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open, type Store, StoreRefusedError } from "onceflow";
import { expect, onTestFinished, test } from "vitest";
import { beginOf, completed, settleOf, start } from "../../../src/testing/contract/ledger/operations.js";
import { startOf } from "../../../src/testing/contract/runs/run-operations.js";
import { commitThree, handOn } from "../three-commits.js";

async function fresh(): Promise<{ readonly store: Store; readonly transactions: () => number }> {
  const folder = mkdtempSync(join(tmpdir(), "onceflow-write-"));
  const path = join(folder, "store.db");
  const store = await open(`sqlite:${path}`, { stallMsMax: 0, purgeEveryMs: 0 });
  onTestFinished(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });
  return { store, transactions: () => commitsIn(`${path}-wal`) };
}

/** The number of transactions in a write-ahead log (https://www.sqlite.org/fileformat.html#the_write_ahead_log): it counts commit frames. */
function commitsIn(path: string): number {
  const log = readFileSync(path);
  const [pageBytes, salt] = [log.readUInt32BE(8), log.subarray(16, 24)];
  let commits = 0;
  for (let frame = 32; frame + 24 + pageBytes <= log.length; frame += 24 + pageBytes)
    if (log.subarray(frame + 8, frame + 16).equals(salt) && log.readUInt32BE(frame + 4) > 0) commits += 1;
  return commits;
}

test("a record, a run and a packet that are committed in one turn are one transaction", async () => {
  const { store, transactions } = await fresh();
  const hand = await handOn(store);
  const before = transactions();
  expect(await commitThree(store, hand, "first")).toEqual(["started", "created", "packetsSent"]);
  expect(transactions()).toBe(before + 1);
  await Promise.all(["a", "b", "c"].map((name) => commitThree(store, hand, name)));
  expect(transactions()).toBe(before + 2);
});

test("one operation alone is one transaction, and a replay is none", async () => {
  const { store, transactions } = await fresh();
  const before = transactions();
  const held = await start(store as never, beginOf({ key: "alone" }));
  expect(transactions()).toBe(before + 1);
  await store.commit({ ledger: settleOf(held, completed(1)) });
  expect(transactions()).toBe(before + 2);
  expect(await store.commit({ ledger: beginOf({ key: "alone" }) })).toMatchObject({ kind: "replay" });
  expect(transactions()).toBe(before + 2);
});

test("an operation that SQLite refuses fails alone, and the others in its transaction are written", async () => {
  const { store } = await fresh();
  const hand = await handOn(store);
  const send = hand.packet();
  const [refused, again, ...written] = await Promise.allSettled([
    // A fraction of a millisecond, which a STRICT integer column refuses.
    store.commit({ ledger: beginOf({ key: "poison", retentionMs: 0.5 }) }),
    store.commit({ packet: hand.sendOf([{ ...send, delayMs: 0.5 }]) }),
    store.commit({ ledger: beginOf({ key: "fine" }) }),
    store.commit({ run: startOf({ id: "fine" }) }),
  ]);
  expect(refused).toMatchObject({ status: "rejected", reason: expect.any(StoreRefusedError) });
  expect(again).toMatchObject({ status: "rejected", reason: expect.any(StoreRefusedError) });
  expect(written).toMatchObject([{ value: { kind: "started" } }, { value: { kind: "created" } }]);
  expect(await store.read({ scope: "", key: "poison" })).toBeUndefined();
  expect(await store.packets.packet(send.no)).toBeUndefined();
  expect((await store.read({ scope: "", key: "fine" }))?.record.state).toBe("running");
  expect((await store.runs.read("fine"))?.id).toBe("fine");
  // The store has dropped its cached state of the refused packet: the queue and the packet number can be used.
  expect(await store.commit({ packet: hand.sendOf([send]) })).toMatchObject({ kind: "packetsSent" });
});

test("a stale settle is refused, and the others in its transaction are written", async () => {
  const { store, transactions } = await fresh();
  const hand = await handOn(store);
  const held = await start(store as never, beginOf({ key: "held" }));
  const stale = settleOf({ ...held, begin: { ...held.begin, owner: "another" } }, completed(1));
  const before = transactions();
  const [settled, ...others] = await Promise.all([store.commit({ ledger: stale }), commitThree(store, hand, "beside")]);
  expect(settled).toMatchObject({ kind: "stale" });
  expect(others).toEqual([["started", "created", "packetsSent"]]);
  expect(transactions()).toBe(before + 1);
  expect((await store.read({ scope: "", key: "held" }))?.record.state).toBe("running");
});
