import { join } from "node:path";
import { open, type Store } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { effort } from "../../kit/effort.js";
import { takeTurns } from "../../kit/heavy.js";
import { Program } from "../../kit/program.js";
import { durableStores, onStoresInTurn } from "../../kit/scene.js";
import { temporaryFolder } from "../../kit/temporary-folder.js";
import { freshMongoDatabase } from "../../servers/mongodb/databases.js";
import { type OwnMongo, ownMongo } from "../../stores/mongodb/own-mongodb.js";
import { chargeAt, documentFor, flow, leaseMs } from "../programs/crash-flow.js";

takeTurns();

const key = "p1-charge";

interface Row {
  readonly point: string;
  /**
   * What the process that dies does: it triggers, finds a packet, holds a packet, stops, triggers with a key that another
   * packet has completed, or runs an operator's command. `prepare` brings the store into the state that this needs.
   */
  readonly act: "trigger" | "find" | "hold" | "stop" | "mismatch" | "person";
  readonly fails?: "once" | "always";
  /** What the store contains after the process died: packets by state, executions by status. */
  readonly left: string;
  /** What the store contains after another process has finished the work. */
  readonly end: string;
  /** Number of calls at the provider, and of alerts. */
  readonly calls: number;
  readonly alerts?: number;
}

/** A row before and a row after each durable write of the runtime: the crash table of docs/internals/graphs.md. */
const rows: readonly Row[] = [
  { point: "before trigger", act: "trigger", left: "nothing", end: "nothing", calls: 0 },
  { point: "after trigger", act: "trigger", left: "owned 1, running 1", end: "completed 1", calls: 1 },
  { point: "before claim", act: "find", left: "due 1, running 1", end: "completed 1", calls: 1 },
  { point: "after claim", act: "find", left: "owned 1, running 1", end: "completed 1", calls: 1 },
  { point: "before sending on", act: "trigger", left: "owned 1, running 1", end: "completed 1", calls: 1 },
  { point: "after sending on", act: "trigger", left: "owned 1, running 1", end: "completed 1", calls: 1 },
  { point: "before done", act: "trigger", left: "owned 1, running 1", end: "completed 1", calls: 2 },
  { point: "after done", act: "trigger", left: "completed 1", end: "completed 1", calls: 1 },
  { point: "before retry", act: "trigger", fails: "once", left: "owned 1, running 1", end: "completed 1", calls: 2 },
  { point: "after retry", act: "trigger", fails: "once", left: "due 1, running 1", end: "completed 1", calls: 2 },
  {
    point: "before dead",
    act: "trigger",
    fails: "always",
    left: "owned 1, running 1",
    end: "dead 1, execution dead 1",
    calls: 2,
    alerts: 1,
  },
  {
    point: "after dead",
    act: "trigger",
    fails: "always",
    left: "due 1, dead 1, execution dead 1",
    end: "dead 1, execution dead 1",
    calls: 1,
    alerts: 1,
  },
  {
    point: "before reinject",
    act: "person",
    fails: "always",
    left: "dead 1, execution dead 1",
    end: "dead 1, execution dead 1",
    calls: 1,
    alerts: 1,
  },
  {
    point: "after reinject",
    act: "person",
    fails: "always",
    left: "due 1, running 1",
    end: "dead 1, execution dead 1",
    calls: 2,
    alerts: 2,
  },
  {
    point: "before discard",
    act: "person",
    fails: "always",
    left: "dead 1, execution dead 1",
    end: "dead 1, execution dead 1",
    calls: 1,
    alerts: 1,
  },
  { point: "after discard", act: "person", fails: "always", left: "completed 1", end: "completed 1", calls: 1, alerts: 1 },
  // Here the store itself writes the dead letter and its alert.
  {
    point: "before sending on",
    act: "mismatch",
    left: "owned 1, running 1, completed 1",
    end: "dead 1, completed 1, execution dead 1",
    calls: 1,
    alerts: 1,
  },
  {
    point: "after sending on",
    act: "mismatch",
    left: "due 1, dead 1, completed 1, execution dead 1",
    end: "dead 1, completed 1, execution dead 1",
    calls: 1,
    alerts: 1,
  },
  { point: "before renew", act: "hold", left: "owned 1, running 1", end: "completed 1", calls: 2 },
  { point: "after renew", act: "hold", left: "owned 1, running 1", end: "completed 1", calls: 2 },
  { point: "before leave", act: "stop", left: "due 1, running 1", end: "completed 1", calls: 1 },
  { point: "after leave", act: "stop", left: "due 1, running 1", end: "completed 1", calls: 1 },
];

