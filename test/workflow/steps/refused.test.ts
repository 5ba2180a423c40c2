import { InvalidInputError, type Store, StoreRefusedError } from "onceflow";
import { createHook, createWebhook, getStepMetadata, getWritable, step, work, workflow } from "onceflow/workflow";
import { getHookByToken, getRun, resumeHook, start } from "onceflow/workflow/api";
import { describe, expect, test as plain } from "vitest";
import type { Entry, RunOperation } from "../../../src/core/runs/operation.js";
import { mortal } from "../../../src/testing/mortal-store.js";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, type Scene, shortMs } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { until } from "../../kit/until.js";
import { story, untilStatus } from "../scene.js";

const nul = "a\0b";
const lone = "a\ud800b";

/** Counts the effects at the provider. */
function charging(scene: Scene) {
  let charges = 0;
  const charge = step(scene.name("charge"), async () => {
    charges += 1;
    return "charged";
  });
  return { charge, charges: () => charges };
}

onStores("values of a workflow that a store cannot keep", everyStore, (test) => {
  for (const [what, token] of [
    ["NUL", nul],
    ["a lone surrogate", lone],
  ] as const) {
    test(`a token with ${what} is refused when the hook is created, and the step before it runs once`, async ({ scene }) => {
      const { charge, charges } = charging(scene);
      const seen: unknown[] = [];
      const order = workflow(scene.name("order"), async () => {
        await charge();
        for (const make of [createHook, createWebhook]) {
          try {
            void make({ token });
          } catch (error) {
            seen.push(error);
          }
        }
        void createHook({ token });
      });
      const { store } = await scene.work({ leaseMs: 2000, pollMs: 20 });
      const run = await start(order, [], { store });
      const failed = await thrownBy(run.returnValue);
      expect((failed.cause as Error).message).toMatch(/^token: has /);
      expect(seen).toHaveLength(2);
      for (const error of seen) expect(error).toBeInstanceOf(InvalidInputError);
      expect(charges()).toBe(1);
    });

    test(`resumeHook and getHookByToken refuse a token with ${what}`, async ({ scene }) => {
      const store = await scene.open();
      expect(await thrownBy(resumeHook(token, 1, { store }))).toBeInstanceOf(InvalidInputError);
      expect(await thrownBy(getHookByToken(token, { store }))).toBeInstanceOf(InvalidInputError);
    });

    test(`the key of a step with ${what} is refused at the call`, async ({ scene }) => {
      const { charge, charges } = charging(scene);
      const keyed = step(scene.name("keyed"), async (_name: string) => await getWritable().getWriter().write(1), { key: (name) => name });
      const order = workflow(scene.name("order"), async () => {
        await charge();
        await keyed(token);
      });
      const { store } = await scene.work();
      const failed = await thrownBy((await start(order, [], { store })).returnValue);
      expect((failed.cause as Error).message).toMatch(/key: has /);
      expect(charges()).toBe(1);
    });

    test(`metadata, arguments, results and payloads with ${what} are stored`, async ({ scene }) => {
      const echo = step(scene.name("echo"), async (value: unknown) => value);
      const hookToken = scene.name("token");
      const order = workflow(scene.name("order"), async (given: unknown) => {
        const hook = createHook<unknown>({ token: hookToken, metadata: new Map([[token, token]]) });
        return [given, await echo(new Set([token])), await hook];
      });
      const { store } = await scene.work();
      const run = await start(order, [token], { store });
      await until("the hook is there", async () => (await store.runs.hook(hookToken)) !== undefined);
      expect((await getHookByToken(hookToken, { store })).metadata).toEqual(new Map([[token, token]]));
      await resumeHook(hookToken, { text: token }, { store });
      expect(await run.returnValue).toEqual([token, new Set([token]), { text: token }]);
    });

    test(`a step in doubt because of an error whose name has ${what} is stored as unknown`, async ({ scene }) => {
      let calls = 0;
      const doubtful = step(
        scene.name("doubtful"),
        async () => {
          calls += 1;
          throw Object.assign(new Error("odd"), { name: token });
        },
        { effect: "atMostOnce" },
      );
      const order = workflow(scene.name("order"), async () => await doubtful());
      const { store } = await scene.work({ leaseMs: 2000, pollMs: 20 });
      const { id } = await start(order, [], { store });
      await untilStatus(store, id, "unknown");
      expect(calls).toBe(1);
    });
  }
});

plain("names with a lone surrogate are refused when they are defined", () => {
  expect(() => workflow(lone, async () => {})).toThrow(InvalidInputError);
  expect(() => step(lone, async () => {})).toThrow(InvalidInputError);
});

