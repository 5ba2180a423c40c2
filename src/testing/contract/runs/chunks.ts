import assert from "node:assert/strict";
import type { Chunk, ChunkRecord } from "../../../core/runs/chunk.js";
import type { WriteChunks } from "../../../core/runs/operation.js";
import type { Store } from "../../../core/store/store.js";
import type { ContractGroup } from "../contract-case.js";
import { lapse, runCase, sendSafely, takenOver } from "./run-case.js";
import {
  after,
  append,
  appendOf,
  begin,
  create,
  ended,
  expectAnswer,
  firstOf,
  numbers,
  type Owned,
  play,
  released,
  submit,
  take,
} from "./run-operations.js";

/** The first chunk of the default stream by the first attempt of a step, unless given otherwise. */
function chunkOf(fields: Partial<Chunk> = {}): Chunk {
  return { stream: "default", writer: "step#0", n: 0, attempt: 1, kind: "value", data: '"chunk"', ...fields };
}

/** Chunks of one writer, counted from `from` on. */
function values(texts: readonly string[], fields: Partial<Chunk> = {}, from = 0): Chunk[] {
  return texts.map((text, i) => chunkOf({ n: from + i, data: JSON.stringify(text), ...fields }));
}

function writeOf({ id, creator, epoch }: Pick<Owned, "id" | "creator" | "epoch">, chunks: readonly Chunk[]): WriteChunks {
  return { verb: "write", id, creator, epoch, chunks };
}

async function write(store: Store, owned: Owned, chunks: readonly Chunk[]): Promise<void> {
  assert.deepEqual(expectAnswer(await submit(store, writeOf(owned, chunks)), "written").closed, []);
}

const mib = 1024 * 1024;

function chunksOf(store: Store, fields: { run?: string; stream?: string; from?: number; limit?: number; bytesMax?: number } = {}) {
  return store.runs.chunks({ run: "run", stream: "default", from: 0, limit: 1000, bytesMax: 100 * mib, ...fields });
}

/** The chunks that a reader gets, by position. */
async function seen(store: Store, stream = "default", run = "run"): Promise<(readonly [number, string, unknown])[]> {
  return (await chunksOf(store, { run, stream })).map(({ index, kind, data }: ChunkRecord) => [index, kind, plainOf(data)] as const);
}

function plainOf(data: ChunkRecord["data"]): unknown {
  if (data === null) return null;
  return typeof data === "string" ? JSON.parse(data) : [...data];
}

const rows = (texts: readonly string[], from = 0) => texts.map((text, i) => [from + i, "value", text] as const);