async function describeStore({ packets }: Store): Promise<string> {
  const sum = { due: 0, owned: 0, dead: 0 };
  for (const { due, owned, dead } of await packets.counts()) {
    sum.due += due;
    sum.owned += owned;
    sum.dead += dead;
  }
  const states = Object.entries(sum).filter(([, n]) => n > 0);
  for (const status of ["running", "completed", "dead"] as const) {
    const { length } = await packets.executions({ status, limit: 10 });
    if (length > 0) states.push([status === "dead" ? "execution dead" : status, length]);
  }
  return states.map(([name, n]) => `${name} ${n}`).join(", ") || "nothing";
}

function runtimeOn(store: Store, provider: EffectServer, work: boolean) {
  const nodes = { charge: chargeAt(provider.url) };
  return createRuntime({
    store,
    documents: [documentFor(provider.url)],
    nodes,
    work,
    leaseMs,
    pollMs: 50,
    ...{ onMismatch: "deadLetter", privateWebhooks: "allow" },
  });
}

/** Brings the store into the state that the process will find. Returns the argument for that process: a payload or a dead letter's id. */
async function prepare(store: Store, provider: EffectServer, { act, fails }: Row): Promise<string> {
  const payload = { id: "p1", ...(fails && { fails }) };
  if (act === "trigger" || act === "hold" || act === "stop") return JSON.stringify(payload);
  const runtime = await runtimeOn(store, provider, act !== "find");
  const { executionId = "" } = await runtime.trigger(flow, "Take", payload, { key: "t" });
  if (act === "find") {
    await runtime.stop();
    return "";
  }
  await runtime.wait(executionId);
  await runtime.idle();
  const [letter] = await runtime.deadLetters();
  await runtime.stop();
  return act === "mismatch" ? JSON.stringify({ ...payload, other: true }) : (letter?.id ?? "");
}

/** Starts a process that does `act` and kills itself at `point`. */
async function dies(url: string, provider: EffectServer, point: string, act: string, about: string): Promise<void> {
  const { signal, stderr } = await new Program("graph/programs/crash", [url, provider.url, point, act, about], { onEnd: onTestFinished })
    .ended;
  expect(signal, stderr).toBe("SIGKILL");
}

async function keyedProvider(): Promise<EffectServer> {
  const provider = await serveEffects({ honoursKeys: true });
  onTestFinished(() => provider.close());
  return provider;
}

let mongo: OwnMongo | undefined;

async function mongoUrl(): Promise<string> {
  const { url, drop } = await freshMongoDatabase(mongo?.ok ? mongo.url : "");
  onTestFinished(drop);
  return url;
}

const places = [
  { title: "SQLite", some: rows, urlOf: async () => `sqlite:${join(temporaryFolder(onTestFinished), "packets.db")}` },
  {
    title: "MongoDB (emulator)", // All of them pass; a third of them takes long enough.
    some: rows.filter((_, i) => i % effort({ quick: 8, full: 3 }) === 0),
    urlOf: mongoUrl,
  },
];

