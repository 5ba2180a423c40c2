import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { InvalidInputError, open, type SqliteTx } from "onceflow";
import { testWorkflows } from "onceflow/testing";
import { createHook, getStepMetadata, sleep, step, workflow } from "onceflow/workflow";
import { readAttempts } from "onceflow/workflow/api";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { freshDatabase } from "../../servers/postgres/databases.js";

async function sqlite() {
  const folder = await mkdtemp(join(tmpdir(), "onceflow-runner-"));
  const store = await open(`sqlite:${join(folder, "onceflow.db")}`);
  onTestFinished(async () => {
    await store.close();
    await rm(folder, { recursive: true, force: true });
  });
  return store;
}

async function postgres() {
  const server = inject("postgres");
  if (!server.ok) throw new Error(server.reason);
  const database = await freshDatabase(server.url);
  const store = await open(database.url);
  onTestFinished(async () => {
    await store.close();
    await database.drop();
  });
  return store;
}

const charge = step("real: charge", async (id: string) => `ch_${id}`);
const order = workflow("real: order", async (id: string) => {
  const chargeId = await charge(id);
  await sleep("1h");
  using hook = createHook<string>({ token: `go:${id}` });
  return [chargeId, await hook];
});

describe("on a real store, with real time", () => {
  const server = inject("postgres");
  const stores = [
    { on: "SQLite", opened: sqlite, available: true },
    { on: "PostgreSQL", opened: postgres, available: server.ok },
  ];
  test.for(stores)(
    "$on: runs can be waited for, woken, resumed, crashed and replayed; close() leaves the store open",
    async ({ opened, available }, { skip }) => {
      skip(!available, "no PostgreSQL here");
      const store = await opened();
      const t = await testWorkflows({ store, worker: { leaseMs: 300 } });
      t.mockStep(charge, (id) => {
        const { stepId, attempt } = getStepMetadata();
        return t.effects.call(stepId, { attempt, result: `ch_${id}` });
      });
      const crash = t.crash({ step: charge, when: "after" });
      t.deliverTwice();
      const run = await t.start(order, ["1"]);
      const { until } = await t.waitForSleep(run);
      expect(crash.happened).toBe(true);
      expect(until.getTime() - Date.now()).toBeGreaterThan(3_500_000);
      expect(Math.abs(t.now.getTime() - Date.now())).toBeLessThan(60_000);
      await t.wakeUp(run);
      const hook = await t.waitForHook(run);
      await t.restart();
      await hook.resume("now", { key: "k" });
      expect(await t.result(run)).toEqual(["ch_1", "now"]);
      t.expectCalls(charge, 2);
      t.expectEffect(t.calls(charge)[0]?.stepId ?? "", { applied: 1, calls: 2 });
      await t.expectReplay(run);
      await t.close();
      expect(await run.status).toBe("completed");
    },
  );

  test("a crash of a transactional step removes its rows, or keeps them together with its result", async () => {
    const store = await sqlite();
    await store.transact(async (tx) => (tx as SqliteTx).prepare("CREATE TABLE bookings (id TEXT, attempt INTEGER)").run());
    const book = step.tx("real: book", async (tx: SqliteTx, id: string) => {
      tx.prepare("INSERT INTO bookings VALUES (?, ?)").run(id, getStepMetadata().attempt);
      return id;
    });
    const booking = workflow("real: booking", async (id: string) => await book(id));
    const t = await testWorkflows({ store, worker: { leaseMs: 300 } });
    onTestFinished(() => t.close());
    for (const when of ["before", "after", "committed"] as const) {
      const crash = t.crash({ step: book, when });
      expect(await t.result(await t.start(booking, [when]))).toBe(when);
      expect(crash.happened).toBe(true);
    }
    const rows = await store.transact(async (tx) => (tx as SqliteTx).prepare("SELECT id, attempt FROM bookings ORDER BY rowid").all());
    expect(rows.map((row) => ({ ...(row as object) }))).toEqual([
      { id: "before", attempt: 2 },
      { id: "after", attempt: 2 },
      { id: "committed", attempt: 1 },
    ]);
    const { stepId = "" } = t.calls(book)[2] ?? {};
    expect((await readAttempts("run-2", stepId, { store })).map(({ verdict }) => verdict)).toEqual(["lapsed", "completed"]);
  });

  test("features that need virtual time throw an error that says so", async () => {
    const store = await sqlite();
    const t = await testWorkflows({ store });
    onTestFinished(() => t.close());
    await expect(t.advance("1s")).rejects.toThrow(
      /advance\(…\) moves virtual time, but time is real on a store that is passed.*leave out the option store/,
    );
    await expect(testWorkflows({ store, now: new Date(), ambient: false })).rejects.toBeInstanceOf(InvalidInputError);
    const run = await t.start(order, ["2"]);
    await t.waitForSleep(run);
    const hasty = await testWorkflows({ store, patienceMs: 20, ambient: false });
    onTestFinished(() => hasty.close());
    await expect(hasty.waitForHook(run)).rejects.toThrow(/waited for a hook, but run "run-1" sleeps until .*Waited 20 ms of real time/);
  });
});

test.for([
  { how: "node --test", args: [".build/test/workflow/programs/node-test.js"], tests: 3 },
  {
    how: "node --test with directives",
    args: ["--import", "onceflow/register", "test/workflow/programs/node-test-directives.ts"],
    tests: 1,
  },
])("the runner works under $how", async ({ args, tests }) => {
  const env = { ...process.env };
  delete env["NODE_OPTIONS"];
  const cwd = fileURLToPath(new URL("../../..", import.meta.url));
  const options = { env, cwd, timeout: 30_000 };
  const { stdout } = await promisify(execFile)(process.execPath, ["--test", "--test-reporter=tap", ...args], options);
  expect(stdout).toMatch(new RegExp(`^# pass ${tests}$`, "m"));
  expect(stdout).toMatch(/^# fail 0$/m);
});
