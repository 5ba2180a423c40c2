import type { Store } from "onceflow";
import { getStepMetadata, getWritable, step, workflow } from "onceflow/workflow";
import { getRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, type Scene } from "../../kit/scene.js";
import { quick } from "../scene.js";
import { all, reading, say } from "./stream-scene.js";

/**
 * A step that writes five chunks, fails, and writes three at its second attempt; then one more chunk of the workflow.
 * Indexes 3 and 4 stay empty, and the last chunk has index 5.
 */
async function retriedWithFewer(scene: Scene) {
  const [written, seen, retried, reconnected] = [gate(), gate(), gate(), gate()];
  const work = step(
    "work",
    async () => {
      const { attempt } = getStepMetadata();
      for (let i = 0; i < (attempt === 1 ? 5 : 3); i++) await say(`${attempt}:${i}`);
      if (attempt > 1) return;
      written.open();
      await seen.opened;
      throw new Error("not yet");
    },
    quick,
  );
  const pause = step("pause", async () => {
    retried.open();
    await reconnected.opened;
  });
  const run = workflow(scene.name("run"), async () => {
    await work();
    await pause();
    await say("behind");
  });
  const { store } = await scene.work();
  const started = await start(run, [], { store });
  return { store, started, written, seen, retried, reconnected };
}

const from = (store: Store, id: string, startIndex: number) => getRun(id, { store }).getReadable<string>({ startIndex });

async function take<T>(readable: ReadableStream<T>, count: number): Promise<T[]> {
  const reader = readable.getReader();
  const taken: T[] = [];
  while (taken.length < count) {
    const { done, value } = await reader.read();
    if (done) break;
    taken.push(value);
  }
  reader.releaseLock();
  return taken;
}

onStores("readers that reconnect", everyStore, (test) => {
  test("after a retry with fewer chunks, a reader that continues at nextIndex gets no chunk twice and misses none", async ({ scene }) => {
    const { store, started, seen, reconnected } = await retriedWithFewer(scene);
    seen.open();
    reconnected.open();
    await started.returnValue;
    const whole = ["2:0", "2:1", "2:2", "behind"];
    for (let cut = 0; cut <= whole.length; cut++) {
      const first = from(store, started.id, 0);
      const before = await take(first, cut);
      const after = await all(from(store, started.id, first.nextIndex));
      expect([...before, ...after], `cut after ${cut} chunks`).toEqual(whole);
    }
    // A reader that only counts chunks is behind by the number of empty indexes: it gets chunks again, and misses none.
    expect(await all(from(store, started.id, whole.length))).toEqual(["behind"]);
  });

  test("a reader that saw chunks of a failed attempt continues after them, connected or reconnected", async ({ scene }) => {
    const { store, started, written, seen, retried, reconnected } = await retriedWithFewer(scene);
    await written.opened;
    const [connected, cut, early] = [from(store, started.id, 0), from(store, started.id, 0), from(store, started.id, 0)];
    const failed = ["1:0", "1:1", "1:2", "1:3", "1:4"];
    for (const readable of [connected, cut]) expect(await take(readable, 5)).toEqual(failed);
    expect(await take(early, 2)).toEqual(failed.slice(0, 2));
    seen.open();
    await retried.opened;
    // Both wait for chunks after index 4, although indexes 3 and 4 are empty now.
    const [rest, resumed] = [all(connected), all(from(store, started.id, cut.nextIndex))];
    // The reader that was disconnected earlier gets the chunks of the attempt that counts at indexes that it has not reached.
    const resumedEarly = all(from(store, started.id, early.nextIndex));
    reconnected.open();
    expect(await rest).toEqual(["behind"]);
    expect(await resumed).toEqual(["behind"]);
    expect(await resumedEarly).toEqual(["2:2", "behind"]);
    expect(connected.nextIndex).toBe(6);
    expect(await reading(store, started.id)).toEqual(["2:0", "2:1", "2:2", "behind"]);
  });

  test("entries() gives every chunk with its index, and continues from any of them", async ({ scene }) => {
    const { store, started, seen, reconnected } = await retriedWithFewer(scene);
    seen.open();
    reconnected.open();
    await started.returnValue;
    const whole = from(store, started.id, 0);
    const entries = await all(whole.entries());
    expect(whole.locked).toBe(true);
    expect(entries).toEqual([
      [0, "2:0"],
      [1, "2:1"],
      [2, "2:2"],
      [5, "behind"],
    ]);
    for (const [at, [index]] of entries.entries())
      expect(await all(from(store, started.id, index + 1).entries())).toEqual(entries.slice(at + 1));
  });

  test("a negative startIndex counts back from the last chunk; nextIndex is absolute once a chunk was read", async ({ scene }) => {
    const run = workflow(scene.name("run"), async () => {
      const writer = getWritable().getWriter();
      for (const chunk of ["a", "b", "c"]) await writer.write(chunk);
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await started.returnValue;
    const last = from(store, started.id, -2);
    expect(last.nextIndex).toBe(-2);
    expect(await take(last, 1)).toEqual(["b"]);
    expect(last.nextIndex).toBe(2);
    expect(await all(from(store, started.id, last.nextIndex))).toEqual(["c"]);
    await last.cancel();
  });

  test("cancelling entries() ends the reading", async ({ scene }) => {
    const { store, started, written, seen, reconnected } = await retriedWithFewer(scene);
    await written.opened;
    const entries = from(store, started.id, 0).entries();
    for await (const [index] of entries) if (index === 1) break;
    seen.open();
    reconnected.open();
    await started.returnValue;
  });
});
