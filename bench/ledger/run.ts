import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machine } from "../conditions.js";
import { inRounds } from "../measure.js";
import { type Progress, startProgress } from "../progress.js";
import { printReport, saveReport } from "../report.js";
import { dynamoSubject } from "./dynamodb.js";
import { type ManyKeys, measureManyKeys } from "./many-keys.js";
import { memorySubject } from "./memory.js";
import { mongoSubject } from "./mongodb.js";
import { postgresSubject } from "./postgres.js";
import { redisSubject } from "./redis.js";
import { ledgerReport, type Measured } from "./report.js";
import { sqliteSubject } from "./sqlite.js";
import { callerCounts, kinds, type StoreName, type Subject, storeNames } from "./subject.js";
import type { Case } from "./targets.js";

interface Plan {
  readonly stores: readonly StoreName[];
  readonly rounds: number;
  readonly roundMs: number;
  readonly warmUpMs: number;
  readonly tryMs: number;
  readonly replays: number;
  /** With 0 keys, the memory of many keys is not measured. */
  readonly keys: number;
  /** The folder for the results; undefined if they are only printed. */
  readonly out: string | undefined;
}

const full = { rounds: 5, roundMs: 1500, warmUpMs: 400, tryMs: 1000, replays: 10_000, keys: 1_000_000 };
const quick = { rounds: 3, roundMs: 200, warmUpMs: 50, tryMs: 100, replays: 2000, keys: 20_000 };
const sharesOfKeys = 20;

/** For each store: floors and ours in rounds, writes of replays, memory with many keys. Then the report. */
export async function ledger(args: string[]): Promise<void> {
  const plan = parsePlan(args);
  const folder = await mkdtemp(join(tmpdir(), "onceflow-bench-"));
  const progress = startProgress(stepsOf(plan));
  try {
    const measured = await measureStores(plan, folder, progress);
    progress.end();
    const report = ledgerReport(measured);
    printReport(report);
    if (plan.out !== undefined) await saveReport(report, plan.out);
  } finally {
    progress.end();
    await rm(folder, { recursive: true, force: true });
  }
}

function parsePlan(args: string[]): Plan {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: "boolean", default: false },
      store: { type: "string", multiple: true },
      "no-memory": { type: "boolean", default: false },
      keys: { type: "string" },
      out: { type: "string" },
    },
  });
  const stores = storeNames.filter((name) => values.store === undefined || values.store.includes(name));
  const keys = values["no-memory"] ? 0 : Number(values.keys ?? (values.quick ? quick : full).keys);
  if (stores.length !== (values.store?.length ?? storeNames.length)) throw new Error(`--store must be one of ${storeNames.join(", ")}`);
  if (!Number.isInteger(keys) || keys < 0) throw new Error("--keys must be a whole number");
  // A partial or quick run must not replace the published figures.
  const whole = !values.quick && stores.length === storeNames.length && keys === full.keys;
  const out = values.out ?? (whole ? fileURLToPath(new URL("../../../bench/results/", import.meta.url)) : undefined);
  return { ...(values.quick ? quick : full), stores, keys, out };
}

function stepsOf({ stores, rounds, keys }: Plan): number {
  const contenders = { sqlite: 10, postgres: 10, redis: 10, dynamodb: 8, mongodb: 8, memory: 4 };
  const perStore = stores.map((store) => contenders[store] * rounds + 1 + (keys > 0 ? sharesOfKeys : 0));
  return perStore.reduce((sum, steps) => sum + steps, 0);
}

async function measureStores(plan: Plan, folder: string, progress: Progress): Promise<Measured> {
  const { rounds, roundMs } = plan;
  let conditions = machine(folder);
  const cases: Case[] = [];
  const replayWrites: Measured["replayWrites"][number][] = [];
  const manyKeys: ManyKeys[] = [];
  for (const name of plan.stores) {
    progress.now(`${name}: opening`);
    const subject = await openSubject(name, folder);
    try {
      conditions = { ...conditions, ...subject.conditions };
      cases.push(...(await measureCases(subject, plan, progress)));
      progress.now(`${name}: writes of replays`);
      const counted = await subject.countReplayWrites?.(plan.replays);
      if (counted) replayWrites.push({ store: name, ...counted });
      progress.tick();
      if (plan.keys === 0) continue;
      const keys = Math.min(plan.keys, subject.keysMax ?? plan.keys);
      progress.now(`${name}: growth with ${keys.toLocaleString("en")} keys`);
      manyKeys.push(await measureManyKeys(subject, keys, () => progress.tick()));
    } finally {
      await subject.close();
    }
  }
  return { conditions, rounds, roundMs, cases, replayWrites, manyKeys };
}

async function openSubject(name: StoreName, folder: string): Promise<Subject> {
  switch (name) {
    case "sqlite":
      return sqliteSubject(folder);
    case "postgres":
      return await postgresSubject();
    case "redis":
      return await redisSubject();
    case "dynamodb":
      return await dynamoSubject();
    case "mongodb":
      return await mongoSubject();
    case "memory":
      return memorySubject();
  }
}

async function measureCases(subject: Subject, plan: Plan, progress: Progress): Promise<Case[]> {
  const cases: Case[] = [];
  for (const kind of kinds) {
    for (const callers of callerCounts) {
      progress.now(`${subject.name}: ${kind}, ${callers} ${callers === 1 ? "caller" : "callers"}`);
      const { contenders, note, close } = await subject.prepare({ kind, callers, tryMs: plan.tryMs });
      try {
        const { rounds, roundMs: forMs, warmUpMs } = plan;
        const samples = await inRounds(contenders, { callers, rounds, forMs, warmUpMs, onRound: () => progress.tick() });
        cases.push({ store: subject.name, kind, callers, samples: Object.fromEntries(samples), ...(note === undefined ? {} : { note }) });
      } finally {
        await close();
      }
    }
  }
  return cases;
}
