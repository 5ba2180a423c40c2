import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { acquire } from "../../test/servers/acquire.js";
import { machine, versionOf } from "../conditions.js";
import { inRounds } from "../measure.js";
import { startProgress } from "../progress.js";
import { printReport, saveReport } from "../report.js";
import { prepare } from "./contenders.js";
import { type HttpCase, httpReport } from "./report.js";
import { storm } from "./storm.js";

const full = { rounds: 7, roundMs: 1000, warmUpMs: 300, duplicates: 10_000 };
const quick = { rounds: 3, roundMs: 150, warmUpMs: 50, duplicates: 1000 };
const callers = 16;

/** Measures each store without and with keys, and on Redis beside a peer. */
export async function http(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { quick: { type: "boolean", default: false }, out: { type: "string" } } });
  const { rounds, roundMs, warmUpMs, duplicates } = values.quick ? quick : full;
  const folder = await mkdtemp(join(tmpdir(), "onceflow-bench-http-"));
  const [postgres, redis] = [await acquire("postgres"), await acquire("redis")];
  const progress = startProgress(rounds * (3 + 3 + 5) + 1);
  try {
    if (!postgres.ok) throw new Error(`PostgreSQL is not available: ${postgres.reason}`);
    if (!redis.ok) throw new Error(`Redis is not available: ${redis.reason}`);
    const places: readonly [string, string, string?][] = [
      ["SQLite", `sqlite:${join(folder, "http.db")}`],
      ["PostgreSQL", postgres.running.url],
      ["Redis", redis.running.url, redis.running.url],
    ];
    const cases: HttpCase[] = [];
    for (const [title, url, peerUrl] of places) {
      progress.now(title);
      const bench = await prepare(url, peerUrl);
      const samples = await inRounds(bench.contenders, { callers, rounds, forMs: roundMs, warmUpMs, onRound: () => progress.tick() });
      await bench.close();
      cases.push({ title, samples });
    }
    progress.now("concurrent duplicates");
    const stormed = await storm(`sqlite:${join(folder, "storm.db")}`, duplicates);
    progress.end();
    const conditions = {
      ...machine(folder),
      express: versionOf("express"),
      "@node-idempotency/core": versionOf("@node-idempotency/core"),
    };
    const report = httpReport({ conditions, rounds, roundMs, callers, cases, storm: stormed });
    printReport(report);
    const out = values.out ?? (values.quick ? undefined : fileURLToPath(new URL("../../../bench/results/", import.meta.url)));
    if (out !== undefined) await saveReport(report, out);
  } finally {
    progress.end();
    if (postgres.ok) await postgres.running.stop();
    if (redis.ok) await redis.running.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
