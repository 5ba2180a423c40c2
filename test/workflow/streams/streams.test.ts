import { DatabaseSync } from "@photostructure/sqlite";
import type { Store } from "onceflow";
import {
  ContextError,
  createHook,
  FatalError,
  getWritable,
  RunNotFoundError,
  StreamClosedError,
  sleep,
  step,
  workflow,
} from "onceflow/workflow";
import { getRun, resumeHook, start } from "onceflow/workflow/api";
import pg from "pg";
import { describe, expect, test as plain } from "vitest";
import { gate } from "../../kit/gate.js";
import { durableStores, everyStore, onStores, type Scene } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { olderPostgres, olderSqlite } from "../../stores/older-schema.js";
import { story } from "../scene.js";
import { all, reading, say } from "./stream-scene.js";

onStores("streams", everyStore, (test) => {
  test("steps and the workflow write to one stream in order; readers read it while it grows and after its end", async ({ scene }) => {
    const half = gate();
    const work = step("work", async (name: string) => {
      await say(`${name} begins`, { name, at: new Date(0) });
      if (name === "b") await half.opened;
    });
    const run = workflow(scene.name("run"), async () => {
      await say("begin");
      await work("a");
      await say("between");
      await work("b");
      const writer = getWritable().getWriter();
      await writer.write("end");
      await writer.close();
      await sleep(5);
      return "over";
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const reader = getRun(started.id, { store: await scene.open() })
      .getReadable()
      .getReader();
    const seen: unknown[] = [];
    while (seen.length < 6) seen.push((await reader.read()).value);
    half.open();
    expect((await reader.read()).value).toBe("end");
    expect((await reader.read()).done).toBe(true);
    const b = { name: "b", at: new Date(0) };
    expect(seen).toEqual(["begin", "a begins", { name: "a", at: new Date(0) }, "between", "b begins", b]);
    expect(await started.returnValue).toBe("over");
    expect(await reading(store, started.id)).toEqual([...seen, "end"]);
    expect(await story(store, started.id)).toEqual([
      ...["write write default#0", "step work#0", "done work#0"],
      ...["write write default#1", "step work#1", "done work#1", "write write default#2", "write write default#3"],
      ...["sleep sleep#0", "woke sleep#0", "end completed"],
    ]);
  });

  test("bytes stay bytes; a stream that is not closed ends with the run", async ({ scene }) => {
    const work = step("work", async () => {
      await new Blob(["abc"]).stream().pipeTo(getWritable<Uint8Array>(), { preventClose: true });
      await new Blob(["def"]).stream().pipeTo(getWritable<Uint8Array>(), { preventClose: true });
    });
    const run = workflow(scene.name("run"), async () => await work());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    expect(await new Response(started.readable as ReadableStream).text()).toBe("abcdef");
    expect((await all(started.readable)).every((chunk) => chunk instanceof Uint8Array)).toBe(true);
  });

  test("named streams are separate, and can be read from an index, a negative index or the tail", async ({ scene }) => {
    const work = step("work", async () => {
      const writer = getWritable({ namespace: "log" }).getWriter();
      for (let i = 0; i < 250; i++) await writer.write(i);
      await writer.close();
      await say("default");
    });
    const run = workflow(scene.name("run"), async () => await work());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await started.returnValue;
    const log = (startIndex?: number) => started.getReadable({ namespace: "log", ...(startIndex === undefined ? {} : { startIndex }) });
    expect(await all(log())).toEqual(Array.from({ length: 250 }, (_, i) => i));
    expect(await all(log(247))).toEqual([247, 248, 249]);
    expect(await all(log(-2))).toEqual([248, 249]);
    expect((await all(log(-1000))).length).toBe(250);
    expect(await all(log(250))).toEqual([]);
    expect([await log().getTailIndex(), await started.readable.getTailIndex()]).toEqual([249, 0]);
    expect(await started.getReadable({ namespace: "nothing" }).getTailIndex()).toBe(-1);
    expect(await all(started.getReadable({ namespace: "nothing" }))).toEqual([]);
    expect(() => started.getReadable({ startIndex: 0.5 })).toThrow("startIndex");
    expect(() => started.getReadable({ namespace: "$value" })).toThrow("namespace");
  });

  test("abort: readers get the error after the chunks that were written", async ({ scene }) => {
    const work = step("work", async () => {
      const writer = getWritable().getWriter();
      await writer.write("one");
      await writer.abort(new RangeError("no more"));
    });
    const run = workflow(scene.name("run"), async () => await work());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const reader = started.readable.getReader();
    expect((await reader.read()).value).toBe("one");
    expect(await thrownBy(reader.read())).toMatchObject({ name: "RangeError", message: "no more" });
  });

  test("nothing can be written after the end: in the same body, in a later step, in the workflow", async ({ scene }) => {
    const close = step("close", async () => {
      const writer = getWritable().getWriter();
      await writer.write("last");
      await writer.close();
      return (await thrownBy(getWritable().getWriter().write("too late"))).name;
    });
    const late = step("late", async () => await say("too late"), { maxRetries: 0 });
    const run = workflow(scene.name("run"), async () => {
      const writer = getWritable({ namespace: "own" }).getWriter();
      await writer.close();
      const own = (await thrownBy(getWritable({ namespace: "own" }).getWriter().write("x"))).name;
      return [await close(), ((await thrownBy(late())).cause as Error).message, own];
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    expect(await started.returnValue).toEqual(["StreamClosedError", new StreamClosedError("default").message, "StreamClosedError"]);
    expect(await all(started.readable)).toEqual(["last"]);
  });

  test("a writable that the workflow passes to its steps gives each step its own writer", async ({ scene }) => {
    const work = step("work", async (name: string, { out }: { out: WritableStream }) => {
      const writer = out.getWriter();
      for (const i of [1, 2]) await writer.write(`${name}${i}`);
      writer.releaseLock();
    });
    const run = workflow(scene.name("run"), async () => {
      const out = getWritable({ namespace: "shared" });
      await Promise.all([work("a", { out }), work("b", { out })]);
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await started.returnValue;
    const chunks = (await all(started.getReadable({ namespace: "shared" }))) as string[];
    expect(chunks.toSorted()).toEqual(["a1", "a2", "b1", "b2"]);
    for (const name of ["a", "b"]) expect(chunks.filter((chunk) => chunk.startsWith(name))).toEqual([`${name}1`, `${name}2`]);
  });

  test("streams that a step returns can be read in another step, and by callers that have the run's result", async ({ scene }) => {
    const make = step("make", async () => {
      const made = {
        text: new Blob(["hello ", "world"]).stream(),
        list: [ReadableStream.from([1, { two: 2 }, undefined])],
        itself: undefined as unknown,
      };
      made.itself = [made, made];
      return made;
    });
    const count = step("count", async (list: ReadableStream) => (await all(list)).length);
    const run = workflow(scene.name("run"), async () => {
      const { text, list } = await make();
      const error = await thrownBy(text.getReader().read());
      return { text, counted: await count(list[0] as ReadableStream), error: [error.name, error.message] };
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const { text, counted, error } = await started.returnValue;
    expect(counted).toBe(3);
    expect(error).toEqual(["ContextError", expect.stringContaining("pass the stream to a step")]);
    expect(await new Response(text as ReadableStream).text()).toBe("hello world");
  });

  test("a chunk that is written while a reader checks whether the run has ended is not missed", async ({ scene }) => {
    const last = gate();
    const work = step("work", async () => {
      await last.opened;
      await say("last");
    });
    const run = workflow(scene.name("run"), async () => await work());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    // Between the reader's query for chunks and its query for the run, the run writes its only chunk and ends.
    const read: Store["runs"]["read"] = async (id) => {
      last.open();
      await started.returnValue;
      return await store.runs.read(id);
    };
    const slow = Object.create(store, { runs: { value: Object.create(store.runs, { read: { value: read } }) } }) as Store;
    expect(await reading(slow, started.id)).toEqual(["last"]);
  });

  test("unknown runs, cancelled readers and invalid indexes", async ({ scene }) => {
    const store = await scene.open();
    expect(await thrownBy(reading(store, "missing"))).toBeInstanceOf(RunNotFoundError);
    expect(() => getWritable()).toThrow(ContextError);
    const run = workflow(scene.name("run"), async () => {
      expect(() => getRun("x", { store }).readable).toThrow(ContextError);
      await sleep("1h");
    });
    await scene.work({}, store);
    const started = await start(run, [], { store });
    const reader = started.readable.getReader();
    const reads = reader.read();
    await reader.cancel();
    expect(await reads).toEqual({ done: true, value: undefined });
    await started.cancel();
    expect(await all(started.readable)).toEqual([]);
    expect(await thrownBy(start(run, [new ReadableStream()] as never, { store }))).toMatchObject({
      message: expect.stringContaining("return it from a step"),
    });
  });

  test("a transactional step cannot write to a stream, and the error says why", async ({ scene }) => {
    if (scene.on === "memory") return;
    const book = step.tx("book", async () => (await thrownBy((async () => await say("x"))())).message);
    const run = workflow(scene.name("run"), async () => await book());
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toContain("a step without a transaction");
  });
});

/** Takes the database back to version 3 of its schema, with its data. */
async function downgrade(scene: Scene): Promise<void> {
  const { on, url } = scene;
  scene.isSpoilt = true;
  if (on === "sqlite") {
    const database = new DatabaseSync(url.slice("sqlite:".length));
    olderSqlite(database, 3);
    return database.close();
  }
  const client = new pg.Client(url.replace(/[?].*/, ""));
  await client.connect();
  await olderPostgres(client, new URL(url).searchParams.get("schema") ?? "", 3);
  await client.end();
}

onStores("a database from before there were streams", durableStores, (test) => {
  test("is migrated when it is opened; its runs continue and may write to streams", async ({ scene }) => {
    const run = workflow(scene.name("run"), async (token: string) => {
      const payload = await createHook<string>({ token });
      await say("new");
      return payload;
    });
    const old = await scene.open();
    const { worker } = await scene.work({ workflows: [run] }, old);
    await start(run, ["token"], { store: old, id: "run" });
    await worker.stop();
    await old.close();
    await downgrade(scene);
    const { store } = await scene.work({ workflows: [run] });
    await resumeHook("token", "payload", { store });
    expect(await getRun("run", { store }).returnValue).toBe("payload");
    expect(await reading(store, "run")).toEqual(["new"]);
  });
});

describe("streams", () => {
  plain("stream errors can be distinguished by their class", () => {
    const error = new StreamClosedError("log");
    expect([error.code, error.stream, error instanceof FatalError]).toEqual(["STREAM_CLOSED", "log", false]);
    expect(error.message).toContain('"log"');
  });
});
