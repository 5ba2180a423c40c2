import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import fc from "fast-check";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { RunRecord } from "../dist/core/run.js";
import type { Append, Entry, HookChange, RunAnswer, RunBackend, RunOperation, Send, StartRun, Then } from "../dist/core/run-operation.js";
import type { Backend } from "../dist/core/store.js";
import { createMemoryRuns, memoryRunBackend } from "../dist/stores/memory/memory-runs.js";
import { openPostgres } from "../dist/stores/postgres/open.js";
import { PostgresClock } from "./postgres-clock.js";
import { type FreshDatabase, freshDatabase } from "./servers/free-database.js";

const server = inject("postgres");
let database: FreshDatabase;
let direct: pg.Client;

beforeAll(async () => {
  if (!server.ok) return;
  database = await freshDatabase(server.url);
  direct = new pg.Client(database.url);
  await direct.connect();
});
afterAll(async () => {
  await direct?.end();
  await database?.drop();
});

/** What an entry says; `next` is its `then`, under a name that no linter takes for a promise's. */
interface Said extends Partial<Omit<Entry, "then">> {
  readonly next?: Then;
}

function entryOf({ next: then = hold, ...said }: Said = {}): Entry {
  return { events: "[]", consumed: null, hooks: [], children: [], then, ...said };
}

const hold: Then = { kind: "hold" };
const end: Then = { kind: "end", status: "completed", output: "1" };
const release: Then = { kind: "release", wakeAt: null, status: "running", trouble: null };
const plain = entryOf();

function startOf(id: string, said: Partial<StartRun> = {}): StartRun {
  const first = { owner: "one", leaseMs: 60_000, entry: plain };
  return {
    verb: "start",
    id,
    workflow: "w",
    input: "[]",
    fingerprint: null,
    parent: null,
    creator: "creator",
    retentionMs: null,
    first,
    ...said,
  };
}

function appendOf(id: string, epoch: number, seq: number, said: Said = {}): Append {
  return { verb: "append", id, epoch, seq, entry: entryOf(said) };
}

/**
 * Random histories on PostgreSQL and on the memory store, which says what each verb means. PostgreSQL gets a clock of
 * ours, so that answers, runs, journals, mail and hooks have to be equal to the millisecond.
 */
