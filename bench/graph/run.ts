import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machine } from "../conditions.js";
import { startProgress } from "../progress.js";
import { printReport, saveReport } from "../report.js";
import { type Drained, drain, memoryOver } from "./backlog.js";
import { callers, caseInProcess, printCase, titles } from "./cases.js";
import { type GraphCase, graphReport } from "./report.js";

const full = { rounds: 5, roundMs: 3000, warmUpMs: 2000, short: 10_000, long: 1_000_000, flat: 1_000_000 };
const quick = { rounds: 2, roundMs: 400, warmUpMs: 100, short: 1000, long: 10_000, flat: 10_000 };

/** Measures every mode on every store beside the minimum cost of a hop there, a long backlog, and the memory over a long run. */
export async function graph(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: "boolean", default: false },
      "no-backlog": { type: "boolean", default: false },
      out: { type: "string" },
      case: { type: "string" },
    },
  });
  const size = values.quick ? quick : full;
  if (values.case !== undefined) return await printCase(values.case, size);
  const { rounds, roundMs } = size;
  const folder = await mkdtemp(join(tmpdir(), "onceflow-bench-graph-"));
  const conditions = machine(folder);
  const steps = values["no-backlog"] ? titles.length : size.long + size.short + size.flat;
  const perCase = values["no-backlog"] ? 1 : steps / 2;
  const progress = startProgress(values["no-backlog"] ? steps : steps + perCase * titles.length);
  try {
    const cases: GraphCase[] = [];
    for (const title of titles) {
      progress.now(title);
      const found = await caseInProcess(title, values.quick ? ["--quick"] : []);
      if (found !== undefined) cases.push(found);
      progress.tick(perCase);
    }
    const onProgress = (done: number) => progress.tick(done);
    const drained: Drained[] = [];
    if (!values["no-backlog"]) {
      progress.now(`a backlog of ${size.short.toLocaleString("en")}`);
      drained.push(await drain(folder, size.short, onProgress));
      progress.now(`a backlog of ${size.long.toLocaleString("en")}`);
      drained.push(await drain(folder, size.long, onProgress));
      progress.now("memory");
    }
    const flat = values["no-backlog"] ? undefined : await memoryOver(folder, size.flat, onProgress);
    progress.end();
    const report = graphReport({ conditions, rounds, roundMs, callers, cases, drained, flat });
    printReport(report);
    const out = values.out ?? (values.quick ? undefined : fileURLToPath(new URL("../../../bench/results/", import.meta.url)));
    if (out !== undefined) await saveReport(report, out);
  } finally {
    progress.end();
    await rm(folder, { recursive: true, force: true });
  }
}
