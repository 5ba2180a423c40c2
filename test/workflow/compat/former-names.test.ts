import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Store } from "onceflow";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { getWorkflowMetadata } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { workflow as define } from "onceflow/workflow/runtime";
import { describe, expect, onTestFinished, test } from "vitest";
import { sha256 } from "../../../src/core/values/canonical.js";
import { appFolder, type Ran, runNode } from "../../kit/app-folder.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { untilStatus } from "../scene.js";

type Fn = () => Promise<unknown>;

/**
 * Version 0.1 made ids of the path from the working directory, as is still done where no package.json has a name. So a
 * folder whose package.json gets a name between two processes is an upgrade: the journal of the first process has ids of
 * the old form, and the code of the second process has new ones.
 */
const shop = `import { open } from "onceflow";
import { getStepMetadata, getWorkflowMetadata, work } from "onceflow/workflow";
import { readJournal, start } from "onceflow/workflow/api";

async function pay(place: string): Promise<string> {
  const { stepId, attempt } = getStepMetadata();
  const headers = { "idempotency-key": stepId, "x-attempt": String(attempt) };
  await (await fetch(process.env["PROVIDER"] ?? "", { method: "POST", headers })).json();
  await reached(place);
  return stepId;
}

async function reached(place: string): Promise<void> {
  if (process.env["STOP_AT"] !== place || !process.send) return;
  process.send(place);
  await new Promise(() => setInterval(() => {}, 1000));
}

export async function charge(place: string): Promise<string> {
  "use step";
  return await pay(place);
}

const tools = {
  keyed: async (place: string): Promise<string> => {
    "use step";
    return await pay(place);
  },
};
Object.assign(tools.keyed, { options: { key: (place: string) => place } });

async function same(fn: typeof charge, names: string): Promise<typeof charge> {
  "use step";
  return fn;
}

async function pause(): Promise<void> {
  "use step";
  await reached("pause");
}

export async function child(place: string): Promise<string> {
  "use workflow";
  return await charge(place);
}

export async function shop(_fn: unknown): Promise<unknown> {
  "use workflow";
  const first = await charge("first");
  const order = await tools.keyed("order");
  const one = await (await start(child, ["one"])).returnValue;
  // The name that the code sees goes into a fingerprint.
  const stored = await same(charge, getWorkflowMetadata().workflowName);
  await pause();
  const second = await stored("second");
  const two = await (await start(child, ["two"])).returnValue;
  return [first, order, one, second, two];
}

const store = await open(process.env["STORE"] ?? "");
await work(store, { leaseMs: 500 });
const run = await start(shop, [charge], { id: "shop-1", store });
const result = await run.returnValue;
const journal = (await readJournal("shop-1", { store })).filter(({ type }) => type === "step" || type === "child").map(({ id }) => id);
console.log(JSON.stringify({ result, journal, mismatch: run.mismatch }));
process.exit();
`;

interface Output {
  readonly result: string[];
  readonly journal: string[];
  readonly mismatch: boolean;
}

async function provider(): Promise<EffectServer> {
  const server = await serveEffects({ honoursKeys: true });
  onTestFinished(() => server.close());
  return server;
}

/** Runs the program until it reports that it has reached a place, and kills it there. */
async function killAt(file: string, cwd: string, env: Readonly<Record<string, string>>): Promise<void> {
  const child = fork(file, { cwd, env: { ...process.env, ...env }, execArgv: ["--import", "onceflow/register"], silent: true });
  let stderr = "";
  child.stderr?.on("data", (text) => {
    stderr += String(text);
  });
  const dead = once(child, "exit");
  const outcome = await Promise.race([once(child, "message").then(() => "reached"), dead.then(() => "ended")]);
  expect(outcome, stderr).toBe("reached");
  child.kill("SIGKILL");
  await dead;
}

const outputOf = ({ code, stdout, stderr }: Ran): Output => {
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Output;
};

