import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { open, type Store } from "onceflow";
import { work } from "onceflow/workflow";
import {
  deleteRun,
  forkRun,
  getRun,
  listRuns,
  readJournal,
  readOperatorLog,
  resolveStep,
  resumeHook,
  retryRun,
  type StepResolution,
} from "onceflow/workflow/api";
import pg from "pg";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { provide } from "../../fixtures/0.1.0/effects.js";
import "../../fixtures/0.1.0/workflows.js";
import { until } from "../../kit/until.js";
import { freshDatabase } from "../../servers/postgres/databases.js";
import { importTransformed } from "../../transform/transformed.js";
import { untilReleased, untilStatus } from "../scene.js";

const folder = join(import.meta.dirname, "../../fixtures/0.1.0");

async function sqliteCopy(): Promise<string> {
  const copy = mkdtempSync(join(tmpdir(), "onceflow-fixtures-"));
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  writeFileSync(join(copy, "onceflow.db"), gunzipSync(readFileSync(join(folder, "sqlite.db.gz"))));
  return `sqlite:${join(copy, "onceflow.db")}`;
}

async function postgresCopy(): Promise<string> {
  const server = inject("postgres");
  if (!server.ok) throw new Error(server.reason);
  const { url, drop } = await freshDatabase(server.url);
  onTestFinished(drop);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(readFileSync(join(folder, "postgres.sql"), "utf8")).finally(() => client.end());
  return url;
}

/** The return value of each run, and how often the body of each of its calls ran, in 0.1.0 and today together. */
const ends: Readonly<Record<string, { readonly value: unknown; readonly calls: Readonly<Record<string, number>> }>> = {
  // Killed during the step: runs again under the same key, so that the provider applies one effect.
  "mid-step idempotent": { value: ["performed", "performed"], calls: { "idempotent#0": 2, "confirm#0": 1 } },
  "mid-step keyed": { value: ["performed", "performed"], calls: { "keyed#0": 2, "confirm#0": 1 } },
  // Never runs again: a person has resolved it.
  "mid-step atMostOnce": { value: ["resolved", "performed"], calls: { "atMostOnce#0": 1, "confirm#0": 1 } },
  // reconcile was called first.
  "mid-step found": { value: ["found", "performed"], calls: { "found#0": 1, "confirm#0": 1 } },
  "mid-step absent": { value: ["performed", "performed"], calls: { "absent#0": 1, "confirm#0": 1 } },
  asleep: { value: ["performed", "performed"], calls: { "confirm#0": 1, "confirm#1": 1 } },
  hook: { value: ["performed", "payload", "performed"], calls: { "confirm#0": 1, "confirm#1": 1 } },
  "hook with mail": { value: ["performed", "payload", "performed"], calls: { "confirm#0": 1, "confirm#1": 1 } },
  parent: { value: ["performed", ["performed", "payload", "performed"]], calls: { "confirm#0": 1 } },
  retrying: { value: ["performed", "performed"], calls: { "flaky#0": 2, "confirm#0": 1 } },
  functions: { value: ["performed made", "performed"], calls: { "withFunction#0": 2, "confirm#0": 1 } },
  "functions asleep": {
    value: ["performed made 1", "performed made 2"],
    calls: { "withFunctionDone#0": 1, "withFunctionDone#1": 1 },
  },
  inviting: { value: ["performed", "performed", "performed"], calls: { "invite:ann": 1, "invite:bob": 2 } },
  streaming: { value: "performed", calls: { "stream#0": 2 } },
  unknown: { value: ["resolved", "performed"], calls: { "text#0": 1, "confirm#0": 1 } },
  "unknown with mail": { value: ["resolved", "performed"], calls: { "text#0": 1, "confirm#0": 1 } },
  changed: { value: "performed", calls: { "confirm#0": 1, "confirm#1": 1 } },
  "changed with a hook": { value: ["payload", "performed"], calls: { "confirm#0": 1, "confirm#1": 1 } },
  pending: { value: ["performed", "performed"], calls: { "keyed#0": 1, "confirm#0": 1 } },
};