describe.skipIf(!server.ok)("postgres does with runs what memory does", { timeout: 120_000 }, () => {
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

  const then: fc.Arbitrary<Then> = fc.oneof(
    { weight: 4, arbitrary: fc.constant(hold) },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant("release" as const),
        wakeAt: fc.option(fc.integer({ min: 1_000_000, max: 1_000_400 })),
        status: fc.constantFrom("running", "unknown", "diverged"),
        trouble: maybe,
      }) as fc.Arbitrary<Then>,
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("end" as const),
        status: fc.constantFrom("completed", "failed", "cancelled"),
        output: maybe,
      }) as fc.Arbitrary<Then>,
    },
  );
  const hook: fc.Arbitrary<HookChange> = fc.oneof(
    { weight: 3, arbitrary: fc.record({ add: token, about: text, metadata: maybe }) },
    { weight: 1, arbitrary: fc.record({ drop: token }) },
  );
  const entryWith = (children: fc.Arbitrary<StartRun[]>): fc.Arbitrary<Entry> =>
    fc.record({
      events: fc.oneof({ weight: 5, arbitrary: text }, { weight: 1, arbitrary: fc.constant(null) }),
      consumed: rarely(fc.option(fc.integer({ min: 0, max: 4 })), null),
      hooks: rarely(fc.array(hook, { maxLength: 3 }), []),
      children,
      then,
    });
  const startWith = (entry: fc.Arbitrary<Entry>): fc.Arbitrary<StartRun> =>
    fc.record({
      verb: fc.constant("start" as const),
      id,
      workflow,
      input: text,
      fingerprint: maybe,
      parent: rarely(id, null as string | null) as fc.Arbitrary<string | null>,
      creator: fc.constantFrom("x", "y"),
      retentionMs: fc.option(durationMs),
      first: fc.option(fc.record({ owner, leaseMs: durationMs, entry: fc.oneof(fc.constant(plain), entry) })),
    });
  const child = startWith(entryWith(fc.constant([])));
  const entry = entryWith(rarely(fc.array(child, { maxLength: 2 }), []));

  /** `epoch` and `seq` are how far off they are from what would be right. */
  const off = fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constantFrom(-1, 1) });
  const append = fc.record({ verb: fc.constant("append" as const), id, epoch: off, seq: off, entry });
  const send: fc.Arbitrary<Send> = fc.record({
    verb: fc.constant("send" as const),
    to: fc.oneof(fc.record({ run: id }), fc.record({ token })),
    kind: fc.constantFrom("hook", "cancel", "wake", "resolve"),
    about: maybe,
    payload: maybe,
    key: fc.constantFrom("k1", "k2", "k3", "child\0a"),
  });
  const operation = fc.oneof(
    { weight: 3, arbitrary: startWith(entry) },
    { weight: 6, arbitrary: append },
    { weight: 2, arbitrary: send },
  ) as fc.Arbitrary<RunOperation>;
  const step = fc.oneof(
    { weight: 10, arbitrary: fc.record({ flush: fc.array(operation, { minLength: 1, maxLength: 4 }) }) },
    { weight: 2, arbitrary: fc.record({ within: append as fc.Arbitrary<Append>, commit: fc.boolean() }) },
    {
      weight: 3,
      arbitrary: fc.record({
        claim: fc.record({
          owner,
          workflows: fc.uniqueArray(fc.constantFrom("w", "v", "other"), { minLength: 1 }),
          leaseMs: durationMs,
          limit: fc.constantFrom(1, 2, 50),
        }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ renew: fc.record({ owner, leaseMs: durationMs }) }) },
    { weight: 2, arbitrary: fc.record({ pass: fc.constantFrom(1, 5, 20_000) }) },
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

  /** Whatever else an operation can touch: of a flush, what touches the same run twice is left out, because its order is open. */
  async function touched(model: RunBackend, operation: RunOperation): Promise<Set<string>> {
    if (operation.verb === "send") {
      const run = "run" in operation.to ? operation.to.run : (await model.hook(operation.to.token))?.run;
      return new Set(run === undefined ? [] : [run]);
    }
    if (operation.verb === "write") return new Set([operation.id]);
    const entry = operation.verb === "append" ? operation.entry : operation.first?.entry;
    const parents = [operation.verb === "append" ? (await model.read(operation.id))?.parent : operation.parent];
    for (const each of entry?.children ?? []) parents.push(each.id, each.parent);
    const tokens = (entry?.hooks ?? []).map((change) => `token ${"add" in change ? change.add : change.drop}`);
    return new Set([operation.id, ...parents.filter((each) => typeof each === "string"), ...tokens]);
  }

  async function aimed(model: RunBackend, operation: RunOperation): Promise<RunOperation> {
    if (operation.verb !== "append") return operation;
    const found = await model.load(operation.id);
    const epoch = Math.max(0, (found?.run.epoch ?? 1) + operation.epoch);
    return { ...operation, epoch, seq: Math.max(1, (found?.journal.length ?? 0) + 1 + operation.seq) };
  }

  async function expectEqual(model: RunBackend): Promise<void> {
    const look = async (of: RunBackend) => ({
      all: await of.list({ limit: 100 }),
      page: await of.list({ limit: 2, after: { createdAt: clock.now(), id: "b" } }),
      some: await of.list({ limit: 3, workflow: "w", status: "running" }),
      ended: await of.list({ limit: 1, status: "completed" }),
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
    await direct.query("TRUNCATE differential.runs, differential.journal, differential.mail, differential.hooks");
    await clock.set(1_000_000);
    const memory = createMemoryRuns();
    const model = memoryRunBackend(memory, () => clock.now());
    for (const one of steps) {
      // Two instants are never the same: what is older is told apart from what is newer.
      await clock.pass(1);
      if ("pass" in one) await clock.pass(one.pass);
      else if ("purge" in one) assert.equal(await runs.purge(one.purge), await model.purge(one.purge));
      else if ("renew" in one) {
        const sorted = async (of: RunBackend) => [...(await of.renew(one.renew))].sort((a, b) => (a.id < b.id ? -1 : 1));
        assert.deepEqual(await sorted(runs), await sorted(model));
      } else if ("claim" in one) {
        // Which of two runs of the same instant is the older one is nobody's business.
        const due = [...memory.runs.values()].filter(
          ({ wakeAt, owner }) => wakeAt !== null && wakeAt <= clock.now() && owner !== one.claim.owner,
        );
        const ties = new Set(due.map(({ wakeAt }) => wakeAt)).size < due.length;
        const query = ties ? { ...one.claim, limit: 50 } : one.claim;
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
          const both = await touched(model, asked);
          if ([...both].some((each) => used.has(each))) continue;
          for (const each of both) used.add(each);
          operations.push(await aimed(model, asked));
        }
        assert.deepEqual(await runs.flush(operations), await model.flush(operations));
      }
    }
    await expectEqual(model);
  }

  test("on 80 random histories", async () => {
    await fc.assert(fc.asyncProperty(history, play), { numRuns: 80 });
  });
});

describe.skipIf(!server.ok)("two processes on one PostgreSQL", () => {
  let one: Backend;
  let two: Backend;
  let runs: [RunBackend, RunBackend];
  let made = 0;

  beforeAll(async () => {
    one = await openPostgres({ url: database.url, schema: "races" });
    two = await openPostgres({ url: database.url, schema: "races" });
    assert.ok(one.runs && two.runs);
    runs = [one.runs, two.runs];
  });
  afterAll(() => Promise.all([one.close(), two.close()]));

  const newIds = (count: number) => Array.from({ length: count }, () => `run-${String(++made).padStart(6, "0")}`);

  /** As group commit does: what is to go again goes again. */
  async function insist(backend: RunBackend, operations: readonly RunOperation[]): Promise<RunAnswer[]> {
    const answers: RunAnswer[] = [];
    let open = operations.map((operation, i) => ({ operation, i }));
    while (open.length > 0) {
      const got = await backend.flush(open.map(({ operation }) => operation));
      open = open.filter(({ i }, n) => {
        const answer = got[n];
        assert.ok(answer !== undefined);
        if (answer === "again") return true;
        answers[i] = answer;
        return false;
      });
    }
    return answers;
  }

  async function claimedRuns(count: number): Promise<RunRecord[]> {
    const [first] = runs;
    const started = newIds(count);
    const starts = started.map((id) =>
      startOf(id, { workflow: `claimed ${started[0]}`, first: { owner: "one", leaseMs: 0, entry: plain } }),
    );
    await first.flush(starts);
    const { claimed } = await first.claim({ owner: "two", workflows: [`claimed ${started[0]}`], leaseMs: 60_000, limit: count });
    expect(claimed).toHaveLength(count);
    return claimed.map(({ run }) => run).sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  const kinds: [string, Said][] = [
    ["holds", {}],
    ["ends", { next: end }],
    ["is released", { next: release }],
    ["takes mail in", { consumed: 1 }],
    ["makes a hook", { hooks: [{ add: "token", about: "hook", metadata: null }] }],
  ];
  const entryBy = (entry: Said, id: string, events: string): Said => ({
    ...entry,
    events,
    ...(entry.hooks ? { hooks: [{ add: `${events} ${id}`, about: "hook", metadata: null }] } : {}),
  });

  /** Some together, the others one by one; the other process the other way round, so that they meet in the middle. */
  async function scattered(backend: RunBackend, asked: readonly RunOperation[], backwards: boolean): Promise<RunAnswer[]> {
    const half = asked.length / 2;
    const flushes = [asked.slice(0, half), ...asked.slice(half).map((one) => [one])];
    const answers = new Map<RunOperation, RunAnswer>();
    for (const flush of backwards ? flushes.toReversed() : flushes)
      for (const [i, answer] of (await insist(backend, flush)).entries()) answers.set(flush[i] as RunOperation, answer);
    return asked.map((one) => answers.get(one) as RunAnswer);
  }

  for (const [what, late] of kinds)
    for (const [also, next] of kinds)
      test(`of a late owner whose entry ${what} and a new one whose entry ${also}, one writes it, with all that goes with it`, async () => {
        const held = await claimedRuns(16);
        const ofLate = held.map(({ id }) => appendOf(id, 1, 2, entryBy(late, id, "late")));
        const ofNext = held.map(({ id }) => appendOf(id, 2, 2, entryBy(next, id, "next")));
        const [mine, theirs] = await Promise.all([scattered(runs[0], ofLate, false), scattered(runs[1], ofNext, true)]);
        for (const [i, { id }] of held.entries()) {
          const both = [mine[i]?.kind, theirs[i]?.kind];
          expect([...both].sort()).toEqual(["appended", "overtaken"]);
          const [winner, loser, entry] = both[0] === "appended" ? (["late", "next", late] as const) : (["next", "late", next] as const);
          const loaded = await runs[0].load(id);
          expect(loaded?.journal.map(({ events }) => events)).toEqual(["[]", winner]);
          const { next: then = hold, consumed = 0, hooks = [] } = entry;
          const [status, owner] = [then.kind === "end" ? "completed" : "running", then.kind === "hold" ? "two" : null];
          expect(loaded?.run).toMatchObject({ status, owner, consumed });
          expect(loaded?.hooks).toHaveLength(hooks.length);
          expect(await runs[0].hook(`${loser} ${id}`)).toBeUndefined();
        }
        // Sent again, as after a lost reply: both learn the same as before.
        expect((await insist(runs[0], ofLate)).map(({ kind }) => kind)).toEqual(mine.map(({ kind }) => kind));
        expect((await insist(runs[1], ofNext)).map(({ kind }) => kind)).toEqual(theirs.map(({ kind }) => kind));
      });

  test("after an end without an entry nothing follows, also when an entry came at the same moment", async () => {
    for (let round = 0; round < 3; round++) {
      const held = await claimedRuns(16);
      const entries = held.map(({ id }) => appendOf(id, 1, 2));
      const ends = held.map(({ id }) => appendOf(id, 2, 2, { events: null, next: end }));
      const [late] = await Promise.all([scattered(runs[0], entries, false), scattered(runs[1], ends, true)]);
      const after = await insist(
        runs[0],
        held.map(({ id }, i) => appendOf(id, 1, late[i]?.kind === "appended" ? 3 : 2)),
      );
      for (const [i, { id }] of held.entries()) {
        expect(after[i]).toEqual({ kind: "overtaken" });
        const loaded = await runs[0].load(id);
        expect([loaded?.run.status, loaded?.journal.length]).toEqual(["completed", late[i]?.kind === "appended" ? 2 : 1]);
      }
    }
  });

  test("the same runs are started once, and the other one finds them", async () => {
    for (let round = 0; round < 10; round++) {
      const started = newIds(25);
      const asked = (creator: string, first: StartRun["first"]) =>
        started.map((id) => startOf(id, { creator, first, input: JSON.stringify(creator) }));
      const [mine, theirs] = await Promise.all([
        insist(runs[0], asked("one", { owner: "one", leaseMs: 1000, entry: { ...plain, events: "one" } })),
        insist(runs[1], asked("two", round % 2 ? null : { owner: "two", leaseMs: 1000, entry: { ...plain, events: "two" } })),
      ]);
      for (const [i, id] of started.entries()) {
        const both = [mine[i], theirs[i]];
        expect(both.map((answer) => answer?.kind).sort()).toEqual(["created", "exists"]);
        const winner = both[0]?.kind === "created" ? "one" : "two";
        const loaded = await runs[0].load(id);
        expect(loaded?.run.creator).toBe(winner);
        for (const { events } of loaded?.journal ?? []) expect(events).toBe(winner);
        const found = both.find((answer) => answer?.kind === "exists");
        expect(found).toMatchObject({ run: { id, creator: winner } });
      }
    }
  });

  test("the same mail from both is delivered once, other mail gets numbers without gaps", async () => {
    const [id = ""] = newIds(1);
    await runs[0].flush([startOf(id)]);
    const mail = (key: string): Send => ({ verb: "send", to: { run: id }, kind: "hook", about: null, payload: key, key });
    const rounds = Array.from({ length: 30 }, (_, i) => i);
    const answers = await Promise.all(
      runs.map(async (each, who) => {
        const got: RunAnswer[] = [];
        for (const i of rounds) got.push(...(await insist(each, [mail(`both ${i}`)])), ...(await insist(each, [mail(`${who} ${i}`)])));
        return got;
      }),
    );
    const duplicates = answers.flat().filter((answer) => answer.kind === "sent" && answer.duplicate);
    expect(duplicates).toHaveLength(rounds.length);
    const found = await runs[0].mail(id, 0);
    expect(found.map(({ seq }) => seq)).toEqual(Array.from({ length: 90 }, (_, i) => i + 1));
    expect((await runs[0].read(id))?.mail).toBe(90);
  });

  test("renewals, claims and flushes of the same runs wait for each other, and never in a circle", async () => {
    const before = await deadlocks();
    const held = await claimedRuns(60);
    let open = true;
    const renewing = (async () => {
      while (open) expect(await runs[1].renew({ owner: "two", leaseMs: 60_000 })).toBeInstanceOf(Array);
    })();
    const claiming = (async () => {
      while (open) expect((await runs[1].claim({ owner: "three", workflows: ["w"], leaseMs: 1, limit: 50 })).claimed).toBeInstanceOf(Array);
    })();
    for (let seq = 2; seq < 12; seq++) {
      const next = seq === 11 ? end : hold;
      const answers = await runs[0].flush(held.map(({ id }) => appendOf(id, 2, seq, { consumed: seq, next })));
      expect(new Set(answers.map((answer) => (answer === "again" ? answer : answer.kind)))).toEqual(new Set(["appended"]));
    }
    open = false;
    await Promise.all([renewing, claiming]);
    expect(await deadlocks()).toBe(before);
  });

  async function deadlocks(): Promise<number> {
    const { rows } = await direct.query("SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()");
    return rows[0]?.["n"];
  }

  test("whoever watches goes on after its connection broke, and is told that it may have missed something", async () => {
    const heard: (string | null)[] = [];
    const stop = runs[0].watch((run) => heard.push(run));
    const until = async (told: string | null) => {
      for (let i = 0; i < 400 && !heard.includes(told); i++) await delay(10);
      expect(heard).toContain(told);
    };
    await until(null);
    const [first = "", second = ""] = newIds(2);
    await runs[1].flush([startOf(first, { first: null })]);
    await until(first);
    heard.length = 0;
    await direct.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"races\"%'");
    await until(null);
    await runs[1].flush([startOf(second, { first: null })]);
    await until(second);
    stop();
    const listening = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN \"races\"%'";
    for (let i = 0; i < 400 && (await direct.query(listening)).rows.length > 0; i++) await delay(10);
    expect((await direct.query(listening)).rows).toEqual([]);
  });
});
