import { createHook, getStepMetadata, step, work, workflow } from "onceflow/workflow";
import { getRun, listRuns, readAttempts, readJournal, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { mortal } from "../../../src/testing/mortal-store.js";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story } from "../scene.js";

const asideBytes = 2000;
/** Longer than the journal's limit, and different for every name. */
const long = (name: string) => `${name} `.repeat(1000);

onStores("values beside the journal", everyStore, (test) => {
  test("long inputs, results, payloads and outputs are stored beside the journal and read back unchanged", async ({ scene }) => {
    const store = await scene.open({ asideBytes });
    const echo = step("echo", async (text: string) => ({ text, short: 1 }));
    const grow = step("grow", async () => long("result"));
    const inner = workflow(scene.name("inner"), async (text: string) => `${text}!`);
    const run = workflow(scene.name("run"), async (input: string) => {
      const token = `token of ${scene.url}`;
      const got = await createHook<string>({ token });
      const child = await start(inner, [long("child")]);
      return { input, got, grown: await grow(), echoed: await echo(input), inner: await child.returnValue };
    });
    await scene.work({}, store);
    const started = await start(run, [long("input")], { store });
    await until("it waits", async () => (await story(store, started.id)).length > 0);
    await until("it has the payload", () =>
      resumeHook(`token of ${scene.url}`, long("payload"), { store }).then(
        () => true,
        () => false,
      ),
    );
    const expected = {
      input: long("input"),
      got: long("payload"),
      grown: long("result"),
      echoed: { text: long("input"), short: 1 },
      inner: `${long("child")}!`,
    };
    expect(await started.returnValue).toEqual(expected);
    expect(await getRun(started.id, { store: await scene.open() }).returnValue).toEqual(expected);

    const entries = await store.runs.journal(started.id, 0, 1000);
    for (const { events } of entries) expect(events.length).toBeLessThan(asideBytes);
    const record = await store.runs.read(started.id);
    expect(record?.input).toMatch(/^aside:[\w-]{22}:\d+$/);
    expect(record?.output).toMatch(/^aside:[\w-]{22}:\d+$/);
    const items = await readJournal(started.id, { store });
    const done = items.find(({ id, type }) => id === "grow#0" && type === "done");
    expect(JSON.parse(done?.detail[1] as string)).toBe(long("result"));
    expect(await readAttempts(started.id, done?.stepId ?? "", { store })).toMatchObject([{ verdict: "completed" }]);
    expect((await listRuns({ store })).items.map(({ status }) => status)).toEqual(["completed", "completed"]);
    expect(JSON.stringify(await store.runs.list({ limit: 10 })).length).toBeLessThan(2 * long("child").length);
  });

  test("after a crash the code gets the same values", async ({ scene }) => {
    const held = gate();
    const fetched: string[] = [];
    const grow = step("grow", async (input: string) => {
      fetched.push(`attempt ${getStepMetadata().attempt}`);
      return `${input.length} ${long("result")}`;
    });
    const wait = step("wait", async () => {
      if (getStepMetadata().attempt > 1) return;
      held.open();
      await new Promise(() => {});
    });
    const run = workflow(scene.name("run"), async (input: string) => {
      const grown = await grow(input);
      await wait();
      return [input, grown];
    });
    const doomed = mortal(await scene.open({ asideBytes }));
    await work(doomed.store, { workflows: [run], leaseMs: shortMs, background: true });
    // This worker would keep the values in the journal, and finds them wherever they were stored.
    const store = await scene.open({ asideBytes: 0 });
    await start(run, [long("input")], { store: doomed.store, id: "run" });
    await held.opened;
    for (const { events } of await store.runs.journal("run", 0, 10)) expect(events.length).toBeLessThan(asideBytes);
    doomed.die();
    await scene.work({ workflows: [run] }, store);
    expect(await getRun("run", { store }).returnValue).toEqual([long("input"), `${long("input").length} ${long("result")}`]);
    expect(fetched).toEqual(["attempt 1"]);
  });

  test("the result of a transactional step is stored aside in its transaction", async ({ scene }) => {
    if (scene.on === "memory") return;
    const store = await scene.open({ asideBytes });
    const book = step.tx("book", async () => long("booked"));
    const run = workflow(scene.name("run"), async () => (await book()).length);
    await scene.work({}, store);
    const started = await start(run, [], { store });
    expect(await started.returnValue).toBe(long("booked").length);
    for (const { events } of await store.runs.journal(started.id, 0, 10)) expect(events.length).toBeLessThan(asideBytes);
    const done = (await readJournal(started.id, { store })).find(({ type }) => type === "done");
    expect(JSON.parse(done?.detail[1] as string)).toBe(long("booked"));
  });

  test("values are removed with their run, and the same value is stored once", async ({ scene }) => {
    const store = await scene.open({ asideBytes });
    const echo = step("echo", async (text: string) => text);
    const run = workflow(scene.name("run"), async (text: string) => await echo(text));
    await scene.work({}, store);
    const started = await start(run, [long("x")], { store, retentionMs: 0, id: "run" });
    expect(await started.returnValue).toBe(long("x"));
    const reference = String((await store.runs.read("run"))?.output);
    const value = () => store.runs.chunks({ run: "run", stream: `$value/${reference.split(":")[1]}`, from: 0, limit: 10, bytesMax: 1e9 });
    expect((await value()).map(({ data }) => data)).toEqual([JSON.stringify(long("x"))]);
    expect(await store.runs.purge(10)).toBe(1);
    expect(await value()).toEqual([]);
  });

  test("with 0 nothing is stored aside; a value beyond valueBytesMax is refused with a clear error", async ({ scene }) => {
    const store = await scene.open({ asideBytes: 0, valueBytesMax: 20_000 });
    const run = workflow(scene.name("run"), async (text: string) => text);
    await scene.work({}, store);
    const started = await start(run, [long("x")], { store });
    await started.returnValue;
    expect((await store.runs.read(started.id))?.output).toBe(JSON.stringify(long("x")));
    await expect(start(run, ["x".repeat(20_001)], { store, id: "long" })).rejects.toThrow(/args: is 20005 bytes long.*valueBytesMax/);
    expect(await getRun("long", { store }).exists).toBe(false);
    await expect(resumeHook("token", "x".repeat(20_001), { store })).rejects.toThrow(/payload: is 20003 bytes/);
    await expect(scene.open({ asideBytes: -1 })).rejects.toThrow("asideBytes");
  });
});
