import { describe, expect, test } from "vitest";
import type { Clock } from "../core/work/clock.js";
import type { Handled } from "./handled.js";
import { Lanes } from "./lanes.js";

const leaseMs = 1000;
const isOver = async () => false;

function scene() {
  let now = 0;
  const clock: Clock = { now: () => now, soon: (fn) => fn(), after: () => () => {} };
  const lanes = new Lanes(clock, leaseMs);
  const done: string[] = [];
  const run = (lane: string, id: string, handled: Handled = { status: "duplicate" }, over = false) =>
    lanes.run(lane, {
      id,
      isOver: async () => over,
      handle: async () => {
        done.push(id);
        return handled;
      },
    });
  const pass = (ms: number) => {
    now += ms;
  };
  return { lanes, run, done, pass };
}

const retry = { status: "retry", error: new Error("no"), attempt: 1, afterMs: 500 } as const;

describe("lanes", () => {
  test("handles messages of a lane in order of arrival; lanes are independent", async () => {
    const { lanes } = scene();
    const done: string[] = [];
    const ends = new Map<string, () => void>();
    const start = (lane: string, id: string) =>
      lanes.run(lane, {
        id,
        isOver,
        handle: async () => {
          await new Promise<void>((end) => void ends.set(id, end));
          done.push(id);
          return { status: "duplicate" };
        },
      });
    const all = [start("a", "a1"), start("a", "a2"), start("b", "b1")];
    await expect.poll(() => [...ends.keys()]).toEqual(["a1", "b1"]);
    ends.get("b1")?.();
    ends.get("a1")?.();
    await expect.poll(() => ends.has("a2")).toBe(true);
    ends.get("a2")?.();
    await Promise.all(all);
    expect(done).toEqual(["b1", "a1", "a2"]);
  });

  test("a message to retry holds later messages back until it is redelivered", async () => {
    const { run, done, pass } = scene();
    const [first, second] = await Promise.all([run("a", "a1", retry), run("a", "a2")]);
    expect([first, second]).toEqual([retry, { status: "held", forMs: 500 + leaseMs }]);
    expect((await run("b", "b1")).status).toBe("duplicate");
    pass(500);
    expect(await run("a", "a2")).toEqual({ status: "held", forMs: leaseMs });
    expect(await run("a", "a1")).toEqual({ status: "duplicate" });
    expect(await run("a", "a2")).toEqual({ status: "duplicate" });
    expect(done).toEqual(["a1", "b1", "a1", "a2"]);
  });

  test("but not copies of messages that were handled before it", async () => {
    const { run } = scene();
    await run("a", "a2", retry);
    expect(await run("a", "a1", { status: "duplicate" }, true)).toEqual({ status: "duplicate" });
    // Letting the copy through does not release the next message.
    expect((await run("a", "a3")).status).toBe("held");
  });

  test("but not forever: another process may have received it", async () => {
    const { run, pass } = scene();
    await run("a", "a1", { status: "held", forMs: 100 });
    pass(100 + leaseMs - 1);
    expect(await run("a", "a2")).toEqual({ status: "held", forMs: 1 });
    pass(1);
    expect(await run("a", "a2")).toEqual({ status: "duplicate" });
  });

  test("if the store fails for a message, the next message waits", async () => {
    const { lanes, run } = scene();
    const failing = lanes.run("a", { id: "a1", isOver, handle: () => Promise.reject(new Error("unreachable")) });
    const behind = run("a", "a2");
    await expect(failing).rejects.toThrow("unreachable");
    expect((await behind).status).toBe("held");
  });
});