describe.each(places)("a runtime's process dies at this point, on $title: another process finishes the work", ({ title, some, urlOf }) => {
  const isMongo = title.startsWith("MongoDB");
  if (isMongo && !inject("mongodb").ok) return;
  beforeAll(async () => {
    if (isMongo) mongo = await ownMongo();
  });
  afterAll(async () => {
    if (isMongo && mongo?.ok) await mongo.stop();
  });

  test.each(some)("$point ($act)", { timeout: 120_000 }, async (row) => {
    const url = await urlOf();
    const provider = await keyedProvider();
    const store = await open(url);
    onTestFinished(() => store.close());
    const about = await prepare(store, provider, row);

    await dies(url, provider, row.point, row.act, about);
    expect(await describeStore(store)).toBe(row.left);

    const next = await runtimeOn(store, provider, true);
    await expect.poll(() => describeStore(store), { timeout: 60_000, interval: 50 }).toBe(row.end);
    await expect.poll(() => alertsIn(provider), { timeout: 60_000, interval: 50 }).toBe(row.alerts ?? 0);
    await next.stop();
    expect(provider.effects.rawCalls(key)).toBe(row.calls);
    expect(provider.effects.applied(key)).toBe(Math.min(1, row.calls));
    expect(provider.overlaps).toEqual([]);
  });
});

/** Each change of a flow's state is one write: before it nothing has changed, after it every process follows the new state. */
const states = [
  ["before", "pause", "active", "active"],
  ["after", "pause", "active", "paused"],
  ["after", "resume", "paused", "active"],
  ["after", "archive", "active", "archived"],
] as const;

onStoresInTurn("an operator's process dies", durableStores, (test) => {
  test.for(states)("%s it writes the command to %s the flow", async ([when, verb, before, state], { scene }) => {
    const provider = await keyedProvider();
    const store = await scene.open();
    const sender = await runtimeOn(store, provider, false);
    const { executionId = "" } = await sender.trigger(flow, "Take", { id: "p1" }, { key: "t" });
    await store.packets.setFlowState(flow, before);
    await dies(scene.url, provider, `${when} state`, "person", verb);
    expect(await store.packets.flowState(flow)).toBe(state);

    const next = await runtimeOn(await scene.open(), provider, true);
    if (state === "archived") await expect(next.trigger(flow, "Take", { id: "p2" })).rejects.toThrow(/is archived/);
    if (state !== "active") {
      await next.idle();
      expect([(await next.execution(executionId))?.status, provider.effects.rawCalls(key)]).toEqual(["running", 0]);
      await next.resume(flow);
    }
    expect((await next.wait(executionId)).status).toBe("completed");
    expect(provider.effects.rawCalls(key)).toBe(1);
  });
});

/** Counts the posts to the webhook: a packet that became a dead letter twice has two alerts. */
function alertsIn({ effects }: EffectServer): number {
  const keys = effects.keys().filter((each) => each.includes("alert"));
  return keys.reduce((sum, each) => sum + effects.rawCalls(each), 0);
}

test("if the worker that runs a key is killed, a second packet with that key stays held and is acknowledged when the next worker has completed the key", async () => {
  const folder = temporaryFolder(onTestFinished);
  const url = `sqlite:${join(folder, "packets.db")}`;
  const provider = await keyedProvider();
  const store = await open(url);
  onTestFinished(() => store.close());

  // The first worker is in its handler: it has called the provider, and its handler never returns.
  const args = [url, provider.url, "never", "hold", JSON.stringify({ id: "p1" })];
  const { child } = new Program("graph/programs/crash", args, { onEnd: onTestFinished });
  await expect.poll(() => provider.effects.rawCalls(key), { timeout: 60_000, interval: 20 }).toBe(1);

  const second = await runtimeOn(store, provider, true);
  const { executionId = "" } = await second.trigger(flow, "Take", { id: "p1" }, { key: "another" });
  const states = async () => (await second.execution(executionId))?.packets.map(({ state }) => state);
  await expect.poll(states, { timeout: 60_000, interval: 20 }).toEqual(["held"]);
  expect(provider.effects.rawCalls(key)).toBe(1);

  child.kill("SIGKILL");
  expect(await second.wait(executionId)).toMatchObject({ status: "completed", duplicates: 1, dead: 0 });
  const [first] = (await second.executions()).filter(({ id }) => id !== executionId);
  expect(first).toMatchObject({ status: "completed", duplicates: 0 });
  expect(provider.effects.rawCalls(key)).toBe(2);
  expect(provider.effects.applied(key)).toBe(1);
  expect(provider.overlaps).toEqual([]);
}, 120_000);
