import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machine } from "../conditions.js";
import { inRounds } from "../measure.js";
import { startProgress } from "../progress.js";
import { printReport, saveReport } from "../report.js";
import { mbContenders, runTimeContenders, untouchedContenders } from "./contenders.js";
import { transformReport } from "./report.js";

const full = { rounds: 9, roundMs: 1000, warmUpMs: 500 };
const quick = { rounds: 3, roundMs: 200, warmUpMs: 100 };

/** Measures the cost of directives when files are built, and when they run. */
export async function transform(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { quick: { type: "boolean", default: false }, out: { type: "string" } } });
  const { rounds, roundMs, warmUpMs } = values.quick ? quick : full;
  // Inside the package, so that the transformed code can import it by name.
  const folder = await mkdtemp(join(fileURLToPath(new URL("../..", import.meta.url)), "bench-transform-"));
  const progress = startProgress(rounds * 6);
  const options = { callers: 1, rounds, forMs: roundMs, warmUpMs, onRound: () => progress.tick() };
  const runTime = await runTimeContenders(folder);
  try {
    progress.now("files with directives");
    const { contenders, bytes } = mbContenders();
    const perMb = await inRounds(contenders, options);
    progress.now("files without directives");
    const perFile = await inRounds(untouchedContenders(), options);
    progress.now("run time");
    const perRun = await inRounds(runTime.contenders, options);
    progress.end();
    const report = transformReport({ conditions: machine(folder), rounds, roundMs, bytes, perMb, perFile, perRun });
    printReport(report);
    const out = values.out ?? (values.quick ? undefined : fileURLToPath(new URL("../../../bench/results/", import.meta.url)));
    if (out !== undefined) await saveReport(report, out);
  } finally {
    progress.end();
    await runTime.close();
    await rm(folder, { recursive: true, force: true });
  }
}