export const streaming: ContractGroup = {
  verb: "write",
  cases: [
    runCase("chunks are stored in the order of their submission, and every handle reads them", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store);
      await write(store, owned, values(["a", "b"]));
      await write(store, owned, [...values(["c"], {}, 2), chunkOf({ stream: "more", data: '"other stream"' })]);
      assert.deepEqual(await seen(other), rows(["a", "b", "c"]));
      assert.deepEqual(await seen(other, "more"), rows(["other stream"]));
      assert.deepEqual(await seen(other, "missing"), []);
      assert.deepEqual(await seen(other, "default", "missing"), []);
    }),

    runCase("bytes are kept as bytes, values as text, of any content", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      const all = new Uint8Array(256).map((_, i) => i);
      const text = "\ud83e\udd84 \u00e9 \\ \" ' {} , \u0001";
      const chunks = [
        chunkOf({ n: 0, kind: "bytes", data: all }),
        chunkOf({ n: 1, kind: "bytes", data: new Uint8Array() }),
        chunkOf({ n: 2, data: JSON.stringify(text) }),
        chunkOf({ n: 3, data: '""' }),
      ];
      await write(store, owned, chunks);
      assert.deepEqual(await seen(store), [
        [0, "bytes", [...all]],
        [1, "bytes", []],
        [2, "value", text],
        [3, "value", ""],
      ]);
      assert.ok((await chunksOf(store)).slice(0, 2).every(({ data }) => data instanceof Uint8Array && !Buffer.isBuffer(data)));
    }),

    runCase("several writers of one stream: each has its own count, and positions are assigned in order", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      await write(store, owned, values(["a0"], { writer: "a#0" }));
      await write(store, owned, [...values(["b0"], { writer: "b#0" }), ...values(["a1"], { writer: "a#0" }, 1)]);
      await write(store, owned, values(["b1"], { writer: "b#0" }, 1));
      assert.deepEqual(await seen(store), rows(["a0", "b0", "a1", "b1"]));
    }),

    runCase("a later attempt replaces the chunks of an earlier one in place; the rest become void at the end", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      await write(store, owned, values(["old 0", "old 1", "old 2"]));
      await write(store, owned, values(["only the old one"], { stream: "side" }));
      await write(store, owned, values(["neighbour"], { writer: "other#0" }));
      await write(store, owned, values(["new 0", "new 1"], { attempt: 2 }));
      assert.deepEqual(await seen(store), rows(["new 0", "new 1", "old 2", "neighbour"]));
      await append(store, owned, { voids: [{ writer: "step#0", attempt: 2 }] });
      assert.deepEqual(await seen(store), [...rows(["new 0", "new 1"]), [2, "void", null], [3, "value", "neighbour"]]);
      assert.deepEqual(await seen(store, "side"), [[0, "void", null]]);
      assert.equal(await store.runs.tail("run", "side"), -1);
    }),

    runCase("late chunks of an earlier attempt change nothing, not even void ones", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      await write(store, owned, values(["old 0", "old 1"]));
      await write(store, owned, values(["new 0"], { attempt: 2 }));
      await append(store, owned, { voids: [{ writer: "step#0", attempt: 2 }] });
      const before = await seen(store);
      await write(store, owned, values(["old 0", "old 1"]));
      assert.deepEqual(await seen(store), before);
      assert.deepEqual(before, [...rows(["new 0"]), [1, "void", null]]);
    }),

    runCase("chunks sent again after a lost reply are stored once", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store);
      const asked = writeOf(owned, values(["a", "b", "c"]));
      const handles = [store, other, store, other];
      for (const answer of await Promise.all(handles.map((handle) => submit(handle, asked)))) expectAnswer(answer, "written");
      assert.deepEqual(await seen(store), rows(["a", "b", "c"]));
    }),

    runCase("the same writer and count twice in one write: the later attempt counts, in the place of the first", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      const [first, second] = [values(["old 0", "old 1"]), values(["new 0", "new 1", "new 2"], { attempt: 2 })];
      await write(store, owned, [...first, ...values(["neighbour"], { writer: "other#0" }), ...second]);
      await write(store, owned, [...values(["3", "4"], { attempt: 2 }, 3), ...values(["late"], { attempt: 1 }, 3)]);
      assert.deepEqual(await seen(store), rows(["new 0", "new 1", "neighbour", "new 2", "3", "4"]));
      await append(store, owned, { chunks: [...values(["v"], { stream: "$value" }), ...values(["v"], { stream: "$value" })] });
      assert.deepEqual(await seen(store, "$value"), rows(["v"]));
    }),

    runCase("chunks with an entry are stored if the entry is, and once when it is sent again", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store, { first: firstOf({ chunks: values(["first"], { writer: "run" }) }) });
      const asked = appendOf(owned, { chunks: values(["second", "third"], { writer: "run" }, 1) });
      for (const handle of [store, other]) expectAnswer(await submit(handle, asked), "appended");
      expectAnswer(await submit(other, appendOf(owned, { chunks: values(["somebody else's"], { writer: "x" }) })), "appended");
      expectAnswer(await submit(store, { ...asked, seq: 9 }), "overtaken");
      assert.deepEqual(await seen(other), rows(["first", "second", "third"]));
    }),

    runCase("chunks with the end of a run, and with the start of a pending run", async (scene) => {
      const store = await scene.store();
      await create(store, { id: "pending", chunks: values(["input"], { stream: "$value" }) });
      assert.deepEqual(await seen(store, "$value", "pending"), rows(["input"]));
      const owned = await begin(store, { id: "parent" });
      const child = { verb: "start", workflow: "work", fingerprint: null, retentionMs: null, first: null } as const;
      const chunks = values(["child's"], { stream: "$value" });
      await append(store, owned, { children: [{ ...child, id: "child", input: '"x"', parent: "parent", creator: "c", chunks }] });
      assert.deepEqual(await seen(store, "$value", "child"), rows(["child's"]));
      await append(store, after(owned), { next: ended(), chunks: values(["last"], { writer: "run" }) });
      assert.deepEqual(await seen(store, "default", "parent"), rows(["last"]));
    }),

    runCase("chunks are fenced by the epoch: a late step body of a former owner writes nothing", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const { late, next } = await takenOver(scene, store);
      expectAnswer(await submit(other, writeOf(late, values(["late"]))), "overtaken");
      await write(store, next, values(["new"], { attempt: 2 }));
      expectAnswer(await submit(other, writeOf(late, values(["late", "later"]))), "overtaken");
      assert.deepEqual(await seen(store), rows(["new"]));
    }),

    runCase("chunks are refused when the run has no owner, has ended, or does not exist", async (scene) => {
      const store = await scene.store();
      const resting = await play(store, { id: "resting" }, released());
      const over = await play(store, { id: "over" });
      for (const owned of [resting, over, { ...over, id: "missing" }])
        expectAnswer(await submit(store, writeOf(owned, values(["x"]))), "overtaken");
      const claimed = await begin(store, { id: "live" });
      expectAnswer(await submit(store, writeOf({ ...claimed, epoch: 2 }, values(["x"]))), "overtaken");
      for (const run of ["resting", "over", "missing", "live"]) assert.deepEqual(await seen(store, "default", run), []);
    }),

    runCase("the end of a stream comes after all chunks of all writers, and closes only its own stream", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      await write(store, owned, [...values(["a"]), ...values(["b"], { writer: "other#0" }), ...values(["open"], { stream: "open" })]);
      await append(store, owned, { chunks: [chunkOf({ n: -1, kind: "end", data: null })] });
      assert.deepEqual(await seen(store), [...rows(["a", "b"]), [2, "end", null]]);
      const asked = [...values(["too late"], { writer: "third#0" }), ...values(["goes on"], { stream: "open" }, 1)];
      const { closed } = expectAnswer(await submit(store, writeOf(owned, asked)), "written");
      assert.deepEqual(closed, ["default"]);
      assert.equal((await seen(store)).length, 3);
      assert.deepEqual(await seen(store, "open"), rows(["open", "goes on"]));
    }),

    runCase("an error that ends a stream is kept with its text", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      await append(store, owned, { chunks: [chunkOf({ n: -1, kind: "error", data: '{"name":"Error"}' })] });
      assert.deepEqual(await seen(store), [[0, "error", { name: "Error" }]]);
      assert.deepEqual(expectAnswer(await submit(store, writeOf(owned, values(["x"]))), "written").closed, ["default"]);
    }),

    runCase("pages: from a position on, at most `limit` chunks, and at most `bytesMax` unless the first chunk is longer", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      await write(store, owned, values(numbers(20).map((i) => `${i}`.padStart(1000, "0"))));
      const places = async (fields: Parameters<typeof chunksOf>[1]) => (await chunksOf(store, fields)).map(({ index }) => index);
      assert.deepEqual(await places({ from: 5, limit: 3 }), [5, 6, 7]);
      assert.deepEqual(await places({ from: 19, limit: 3 }), [19]);
      assert.deepEqual(await places({ from: 20 }), []);
      assert.deepEqual(await places({ from: 2, bytesMax: 1 }), [2]);
      // At least two chunks fit, also in a store that encrypts them and so makes them longer.
      const some = await places({ from: 2, bytesMax: 3500 });
      assert.ok(some.length >= 2 && some.length <= 5, `${some.length} chunks of 1002 bytes in 3500`);
    }),

    runCase("the tail is the last chunk that is not void", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      assert.equal(await store.runs.tail("run", "default"), -1);
      await write(store, owned, values(["a", "b", "c"]));
      assert.equal(await store.runs.tail("run", "default"), 2);
      await append(store, owned, { chunks: [chunkOf({ n: -1, kind: "end", data: null })] });
      assert.deepEqual([await store.runs.tail("run", "default"), await store.runs.tail("missing", "default")], [2, -1]);
    }),

    runCase("a thousand chunks in one write, and long chunks", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      const many = numbers(1000).map(String);
      await write(store, owned, values(many));
      const long = new Uint8Array(mib).fill(7);
      await write(store, owned, [chunkOf({ stream: "long", kind: "bytes", data: long })]);
      assert.deepEqual(await seen(store), rows(many));
      const [only] = await chunksOf(store, { stream: "long" });
      assert.ok(only?.data instanceof Uint8Array && only.data.length === mib && only.data.every((byte) => byte === 7));
    }),

    runCase("writes of many runs in one flush have each its own answer", async (scene) => {
      const store = await scene.store();
      const ids = numbers(12).map((i) => `run ${i}`);
      const all = await Promise.all(ids.map((id) => begin(store, { id })));
      const asked = all.map((owned, i) => writeOf(i % 3 === 0 ? { ...owned, epoch: 7 } : owned, values([owned.id])));
      const answers = await Promise.all(asked.map((one) => submit(store, one)));
      for (const [i, answer] of answers.entries()) expectAnswer(answer, i % 3 === 0 ? "overtaken" : "written");
      for (const [i, id] of ids.entries()) assert.deepEqual(await seen(store, "default", id), i % 3 === 0 ? [] : rows([id]));
    }),

    runCase("chunks written while the run is taken over are stored before the claim or not at all", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const ids = numbers(6).map((i) => `run ${i}`);
      const all = await Promise.all(ids.map((id) => begin(store, { id, first: firstOf({}, 1) })));
      for (const id of ids) await lapse(scene, store, id);
      const writing = Promise.all(all.map((owned) => sendSafely(scene, store, writeOf(owned, values(["late"])))));
      const claim = () => other.runs.claim({ owner: "next", workflows: ["work"], leaseMs: 60_000, limit: 100 });
      const first = await claim();
      const answers = await writing;
      // A claim skips runs that are locked at that moment. After the writes no run is locked.
      const rest = await claim();
      assert.equal(first.claimed.length + rest.claimed.length, ids.length);
      for (const [i, id] of ids.entries())
        assert.deepEqual(await seen(store, "default", id), answers[i]?.kind === "written" ? rows(["late"]) : []);
      for (const owned of all) expectAnswer(await submit(store, writeOf(owned, values(["later"], {}, 1))), "overtaken");
    }),

    runCase("a run is purged with its chunks: the next run with its id starts empty", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const stays = await begin(store, { id: "stays" });
      // The newest run: a store that numbers its runs may reuse its number for the next run.
      const owned = await begin(store, { retentionMs: 0 });
      await write(store, owned, values(["a"]));
      await write(store, stays, values(["b"]));
      await append(store, owned, { next: ended(), chunks: [chunkOf({ n: -1, kind: "end", data: null })] });
      assert.equal(await other.runs.purge(100), 1);
      assert.deepEqual([await seen(store), await store.runs.tail("run", "default")], [[], -1]);
      assert.deepEqual(await seen(store, "default", "stays"), rows(["b"]));
      await write(other, await begin(other), values(["anew"]));
      assert.deepEqual(await seen(store), rows(["anew"]));
    }),

    runCase("chunks do not wake a run, and claims and lists do not read them", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      await write(store, owned, values(["a"]));
      await append(store, owned, { next: released({ wakeAt: 0 }), chunks: values(["b"], { writer: "run" }) });
      const { run, journal } = await take(store, "run");
      assert.deepEqual([run.status, run.mail, journal.length], ["running", 0, 2]);
    }),

    runCase("a watcher on another handle is notified that a stream has grown, and not that a run is due", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store);
      const reported: unknown[] = [];
      const stop = other.onRunChange((run, _ended, what) => void reported.push([run, what]));
      await scene.until("the change is reported", async () => {
        await write(store, owned, values(["a"]));
        return reported.some((one) => JSON.stringify(one) === '["run","chunks"]' || JSON.stringify(one) === '[null,"run"]');
      });
      stop();
    }),
  ],
};
