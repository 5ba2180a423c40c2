import assert from "node:assert/strict";
import { join } from "node:path";
import type { Backend } from "onceflow/store";
import { afterAll, describe, expect, test } from "vitest";
import type {
  Act,
  ActionChange,
  Append,
  AppendLate,
  Entry,
  HookChange,
  RunBackend,
  RunOperation,
  StartRun,
  Then,
} from "../../src/core/runs/operation.js";
import { runStatuses } from "../../src/core/runs/run.js";
import { memoryRunBackend } from "../../src/stores/memory/runs/runs.js";
import { createMemoryRuns } from "../../src/stores/memory/runs/table.js";
import { sqliteBackend } from "../../src/stores/sqlite/backend.js";
import { chooseDriver, openDatabase } from "../../src/stores/sqlite/driver.js";
import { Random } from "../../src/testing/simulator/random.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { attributeSets, errorFacts, randomSearch, scopes, searched } from "./searches.js";

const folder = temporaryFolder(afterAll);

const centuryMs = 100 * 366 * 24 * 3600 * 1000;
const families = ["a", "b", "ü", "😀"];
const names = ["1", "2", "3"];
const workflows = ["order", "refund"];
const texts = ['{"a":"\\u0000 \\"\\\\ ü😀"}', "[]", `"${"long".repeat(500)}"`];

/**
 * Runs random histories on two handles of one file, like two processes, and on the memory store. Each flush returns the time of
 * its decision, and the model decides at the same instant: everything must be equal to the millisecond. Durations are zero or a
 * century. Operations of one flush belong to different families, which are independent: the store may do them in any order.
 */
class World {
  readonly #random: Random;
  readonly #handles: readonly RunBackend[];
  readonly #memory = createMemoryRuns();
  #now = 0;
  readonly #model = memoryRunBackend(this.#memory, () => this.#now);
  #ticks = 0;
  #actions = 0;

  constructor(random: Random, handles: readonly RunBackend[]) {
    this.#random = random;
    this.#handles = handles;
  }

  async step(): Promise<void> {
    const what = this.#random.next();
    if (what < 0.75) await this.#flush();
    else if (what < 0.87) await this.#claim();
    else if (what < 0.9) await this.#renew();
    else if (what < 0.95) assert.equal(await this.#store.purge(1000), await this.#model.purge(1000));
    else for (let i = 0; i < 4; i++) await this.#list();
  }

  get #store(): RunBackend {
    return this.#random.pick(this.#handles);
  }

