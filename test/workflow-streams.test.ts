import { setTimeout as delay } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import type { Store } from "onceflow";
import {
  ContextError,
  createHook,
  FatalError,
  getStepMetadata,
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
import { durableStores, everyStore, gate, onStores, type Scene, shortMs, story, until } from "./workflow-scene.js";

const quick = { backoff: { minMs: 1, maxMs: 1 } };

async function all<T>(readable: ReadableStream<T>): Promise<T[]> {
  const chunks: T[] = [];
  for await (const chunk of readable) chunks.push(chunk);
  return chunks;
}

async function thrownBy(promise: PromiseLike<unknown>): Promise<Error> {
  return await promise.then(
    () => expect.fail("it did not reject"),
    (error: unknown) => error as Error,
  );
}

/** Writes and lets go, as a step does that is not the only one. */
async function say(...chunks: unknown[]): Promise<void> {
  const writer = getWritable().getWriter();
  for (const chunk of chunks) await writer.write(chunk);
  writer.releaseLock();
}

const reading = (store: Store, id: string) => all(getRun(id, { store }).readable);

onStores("streams", everyStore, (test) => {
  test("steps and the workflow write to one stream, in order; others read it while it grows and after its end", async ({ scene }) => {
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

  test("bytes stay bytes; a stream without an end is over when the run is", async ({ scene }) => {
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

  test("named streams are apart; places, negative ones and the tail", async ({ scene }) => {
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

  test("a retried attempt replaces what the failed one wrote, and what was left of it is gone", async ({ scene }) => {
    const work = step(
      "work",
      async () => {
        const { attempt } = getStepMetadata();
        for (let i = 0; i < (attempt === 1 ? 5 : 3); i++) await say(`${attempt}:${i}`);
        const writer = getWritable({ namespace: "closed" }).getWriter();
        await writer.write(`${attempt}`);
        await writer.close();
        if (attempt === 1) throw new Error("not yet");
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => {
      await work();
      await say("behind");
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await started.returnValue;
    expect(await all(started.readable)).toEqual(["2:0", "2:1", "2:2", "behind"]);
    expect(await all(started.getReadable({ namespace: "closed" }))).toEqual(["2"]);
    expect(await started.readable.getTailIndex()).toBe(5);
    expect(await all(started.getReadable({ startIndex: 3 }))).toEqual(["behind"]);
  });

  test("what a failed attempt closed is not closed", async ({ scene }) => {
    const [closed, seen] = [gate(), gate()];
    const work = step(
      "work",
      async () => {
        const { attempt } = getStepMetadata();
        const writer = getWritable().getWriter();
        await writer.write(`attempt ${attempt}`);
        if (attempt === 2) await writer.write("more");
        await writer.close();
        if (attempt > 1) return;
        closed.open();
        await seen.opened;
        throw new Error("not yet");
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => await work());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const reader = started.readable.getReader();
    await closed.opened;
    expect((await reader.read()).value).toBe("attempt 1");
    seen.open();
    // It has passed that place. Whoever reads from the beginning sees what counts.
    expect((await reader.read()).value).toBe("more");
    expect((await reader.read()).done).toBe(true);
    expect(await reading(store, started.id)).toEqual(["attempt 2", "more"]);
  });

  test("abort: readers get the error, behind what was written", async ({ scene }) => {
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

  test("behind its end nothing can be written: in the same body, in a later step, in the workflow", async ({ scene }) => {
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

  test("a writable that the workflow hands to its steps is each step's own writer", async ({ scene }) => {
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

  test("a step returns streams: they are read in another step, and by whoever has the run's result", async ({ scene }) => {
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
    expect(error).toEqual(["ContextError", expect.stringContaining("hand the stream to one")]);
    expect(await new Response(text as ReadableStream).text()).toBe("hello world");
  });

  test("a returned stream that breaks midway is written again by the next attempt", async ({ scene }) => {
    const make = step(
      "make",
      async () => {
        const { attempt } = getStepMetadata();
        async function* parts() {
          for (let i = 0; i < 4; i++) {
            if (i === 3 && attempt === 1) throw new Error("broken pipe");
            if (i === 2 && attempt === 2) return;
            yield `${attempt}:${i}`;
          }
        }
        return ReadableStream.from(parts());
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => await make());
    const { store } = await scene.work();
    expect(await all((await (await start(run, [], { store })).returnValue) as ReadableStream)).toEqual(["2:0", "2:1"]);
  });

  test("after a death: the taker-over's attempt replaces, and replayed code writes nothing again", async ({ scene }) => {
    const [written, never] = [gate(), gate()];
    let attempts = 0;
    const work = step("work", async () => {
      const { attempt } = getStepMetadata();
      attempts += 1;
      for (let i = 0; i < (attempt === 1 ? 4 : 2); i++) await say(`${attempt}:${i}`);
      if (attempt > 1) return;
      await until(
        "the chunks of the first attempt are in the store",
        async () => (await getRun(id, { store }).readable.getTailIndex()) === 4,
      );
      written.open();
      await never.opened;
    });
    const run = workflow(scene.name("run"), async () => {
      await say("before");
      await work();
      await say("after");
    });
    const id = scene.name("id");
    const store = await scene.open();
    const doomed = await scene.workAndDie({ workflows: [run] });
    await start(run, [], { store: doomed.store, id });
    await written.opened;
    doomed.die();
    await scene.work({ workflows: [run] }, store);
    await getRun(id, { store }).returnValue;
    expect(attempts).toBe(2);
    expect(await reading(store, id)).toEqual(["before", "2:0", "2:1", "after"]);
  });

  test("a late body of an owner that was overtaken writes nothing, and hears of it", async ({ scene }) => {
    const [held, free] = [gate(), gate()];
    const refused = gate<Error>();
    const work = step("work", async () => {
      const { attempt } = getStepMetadata();
      await say(`${attempt}`);
      if (attempt > 1) return;
      begun = true;
      held.open();
      await free.opened;
      refused.open(await thrownBy(flood()));
    });
    /** Until it is refused: a write resolves when there is room for it. */
    const flood = async () => {
      for (;;) {
        await say("late");
        await delay(1);
      }
    };
    const run = workflow(scene.name("run"), async () => await work());
    // Once the body has begun, its heartbeat does not get through, and nothing else is wrong with it.
    const own = await scene.open();
    let begun = false;
    const renew: Store["runs"]["renew"] = (query) => (begun ? new Promise(() => {}) : own.runs.renew(query));
    const deaf = Object.create(own, { runs: { value: Object.create(own.runs, { renew: { value: renew } }) } }) as Store;
    const { worker } = await scene.work({ workflows: [run], leaseMs: shortMs }, deaf);
    const store = await scene.open();
    const started = await start(run, [], { store: deaf });
    await held.opened;
    await scene.work({ workflows: [run] }, store);
    await getRun(started.id, { store }).returnValue;
    free.open();
    expect((await refused.opened).message).toMatch(/taken the run over|is over|left this process/);
    expect(await reading(store, started.id)).toEqual(["2"]);
    await worker.stop({ graceMs: 0 });
  });

  test("chunks of an attempt that ran out of time do not come behind the verdict of the next", async ({ scene }) => {
    const own = await scene.open();
    const [free, second, over] = [gate(), gate(), gate()];
    const refused = gate<Error>();
    const commit = async (batch: { run?: { verb: string } }) => {
      if (batch.run?.verb === "write") await free.opened;
      return await own.commit(batch as never);
    };
    const slow = Object.create(own, { commit: { value: commit } }) as Store;
    const work = step(
      "work",
      async () => {
        if (getStepMetadata().attempt > 1) return second.open();
        await say("on its way");
        // In the buffer, behind the one that is on its way.
        await delay(10);
        await say("waiting").catch(() => {});
        await second.opened;
        refused.open(await thrownBy(say("too late")));
      },
      { ...quick, timeoutMs: 50, graceMs: 0 },
    );
    const hold = step("hold", async () => await over.opened);
    const run = workflow(scene.name("run"), async () => {
      await work();
      await hold();
    });
    await scene.work({ workflows: [run] }, slow);
    const started = await start(run, [], { store: slow });
    expect((await refused.opened).message).toContain("this attempt of step work#0 is over");
    // Time for the wrong thing to happen: a verdict before the chunks have arrived.
    await delay(50);
    free.open();
    await until("the first step is done", async () => (await story(own, started.id)).includes("done work#0"));
    // And for chunks that come late.
    await delay(50);
    over.open();
    await started.returnValue;
    expect(await all(started.readable)).toEqual([]);
  });

  test("a body that asks for a stream only when its time is over writes nothing", async ({ scene }) => {
    const second = gate();
    const late = gate<Error | undefined>();
    const work = step(
      "work",
      async () => {
        if (getStepMetadata().attempt > 1) return second.open();
        await second.opened;
        late.open(
          await say("too late").then(
            () => undefined,
            (error: Error) => error,
          ),
        );
      },
      { ...quick, timeoutMs: 50, graceMs: 0 },
    );
    const hold = step("hold", async () => (await late.opened)?.message);
    const run = workflow(scene.name("run"), async () => {
      await work();
      return await hold();
    });
    const { store } = await scene.work({ workflows: [run] });
    const started = await start(run, [], { store });
    expect(await started.returnValue).toContain("this attempt of step work#0 is over");
    expect(await all(started.readable)).toEqual([]);
  });

  test("what is written while a reader asks whether the run is over is not missed", async ({ scene }) => {
    const last = gate();
    const work = step("work", async () => {
      await last.opened;
      await say("last");
    });
    const run = workflow(scene.name("run"), async () => await work());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    // Between its look for chunks and its look at the run, the run writes its only chunk, and ends.
    const read: Store["runs"]["read"] = async (id) => {
      last.open();
      await started.returnValue;
      return await store.runs.read(id);
    };
    const slow = Object.create(store, { runs: { value: Object.create(store.runs, { read: { value: read } }) } }) as Store;
    expect(await reading(slow, started.id)).toEqual(["last"]);
  });

  test("unknown runs, cancelled readers, wrong places", async ({ scene }) => {
    const store = await scene.open();
    expect(await thrownBy(reading(store, "nobody"))).toBeInstanceOf(RunNotFoundError);
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

  test("limits: the size of a chunk, the chunks of a writer; what cannot be stored is refused by name", async ({ scene }) => {
    const store = await scene.open({ valueBytesMax: 1000, streamChunksMax: 3 });
    const work = step(
      "work",
      async () => {
        const writer = getWritable().getWriter();
        const long = (await thrownBy(writer.write("x".repeat(1001)))).message;
        const bytes = (await thrownBy(getWritable().getWriter().write(new Uint8Array(1001)))).message;
        const odd = (
          await thrownBy(
            getWritable()
              .getWriter()
              .write({ fn: () => {} }),
          )
        ).message;
        for (let i = 0; i < 3; i++) await say(i);
        return [long, bytes, odd, (await thrownBy(say("one too many"))).message];
      },
      { maxRetries: 0 },
    );
    const run = workflow(scene.name("run"), async () => await work());
    await scene.work({}, store);
    const [long, bytes, odd, many] = (await (await start(run, [], { store })).returnValue) as string[];
    expect(long).toContain("chunk: is 1003 bytes long");
    expect(bytes).toContain("write it in pieces");
    expect(odd).toContain(".fn");
    expect(many).toContain("streamChunksMax");
  });

  test("backpressure: who writes faster than the store takes it has to wait; nothing is lost", async ({ scene }) => {
    const own = await scene.open();
    const free = gate();
    const writing = gate();
    const commit = async (batch: { run?: { verb: string } }) => {
      if (batch.run?.verb === "write") {
        writing.open();
        await free.opened;
      }
      return await own.commit(batch as never);
    };
    const slow = Object.create(own, { commit: { value: commit } }) as Store;
    let accepted = 0;
    const work = step("work", async () => {
      const writer = getWritable().getWriter();
      for (let i = 0; i < 3000; i++) {
        await writer.write(i);
        accepted += 1;
      }
    });
    const run = workflow(scene.name("run"), async () => await work());
    await scene.work({ workflows: [run] }, slow);
    const started = await start(run, [], { store: slow });
    await writing.opened;
    await until("it waits", async () => {
      const before = accepted;
      await delay(20);
      return accepted === before;
    });
    expect(accepted).toBeLessThan(1001);
    free.open();
    await started.returnValue;
    expect(await all(started.readable)).toEqual(Array.from({ length: 3000 }, (_, i) => i));
  });

  test("a chunk that the store refuses fails its own step, and not the one beside it", async ({ scene }) => {
    const own = await scene.open();
    const commit = async (batch: { run?: { verb: string; chunks?: readonly { data: unknown }[] } }) => {
      if (batch.run?.verb === "write" && batch.run.chunks?.some(({ data }) => data === '"poison"')) throw new RangeError("refused");
      return await own.commit(batch as never);
    };
    const picky = Object.create(own, { commit: { value: commit } }) as Store;
    const work = step("work", async (text: string) => await say(text, "more"), { maxRetries: 0 });
    const run = workflow(scene.name("run"), async () => {
      const [good, bad] = await Promise.allSettled([work("good"), work("poison")]);
      return [good?.status, bad?.status === "rejected" && String((bad.reason as Error).cause)];
    });
    await scene.work({ workflows: [run] }, picky);
    const started = await start(run, [], { store: picky });
    expect(await started.returnValue).toEqual(["fulfilled", "RangeError: refused"]);
    expect(await all(started.readable)).toEqual(["good", "more"]);
  });

  test("writes that nobody waits for are there when the step is done", async ({ scene }) => {
    const work = step("work", async () => {
      const writer = getWritable().getWriter();
      for (let i = 0; i < 3000; i++) void writer.write(i);
    });
    const run = workflow(scene.name("run"), async () => await work());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await started.returnValue;
    expect((await all(started.readable)).length).toBe(3000);
  });

  test("a step in a transaction writes to no stream, and says why", async ({ scene }) => {
    if (scene.on === "memory") return;
    const book = step.tx("book", async () => (await thrownBy((async () => await say("x"))())).message);
    const run = workflow(scene.name("run"), async () => await book());
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toContain("a step without a transaction");
  });

  test("costs: a step without streams as many commits as ever; a burst of chunks one more", async ({ scene }) => {
    const quiet = step("quiet", async () => 1);
    const loud = step("loud", async () => {
      const writer = getWritable().getWriter();
      await Promise.all(Array.from({ length: 100 }, (_, i) => writer.write(i)));
    });
    const run = workflow(scene.name("run"), async (which: string) => await (which === "quiet" ? quiet() : loud()));
    const { store } = await scene.work();
    const costs = async (which: string) => {
      const before = store.metrics.flushes;
      await (await start(run, [which], { store })).returnValue;
      return store.metrics.flushes - before;
    };
    expect(await costs("quiet")).toBe(2);
    expect(await costs("loud")).toBeLessThanOrEqual(6);
  });
});

/** Takes the database back to version 3 of its schema: what it held then it holds still. */
async function downgrade({ on, url }: Scene): Promise<void> {
  if (on === "sqlite") {
    const database = new DatabaseSync(url.slice("sqlite:".length));
    const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all() as { name: string }[];
    const later = tables.filter(({ name }) =>
      /^onceflow_(chunks|packets|executions|notes|queues|flows|workers|bundles|bundles_gone)$/.test(name),
    );
    database.exec(`${later.map(({ name }) => `DROP TABLE ${name};`).join("")} DELETE FROM onceflow_schema WHERE version > 3`);
    return database.close();
  }
  const client = new pg.Client(url.replace(/[?].*/, ""));
  await client.connect();
  const schema = new URL(url).searchParams.get("schema");
  const later = ["chunks", "packets", "executions", "notes", "flows", "workers"].map((name) => `${schema}.${name}`);
  await client.query(`DROP TABLE ${later.join(", ")}; DELETE FROM ${schema}.schema_version WHERE version > 3`);
  await client.end();
}

onStores("a database of before there were streams", durableStores, (test) => {
  test("is migrated when it is opened; its runs go on, and may write to streams", async ({ scene }) => {
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
  plain("the errors of streams are told apart by their class", () => {
    const error = new StreamClosedError("log");
    expect([error.code, error.stream, error instanceof FatalError]).toEqual(["STREAM_CLOSED", "log", false]);
    expect(error.message).toContain('"log"');
  });
});
