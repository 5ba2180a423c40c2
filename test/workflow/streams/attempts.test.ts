import type { Store } from "onceflow";
import { getStepMetadata, getWritable, step, workflow } from "onceflow/workflow";
import { getRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { letTimePass } from "../../kit/real-time.js";
import { everyStore, onStores, shortMs } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { settled, until } from "../../kit/until.js";
import { quick, story } from "../scene.js";
import { all, reading, say } from "./stream-scene.js";

onStores("streams of attempts", everyStore, (test) => {
  test("a retry replaces the chunks of the failed attempt, and the rest of those chunks is removed", async ({ scene }) => {
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

  test("a stream that a failed attempt closed is not closed", async ({ scene }) => {
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
    // This reader has passed the index. A reader from the beginning sees the chunks of the attempt that counts.
    expect((await reader.read()).value).toBe("more");
    expect((await reader.read()).done).toBe(true);
    expect(await reading(store, started.id)).toEqual(["attempt 2", "more"]);
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

  test("after a crash the attempt of the next worker replaces the chunks, and replayed code writes nothing again", async ({ scene }) => {
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

  test("a late body of a worker that lost the run writes nothing, and its writes reject", async ({ scene }) => {
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
    /** Writes until a write is refused: a write resolves when there is room for it. */
    const flood = async () => {
      for (;;) {
        await say("late");
        await settled(1);
      }
    };
    const run = workflow(scene.name("run"), async () => await work());
    // From the start of the body the heartbeats are lost; nothing else fails.
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
    expect((await refused.opened).message).toMatch(/taken over the run|is over|no longer owns the run/);
    expect(await reading(store, started.id)).toEqual(["2"]);
    await worker.stop({ graceMs: 0 });
  });

  test("chunks of a timed-out attempt do not arrive after the verdict of the next attempt", async ({ scene }) => {
    const own = await scene.open();
    const [free, second, over] = [gate(), gate(), gate()];
    const refused = gate<Error>();
    const sent = gate();
    let writing = 0;
    const commit = async (batch: { run?: { verb: string } }) => {
      if (batch.run?.verb !== "write") return await own.commit(batch as never);
      writing += 1;
      sent.open();
      await free.opened;
      return await own.commit(batch as never).finally(() => {
        writing -= 1;
      });
    };
    const slow = Object.create(own, { commit: { value: commit } }) as Store;
    const work = step(
      "work",
      async () => {
        if (getStepMetadata().attempt > 1) return second.open();
        await say("on its way");
        // In the buffer, after the chunk that is being written.
        await sent.opened;
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
    await letTimePass(50, "a verdict that does not wait for the chunks would be written meanwhile");
    free.open();
    await until("the first step is done", async () => (await story(own, started.id)).includes("done work#0"));
    await until("the writes are answered", () => writing === 0);
    over.open();
    await started.returnValue;
    expect(await all(started.readable)).toEqual([]);
  });

  test("a body that opens a stream only after its timeout writes nothing", async ({ scene }) => {
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

  test("writes that are not awaited are stored when the step is done", async ({ scene }) => {
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
});
