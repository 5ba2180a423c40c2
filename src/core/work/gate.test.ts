import { expect, test } from "vitest";
import { Gate } from "./gate.js";

/** Work that ends when the test says so. */
function scene(slots: number) {
  const gate = new Gate(slots);
  const running: string[] = [];
  const ends = new Map<string, (error?: Error) => void>();
  const work = (name: string) => () =>
    new Promise<string>((resolve, reject) => {
      running.push(name);
      ends.set(name, (error) => {
        running.splice(running.indexOf(name), 1);
        if (error === undefined) resolve(name);
        else reject(error);
      });
    });
  const end = async (name: string, error?: Error) => {
    ends.get(name)?.(error);
    await new Promise((go) => setImmediate(go));
  };
  return { gate, running, work, end };
}

test("work never exceeds the slots, is first come, first served, and frees its slot when it fails", async () => {
  const { gate, running, work, end } = scene(2);
  const outcomes = Promise.allSettled(["a", "b", "c", "d"].map((name) => gate.run(work(name))));
  expect(running).toEqual(["a", "b"]);
  await end("b", new Error("failed"));
  expect(running).toEqual(["a", "c"]);
  await end("a");
  expect(running).toEqual(["c", "d"]);
  await end("c");
  await end("d");
  expect((await outcomes).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
});

test("work that needs several slots gets them together, and is not overtaken by work that needs fewer", async () => {
  const { gate, running, work, end } = scene(2);
  const all = [gate.run(work("one")), gate.run(work("pair"), 2), gate.run(work("late"))];
  expect(running).toEqual(["one"]);
  await end("one");
  expect(running).toEqual(["pair"]);
  await end("pair");
  expect(running).toEqual(["late"]);
  await end("late");
  expect(await Promise.all(all)).toEqual(["one", "pair", "late"]);
});

test("runAll settles after all its work, and throws the first failure in the order of the items", async () => {
  const { gate, running, work, end } = scene(2);
  let ended = false;
  const all = gate
    .runAll(["a", "b", "c"], (name) => work(name)())
    .finally(() => {
      ended = true;
    });
  const outcome = expect(all).rejects.toThrow("of b");
  await end("b", new Error("of b"));
  await end("c", new Error("of c"));
  expect([ended, running]).toEqual([false, ["a"]]);
  await end("a");
  await outcome;
});
