import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Append, Entry, RunAnswer, RunBackend, RunOperation, Send, StartRun, Then } from "../../src/core/runs/operation.js";
import type { RunRecord } from "../../src/core/runs/run.js";
import type { Backend } from "../../src/core/store/store.js";
import { postgresBackend } from "../../src/stores/postgres/backend.js";
import { until } from "../kit/until.js";
import { database, direct, ownPostgres, server } from "../stores/postgres/own-postgres.js";

ownPostgres();

/** The parts of an entry. `next` is its `then`, renamed because the linter takes an object with `then` for a promise. */
interface EntryParts extends Partial<Omit<Entry, "then">> {
  readonly next?: Then;
}

function entryOf({ next: then = hold, ...parts }: EntryParts = {}): Entry {
  return { events: "[]", consumed: null, hooks: [], children: [], then, ...parts };
}

const hold: Then = { kind: "hold" };
const end: Then = { kind: "end", status: "completed", output: "1" };
const release: Then = { kind: "release", wakeAt: null, status: "running", trouble: null };
const plain = entryOf();

function startOf(id: string, fields: Partial<StartRun> = {}): StartRun {
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
    ...fields,
  };
}

function appendOf(id: string, epoch: number, seq: number, parts: EntryParts = {}): Append {
  return { verb: "append", id, creator: "creator", epoch, seq, entry: entryOf(parts) };
}

describe.skipIf(!server.ok)("two processes on one PostgreSQL", () => {
  let one: Backend;
  let two: Backend;
  let runs: [RunBackend, RunBackend];
  let made = 0;

  beforeAll(async () => {
    one = await postgresBackend({ url: database.url, schema: "races" });
    two = await postgresBackend({ url: database.url, schema: "races" });
    assert.ok(one.runs && two.runs);
    runs = [one.runs, two.runs];
  });
  afterAll(() => Promise.all([one.close(), two.close()]));

  const newIds = (count: number) => Array.from({ length: count }, () => `run-${String(++made).padStart(6, "0")}`);

  /** Repeats operations that are answered with "again", like group commit. */
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

  const kinds: [string, EntryParts][] = [
    ["holds", {}],
    ["ends", { next: end }],
    ["is released", { next: release }],
    ["consumes mail", { consumed: 1 }],
    ["adds a hook", { hooks: [{ add: "token", about: "hook", metadata: null }] }],
  ];
  const entryBy = (entry: EntryParts, id: string, events: string): EntryParts => ({
    ...entry,
    events,
    ...(entry.hooks ? { hooks: [{ add: `${events} ${id}`, about: "hook", metadata: null }] } : {}),
  });

  /** Sends one half in a flush and the others one by one. The other process uses the opposite order, so that they meet in the middle. */
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
      test(`a late owner whose entry ${what} and a new owner whose entry ${also}: one of them writes its whole entry`, async () => {
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
        // Sent again, as after a lost reply, both get the same answer as before.
        expect((await insist(runs[0], ofLate)).map(({ kind }) => kind)).toEqual(mine.map(({ kind }) => kind));
        expect((await insist(runs[1], ofNext)).map(({ kind }) => kind)).toEqual(theirs.map(({ kind }) => kind));
      });

  test("no entry follows an end without an entry, even if another entry came at the same time", async () => {
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

  test("two processes start the same runs: each run is created once, and the other process gets it as existing", async () => {
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

  test("the same mail from both is delivered once, and other mail gets numbers without gaps", async () => {
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

  test("renewals, claims and flushes of the same runs wait for each other without a deadlock", async () => {
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

  test("a watcher continues after its connection broke, and is notified that it may have missed changes", async () => {
    const heard: (string | null)[] = [];
    const stop = runs[0].watch((run) => heard.push(run));
    const untilHeard = (name: string | null) => until(`${name} is reported to the watcher`, () => heard.includes(name));
    await untilHeard(null);
    const [first = "", second = ""] = newIds(2);
    await runs[1].flush([startOf(first, { first: null })]);
    await untilHeard(first);
    heard.length = 0;
    await direct.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"races\"%'");
    await untilHeard(null);
    await runs[1].flush([startOf(second, { first: null })]);
    await untilHeard(second);
    stop();
    const listening = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN \"races\"%'";
    await until("no connection listens any more", async () => (await direct.query(listening)).rows.length === 0);
  });
});