/** Calls that 0.1.0 has journaled keep their ids; a new call of the same function gets the next number, under any name. */
const directives = {
  directives: { value: ["performed 1", "performed 2", "performed 3", "performed"], calls: [1, 2, 1, 1] },
  "directives asleep": { value: ["performed 1", "performed 3", "performed"], calls: [1, 1, 1] },
};

const stores = { sqlite: sqliteCopy, postgres: postgresCopy };

// Sequential: definitions and the provider are global to the process.
describe.each([
  ["SQLite", "sqlite"],
  ["PostgreSQL", "postgres"],
] as const)("runs in flight of 0.1.0, %s", (_title, on) => {
  test.skipIf(on === "postgres" && !inject("postgres").ok)("end without a divergence and without a second effect", async () => {
    const calls = JSON.parse(readFileSync(join(folder, `${on}-effects.json`), "utf8")) as string[];
    provide({ calls, hold: false });
    await importTransformed({
      "directives.ts": readFileSync(join(folder, "directives.ts"), "utf8"),
      "effects.ts": readFileSync(join(folder, "effects.ts"), "utf8"),
    });
    const store = await open(await stores[on](), { purgeEveryMs: 0 });
    onTestFinished(() => store.close());
    const stored = await store.runs.list({ limit: 1000 });
    const notBegun = 2; // "pending" and "mid-step absent"
    expect((await callsByRun(store, calls)).size).toBe(stored.length - notBegun);
    const parkedBefore = await parkedTimes(store);

    const worker = await work(store);
    onTestFinished(() => worker.stop());
    await resumeHook("hook", "payload", { store });
    await resumeHook("child", "payload", { store });
    await resolve(store, "mid-step atMostOnce");
    await resolve(store, "unknown");
    await untilStatus(store, "cancelled", "cancelled");
    await until("all runs have ended", async () => {
      const items = (await listRuns({ store, limit: 1000 })).items;
      expect(items.map(({ trouble }) => trouble).filter((trouble) => trouble !== undefined)).toEqual([]);
      return items.every(({ completedAt }) => completedAt !== undefined);
    });

    expect(await parkedTimes(store)).toBe(parkedBefore);
    const after = await callsByRun(store, calls);
    for (const [id, { value, calls: expected }] of Object.entries(ends)) {
      expect({ id, value: await getRun(id, { store }).returnValue }).toEqual({ id, value });
      expect({ id, calls: after.get(id) }).toEqual({ id, calls: expected });
    }
    for (const [id, { value, calls: expected }] of Object.entries(directives)) {
      expect({ id, value: await getRun(id, { store }).returnValue }).toEqual({ id, value });
      expect({ id, calls: Object.values(after.get(id) ?? {}) }).toEqual({ id, calls: expected });
      expect(Object.keys(after.get(id) ?? {})[0]).toBe("step//directives.ts//pack#0");
    }
    expect(await chunksOf(store, "streaming")).toEqual(["zero", "one", "two"]);
  });
});

