import { parseArgs } from "node:util";
import { SimulationFailure, simulate, simulateGraphs, simulateWorkflows } from "onceflow/testing";

/**
 * npm run simulate -- --seeds 100000 --from 1 · --seed 42 prints that seed's whole history · --workflows simulates the
 * workflow engine instead of the ledger, with --operators people who retry, fork, resolve and delete runs, and --stops to let
 * them also cancel, terminate, pause, resume and wake runs, which have deadlines; --graphs the runtime of flow graphs.
 */
const { values } = parseArgs({
  options: {
    workflows: { type: "boolean", default: false },
    operators: { type: "boolean", default: false },
    stops: { type: "boolean", default: false },
    graphs: { type: "boolean", default: false },
    seeds: { type: "string" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
  },
});

const { seed: only, workflows, operators, stops, graphs } = values;
const from = Number(only ?? values.from);
const count = Number(values.seeds ?? (only === undefined ? 10_000 : 1));
const total = new Map<string, number>();
const add = (name: string, n: number) => void total.set(name, (total.get(name) ?? 0) + n);

async function run(seed: number): Promise<readonly string[]> {
  const report = await (graphs ? simulateGraphs(seed) : workflows ? simulateWorkflows(seed, { operators, stops }) : simulate(seed));
  add("store operations", report.operations);
  if ("runs" in report) add("runs", report.runs);
  if ("bodies" in report) add("step bodies", report.bodies);
  if ("actions" in report && operators) {
    add("actions of operators", report.actions);
    add("refused actions", report.refusals);
  }
  if ("attempts" in report) add("attempts", report.attempts);
  if ("packets" in report) {
    add("executions", report.executions);
    add("packets", report.packets);
    add("calls of nodes", report.calls);
    add("dead letters", report.dead);
  }
  add("crashes", report.crashes);
  return report.trace;
}

const begunAt = performance.now();
try {
  for (let seed = from; seed < from + count; seed++) {
    const trace = await run(seed);
    if (count === 1) console.log(trace.join("\n"));
    if (process.stderr.isTTY && seed % 100 === 0) process.stderr.write(`\r${seed - from + 1} of ${count} seeds`);
  }
  const counted = [...total].map(([name, n]) => `${n} ${name}`).join(", ");
  const perSecond = Math.round((count * 1000) / (performance.now() - begunAt));
  console.log(`\n${count} seeds, ${counted}: no promise was broken (${perSecond} seeds per second)`);
} catch (error) {
  if (!(error instanceof SimulationFailure)) throw error;
  console.error(count === 1 ? `${error.message}\n\n${error.trace.join("\n")}` : error.message);
  process.exitCode = 1;
}
