import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { open } from "onceflow";
import { acquire } from "../../test/servers/acquire.js";
import { machine } from "../conditions.js";
import { inRounds } from "../measure.js";
import { startProgress } from "../progress.js";
import { printReport, saveReport } from "../report.js";
import { contest } from "./contenders.js";
import { type OutboxCase, outboxReport } from "./report.js";

const full = { rounds: 5, roundMs: 1000, warmUpMs: 300 };
const quick = { rounds: 3, roundMs: 200, warmUpMs: 50 };
const contenders = 4;

/** Measures a message from `add` to the publisher, on each store, beside an insert and a delete. */
export async function outbox(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { quick: { type: "boolean", default: false }, out: { type: "string" } } });
  const { rounds, roundMs, warmUpMs } = values.quick ? quick : full;
  const folder = await mkdtemp(join(tmpdir(), "onceflow-bench-outbox-"));
  const postgres = await acquire("postgres");
  if (!postgres.ok) throw new Error(`PostgreSQL is not available: ${postgres.reason}`);
  const places = [
    ["SQLite", `sqlite:${join(folder, "outbox.db")}`],
    ["PostgreSQL", postgres.running.url],
  ] as const;
  const progress = startProgress(places.length * 2 * rounds * contenders);
  const cases: OutboxCase[] = [];
  try {
    for (const [title, url] of places) {
      const store = await open(url);
      const { contenders: all, close } = await contest(store, url);
      for (const callers of [1, 64]) {
        progress.now(`${title}, ${callers} callers`);
        cases.push({
          title,
          callers,
          samples: await inRounds(all, { callers, rounds, forMs: roundMs, warmUpMs, onRound: () => progress.tick() }),
        });
      }
      await close();
      await store.close();
    }
    progress.end();
    const report = outboxReport({ conditions: machine(folder), rounds, roundMs, cases });
    printReport(report);
    const out = values.out ?? (values.quick ? undefined : fileURLToPath(new URL("../../../bench/results/", import.meta.url)));
    if (out !== undefined) await saveReport(report, out);
  } finally {
    progress.end();
    await postgres.running.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
