import { createInterface } from "node:readline";
import { measure, percentile } from "../measure.js";
import type { Contender, ContenderModule, Counted, LoadSample, LongSample, Protocol, Verb } from "./contender.js";
import { countRoundTrips } from "./round-trips.js";
import { measureSleepers, type Woken } from "./sleepers.js";

/**
 * The process around a contender: opens it, and executes the commands on its standard input, one per line. It ends when its
 * input ends, so that it does not outlive the benchmark.
 */
const own: Readonly<Record<string, () => Promise<ContenderModule>>> = {
  ours: () => import("./ours.js"),
  "floor-postgres": () => import("./floor-postgres.js"),
  "floor-sqlite": () => import("./floor-sqlite.js"),
};

const [name = "", optionsText = "{}"] = process.argv.slice(2);
const options = JSON.parse(optionsText) as {
  readonly url?: string;
  readonly folder: string;
  readonly countsRoundTrips: boolean;
  readonly resting: boolean;
};
const roundTrips = options.countsRoundTrips ? countRoundTrips() : () => 0;
const stepsAt: number[] = [];
let onWake: Woken = () => {};
let contender: Contender | undefined;

async function open(): Promise<Protocol["open"]["answer"]> {
  const load = Object.hasOwn(own, name) ? own[name] : undefined;
  const module = load === undefined ? ((await import(name)) as ContenderModule) : await load();
  const hooks = { step: () => void stepsAt.push(performance.now()), woke: (index: number) => onWake(index) };
  contender = await module.open({ ...options, hooks });
  return { serverPid: contender.serverPid ?? null };
}

function opened(): Contender {
  if (contender === undefined) throw new Error("not open yet");
  return contender;
}

function supported<F>(ability: F | undefined): F {
  if (ability === undefined) throw new Error("this contender does not support this measurement");
  return ability;
}

async function load({ inFlight, forMs }: Protocol["load"]["ask"]): Promise<LoadSample> {
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const sample = await measure({ name, work: supported(opened().run) }, { callers: inFlight, forMs });
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ...sample, cpu: (user + system) / 1000 / (performance.now() - startedAt) };
}

async function count({ inFlight, runs }: Protocol["count"]["ask"]): Promise<Counted> {
  const of = opened();
  const run = supported(of.run);
  const [fromMs, roundTripsBefore, flushesBefore] = [Date.now(), roundTrips(), of.flushes?.()];
  let left = runs;
  const caller = async () => {
    for (; left > 0; ) {
      left -= 1;
      await run();
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  const flushes = flushesBefore === undefined ? null : (of.flushes?.() ?? 0) - flushesBefore;
  return { runs, fromMs, untilMs: Date.now(), roundTrips: roundTrips() - roundTripsBefore, flushes };
}

async function long({ steps }: Protocol["long"]["ask"]): Promise<LongSample> {
  stepsAt.length = 0;
  const startedAt = performance.now();
  await opened().longRun(steps);
  const totalMs = performance.now() - startedAt;
  if (stepsAt.length !== steps) throw new Error(`${stepsAt.length} step bodies ran instead of ${steps}`);
  const gapsMs = stepsAt.slice(1).map((at, i) => at - (stepsAt[i] ?? at));
  const medianOf = (values: number[]) =>
    percentile(
      values.sort((a, b) => a - b),
      0.5,
    );
  const share = Math.max(1, Math.round(steps / 10));
  return {
    steps,
    totalMs,
    firstStepMs: medianOf(gapsMs.slice(0, share)),
    lastStepMs: medianOf(gapsMs.slice(-share)),
    stepMs: medianOf([...gapsMs]),
  };
}

async function sleep(plan: Protocol["sleep"]["ask"]): Promise<Protocol["sleep"]["answer"]> {
  return await measureSleepers(supported(opened().sleep), plan, (woken) => {
    onWake = woken;
  });
}

const verbs: { readonly [V in Verb]: (ask: Protocol[V]["ask"]) => Promise<Protocol[V]["answer"]> } = {
  open,
  load,
  count,
  long,
  sleep,
  async hang({ steps }) {
    return await supported(opened().hang)(steps);
  },
  async recover() {
    return await supported(opened().recover)();
  },
  async close() {
    await contender?.close();
    return null;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { verb, ask } = JSON.parse(line) as { verb: Verb; ask: never };
  const reply = await verbs[verb](ask).then(
    (answer) => ({ answer }),
    (error: unknown) => ({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
  // A library may print to stdout, too; the reply is recognised by the beginning of its line.
  process.stdout.write(`\n${JSON.stringify({ verb, ...reply })}\n`);
  if (verb === "close") break;
}
process.exit(0);
