import { createHook, FatalError, getStepMetadata, sleep, step, workflow } from "onceflow/workflow";
import { getRun, readAttempts, readJournal, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { settled, until } from "../../kit/until.js";
import { heldAt, story } from "../scene.js";

/** Ends when its signal aborts, as a well-behaved body does. */
async function untilAborted(): Promise<never> {
  const { signal } = getStepMetadata();
  return await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

onStores("composition", everyStore, (test) => {
  test("Promise.all runs steps in parallel and returns results in the order of the calls", async ({ scene }) => {
    const all = gate();
    let inside = 0;
    const meet = step("meet", async (n: number) => {
      inside += 1;
      if (inside === 5) all.open();
      await all.opened;
      return n * n;
    });
    const run = workflow(scene.name("run"), async () => await Promise.all([1, 2, 3, 4, 5].map((n) => meet(n))));
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual([1, 4, 9, 16, 25]);
  });

  test("Promise.all rejects with the first failure; the other steps are aborted and their verdicts are journaled", async ({ scene }) => {
    const broken = step("broken", async () => Promise.reject(new FatalError("broken")));
    const slow = step("slow", untilAborted);
    const run = workflow(scene.name("run"), async () => await Promise.all([slow(), broken()]));
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await expect(started.returnValue).rejects.toThrow("broken");
    const lines = await story(store, started.id);
    expect(lines).toContain("fail slow#0");
    expect(lines.at(-1)).toBe("end failed");
  });

  test("Promise.race aborts the loser and journals its verdict before the run ends", async ({ scene }) => {
    const ids: string[] = [];
    const loser = step("loser", async () => {
      ids.push(getStepMetadata().stepId);
      return await untilAborted();
    });
    const late = step("late", async () => {
      ids.push(getStepMetadata().stepId);
      await untilAborted().catch(() => {});
      return "late truth";
    });
    const winner = step("winner", async () => "winner");
    const run = workflow(scene.name("run"), async () => await Promise.race([loser(), late(), winner()]));
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    expect(await started.returnValue).toBe("winner");
    const [lost, brought] = await Promise.all(ids.map((id) => readAttempts(started.id, id, { store })));
    expect(lost).toMatchObject([{ verdict: "failed" }]);
    expect(brought).toMatchObject([{ verdict: "completed" }]);
    expect((await story(store, started.id)).at(-1)).toBe("end completed");
  });

  test("the losers of a race keep running while the code runs: only the run's end aborts them", async ({ scene }) => {
    const free = gate();
    let aborted = false;
    const slow = step("slow", async () => {
      getStepMetadata().signal.addEventListener("abort", () => {
        aborted = true;
      });
      await free.opened;
      return "slow";
    });
    const fast = step("fast", async () => "fast");
    const open = step("open", async () => free.open());
    const run = workflow(scene.name("run"), async () => {
      const losing = slow();
      const first = await Promise.race([losing, fast()]);
      await open();
      return [first, await losing];
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual(["fast", "slow"]);
    expect(aborted).toBe(false);
  });

  test("Promise.any and Promise.allSettled", async ({ scene }) => {
    const broken = step("broken", async (n: number) => Promise.reject(new FatalError(`broken ${n}`)));
    const fine = step("fine", async () => "fine");
    const run = workflow(scene.name("run"), async () => {
      const any = await Promise.any([broken(1), broken(2), fine()]);
      const none = await Promise.any([broken(3), broken(4)]).catch((error: AggregateError) => error.errors.map(String));
      const all = await Promise.allSettled([broken(5), fine()]);
      return [any, none, all.map(({ status }) => status)];
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual([
      "fine",
      ["FatalError: broken 3", "FatalError: broken 4"],
      ["rejected", "fulfilled"],
    ]);
  });

  test("try, catch, finally: compensations run in reverse order", async ({ scene }) => {
    const done: string[] = [];
    const act = step("act", async (what: string) => {
      if (what === "ship") throw new FatalError("no more trucks");
      done.push(what);
    });
    const saga = workflow(scene.name("saga"), async () => {
      const undo: (() => Promise<unknown>)[] = [];
      try {
        await act("reserve");
        undo.unshift(() => act("release"));
        await act("charge");
        undo.unshift(() => act("refund"));
        await act("ship");
      } catch (error) {
        for (const each of undo) await each();
        return `undone: ${(error as Error).message}`;
      } finally {
        await act("close");
      }
      return "done";
    });
    const { store } = await scene.work();
    expect(await (await start(saga, [], { store })).returnValue).toBe("undone: no more trucks");
    expect(done).toEqual(["reserve", "charge", "refund", "release", "close"]);
  });

  test("results reach the code in the order of the journal, also after a takeover", async ({ scene }) => {
    const held = gate();
    const first = step("first", async () => "first");
    const second = step("second", async () => {
      await held.opened;
      return "second";
    });
    const reached = gate();
    const last = step("last", async () => {
      reached.open();
      if (getStepMetadata().attempt === 1) await new Promise(() => {});
    });
    const run = workflow(scene.name("run"), async () => {
      const order: string[] = [];
      const both = [second().then((name) => order.push(name)), first().then((name) => order.push(name))];
      await Promise.race(both);
      held.open();
      await Promise.all(both);
      await last();
      return order;
    });
    const doomed = await scene.workAndDie();
    const started = await start(run, [], { store: doomed.store });
    await reached.opened;
    doomed.die();
    const { store } = await scene.work();
    expect(await getRun(started.id, { store }).returnValue).toEqual(["first", "second"]);
  });

  test("when the code returns without waiting, a running step is aborted, and a step that has not begun does not begin", async ({
    scene,
  }) => {
    const calls: string[] = [];
    const slow = step("slow", async () => {
      calls.push("slow");
      return await untilAborted();
    });
    const quick = step("quick", async () => void calls.push("quick"));
    const never = step("never", async () => void calls.push("never"));
    const run = workflow(scene.name("run"), async () => {
      slow().catch(() => {});
      await quick();
      never().catch(() => {});
      return "returned";
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    expect(await started.returnValue).toBe("returned");
    expect(calls).toEqual(["slow", "quick"]);
    const lines = await story(store, started.id);
    expect(lines).toContain("fail slow#0");
    const asked = (await readJournal(started.id, { store })).find((item) => item.id === "never#0");
    expect(asked?.attempt).toBe(0);
    expect(await readAttempts(started.id, asked?.stepId ?? "", { store })).toEqual([]);
  });

  test("a step whose entry is being written when the code returns does not begin", async ({ scene }) => {
    const calls: string[] = [];
    const one = step("one", async () => void calls.push("one"));
    const two = step("two", async () => void calls.push("two"));
    const run = workflow(scene.name("run"), async () => {
      const hook = createHook<string>({ token: "t" });
      const chain = (async () => {
        await one();
        await two();
      })();
      return await Promise.race([hook, chain]);
    });
    const held = heldAt(await scene.open(), "done one#0");
    const { store } = await scene.work({}, held.store);
    const started = await start(run, [], { store });
    await held.reached;
    await resumeHook("t", "hook won", { store });
    await held.heard;
    await settled();
    held.free();
    expect(await started.returnValue).toBe("hook won");
    expect(calls).toEqual(["one"]);
    const lines = await story(store, started.id);
    expect(lines).toEqual(expect.arrayContaining(["step two#0", "fail two#0"]));
    expect(lines.at(-1)).toBe("end completed");
  });

  test("a failure that the code ignores ends neither the process nor the run", async ({ scene }) => {
    const broken = step("broken", async () => Promise.reject(new FatalError("ignored")));
    const fine = step("fine", async () => "fine");
    const run = workflow(scene.name("run"), async () => {
      broken().catch(() => {});
      await sleep(5);
      return await fine();
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toBe("fine");
  });

  test("step functions work as values, in a generator, in a class and recursively", async ({ scene }) => {
    const add = step("add", async (a: number, b: number) => a + b);
    class Account {
      balance = 0;
      async deposit(amount: number) {
        this.balance = await add(this.balance, amount);
      }
    }
    async function fold(fn: typeof add, [head, ...rest]: number[], sum = 0): Promise<number> {
      return head === undefined ? sum : await fold(fn, rest, await fn(sum, head));
    }
    async function* running(account: Account) {
      for (const amount of [1, 2, 3]) {
        await account.deposit(amount);
        yield account.balance;
      }
    }
    const run = workflow(scene.name("run"), async () => {
      const balances: number[] = [];
      for await (const balance of running(new Account())) balances.push(balance);
      return [balances, await fold(add, [1, 2, 3, 4])];
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual([[1, 3, 6], 10]);
  });

  test("50 parallel steps are each retried once", async ({ scene }) => {
    const calls = new Map<number, number>();
    const flaky = step(
      "flaky",
      async (n: number) => {
        calls.set(n, (calls.get(n) ?? 0) + 1);
        if (getStepMetadata().attempt === 1) throw new Error("once");
        return n;
      },
      { backoff: { minMs: 1, maxMs: 3 } },
    );
    const run = workflow(scene.name("run"), async () => await Promise.all(Array.from({ length: 50 }, (_, n) => flaky(n))));
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual(Array.from({ length: 50 }, (_, n) => n));
    expect([...calls.values()]).toEqual(Array(50).fill(2));
  });

  test("a throw before the first step, synchronous code, and a workflow that is not an async function", async ({ scene }) => {
    const thrower = workflow(scene.name("thrower"), (): number => {
      throw new RangeError("at once");
    });
    const sync = workflow(scene.name("sync"), (n: number) => n + 1);
    const { store } = await scene.work();
    await expect((await start(thrower, [], { store })).returnValue).rejects.toThrow("at once");
    expect(await (await start(sync, [1], { store })).returnValue).toBe(2);
  });

  test("a run that no worker can finish stays, and can be cancelled", async ({ scene }) => {
    const stuck = workflow(scene.name("stuck"), async () => await new Promise<never>(() => {}));
    const { store, worker } = await scene.work();
    const run = await start(stuck, [], { store });
    await until("it is there", () => worker.running === 1);
    await run.cancel();
    await expect(run.returnValue).rejects.toThrow("cancelled");
  });
});
