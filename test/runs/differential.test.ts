import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, test } from "vitest";
import type { LogEntry } from "../../src/core/runs/log.js";
import type {
  Act,
  ActionChange,
  Append,
  Entry,
  HookChange,
  OutgoingMail,
  RunAnswer,
  RunBackend,
  RunOperation,
  Send,
  StartRun,
  Then,
} from "../../src/core/runs/operation.js";
import type { RunStatus } from "../../src/core/runs/run.js";
import type { Backend } from "../../src/core/store/store.js";
import { memoryRunBackend } from "../../src/stores/memory/runs/runs.js";
import { createMemoryRuns } from "../../src/stores/memory/runs/table.js";
import { Random } from "../../src/testing/simulator/random.js";
import { effort } from "../kit/effort.js";
import { fc } from "../kit/properties.js";
import { PostgresClock } from "../stores/postgres/clock.js";
import { database, direct, ownPostgres, server } from "../stores/postgres/own-postgres.js";

import { attributeSets, errorFacts, randomSearch, scopes, searched } from "./searches.js";

ownPostgres();

const hold: Then = { kind: "hold" };
const plain: Entry = { events: "[]", consumed: null, hooks: [], children: [], then: hold };

/**
 * Runs random histories on PostgreSQL and on the memory store, which defines each verb. PostgreSQL uses the test's clock, so
 * that answers, runs, journals, mail and hooks must be equal to the millisecond.
 */
