import { parseArgs } from "node:util";
import { SimulationFailure, simulate } from "onceflow/testing";

/** npm run simulate -- --seeds 100000 --from 1 · --seed 42 prints that seed's whole history. */
const { values } = parseArgs({
  options: { seeds: { type: "string", default: "10000" }, from: { type: "string", default: "1" }, seed: { type: "string" } },
});

const from = Number(values.seed ?? values.from);
const count = values.seed === undefined ? Number(values.seeds) : 1;
const total = { attempts: 0, crashes: 0, operations: 0 };
try {
  for (let seed = from; seed < from + count; seed++) {
    const report = await simulate(seed);
    if (values.seed !== undefined) console.log(report.trace.join("\n"));
    total.attempts += report.attempts;
    total.crashes += report.crashes;
    total.operations += report.operations;
    if (process.stderr.isTTY && seed % 100 === 0) process.stderr.write(`\r${seed - from + 1} of ${count} seeds`);
  }
  console.log(
    `\n${count} seeds, ${total.operations} store operations, ${total.attempts} attempts, ${total.crashes} crashes: every promise kept`,
  );
} catch (error) {
  if (!(error instanceof SimulationFailure)) throw error;
  console.error(values.seed === undefined ? error.message : `${error.message}\n\n${error.trace.join("\n")}`);
  process.exitCode = 1;
}