describe.each([
  ["SQLite", "sqlite"],
  ["PostgreSQL", "postgres"],
] as const)("runs of 0.1.0 can be acted on, %s", (_title, on) => {
  test.skipIf(on === "postgres" && !inject("postgres").ok)("retried, forked, paused, cancelled, terminated and deleted", async () => {
    const calls = JSON.parse(readFileSync(join(folder, `${on}-effects.json`), "utf8")) as string[];
    provide({ calls, hold: false });
    await importTransformed({
      "directives.ts": readFileSync(join(folder, "directives.ts"), "utf8"),
      "effects.ts": readFileSync(join(folder, "effects.ts"), "utf8"),
    });
    const store = await open(await stores[on](), { purgeEveryMs: 0 });
    onTestFinished(() => store.close());
    const worker = await work(store);
    onTestFinished(() => worker.stop());

    // A step that a person has found to have failed: its run fails, and is retried.
    await resolve(store, "unknown", { failed: new Error("not delivered") });
    await untilStatus(store, "unknown", "failed");
    const { steps } = await retryRun("unknown", { store });
    expect(steps).toMatchObject([{ callId: "text#0", attempt: 1 }]);
    expect(await getRun("unknown", { store }).returnValue).toEqual(["sent", "performed"]);
    expect(calls.filter((key) => key === steps[0]?.stepId)).toHaveLength(2);

    // The history of 0.1.0 up to the second confirmation, which the fork performs with a key of its own.
    expect(await getRun("asleep", { store }).returnValue).toEqual(["performed", "performed"]);
    const before = new Set(calls);
    const { forkId } = await forkRun("asleep", { store, from: "confirm#1" });
    expect(await getRun(forkId, { store }).returnValue).toEqual(["performed", "performed"]);
    expect([...new Set(calls)].filter((key) => !before.has(key))).toHaveLength(1);

    expect(await getRun("hook", { store }).pause()).toEqual(expect.objectContaining({ state: "paused" }));
    await resumeHook("hook", "payload", { store });
    await untilReleased(store, "hook");
    expect(await getRun("hook", { store }).status).toBe("paused");
    await getRun("hook", { store }).resume();
    expect(await getRun("hook", { store }).returnValue).toEqual(["performed", "payload", "performed"]);

    // "child" waits for its hook: it is cancelled with its parent.
    await getRun("parent", { store }).cancel({ reason: "no longer wanted" });
    await untilStatus(store, "parent", "cancelled");
    await getRun("mid-step atMostOnce", { store }).terminate();
    await untilStatus(store, "mid-step atMostOnce", "cancelled");
    await expect(deleteRun("mid-step atMostOnce", { store, reason: "test" })).rejects.toMatchObject({ because: "unsettled" });
    await deleteRun("asleep", { store, reason: "test" });
    expect(await getRun("asleep", { store }).exists).toBe(false);
    expect((await readOperatorLog({ store })).map(({ action }) => action)).toEqual(
      expect.arrayContaining(["resolve", "retry", "fork", "pause", "resume", "cancel", "terminate", "delete"]),
    );
  });
});

async function resolve(store: Store, runId: string, to: StepResolution = { completed: "resolved" }): Promise<void> {
  await untilStatus(store, runId, "unknown");
  const doubt = (await readJournal(runId, { store })).findLast(({ type }) => type === "doubt");
  await resolveStep({ reason: "test", runId, stepId: doubt?.stepId ?? "", attempt: doubt?.attempt ?? 0, store }, to);
}

/** Maps each stepId to its run and its journaled call. */
async function stepsOf(runs: readonly string[], store: Store): Promise<Map<string, { run: string; call: string }>> {
  const steps = new Map<string, { run: string; call: string }>();
  for (const run of runs)
    for (const { id, stepId } of await readJournal(run, { store })) if (stepId !== undefined) steps.set(stepId, { run, call: id });
  return steps;
}

/** Counts how often each journaled call used its key. A key that is in no journal is a second effect. */
async function callsByRun(store: Store, calls: readonly string[]): Promise<Map<string, Record<string, number>>> {
  const runs = (await store.runs.list({ limit: 1000 })).map(({ id }) => id);
  const steps = await stepsOf(runs, store);
  const counts = new Map<string, Record<string, number>>();
  for (const key of calls) {
    const step = steps.get(key);
    if (step === undefined) throw new Error(`the provider was called with the key ${key}, which no journal has`);
    const ofRun = counts.get(step.run) ?? {};
    ofRun[step.call] = (ofRun[step.call] ?? 0) + 1;
    counts.set(step.run, ofRun);
  }
  return counts;
}

/** How often a run was parked with mail because its code diverged, summed over all journals. */
async function parkedTimes(store: Store): Promise<number> {
  let times = 0;
  for (const { id } of await store.runs.list({ limit: 1000 }))
    times += (await readJournal(id, { store })).filter(({ type }) => type === "park").length;
  return times;
}

async function chunksOf(store: Store, id: string): Promise<unknown[]> {
  const chunks: unknown[] = [];
  for await (const chunk of getRun(id, { store }).getReadable()) chunks.push(chunk);
  return chunks;
}