describe("a run of version 0.1 continues under new ids", () => {
  test.for(["first", "order", "one", "pause", "second"])("after a kill at %s", async (place) => {
    const { url, effects } = await provider();
    const cwd = appFolder({ "package.json": '{ "type": "module" }', "shop.ts": shop });
    const env = { PROVIDER: url, STORE: "sqlite:./shop.db" };
    await killAt(join(cwd, "shop.ts"), cwd, { ...env, STOP_AT: place });
    const begun = effects.keys();
    writeFileSync(join(cwd, "package.json"), '{ "type": "module", "name": "@acme/shop" }');
    const { result, journal, mismatch } = outputOf(await runNode(["--import", "onceflow/register", "shop.ts"], { cwd, env }));
    expect(mismatch).toBe(false);
    // One charge for each of the five calls; the call that was in progress keeps its key.
    expect(new Set(effects.keys())).toEqual(new Set(result));
    expect(effects.keys()).toHaveLength(5);
    expect(effects.keys().slice(0, begun.length)).toEqual(begun);
    const repeated = place === "pause" ? undefined : begun.at(-1);
    for (const key of result) expect([effects.rawCalls(key), effects.applied(key)]).toEqual([key === repeated ? 2 : 1, 1]);
    // Calls are numbered across both names.
    const ids = [...new Set(journal)];
    const counted = (name: string) => ids.filter((id) => id.includes(name)).map((id) => Number(id.split("#")[1]));
    expect(counted("//charge#")).toEqual([0, 1]);
    expect(counted("//child#")).toEqual([0, 1]);
    expect(journal[0]).toBe("step//shop.ts//charge#0");
    expect(journal.at(-1)).toBe("child workflow//@acme/shop//shop.ts//child#1");
  });

  test("an old name that two functions shared is refused, and nothing is charged again", async () => {
    const two = `import { open } from "onceflow";
import { step, work } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
const tool = <T>(of: T): T => of;
const a = tool({ execute: step("step//two.ts//execute", async () => console.log("a")) });
const stop = async () => { "use step"; if (process.send) { process.send("stop"); await new Promise(() => setInterval(() => {}, 1000)); } };
export async function main() { "use workflow"; await a.execute(); await stop(); }
const store = await open("sqlite:./two.db");
process.on("warning", () => {});
await work(store, { leaseMs: 500 });
const run = await start(main, [], { id: "one", store });
while ((await run.status) === "running") await new Promise((go) => setTimeout(go, 20));
console.log(await run.status, (await store.runs.read("one"))?.trouble);
process.exit();
`;
    const cwd = appFolder({ "package.json": '{ "type": "module" }', "two.ts": two });
    await killAt(join(cwd, "two.ts"), cwd, {});
    writeFileSync(join(cwd, "package.json"), '{ "type": "module", "name": "two" }');
    // Now written with directives, and with another function of the same name in a branch that is not reached.
    const now = two
      .replace('step("step//two.ts//execute", async () => console.log("a"))', 'async () => { "use step"; console.log("a"); }')
      .replace("export async", 'if (!stop) tool({ execute: async () => { "use step"; } });\nexport async');
    writeFileSync(join(cwd, "two.ts"), now);
    const { stdout, stderr } = await runNode(["--import", "onceflow/register", "two.ts"], { cwd });
    expect(stdout, stderr).toMatch(/^diverged .*"step\/\/two\.ts\/\/execute" is stored under a name of an earlier version/);
    expect(stdout).toContain('"step//two//two.ts//a/tool/execute" and "step//two//two.ts//if/tool/execute" shared');
  });
});

onStores("claims by former names", everyStore, (test) => {
  /** As version 0.1 stored it. */
  const stored = async (store: Store, id: string, name: string) => {
    const run = {
      verb: "start",
      id,
      workflow: name,
      input: "[]",
      fingerprint: sha256("[]"),
      parent: null,
      creator: "test",
      retentionMs: null,
      first: null,
    } as const;
    expect((await store.commit({ run })).kind).toBe("created");
  };

  test("a run that is stored under a former name is executed and keeps that name", async ({ scene }) => {
    const [id, former] = [scene.name("workflow//app//a.ts//f"), scene.name("workflow//a.ts//f")];
    const main = define([id, former], "a.ts:1:1", async () => getWorkflowMetadata().workflowName);
    const { store } = await scene.work({ workflows: [main] });
    await stored(store, "one", former);
    const run = await start(main, [], { id: "one", store });
    expect([run.mismatch, await run.returnValue]).toEqual([false, former]);
  });

  test("a run whose former name several workflows shared is parked, and a start with its id is refused", async ({ scene }) => {
    const former = scene.name("workflow//a.ts//f");
    const ids = ["if", "else"].map((branch) => scene.name(`workflow//app//a.ts//${branch}/f`));
    const calls: string[] = [];
    const [one, other] = ids.map((id) => define([id, former], "a.ts:1:1", async () => void calls.push(id)));
    const { store } = await scene.work({ workflows: [one as Fn, other as Fn] });
    await stored(store, "one", former);
    await untilStatus(store, "one", "diverged");
    expect(calls).toEqual([]);
    expect((await store.runs.read("one"))?.trouble).toContain(`which "${ids[0]}" and "${ids[1]}" shared`);
    expect(await thrownBy(start(one as Fn, [], { id: "one", store }))).toMatchObject({
      code: "AMBIGUOUS_NAME",
      stored: former,
      candidates: ids,
    });
  });
});

test("a run that was started in one folder continues in a worker that was started in another folder", async () => {
  const { url, effects } = await provider();
  const cwd = appFolder({ "packages/shop/package.json": '{ "type": "module", "name": "shop" }', "packages/shop/src/shop.ts": shop });
  const elsewhere = join(cwd, "deploy");
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, "package.json"), '{ "name": "deploy" }');
  const file = join(cwd, "packages/shop/src/shop.ts");
  const env = { PROVIDER: url, STORE: `sqlite:${join(cwd, "shop.db")}` };
  await killAt(file, cwd, { ...env, STOP_AT: "pause" });
  // Only a worker: it must find the run without a start.
  const worker = shop
    .replace('await start(shop, [charge], { id: "shop-1", store })', 'getRun("shop-1", { store })')
    .replace("import { readJournal", "import { getRun, readJournal");
  writeFileSync(file, worker);
  const { result, journal } = outputOf(
    await runNode(["--import", join(cwd, "node_modules/onceflow/dist/exports/register.js"), file], { cwd: elsewhere, env }),
  );
  expect(journal[0]).toBe("step//shop//src/shop.ts//charge#0");
  expect(new Set(effects.keys())).toEqual(new Set(result));
  for (const key of result) expect(effects.rawCalls(key)).toBe(1);
});
