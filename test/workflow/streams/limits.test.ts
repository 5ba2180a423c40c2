import type { Store } from "onceflow";
import { getWritable, step, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { settled, until } from "../../kit/until.js";
import { all, say } from "./stream-scene.js";

onStores("streams and their limits", everyStore, (test) => {
  test("the size of a chunk and the number of chunks are limited; values that cannot be stored are refused by name", async ({ scene }) => {
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

  test("a writer that is faster than the store has to wait (backpressure), and nothing is lost", async ({ scene }) => {
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
      await settled();
      return accepted === before;
    });
    expect(accepted).toBeLessThan(1001);
    free.open();
    await started.returnValue;
    expect(await all(started.readable)).toEqual(Array.from({ length: 3000 }, (_, i) => i));
  });

  test("a chunk that the store refuses fails its own step, and not the step beside it", async ({ scene }) => {
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

  test("a step without streams costs no additional commit; a burst of chunks needs only a few", async ({ scene }) => {
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
