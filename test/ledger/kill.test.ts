import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { type Inspection, inspect, list, open, type Store } from "onceflow";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { callsIn } from "../kit/effects.js";
import { effort, isFull } from "../kit/effort.js";
import { takeTurns } from "../kit/heavy.js";
import { Program } from "../kit/program.js";
import { letTimePass } from "../kit/real-time.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { freshTable } from "../servers/dynamodb/tables.js";
import { freshMongoDatabase } from "../servers/mongodb/databases.js";
import { freshDatabase } from "../servers/postgres/databases.js";

takeTurns();

/** How many keys and processes, and how often a process is killed. */
interface Pace {
  readonly keys: number;
  readonly workers: number;
  readonly killEveryMs: number;
}

const usual: Pace = { keys: effort({ quick: 30, full: 200 }), workers: 5, killEveryMs: 100 };

/** Counted at the provider, over every key, after the last kill. */
interface Tally {
  kills: number;
  attempts: number;
  rawCalls: number;
  applied: number;
  unknown: number;
}

/** Kills a random worker at each interval until each key has an outcome or is unknown; then checks every key. */
async function killUntilSettled(url: string, effect: "keyed" | "atMostOnce", provider: EffectServer, node: string, pace: Pace) {
  const { keys, workers, killEveryMs } = pace;
  const store = await open(url);
  onTestFinished(() => store.close());
  const fleet = Array.from({ length: workers }, spawn);
  let kills = 0;

  function spawn(): Program {
    return new Program("ledger/programs/kill-worker", [url, provider.url, effect, String(keys)], { node, onEnd: onTestFinished });
  }

  let calls = 0;
  while ((await unsettled(store, keys)) > 0) {
    await letTimePass(killEveryMs * (0.5 + Math.random()), "a kill comes at a moment that no event chooses");
    const now = callsIn(provider.effects);
    // At least one call between two kills: on a busy machine processes would otherwise die while they start, without end.
    if (now === calls) continue;
    calls = now;
    const victim = Math.floor(Math.random() * workers);
    void fleet[victim]?.kill();
    fleet[victim] = spawn();
    kills += 1;
  }
  // No worker may still settle while the keys are checked.
  await Promise.all(fleet.map((worker) => worker.kill()));
  const inspections = await Promise.all(
    Array.from({ length: keys }, async (_, i) => (await inspect(store, { scope: "kill", key: `charge:order-${i}` })) as Inspection),
  );
  const unknown = await listed(store, "unknown");
  return { inspections, unknown, kills };
}

async function unsettled(store: Store, keys: number): Promise<number> {
  const [completed, unknown] = await Promise.all([listed(store, "completed"), listed(store, "unknown")]);
  return keys - completed.length - unknown.length;
}

async function listed(store: Store, state: "completed" | "unknown") {
  return (await list(store, { scope: "kill", state, limit: 1000 })).items;
}

/** Calls and attempts must add up: each call belongs to an attempt, and no attempt calls twice. */
function tally(inspections: readonly Inspection[], { effects }: EffectServer, kills: number): Tally {
  const sum: Tally = { kills, attempts: 0, rawCalls: 0, applied: 0, unknown: 0 };
  for (const { effectKey, attempts, state } of inspections) {
    const called = effects.calls(effectKey).map((call) => call.attempt);
    const started = attempts.map((entry) => entry.attempt);
    expect(new Set(called).size, `${effectKey}: an attempt called twice`).toBe(called.length);
    expect(started).toEqual(started.map((_, i) => i + 1));
    expect(started).toEqual(expect.arrayContaining(called));
    // An attempt without a call died before the call: the log says so, and it is never the attempt that completed.
    for (const entry of attempts) if (!called.includes(entry.attempt)) expect(["lapsed", "running"]).toContain(entry.verdict);
    sum.attempts += started.length;
    sum.rawCalls += called.length;
    sum.applied += effects.applied(effectKey);
    if (state === "unknown") sum.unknown += 1;
  }
  return sum;
}

function slowProvider(honoursKeys: boolean): Promise<EffectServer> {
  return serveEffects({ honoursKeys, latencyMs: () => 10 + Math.random() * 80 });
}