  async #flush(): Promise<void> {
    const asked = families.filter(() => this.#random.chance(0.6)).map((family) => this.#operation(family));
    const alone = asked.length === 1 && asked[0]?.verb === "append";
    // A run outside the families: its answer has the time of the flush.
    this.#ticks += 1;
    const tick = this.#start("tick", String(this.#ticks), null);
    const operations = alone ? asked : [...asked, tick];
    const answers = await this.#store.flush(operations);
    this.#now = answers.reduce((now, answer) => (answer !== "again" && "now" in answer ? answer.now : now), this.#now);
    assert.deepEqual(answers, await this.#model.flush(operations), JSON.stringify(operations));
  }

  async #claim(): Promise<void> {
    const query = {
      owner: this.#random.pick(["me", "you"]),
      workflows: workflows.filter(() => this.#random.chance(0.7)),
      leaseMs: this.#random.pick([0, centuryMs]),
      limit: this.#random.between(0, 3),
      ...(this.#random.chance(0.3) && { suspects: this.#random.chance(0.5) }),
      ...(this.#random.chance(0.2) && { run: this.#random.pick(families) + this.#random.pick(names) }),
    };
    const claims = await this.#store.claim(query);
    this.#now = claims.now;
    assert.deepEqual(claims, await this.#model.claim(query), JSON.stringify(query));
  }

  async #renew(): Promise<void> {
    const random = this.#random;
    const owner = random.pick(["me", "you"]);
    if (random.chance(0.2)) {
      await this.#store.leave(owner);
      await this.#model.leave(owner);
    }
    const signOfLife = { workflows: workflows.filter(() => random.chance(0.5)), version: random.pick([null, "1.0"]) };
    const query = { owner, leaseMs: centuryMs, ...(random.chance(0.5) && { signOfLife }) };
    const renewed = await this.#store.renew(query);
    const one = renewed[0] && (await this.#store.read(renewed[0].id));
    const worker = query.signOfLife && (await this.#store.workers()).find(({ id }) => id === owner);
    this.#now = one ? (one.wakeAt ?? 0) - centuryMs : (worker?.seenAt ?? this.#now);
    assert.deepEqual(renewed, await this.#model.renew(query));
    const byId = async (of: RunBackend) => [...(await of.workers())].sort((a, b) => (a.id < b.id ? -1 : 1));
    assert.deepEqual(await byId(this.#store), await byId(this.#model));
  }

  async #list(): Promise<void> {
    const random = this.#random;
    const query = {
      limit: random.between(1, 20),
      ...(random.chance(0.7) && { status: random.pick(runStatuses) }),
      ...(random.chance(0.3) && { workflow: random.pick(workflows) }),
      ...(random.chance(0.5) && this.#memory.runs.size > 0 && { after: this.#position() }),
    };
    assert.deepEqual(await this.#store.list(query), await this.#model.list(query), JSON.stringify(query));
    const all = [...this.#memory.runs.values()];
    const parents = families.flatMap((family) => names.map((name) => family + name));
    const times = [0, this.#now, ...all.map(({ createdAt }) => createdAt), ...all.flatMap(({ endedAt }) => endedAt ?? [])];
    const search = randomSearch((from) => random.pick(from), { workflows, parents, prefixes: [...families, ...parents, "t"], times });
    const limit = random.between(1, 20);
    assert.deepEqual(await searched(this.#store, search, limit), await searched(this.#model, search, limit), JSON.stringify(search));
  }

  #position(): { readonly at: number; readonly id: string } {
    const { createdAt: at, id } = this.#random.pick([...this.#memory.runs.values()]);
    return { at, id };
  }

  /** Compares everything that can be read about every run and token. */
  async compare(): Promise<void> {
    assert.deepEqual(await this.#store.log({ limit: 1000 }), await this.#model.log({ limit: 1000 }));
    for (const family of families) {
      for (const name of names) {
        const id = family + name;
        const [store, model] = [this.#store, this.#model];
        assert.deepEqual(await store.load(id), await model.load(id));
        assert.deepEqual(await store.read(id), await model.read(id));
        assert.deepEqual(await store.hook(id), await model.hook(id));
        assert.deepEqual(await store.mail(id, 1), await model.mail(id, 1));
        assert.deepEqual(await store.journal(id, 1, 2), await model.journal(id, 1, 2));
      }
    }
  }

  #operation(family: string): RunOperation {
    const random = this.#random;
    const id = family + random.pick(names);
    const what = random.next();
    if (what < 0.25) return this.#start(family, random.pick(names), this.#first(family));
    if (what < 0.75) return this.#append(family, id);
    if (what < 0.83) return this.#late(id);
    if (what < 0.92) return { verb: "send", to: random.chance(0.5) ? { run: id } : { token: id }, ...this.#letter(id) };
    return this.#act(family, id);
  }

  #letter(id: string) {
    const random = this.#random;
    return {
      kind: random.pick(["hook", "cancel", "wake", "pause", "resume"] as const),
      about: random.pick([null, "step"]),
      payload: random.pick([null, ...texts]),
      key: random.pick(["k", "k\0x", "k\0y", `child\0${id}`]),
    };
  }

  /** Most actions are about a run that has ended, so that most continuations and removals are done. */
  #act(family: string, any: string): Act {
    const random = this.#random;
    const over = [...this.#memory.runs.values()].filter((run) => run.id.startsWith(family) && run.endedAt !== null);
    const id = over.length > 0 && random.chance(0.8) ? random.pick(over).id : any;
    const { creator, epoch, seq } = this.#place(id);
    this.#actions += 1;
    // Some actions are sent again, perhaps with another change.
    const action = `${family} ${random.chance(0.8) ? this.#actions : random.between(1, this.#actions)}`;
    const log = { actor: "ann", action: "retry", subject: id, reason: random.pick([null, "why"]), detail: random.pick([null, ...texts]) };
    const expect = {
      ...(random.chance(0.2) && { status: random.pick(["running", "failed"] as const) }),
      ...(random.chance(0.2) && { creator }),
      ...(random.chance(0.2) && { epoch }),
      ...(random.chance(0.2) && { seq: seq - 1 }),
    };
    return { verb: "act", id, log: { id: action, ...log }, expect, change: this.#change(family, id, seq) };
  }

  #change(family: string, id: string, seq: number): ActionChange {
    const random = this.#random;
    const token = () => family + random.pick(names);
    switch (random.pick(["send", "reopen", "reopen", "reopen", "reopen", "remove", "start"] as const)) {
      case "send":
        return {
          ...{ kind: "send", mail: this.#letter(id) },
          ...(random.chance(0.3) && { token: token() }),
          ...(random.chance(0.3) && { stopAfterMs: random.pick([0, centuryMs]) }),
        };
      case "reopen": {
        const hooks = random.chance(0.4) ? [{ add: token(), about: "hook", metadata: null }] : [];
        const attributes = random.chance(0.3) ? { attributes: random.pick([null, ...attributeSets]) } : {};
        return { kind: "reopen", seq, events: random.pick(texts), hooks, ...attributes };
      }
      case "remove":
        return { kind: "remove" };
      case "start":
        return { kind: "start", start: { ...this.#start(family, "1", this.#first(family)), id } };
    }
  }

  #append(family: string, id: string): Append {
    return { verb: "append", id, ...this.#place(id), entry: this.#entry(family, id) };
  }

  /** The texts are few, so that the events often equal the stored ones. */
  #late(id: string): AppendLate {
    const random = this.#random;
    return { verb: "appendLate", id, ...this.#place(id), events: random.pick(texts), unsettled: random.pick([0, 0, 1]) };
  }

  #place(id: string): { readonly creator: string; readonly epoch: number; readonly seq: number } {
    const random = this.#random;
    const last = this.#memory.journals.get(id)?.length ?? 0;
    const seq = random.chance(0.8) ? last + 1 : random.pick([last, last + 2, 1, 0]);
    const epoch = Math.max(1, (this.#memory.runs.get(id)?.epoch ?? 1) - (random.chance(0.8) ? 0 : 1));
    // Rarely an owner of an earlier run with this id.
    const creator = random.chance(0.9) ? (this.#memory.runs.get(id)?.creator ?? "c") : random.pick(["c", "d"]);
    return { creator, epoch, seq };
  }

  #start(family: string, name: string, first: StartRun["first"]): StartRun {
    const random = this.#random;
    return {
      verb: "start",
      id: family + name,
      workflow: family === "tick" ? "tick" : random.pick(workflows),
      input: random.pick(texts),
      fingerprint: random.pick([null, "f"]),
      parent: random.pick([null, family + random.pick(names)]),
      creator: random.pick(["c", "d"]),
      retentionMs: random.pick([null, centuryMs, 0, 0, 0]),
      first,
      ...(random.chance(0.15) && { timeoutMs: random.pick([0, centuryMs]), cleanupMs: random.pick([0, 5]) }),
      ...(random.chance(0.4) && { scope: random.pick(scopes) }),
      ...(random.chance(0.3) && { attributes: random.pick(attributeSets) }),
    };
  }

  #first(family: string): StartRun["first"] {
    const random = this.#random;
    if (random.chance(0.4)) return null;
    return {
      owner: random.pick(["me", "you"]),
      leaseMs: random.pick([0, centuryMs]),
      entry: this.#entry(family, family + random.pick(names)),
    };
  }

  #entry(family: string, id: string): Entry {
    const random = this.#random;
    const token = () => family + random.pick(names);
    const hook = (): HookChange =>
      random.chance(0.6) ? { add: token(), about: "hook", metadata: random.pick([null, "{}"]) } : { drop: token() };
    const child = () => this.#start(family, random.pick(names), random.chance(0.2) ? this.#first(family) : null);
    const then = this.#then();
    return {
      events: random.chance(0.85) ? random.pick(texts) : null,
      consumed: random.chance(0.3) ? (this.#memory.runs.get(id)?.mail ?? 0) : null,
      hooks: random.chance(0.3) ? [hook(), hook()] : [],
      children: random.chance(0.15) ? [child()] : [],
      then,
      ...(random.chance(0.1) && { outgoing: [{ to: { run: family + random.pick(names) }, ...this.#letter(id) }] }),
      ...(random.chance(0.1) && { stopAt: random.pick([this.#now, this.#now + centuryMs]) }),
      ...(random.chance(0.2) && { trial: { deaths: random.between(0, 3), crashes: random.between(0, 2), alone: random.chance(0.5) } }),
      ...(random.chance(0.15) && { attributes: random.pick([null, ...attributeSets]) }),
    };
  }

  #then(): Then {
    const random = this.#random;
    if (random.chance(0.6)) return { kind: "hold" };
    if (random.chance(0.3))
      return {
        kind: "end",
        status: random.pick(["completed", "failed", "cancelled"]),
        output: random.pick([null, ...texts]),
        ...(random.chance(0.5) && { unsettled: random.between(0, 2) }),
        ...(random.chance(0.2) && { trouble: "why" }),
        ...(random.chance(0.4) && { error: random.pick(errorFacts) }),
      };
    const avoid = {
      workers: ["me", "you", '\u0000 "ü😀'].filter(() => random.chance(0.5)),
      until: random.pick([0, this.#now + centuryMs]),
    };
    return {
      kind: "release",
      wakeAt: random.pick([null, this.#now, this.#now + centuryMs]),
      status: random.pick(["running", "unknown", "diverged", "parked", "paused"]),
      trouble: random.pick([null, "why"]),
      ...(random.chance(0.4) && { avoid }),
      ...(random.chance(0.2) && { seen: random.between(0, 3) }),
    };
  }
}

async function opened(name: string, count: number): Promise<Backend[]> {
  return await Promise.all(Array.from({ length: count }, () => sqliteBackend({ path: join(folder, `${name}.db`) })));
}

const runsOf = (backend: Backend | undefined) => backend?.runs as RunBackend;

describe("runs on SQLite", () => {
  test.each([1, 2, 3, 4, 5, 6])("behave as in the memory store (seed %i)", async (seed) => {
    const backends = await opened(`seed-${seed}`, 2);
    const world = new World(new Random(seed), backends.map(runsOf));
    for (let step = 0; step < 400; step++) {
      await world.step();
      if (step % 10 === 0) await world.compare();
    }
    await world.compare();
    await Promise.all(backends.map((backend) => backend.close()));
  });

  const then: Then = { kind: "hold" };
  const plain: Entry = { events: "[]", consumed: null, hooks: [], children: [], then };
  const start: StartRun = {
    verb: "start",
    id: "one",
    workflow: "order",
    input: "[]",
    fingerprint: null,
    parent: null,
    creator: "c",
    retentionMs: null,
    first: { owner: "me", leaseMs: 60_000, entry: plain },
  };

  test("an operation that fails on its data rolls back its whole flush, and a run number from that flush does not lead to another run", async () => {
    const [backend, another] = await opened("undone", 2);
    const two = { ...start, id: "two" };
    await expect(runsOf(backend).flush([start, { ...two, input: "a\0b" }])).rejects.toThrow(/NUL/);
    expect(await runsOf(backend).read("one")).toBeUndefined();
    // The number that "one" had goes to "two": an append to "one" must not reach it.
    await runsOf(another).flush([two]);
    const late: Append = { verb: "append", id: "one", creator: "c", epoch: 1, seq: 2, entry: plain };
    expect(await runsOf(backend).flush([late])).toEqual([{ kind: "overtaken" }]);
    expect(await runsOf(backend).journal("two", 0, 9)).toHaveLength(1);
    await Promise.all([backend?.close(), another?.close()]);
  });

  test("a purged run leaves nothing to the next run with its number", async () => {
    const [backend] = await opened("purged", 1);
    const runs = runsOf(backend);
    const then: Then = { kind: "end", status: "failed", output: null };
    const end: Append = { verb: "append", id: "one", creator: "c", epoch: 1, seq: 2, entry: { ...plain, then } };
    await runs.flush([{ ...start, retentionMs: 0 }]);
    await runs.flush([{ verb: "send", to: { run: "one" }, kind: "wake", about: null, payload: null, key: "k" }]);
    await runs.flush([end]);
    expect(await runs.purge(10)).toBe(1);
    await runs.flush([{ ...start, id: "two" }]);
    expect(await runs.load("two")).toMatchObject({ journal: [{ seq: 1 }], mail: [] });
    await backend?.close();
  });

  test("a claim with nothing due, a renewal of nothing and a purge of nothing write nothing to the file", async () => {
    const [backend] = await opened("nothing", 1);
    const runs = runsOf(backend);
    const suspect = { deaths: 2, crashes: 0, alone: false };
    const avoid = { workers: ["me"], until: Date.now() + 3_600_000 };
    const put = (id: string, more: object) =>
      runs.flush([{ ...start, id, first: { owner: "you", leaseMs: 60_000, entry: { ...plain, ...more } } }]);
    const asleep: Then = { kind: "release", wakeAt: Date.now() + 3_600_000, status: "running", trouble: null };
    await put("asleep", { then: asleep });
    await put("suspect", { trial: suspect, then: { ...asleep, wakeAt: 0 } });
    await put("avoided", { then: { ...asleep, wakeAt: 0, avoid } });
    await runs.renew({ owner: "me", leaseMs: 60_000, signOfLife: { workflows: ["order"], version: null } });
    const raw = openDatabase(join(folder, "nothing.db"), chooseDriver());
    const version = raw.prepare("PRAGMA data_version");
    const before = version.get();
    const query = { owner: "me", workflows: ["order"], leaseMs: 60_000, limit: 9 };
    for (let i = 0; i < 3; i++) expect((await runs.claim({ ...query, suspects: false })).claimed).toEqual([]);
    expect((await runs.claim({ ...query, run: "asleep" })).claimed).toEqual([]);
    expect(await runs.renew({ owner: "me", leaseMs: 60_000 })).toEqual([]);
    expect(await runs.purge(10)).toBe(0);
    expect(version.get()).toEqual(before);
    raw.close();
    await backend?.close();
  });

  test("a watcher is notified of another handle's writes and not of its own, and can stop", async () => {
    const [backend, another] = await opened("watch", 2);
    let heard = 0;
    let wake = () => {};
    const changes = () =>
      new Promise<void>((resolve) => {
        wake = resolve;
      });
    const stop = runsOf(backend).watch((run) => {
      expect(run).toBeNull();
      heard += 1;
      wake();
    });
    await runsOf(backend).flush([start]);
    const changed = changes();
    await runsOf(another).flush([{ ...start, id: "two" }]);
    await changed;
    expect(heard).toBe(1);
    stop();
    await runsOf(another).flush([{ ...start, id: "three" }]);
    const again = runsOf(backend).watch(() => wake());
    const changedAgain = changes();
    await runsOf(another).flush([{ ...start, id: "four" }]);
    await changedAgain;
    expect(heard).toBe(1);
    again();
    await Promise.all([backend?.close(), another?.close()]);
  });
});
