import { inspect, key as keyOf, once, open, type Store, UnreachableError } from "onceflow";
import { step, work, workflow } from "onceflow/workflow";
import { getRun, start } from "onceflow/workflow/api";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { gate } from "../../kit/gate.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { until } from "../../kit/until.js";
import { effect, effects, expectDoneOnce } from "../counted-effects.js";
import { answerAgain, answered, answerWith, injectFaults, isFaulty, passingCodes } from "./faults.js";
import { runtimeOf } from "./faulty-flow.js";
import { database, direct, ownPostgres, server } from "./own-postgres.js";

ownPostgres();

/** Takes about 1.3 s: the delays between retries are 20, 40, 80, 160, 320 and 640 ms. */
const errorsOfEach = 7;
const fifty = Array.from({ length: 50 }, (_, i) => i);

injectFaults();

const named = (what: string) => passingCodes.map((code) => [`${what}:${code}`, code] as const);
const marksOf = (bad: ReturnType<typeof named>) => bad.map(([name]) => name);

describe.skipIf(!server.ok)("transient errors of PostgreSQL", () => {
  let store: Store;

  beforeAll(async () => {
    store = await open(database.url, { stallMsMax: 0, purgeEveryMs: 0 });
  });
  afterAll(() => store.close());

  /** Ends the errors when each mark has met `errors` of them and the healthy operations are done, which must not wait for the failing ones. */
  async function passing(marks: readonly string[], healthy: Promise<unknown>, errors = errorsOfEach): Promise<void> {
    await healthy;
    await until("each was answered with its error", () => marks.every((mark) => (answered.get(mark) ?? 0) >= errors));
    answerAgain(...marks);
  }

  /** When each lease ends on the store's clock. The statement has no parameters, so that no fault matches it. */
  async function leases(prefix: string): Promise<Map<string, number>> {
    const { rows } = await direct.query<{ key: string; ends: string }>(
      `SELECT key, lease_until AS ends FROM onceflow.records WHERE key LIKE '${prefix}%'`,
    );
    return new Map(rows.map(({ key, ends }) => [key, Number(ends)]));
  }

  test("at a begin, seven times, among 50 healthy begins: each runs once, and the healthy ones do not wait", async () => {
    const bad = named("begin");
    for (const [name, code] of bad) answerWith(name, code);
    const healthy = fifty.map((i) => `begin-healthy:${i}`);
    const run = (name: string) => once(store, { key: keyOf.of(name) }, () => effect(name));
    const begun = Promise.all(bad.map(([name]) => run(name)));
    await passing(marksOf(bad), Promise.all(healthy.map(run)));
    await begun;
    for (const name of [...marksOf(bad), ...healthy]) await expectDoneOnce(store, name);
  });

  test("at a settle, seven times, among 50 healthy settles: each keeps its result, and the healthy ones do not wait", async () => {
    const bad = named("settle");
    const open = gate();
    const settling = (name: string, code?: string) =>
      once(store, { key: keyOf.of(name) }, async () => {
        if (code !== undefined) answerWith(name, code);
        // All settles go out in one flush.
        await open.opened;
        return effect(name);
      });
    const saving = Promise.all(bad.map(([name, code]) => settling(name, code)));
    const healthy = fifty.map((i) => `settle-healthy:${i}`);
    const saved = Promise.all(healthy.map((name) => settling(name)));
    await until("all handlers run", () => bad.every(([name]) => isFaulty(name)));
    open.open();
    await passing(marksOf(bad), saved);
    for (const result of await saving) expect(result.status).toBe("executed");
    for (const name of [...marksOf(bad), ...healthy]) await expectDoneOnce(store, name);
  });

  test("at a renewal, twice, among 50 healthy leases: no lease is lost", async () => {
    const lost: string[] = [];
    const open = gate();
    const hold = (name: string, code?: string) =>
      once(store, { key: keyOf.of(name), leaseMs: 9000 }, async ({ signal }) => {
        signal.addEventListener("abort", () => void lost.push(name));
        if (code !== undefined) answerWith(name, code);
        await open.opened;
        return effect(name);
      });
    const bad = named("renew");
    const healthy = fifty.map((i) => `renew-healthy:${i}`);
    const results = Promise.all([...bad.map(([name, code]) => hold(name, code)), ...healthy.map((name) => hold(name))]);
    await until("all handlers run", () => bad.every(([name]) => isFaulty(name)));
    const begun = await leases("renew");
    const areRenewed = async (prefix: string) => [...(await leases(prefix))].every(([name, until]) => until > (begun.get(name) as number));
    await until("every renewal was answered with an error", () => bad.every(([name]) => (answered.get(name) ?? 0) > 0));
    await passing(
      marksOf(bad),
      until("the healthy leases are renewed", () => areRenewed("renew-healthy")),
      2,
    );
    await until("the others are renewed, too", () => areRenewed("renew"));
    open.open();
    expect((await results).map(({ status }) => status)).toEqual([...begun].map(() => "executed"));
    expect(lost).toEqual([]);
    for (const name of begun.keys()) await expectDoneOnce(store, name);
  });

  test("at a journal entry, seven times, among 50 healthy runs: every step runs once", async ({ onTestFinished }) => {
    const charge = step("charge among passing errors", async (name: string, code: string | null) => {
      if (code !== null) answerWith(name, code);
      return effect(name);
    });
    const order = workflow("order among passing errors", async (name: string, code: string | null) => {
      const first = await charge(name, code);
      return [first, await charge(`${name} second`, null)];
    });
    const worker = await work(store, { workflows: [order] });
    onTestFinished(() => worker.stop({ graceMs: 0 }));
    const bad = named("journal");
    const healthy = fifty.map((i) => `journal-healthy:${i}`);
    await Promise.all(bad.map(([name, code]) => start(order, [name, code], { id: name, store })));
    const runs = Promise.all(healthy.map(async (name) => await (await start(order, [name, null], { id: name, store })).returnValue));
    await until("every entry was answered with an error", () => bad.every(([name]) => (answered.get(name) ?? 0) > 0));
    await passing(marksOf(bad), runs);
    for (const name of [...marksOf(bad), ...healthy]) {
      expect(await getRun(name, { store }).returnValue, name).toEqual([`done ${name}`, `done ${name} second`]);
      expect([effects.get(name), effects.get(`${name} second`)], name).toEqual([1, 1]);
    }
  });

  test("at a trigger and when a packet is settled, seven times, among 50 healthy packets: every node is called once", async ({
    onTestFinished,
  }) => {
    const runtime = await runtimeOf(store);
    onTestFinished(() => runtime.stop({ graceMs: 0 }));
    const [triggers, ends] = [named("trigger"), named("packet")];
    const run = async ([name, code]: readonly [string, string?]) => {
      const { executionId = "" } = await runtime.trigger("flow", undefined, { name, ...(code === undefined ? {} : { code }) });
      return (await runtime.wait(executionId, { timeoutMs: 30_000 })).status;
    };
    const ending = Promise.all(ends.map(run));
    const healthy = fifty.map((i) => `packet-healthy:${i}`);
    const sentOn = marksOf(ends).map((name) => `${name} sent on`);
    await until("every end was answered with an error", () => sentOn.every((name) => (answered.get(name) ?? 0) > 0));
    // Not earlier: a trigger is retried for 10 s at most, and on a slow machine the commits of `ends` may take as long.
    for (const [name, code] of triggers) answerWith(name, code);
    const triggering = Promise.all(triggers.map(([name]) => run([name])));
    await passing([...marksOf(triggers), ...sentOn], Promise.all(healthy.map((name) => run([name]))));
    expect([...(await triggering), ...(await ending)]).toEqual([...triggers, ...ends].map(() => "completed"));
    for (const name of [...marksOf(triggers), ...marksOf(ends), ...healthy])
      expect([effects.get(name), effects.get(`${name} sent on`)], name).toEqual([1, 1]);
  });

  test.for(["22003", "23514", "54000"])(
    "%s means that the data is refused: the key completes at once, without its result",
    async (code) => {
      const name = `refused:${code}`;
      const result = await once(store, { key: keyOf.of(name) }, () => {
        // The server refuses the result.
        answerWith(`done ${name}`, code);
        return effect(name);
      });
      expect(result).toMatchObject({ status: "executed", value: `done ${name}` });
      expect((await inspect(store, { key: name }))?.state).toBe("completed");
      await expect(once(store, { key: keyOf.of(name) }, () => "a second time")).rejects.toMatchObject({ code: "RESULT_NOT_KEPT" });
    },
  );

  test("inside the user's transaction nothing is retried: the handler gets the error", async () => {
    const seen: unknown[] = [];
    const result = once(store, { key: keyOf.of("inside"), tx: true }, async ({ tx }) => {
      answerWith("a business row", "57014");
      await (tx as pg.ClientBase).query("SELECT $1::text", ["a business row"]).catch((error: unknown) => {
        seen.push(error);
        throw error;
      });
    });
    await expect(result).rejects.toMatchObject({ code: "57014" });
    expect(seen).toHaveLength(1);
    let settles = 0;
    const settled = once(store, { key: keyOf.of("settled inside"), tx: true }, () => {
      settles += 1;
      answerWith("settled inside", "57014");
      return "done";
    });
    // Releasing the key comes after that and is not part of the transaction.
    await until("the settle was answered with an error", () => (answered.get("settled inside") ?? 0) > 0);
    answerAgain("settled inside");
    await expect(settled).rejects.toMatchObject({ code: "57014" });
    expect(settles).toBe(1);
  });

  test("a bug in onceflow's code at a settle is not retried, and does not count as refused data", async () => {
    const name = "own mistake";
    const { query } = pg.Client.prototype;
    let tries = 0;
    let broken = false;
    pg.Client.prototype.query = function (this: pg.Client, ...asked: unknown[]) {
      if (!broken || !JSON.stringify(asked).includes(`done ${name}`)) return Reflect.apply(query, this, asked) as unknown;
      tries += 1;
      throw new TypeError("Cannot read properties of undefined (reading 'connection')");
    } as typeof pg.Client.prototype.query;
    onTestFinished(() => {
      pg.Client.prototype.query = query;
    });
    const thrown = await thrownBy(
      once(store, { key: keyOf.of(name), leaseMs: 60_000 }, () => {
        broken = true;
        return effect(name);
      }),
    );
    expect(thrown).toBeInstanceOf(TypeError);
    expect(tries).toBe(1);
    expect((await inspect(store, { key: name }))?.state).toBe("running");
  });

  test("a closed store is reported at once", async () => {
    const other = await open(database.url, { stallMsMax: 0 });
    await other.close();
    await expect(once(other, { key: keyOf.of("closed") }, () => 1)).rejects.toThrow(UnreachableError);
  });
});
