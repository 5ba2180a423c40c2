import { createHook, getWritable, step, workflow } from "onceflow/workflow";
import { getHookByToken, getRun, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { until } from "../../kit/until.js";
import { reading } from "./stream-scene.js";

onStores("a writable outside of its run", everyStore, (test) => {
  test("is refused as an argument of another run, and nothing is started", async ({ scene }) => {
    const write = step("write", async (out: WritableStream) => await out.getWriter().write("hello"));
    const child = workflow(scene.name("child"), async (out: WritableStream) => await write(out));
    const startInStep = step("start in a step", async (id: string) => {
      const error = await thrownBy(start(child, [getWritable()], { id }));
      return `${error.name}: ${error.message}`;
    });
    const ids = [scene.name("child"), scene.name("child")] as const;
    const parent = workflow(scene.name("parent"), async () => {
      const refused = await thrownBy(start(child, [getWritable()], { id: ids[0] }));
      return [`${refused.name}: ${refused.message}`, await startInStep(ids[1])];
    });
    const { store } = await scene.work();
    const started = await start(parent, [], { store });
    for (const message of await started.returnValue)
      expect(message).toMatch(/^InvalidInputError: args: .*another run cannot write to it.*getRun\(id\)\.getReadable\(\)/);
    for (const id of ids) expect(await getRun(id, { store }).exists).toBe(false);
    expect(await reading(store, started.id)).toEqual([]);
  });

  test("is refused as a result, a payload, metadata or a chunk, too", async ({ scene }) => {
    const token = scene.name("token");
    const send = step("send", async () => (await thrownBy(resumeHook(token, { out: getWritable() }, { store }))).message);
    const say = step("say", async () => (await thrownBy(getWritable().getWriter().write({ out: getWritable() }))).message);
    const parent = workflow(scene.name("parent"), async () => {
      const metadata = await thrownBy((async () => createHook({ token, metadata: { out: getWritable() } }))());
      return [metadata.message, await send(), await say()];
    });
    const { store } = await scene.work();
    const refused = await (await start(parent, [], { store })).returnValue;
    expect(refused.map((message) => /^[a-z]+: .*another run cannot write to it/.test(message))).toEqual([true, true, true]);
    const returned = workflow(scene.name("returned"), async () => getWritable());
    const failed = await thrownBy((await start(returned, [], { store })).returnValue);
    expect(failed).toMatchObject({ name: "RunFailedError", cause: { message: expect.stringMatching(/another run cannot write to it/) } });
  });

  test("a journaled start that an earlier version accepted is replayed", async ({ scene }) => {
    const child = workflow(scene.name("child"), async (_given: unknown) => "done");
    const [name, token, id] = [scene.name("parent"), scene.name("token"), scene.name("id")];
    // The journal of a start does not depend on its arguments, so this is what the earlier version wrote.
    const parentWith = (args: () => unknown) =>
      workflow(name, async () => {
        const started = await start(child, [args()]);
        await createHook({ token });
        return await started.returnValue;
      });
    const before = parentWith(() => "a text");
    const { store, worker } = await scene.work({ workflows: [before, child] });
    await start(before, [], { store, id });
    await until("the run waits", async () => (await getHookByToken(token, { store }).catch(() => undefined)) !== undefined);
    await worker.stop();
    const after = parentWith(() => getWritable());
    const { store: other } = await scene.work({ workflows: [after, child] });
    await resumeHook(token, null, { store: other });
    expect(await getRun(id, { store: other }).returnValue).toBe("done");
  });
});