type Refuses = (entry: Entry) => boolean;

/** A store that always refuses some entries because of their data. */
function refusing(store: Store, refuses: Refuses): Store {
  const commit = async (batch: { run?: RunOperation }) => {
    const entry = batch.run?.verb === "append" ? batch.run.entry : batch.run?.verb === "start" ? batch.run.first?.entry : undefined;
    if (entry !== undefined && refuses(entry)) throw new StoreRefusedError("the store refused this write: it does not like it");
    return await store.commit(batch as never);
  };
  return Object.create(store, { commit: { value: commit } }) as Store;
}

const has =
  (text: string): Refuses =>
  ({ events, then }) =>
    (events ?? "").includes(text) || (then.kind === "end" && (then.output ?? "").includes(text));

onStores("a commit that the store refuses because of its data", everyStore, (test, on) => {
  const refusals: Record<string, Refuses> = {
    hook: ({ hooks }) => hooks.length > 0,
    child: ({ children }) => children.length > 0,
    chunk: ({ chunks = [] }) => chunks.some(({ stream }) => stream === "default"),
    "result of the step": has("charged"),
    "result of the run": has("poison"),
  };
  for (const [what, refuses] of Object.entries(refusals))
    test(`a refused ${what} fails the run with the store's message, and the step before it runs once`, async ({ scene }) => {
      const { charge, charges } = charging(scene);
      const child = workflow(scene.name("child"), async () => 1);
      const order = workflow(scene.name("order"), async () => {
        await charge();
        if (what === "hook") await createHook({ token: scene.name("token") });
        if (what === "child") await start(child);
        if (what === "chunk") await getWritable().getWriter().write("text");
        return "poison";
      });
      const store = refusing(await scene.open(), refuses);
      await scene.work({ leaseMs: 2000, pollMs: 20 }, store);
      const run = await start(order, [], { store });
      const failed = await thrownBy(run.returnValue);
      expect(failed.cause).toMatchObject({ code: "RUN_NOT_WRITABLE", message: expect.stringContaining("does not like it") });
      expect(charges()).toBe(1);
      expect(await run.status).toBe("failed");
      expect(await story(store, run.id)).toEqual([
        expect.stringMatching(/^step charge/),
        expect.stringMatching(/^done charge/),
        "end failed",
      ]);
      // No worker claims the run again.
      const { worker } = await scene.work({ leaseMs: 2000, pollMs: 20 });
      await worker.tick();
      expect(charges()).toBe(1);
    });

  test("a refused first entry leaves a failed run", async ({ scene }) => {
    const order = workflow(scene.name("order"), async () => await createHook({ token: scene.name("token") }));
    const store = refusing(await scene.open(), ({ hooks }) => hooks.length > 0);
    await scene.work({}, store);
    const run = await start(order, [], { store });
    expect((await thrownBy(run.returnValue)).cause).toMatchObject({ code: "RUN_NOT_WRITABLE" });
  });

  test("if the run cannot be created at all, start rejects", async ({ scene }) => {
    const order = workflow(scene.name("order"), async () => 1);
    const store = refusing(await scene.open(), () => true);
    await scene.work({}, store);
    expect(await thrownBy(start(order, [], { id: "r", store }))).toBeInstanceOf(StoreRefusedError);
    expect(await getRun("r", { store }).exists).toBe(false);
  });

  test("a running body is aborted, and its result is journaled", async ({ scene }) => {
    const { charge, charges } = charging(scene);
    const begun = gate();
    const slow = step(scene.name("slow"), async () => {
      const { signal } = getStepMetadata();
      begun.open();
      await new Promise<void>((stop) => signal.addEventListener("abort", () => stop()));
      return "stopped";
    });
    const order = workflow(scene.name("order"), async () => {
      const going = slow();
      await begun.opened;
      await charge();
      void createHook({ token: scene.name("token") });
      return await going;
    });
    const store = refusing(await scene.open(), ({ hooks }) => hooks.length > 0);
    await scene.work({}, store);
    const run = await start(order, [], { store });
    expect((await thrownBy(run.returnValue)).cause).toMatchObject({ code: "RUN_NOT_WRITABLE" });
    const events = (await story(store, run.id)).map((line) => line.replace(/ \d+#/, "#"));
    expect(events).toEqual(["step slow#0", "step charge#0", "done charge#0", "done slow#0", "end failed"]);
    expect(charges()).toBe(1);
  });

  test("a parent gets the failure of its child", async ({ scene }) => {
    const child = workflow(scene.name("child"), async () => await createHook({ token: scene.name("token") }));
    const parent = workflow(scene.name("parent"), async () => await (await start(child)).returnValue);
    const store = refusing(await scene.open(), ({ hooks }) => hooks.length > 0);
    await scene.work({ pollMs: 20 }, store);
    const failed = await thrownBy((await start(parent, [], { store })).returnValue);
    expect((failed.cause as Error).message).toContain("does not like it");
  });

  test.skipIf(on === "memory")(
    "if the process dies before the end is written, the next worker ends the run, and the step runs once",
    async ({ scene }) => {
      const { charge, charges } = charging(scene);
      const order = workflow(scene.name("order"), async () => {
        await charge();
        await createHook({ token: scene.name("token") });
      });
      const refuses: Refuses = ({ hooks }) => hooks.length > 0;
      const dying = mortal(await scene.open());
      let dead = false;
      const commit = async (batch: { run?: RunOperation }) => {
        const entry = batch.run?.verb === "append" ? batch.run.entry : undefined;
        if (entry !== undefined && refuses(entry)) throw new StoreRefusedError("refused");
        if (entry?.then.kind === "end") {
          dead = true;
          dying.die();
        }
        return await dying.store.commit(batch as never);
      };
      const doomed = Object.create(dying.store, { commit: { value: commit } }) as Store;
      await work(doomed, { workflows: [order], leaseMs: shortMs, background: true });
      await start(order, [], { id: "r", store: doomed });
      await until("the process has died", () => dead);
      const store = refusing(await scene.open(), refuses);
      await scene.work({ leaseMs: shortMs, pollMs: 20, workflows: [order] }, store);
      await untilStatus(store, "r", "failed");
      expect(charges()).toBe(1);
    },
  );

  test.skipIf(on === "memory")(
    "if the process dies before the end is written, the next worker does not deliver the payload again",
    async ({ scene }) => {
      const token = scene.name("token");
      const refused = scene.name("refused");
      let heard = 0;
      const order = workflow(scene.name("order"), async () => {
        const first = createHook<number>({ token });
        await first;
        void first.then(() => {
          heard += 1;
        });
        await createHook({ token: refused });
      });
      const refuses: Refuses = ({ hooks }) => hooks.some((change) => "add" in change && change.add === refused);
      const dying = mortal(await scene.open());
      let dead = false;
      const commit = async (batch: { run?: RunOperation }) => {
        const entry = batch.run?.verb === "append" ? batch.run.entry : undefined;
        if (entry !== undefined && refuses(entry)) throw new StoreRefusedError("refused");
        if (entry?.then.kind === "end") {
          dead = true;
          dying.die();
        }
        return await dying.store.commit(batch as never);
      };
      const doomed = Object.create(dying.store, { commit: { value: commit } }) as Store;
      await work(doomed, { workflows: [order], leaseMs: shortMs, background: true });
      await start(order, [], { id: "r", store: doomed });
      const store = refusing(await scene.open(), refuses);
      await until("the hook is there", async () => (await store.runs.hook(token)) !== undefined);
      await resumeHook(token, 1, { store });
      await until("the process has died", () => dead);
      await scene.work({ leaseMs: shortMs, pollMs: 20, workflows: [order] }, store);
      await untilStatus(store, "r", "failed");
      expect((await story(store, "r")).filter((line) => line.startsWith("got"))).toHaveLength(1);
      expect(heard).toBe(0);
    },
  );
});

describe("a database that refuses a row by a constraint of the application", () => {
  onStores("a hook", ["postgres"], (test) => {
    test("the run fails with the database's message, and the step before it runs once", async ({ scene }) => {
      const { charge, charges } = charging(scene);
      const order = workflow(scene.name("order"), async () => {
        await charge();
        await createHook({ token: "refused by the database" });
      });
      const { store } = await scene.work({ leaseMs: 2000, pollMs: 20 });
      const schema = new URL(scene.url).searchParams.get("schema");
      scene.isSpoilt = true;
      await store.transact(
        async (tx) =>
          await (tx as { query(sql: string): Promise<unknown> }).query(
            `ALTER TABLE ${schema}.hooks ADD CONSTRAINT liked CHECK (token NOT LIKE 'refused%')`,
          ),
      );
      const run = await start(order, [], { store });
      const failed = await thrownBy(run.returnValue);
      expect((failed.cause as Error).message).toContain('violates check constraint "liked"');
      expect(charges()).toBe(1);
    });
  });
});