function cases(storeUrl: () => Promise<string>, node: () => string, pace = usual): void {
  const { keys } = pace;
  test("keyed: one applied effect per key, although processes are killed", { timeout: 600_000 }, async () => {
    const provider = await slowProvider(true);
    onTestFinished(() => provider.close());
    const { inspections, unknown, kills } = await killUntilSettled(await storeUrl(), "keyed", provider, node(), pace);
    const sum = tally(inspections, provider, kills);
    expect(kills).toBeGreaterThan(Math.min(5, keys / 20));
    expect(unknown).toEqual([]);
    expect(sum.applied).toBe(keys);
    expect(sum.attempts).toBeGreaterThanOrEqual(sum.rawCalls);
    expect(inspections.every(({ state }) => state === "completed")).toBe(true);
    for (const { effectKey } of inspections) expect(provider.effects.applied(effectKey)).toBe(1);
    console.log(`killed ${kills}: ${keys} keys, ${sum.attempts} attempts, ${sum.rawCalls} raw calls, ${sum.applied} applied`);
  });

  test("atMostOnce: no key is ever called twice, and unknown keys are listed", { timeout: 600_000 }, async () => {
    const provider = await slowProvider(false);
    onTestFinished(() => provider.close());
    const { inspections, unknown, kills } = await killUntilSettled(await storeUrl(), "atMostOnce", provider, node(), pace);
    const sum = tally(inspections, provider, kills);
    expect(kills).toBeGreaterThan(Math.min(5, keys / 20));
    for (const { effectKey } of inspections) expect(provider.effects.rawCalls(effectKey)).toBeLessThanOrEqual(1);
    const inDoubt = inspections.filter(({ state }) => state === "unknown").map(({ key }) => key);
    expect(unknown.map(({ key }) => key).sort()).toEqual(inDoubt.sort());
    expect(sum.attempts).toBe(keys);
    console.log(`killed ${kills}: ${keys} keys, ${sum.rawCalls} raw calls, ${sum.unknown} unknown and listed`);
  });
}

function sqliteUrl(): Promise<string> {
  const folder = temporaryFolder(onTestFinished);
  return Promise.resolve(`sqlite:${join(folder, "ledger.db")}`);
}

describe(`SIGKILL every ${usual.killEveryMs} ms, ${usual.workers} processes, ${usual.keys} keys: SQLite`, () =>
  cases(sqliteUrl, () => process.execPath));

const node24 = inject("node24");
// Another driver of the same database: in the full tier only.
describe.skipIf(!node24.ok || !isFull)("the same on Node 24 with its built-in SQLite", () =>
  cases(sqliteUrl, () => (node24.ok ? node24.path : process.execPath)),
);

const postgres = inject("postgres");
describe.skipIf(!postgres.ok)("the same on PostgreSQL", () =>
  cases(
    async () => {
      const database = await freshDatabase(postgres.ok ? postgres.url : "");
      onTestFinished(() => database.drop());
      return database.url;
    },
    () => process.execPath,
  ),
);

// This driver loads more slowly than the others: a process that is killed before that proves nothing.
const loading: Pace = { keys: effort({ quick: 20, full: 100 }), workers: 3, killEveryMs: 100 };
const redis = inject("redis");
describe.skipIf(!redis.ok)(`SIGKILL every ${loading.killEveryMs} ms, ${loading.workers} processes: Redis`, () =>
  cases(
    async () => `${redis.ok ? redis.url : ""}?prefix=kill-${randomUUID()}`,
    () => process.execPath,
    loading,
  ),
);

// A new process sees a dead attempt for the first time and waits a whole lease: processes have to live longer than that.
const watching: Pace = { keys: effort({ quick: 16, full: 40 }), workers: 3, killEveryMs: 200 };
const dynamodb = inject("dynamodb");
describe.skipIf(!dynamodb.ok)(`SIGKILL every ${watching.killEveryMs} ms, ${watching.workers} processes: DynamoDB Local`, () =>
  cases(
    async () => {
      const table = freshTable(dynamodb.ok ? dynamodb.url : "");
      onTestFinished(() => table.drop());
      return table.url;
    },
    () => process.execPath,
    watching,
  ),
);

const mongodb = inject("mongodb");
describe.skipIf(!mongodb.ok)(
  `SIGKILL every ${watching.killEveryMs} ms, ${watching.workers} processes: MongoDB (an emulator, unless given)`,
  () =>
    cases(
      async () => {
        const database = await freshMongoDatabase(mongodb.ok ? mongodb.url : "");
        onTestFinished(() => database.drop());
        return database.url;
      },
      () => process.execPath,
      watching,
    ),
);
