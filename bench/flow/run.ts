import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machine } from "../conditions.js";
import { inRounds } from "../measure.js";
import { startProgress } from "../progress.js";
import { printReport, saveReport } from "../report.js";
import { keyedContenders, plainContenders } from "./contenders.js";
import { openPlaces } from "./places.js";
import { type FlowCase, flowReport } from "./report.js";

const full = { rounds: 7, roundMs: 1000, warmUpMs: 300 };
const quick = { rounds: 3, roundMs: 150, warmUpMs: 50 };

/** Measures flows without a key beside the bare functions, and flows under keys beside `once` on each store. */
export async function flow(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { quick: { type: "boolean", default: false }, out: { type: "string" } } });
  const { rounds, roundMs, warmUpMs } = values.quick ? quick : full;
  const folder = await mkdtemp(join(tmpdir(), "onceflow-bench-flow-"));
  const places = await openPlaces(folder);
  const progress = startProgress(rounds * (2 + places.length * 4));
  const options = { callers: 1, rounds, forMs: roundMs, warmUpMs, onRound: () => progress.tick() };
  try {
    progress.now("without a key");
    const plain = await inRounds(plainContenders(), options);
    const keyed: FlowCase[] = [];
    for (const { title, store } of places) {
      progress.now(`under keys: ${title}`);
      keyed.push({ title, samples: await inRounds(await keyedContenders(store), options) });
    }
    progress.end();
    const report = flowReport({ conditions: machine(folder), rounds, roundMs, plain, keyed });
    printReport(report);
    const out = values.out ?? (values.quick ? undefined : fileURLToPath(new URL("../../../bench/results/", import.meta.url)));
    if (out !== undefined) await saveReport(report, out);
  } finally {
    progress.end();
    for (const place of places) await place.close();
    await rm(folder, { recursive: true, force: true });
  }
}