describe.skipIf(!server.ok)("PostgreSQL handles runs as the memory store does", () => {
  const ids = ["a", "b", "c", 'd"\\,{}', "é"] as const;
  const id = fc.constantFrom(...ids);
  const token = fc.constantFrom("t1", "t2", "t3");
  const text = fc.constantFrom("[]", '["\\u0000 \\"\\\\ ü😀"]', "NULL", "", "{1,2}");
  const maybe = fc.option(text);
  const owner = fc.constantFrom("one", "two");
  const durationMs = fc.constantFrom(0, 3, 10_000);
  const workflow = fc.constantFrom("w", "v");
  const rarely = <T>(arbitrary: fc.Arbitrary<T>, otherwise: T) =>
    fc.oneof({ weight: 3, arbitrary: fc.constant(otherwise) }, { weight: 1, arbitrary });

  const instant = fc.integer({ min: 1_000_000, max: 1_000_400 });
  const then: fc.Arbitrary<Then> = fc.oneof(
    { weight: 4, arbitrary: fc.constant(hold) },
    {
      weight: 3,
      arbitrary: fc.record(
        {
          kind: fc.constant("release" as const),
          wakeAt: fc.option(instant, { freq: 1 }),
          status: fc.constantFrom("running", "unknown", "diverged", "parked", "paused", "paused"),
          trouble: maybe,
          avoid: fc.record({ workers: fc.subarray(["one", "two", 'd"\\,{}']), until: instant }),
          seen: fc.integer({ min: 0, max: 4 }),
        },
        { requiredKeys: ["kind", "wakeAt", "status", "trouble"] },
      ) as fc.Arbitrary<Then>,
    },
    {
      weight: 2,
      arbitrary: fc.record(
        {
          kind: fc.constant("end" as const),
          status: fc.constantFrom("completed", "failed", "cancelled"),
          output: maybe,
          unsettled: fc.constantFrom(0, 1, 2),
          trouble: text,
          error: fc.constantFrom(...errorFacts),
        },
        { requiredKeys: ["kind", "status", "output"] },
      ) as fc.Arbitrary<Then>,
    },
  );
  const hook: fc.Arbitrary<HookChange> = fc.oneof(
    { weight: 3, arbitrary: fc.record({ add: token, about: text, metadata: maybe }) },
    { weight: 1, arbitrary: fc.record({ drop: token }) },
  );
  const trial: fc.Arbitrary<NonNullable<Entry["trial"]> | null> = fc.record({
    deaths: fc.integer({ min: 0, max: 3 }),
    crashes: fc.integer({ min: 0, max: 2 }),
    alone: fc.boolean(),
  });
  const letter = {
    kind: fc.constantFrom("hook", "cancel", "wake", "resolve", "pause", "resume"),
    about: maybe,
    payload: maybe,
    key: fc.constantFrom("k1", "k2", "k3", "child\0a"),
  } as const;
  const outgoing: fc.Arbitrary<OutgoingMail[]> = fc.array(fc.record({ to: fc.record({ run: id }), ...letter }), { maxLength: 2 });
  const entryWith = (children: fc.Arbitrary<StartRun[]>): fc.Arbitrary<Entry> =>
    fc
      .record({
        events: fc.oneof({ weight: 5, arbitrary: text }, { weight: 1, arbitrary: fc.constant(null) }),
        consumed: rarely(fc.option(fc.integer({ min: 0, max: 4 })), null),
        hooks: rarely(fc.array(hook, { maxLength: 3 }), []),
        children,
        then,
        trial: rarely(trial, null),
        outgoing: rarely(outgoing, []),
        stopAt: rarely(fc.option(instant), null),
        attributes: rarely(fc.constantFrom(null, ...attributeSets), undefined as string | null | undefined),
      })
      .map(({ trial, outgoing, stopAt, attributes, ...entry }) => ({
        ...entry,
        ...(trial !== null && { trial }),
        ...(outgoing.length > 0 && { outgoing }),
        ...(stopAt !== null && { stopAt }),
        ...(attributes !== undefined && { attributes }),
      }));
  const limits = fc.record({ timeoutMs: durationMs, cleanupMs: durationMs }, { requiredKeys: ["timeoutMs"] });
  const startWith = (entry: fc.Arbitrary<Entry>): fc.Arbitrary<StartRun> =>
    fc
      .record({
        verb: fc.constant("start" as const),
        id,
        workflow,
        input: text,
        fingerprint: maybe,
        parent: rarely(id, null as string | null) as fc.Arbitrary<string | null>,
        creator: fc.constantFrom("x", "y"),
        retentionMs: fc.option(durationMs),
        first: fc.option(fc.record({ owner, leaseMs: durationMs, entry: fc.oneof(fc.constant(plain), entry) })),
        limits: rarely(fc.option(limits), null),
        labels: fc.record({ scope: fc.constantFrom(...scopes), attributes: fc.constantFrom(...attributeSets) }, { requiredKeys: [] }),
      })
      .map(({ limits, labels, ...start }) => ({ ...start, ...limits, ...labels }));
  const child = startWith(entryWith(fc.constant([])));
  const entry = entryWith(rarely(fc.array(child, { maxLength: 2 }), []));

  /** Of an owner: mostly that of the run. */
  const creator = fc.oneof({ weight: 6, arbitrary: fc.constant("its own") }, { weight: 1, arbitrary: fc.constantFrom("x", "y") });
  /** Offsets of `epoch` and `seq` from the correct values. */
  const off = fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constantFrom(-1, 1) });
  const append = fc.record({ verb: fc.constant("append" as const), id, creator, epoch: off, seq: off, entry });
  const late = fc.record({
    verb: fc.constant("appendLate" as const),
    id,
    creator,
    epoch: off,
    seq: off,
    events: text,
    unsettled: fc.constantFrom(0, 1),
  });
  const send: fc.Arbitrary<Send> = fc.record({
    verb: fc.constant("send" as const),
    to: fc.oneof(fc.record({ run: id }), fc.record({ token })),
    ...letter,
  });
  /** As for appends, epoch and numbers are offsets. The id of a run that is started is that of the action. */
  const change = fc.oneof(
    fc.record(
      { kind: fc.constant("send" as const), mail: fc.record(letter), token, stopAfterMs: durationMs },
      { requiredKeys: ["kind", "mail"] },
    ),
    fc.record({
      kind: fc.constant("reopen" as const),
      seq: off,
      events: text,
      hooks: fc.uniqueArray(fc.record({ add: token, about: text, metadata: maybe }), { maxLength: 2, selector: ({ add }) => add }),
    }),
    fc.constant({ kind: "remove" as const }),
    fc.record({ kind: fc.constant("start" as const), start: startWith(entry) }),
  ) as fc.Arbitrary<ActionChange>;
  const act = fc.record({
    verb: fc.constant("act" as const),
    id,
    log: fc.record({
      id: fc.integer({ min: 1, max: 30 }).map((n) => `action ${n}`),
      actor: fc.constantFrom("ann", "bob"),
      action: text,
      subject: id,
      reason: maybe,
      detail: maybe,
    }),
    expect: fc.record(
      { creator: fc.constantFrom("x", "y"), status: fc.constantFrom("running", "failed", "completed"), epoch: off, seq: off },
      { requiredKeys: [] },
    ),
    change,
  }) as fc.Arbitrary<Act>;
  const operation = fc.oneof(
    { weight: 3, arbitrary: startWith(entry) },
    { weight: 6, arbitrary: append },
    { weight: 2, arbitrary: late },
    { weight: 2, arbitrary: send },
    { weight: 4, arbitrary: act },
  ) as fc.Arbitrary<RunOperation>;
  const signOfLife = fc.record({ workflows: fc.subarray(["w", 'v"\\,{}', "NULL"]), version: fc.option(fc.constantFrom("1.0", "")) });
  const step = fc.oneof(
    { weight: 10, arbitrary: fc.record({ flush: fc.array(operation, { minLength: 1, maxLength: 4 }) }) },
    { weight: 2, arbitrary: fc.record({ within: append as fc.Arbitrary<Append>, commit: fc.boolean() }) },
    {
      weight: 3,
      arbitrary: fc.record({
        claim: fc.record(
          {
            owner,
            workflows: fc.uniqueArray(fc.constantFrom("w", "v", "other"), { minLength: 1 }),
            leaseMs: durationMs,
            limit: fc.constantFrom(1, 2, 50),
            suspects: fc.boolean(),
            run: id,
          },
          { requiredKeys: ["owner", "workflows", "leaseMs", "limit"] },
        ),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ renew: fc.record({ owner, leaseMs: durationMs, signOfLife }, { requiredKeys: ["owner", "leaseMs"] }) }),
    },
    { weight: 1, arbitrary: fc.record({ leave: owner }) },
    { weight: 2, arbitrary: fc.record({ pass: fc.constantFrom(1, 5, 20_000, 3_600_000) }) },
    { weight: 1, arbitrary: fc.record({ purge: fc.constant(100) }) },
  );
  const history = fc.array(step, { minLength: 15, maxLength: 40, size: "max" });
  type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

  let backend: Backend;
  let clock: PostgresClock;
  let runs: RunBackend;

  beforeAll(async () => {
    ({ backend, clock } = await PostgresClock.open(database.url));
    assert.ok(backend.runs);
    runs = backend.runs;
  });
  afterAll(async () => {
    await backend.close();
    await clock.close();
  });

  /** The runs and tokens that an operation touches. A flush has one operation for each, because the order of two is not defined. */
  async function touched(model: RunBackend, operation: RunOperation): Promise<Set<string>> {
    if (operation.verb === "send") {
      const run = "run" in operation.to ? operation.to.run : (await model.hook(operation.to.token))?.run;
      return new Set(run === undefined ? [] : [run]);
    }
    if (operation.verb === "write" || operation.verb === "appendLate") return new Set([operation.id]);
    if (operation.verb === "act" && operation.change.kind !== "start") {
      const parent = (await model.read(operation.id))?.parent;
      const tokens = operation.change.kind === "reopen" ? operation.change.hooks.map(({ add }) => `token ${add}`) : [];
      return new Set([operation.id, ...(typeof parent === "string" ? [parent] : []), ...tokens, operation.log.id]);
    }
    const started = operation.verb === "act" && operation.change.kind === "start" ? operation.change.start : operation;
    const logged = operation.verb === "act" ? [operation.log.id] : [];
    const entry = started.verb === "append" ? started.entry : started.verb === "start" ? started.first?.entry : undefined;
    const parents = [started.verb === "start" ? started.parent : (await model.read(operation.id))?.parent];
    for (const { to } of entry?.outgoing ?? []) parents.push(to.run);
    for (const { first } of entry?.children ?? []) for (const { to } of first?.entry.outgoing ?? []) parents.push(to.run);
    for (const each of entry?.children ?? []) parents.push(each.id, each.parent);
    const tokens = (entry?.hooks ?? []).map((change) => `token ${"add" in change ? change.add : change.drop}`);
    return new Set([operation.id, ...parents.filter((each) => typeof each === "string"), ...tokens, ...logged]);
  }

  /** The newest run with the first of these statuses that a run has. */
  async function oneOf(model: RunBackend, statuses: readonly RunStatus[]): Promise<string | undefined> {
    for (const status of statuses) {
      const [run] = await model.list({ status, limit: 1 });
      if (run !== undefined) return run.id;
    }
    return undefined;
  }

  async function aimed(model: RunBackend, operation: RunOperation): Promise<RunOperation> {
    if (operation.verb === "act") {
      // A continuation and a removal of any other run are refused, and mail for an existing run is more interesting.
      const over = ["failed", "completed", "cancelled"] as const;
      const wanted = { reopen: over, remove: over, send: ["paused", "running"], start: [] } as const;
      const id = (await oneOf(model, wanted[operation.change.kind])) ?? operation.id;
      return aimedAct({ ...operation, id }, await model.load(id));
    }
    if (operation.verb === "send" && operation.key === "k1") {
      const paused = await oneOf(model, ["paused"]);
      return paused === undefined ? operation : { ...operation, to: { run: paused } };
    }
    if (operation.verb !== "append" && operation.verb !== "appendLate") return operation;
    const found = await model.load(operation.id);
    const epoch = Math.max(0, (found?.run.epoch ?? 1) + operation.epoch);
    const creator = operation.creator === "its own" ? (found?.run.creator ?? "x") : operation.creator;
    return { ...operation, creator, epoch, seq: Math.max(1, (found?.journal.length ?? 0) + 1 + operation.seq) };
  }

  function aimedAct({ expect, change, ...act }: Act, found: Awaited<ReturnType<RunBackend["load"]>>): Act {
    const [epoch, last] = [found?.run.epoch ?? 0, found?.journal.length ?? 0];
    const expected = {
      ...expect,
      ...(expect.epoch !== undefined && { epoch: epoch + expect.epoch }),
      ...(expect.seq !== undefined && { seq: last + expect.seq }),
    };
    const aim = { ...act, expect: expected };
    if (change.kind === "reopen") return { ...aim, change: { ...change, seq: Math.max(1, last + 1 + change.seq) } };
    return change.kind === "start" ? { ...aim, change: { ...change, start: { ...change.start, id: act.id } } } : { ...aim, change };
  }

  /** PostgreSQL does not use a number of the log again if its transaction was rolled back: only the order is compared. */
  const unnumbered = (answers: readonly (RunAnswer | "again")[]) =>
    answers.map((answer) => {
      if (answer === "again" || answer.kind !== "acted") return answer;
      assert.ok(answer.entry.no > 0);
      return { ...answer, entry: { ...answer.entry, no: 0 } };
    });

  async function expectEqual(model: RunBackend): Promise<void> {
    const random = new Random(clock.now());
    const choices = { workflows: ["w", "v"], parents: ids, prefixes: [...ids, "d"], times: [0, 1_000_000, clock.now() - 5, clock.now()] };
    const searches = Array.from({ length: 2 }, () => randomSearch((from) => random.pick(from), choices));
    const look = async (of: RunBackend) => ({
      all: await of.list({ limit: 100 }),
      searches: await Promise.all(searches.map((filter) => searched(of, filter, 3))),
      page: await of.list({ limit: 2, after: { at: clock.now(), id: "b" } }),
      some: await of.list({ limit: 3, workflow: "w", status: "running" }),
      ended: await of.list({ limit: 1, status: "completed" }),
      parked: await of.list({ limit: 100, status: "parked" }),
      paused: await of.list({ limit: 100, status: "paused" }),
      overdue: [...(await of.overdueStops(100))].sort(),
      log: (await of.log({ limit: 100 })).map((entry): LogEntry => ({ ...entry, no: 0 })),
      workers: [...(await of.workers())].sort((a, b) => (a.id < b.id ? -1 : 1)),
      each: await Promise.all(
        ids.map(async (one) => {
          const loaded = await of.load(one);
          const hooks = loaded && [...loaded.hooks].sort((a, b) => (a.token < b.token ? -1 : 1));
          return [{ ...loaded, hooks }, await of.read(one), await of.journal(one, 1, 2), await of.mail(one, 1)];
        }),
      ),
    });
    assert.deepEqual(await look(runs), await look(model));
  }

  async function play(steps: readonly Step[]): Promise<void> {
    await direct.query(
      "TRUNCATE differential.runs, differential.journal, differential.mail, differential.hooks, differential.run_workers, differential.operator_log, differential.run_attributes",
    );
    await clock.set(1_000_000);
    const memory = createMemoryRuns();
    const model = memoryRunBackend(memory, () => clock.now());
    for (const one of steps) {
      // No two times are equal, so that the order of events is defined.
      await clock.pass(1);
      if ("pass" in one) await clock.pass(one.pass);
      else if ("purge" in one) assert.equal(await runs.purge(one.purge), await model.purge(one.purge));
      else if ("renew" in one) {
        const sorted = async (of: RunBackend) => [...(await of.renew(one.renew))].sort((a, b) => (a.id < b.id ? -1 : 1));
        assert.deepEqual(await sorted(runs), await sorted(model));
      } else if ("leave" in one) await Promise.all([runs.leave(one.leave), model.leave(one.leave)]);
      else if ("claim" in one) {
        // The order of two runs with the same time is not defined.
        const times = [...memory.runs.values()]
          .filter(({ wakeAt, owner }) => wakeAt !== null && owner !== one.claim.owner)
          .map(({ wakeAt, avoid, avoidUntil }) => Math.max(wakeAt ?? 0, avoid.includes(one.claim.owner) ? (avoidUntil ?? 0) : 0));
        const due = times.filter((at) => at <= clock.now());
        const ties = new Set(due).size < due.length;
        const query = ties ? { ...one.claim, limit: 50, suspects: false } : one.claim;
        const taken = async (of: RunBackend) => {
          const { claimed, ...rest } = await of.claim(query);
          const each = claimed.map(({ hooks, ...more }) => ({ ...more, hooks: [...hooks].sort((a, b) => (a.token < b.token ? -1 : 1)) }));
          return { ...rest, claimed: ties ? each.sort((a, b) => (a.run.id < b.run.id ? -1 : 1)) : each };
        };
        assert.deepEqual(await taken(runs), await taken(model));
      } else if ("within" in one) {
        const append = (await aimed(model, one.within)) as Append;
        const mine = one.commit ? (await model.flush([append]))[0] : undefined;
        const theirs = await backend
          .transact?.(async (tx) => {
            const answer = await runs.appendWithin?.(tx, append);
            if (!one.commit) throw new Error("rolled back");
            return answer;
          })
          .catch((error: Error) => assert.equal(error.message, "rolled back"));
        assert.deepEqual(theirs, mine);
      } else {
        const operations: RunOperation[] = [];
        const used = new Set<string>();
        for (const asked of one.flush) {
          const operation = await aimed(model, asked);
          const both = await touched(model, operation);
          if ([...both].some((each) => used.has(each))) continue;
          for (const each of both) used.add(each);
          operations.push(operation);
        }
        assert.deepEqual(unnumbered(await runs.flush(operations)), unnumbered(await model.flush(operations)));
      }
      // The next step may hide a difference.
      assert.deepEqual(await runs.list({ limit: 100 }), await model.list({ limit: 100 }));
    }
    await expectEqual(model);
  }

  const histories = effort({ quick: 30, full: 80 });
  test(`on ${histories} random histories`, async () => {
    await fc.assert(fc.asyncProperty(history, play), { numRuns: histories });
  });
});
