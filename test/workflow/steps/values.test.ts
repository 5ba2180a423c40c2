import { FatalError, step, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { quick } from "../scene.js";

onStores("arguments and results of steps", everyStore, (test) => {
  test("a result that cannot be journaled is an error that names its path, and is not retried", async ({ scene }) => {
    let calls = 0;
    class Money {
      amount = 1;
    }
    const returns = (name: string, value: () => unknown) =>
      step(name, async () => {
        calls += 1;
        return value();
      });
    const bodies = [
      returns("function", () => ({ items: [{ fn: () => 1 }] })),
      returns("class", () => ({ money: new Money() })),
      returns("symbol", () => Symbol("s")),
      returns("hostile", () => ({
        get boom() {
          throw new Error("no entry");
        },
      })),
      returns("large", () => "x".repeat(5 * 1024 * 1024)),
    ];
    const run = workflow(scene.name("run"), async () => {
      const results = await Promise.allSettled(bodies.map((body) => body()));
      return results.map((result) => result.status === "rejected" && FatalError.is(result.reason) && (result.reason as Error).message);
    });
    const { store } = await scene.work();
    const messages = (await (await start(run, [], { store })).returnValue) as string[];
    expect(calls).toBe(5);
    expect(messages[0]).toContain(".items[0].fn");
    expect(messages[1]).toContain(".money");
    expect(messages[2]).toContain('step "symbol" succeeded, but its result cannot be journaled');
    expect(messages[3]).toContain("no entry");
    expect(messages[4]).toContain("bytes");
  });

  test("a run whose result cannot be stored fails with the path", async ({ scene }) => {
    const run = workflow(scene.name("run"), async () => ({ deep: { fn: () => 1 } }));
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    expect((await thrownBy(started.returnValue)).message).toContain(".deep.fn");
    expect(await started.status).toBe("failed");
  });

  test("results are copies, and rich values are read back unchanged", async ({ scene }) => {
    const shared = { list: [1], at: new Date(5), tags: new Map([["a", 1n]]) };
    const give = step("give", async () => shared);
    const run = workflow(scene.name("run"), async () => {
      const first = await give();
      first.list.push(2);
      const second = await give();
      return [first === shared, first.list, second.list, second.at, second.tags];
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual([false, [1, 2], [1], new Date(5), new Map([["a", 1n]])]);
    expect(shared.list).toEqual([1]);
  });

  test("changes that a body makes to its arguments stay in that attempt", async ({ scene }) => {
    const seen: number[][] = [];
    const greedy = step(
      "greedy",
      async (basket: { items: number[] }) => {
        seen.push([...basket.items]);
        basket.items.push(99);
        if (seen.length === 1) throw new Error("again");
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => {
      const basket = { items: [1] };
      await greedy(basket);
      return basket.items;
    });
    const { store } = await scene.work();
    // A replay does not call the body: the workflow must not depend on changes that it made.
    expect(await (await start(run, [], { store })).returnValue).toEqual([1]);
    expect(seen).toEqual([[1], [1]]);
  });

  test("functions and instances can be arguments and are passed as they are", async ({ scene }) => {
    const call = step("call", async (fn: (n: number) => number, counter: { count(): number }) => fn(counter.count()));
    const run = workflow(scene.name("run"), async () => {
      class Counter {
        count() {
          return 20;
        }
      }
      return await call((n) => n + 1, new Counter());
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toBe(21);
  });

  test("undefined, null, NaN and no value at all can be results", async ({ scene }) => {
    const echo = step("echo", async (value: unknown) => value);
    const run = workflow(scene.name("run"), async () => [await echo(undefined), await echo(null), await echo(Number.NaN), await echo(-0)]);
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual([undefined, null, Number.NaN, -0]);
  });

  test("thrown values that are not errors are kept as the cause's text", async ({ scene }) => {
    const odd = step("odd", async () => Promise.reject("just text"), { maxRetries: 0 });
    const run = workflow(scene.name("run"), async () => (await thrownBy(odd())).message);
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toContain("just text");
  });
});
