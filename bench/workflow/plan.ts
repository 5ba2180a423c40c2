import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

export interface Plan {
  readonly peers: boolean;
  readonly ours: boolean;
  /** In each pass every contender is measured once, in another order each time. Odd, like all such counts, so that the median is the middle value. */
  readonly passes: number;
  readonly inFlight: number;
  readonly warmUpMs: number;
  readonly loadMs: number;
  /** Steps of the long run. */
  readonly steps: number;
  /** How many runs are counted one after another, and how many concurrently. */
  readonly countedAlone: number;
  readonly countedInFlight: number;
  readonly sleepers: Sleepers;
  /** The same number per second as ours, but fewer in total, because starting them takes long. */
  readonly peerSleepers: Sleepers;
  readonly workerCounts: readonly number[];
  readonly workerPasses: number;
  readonly recoveries: number;
  /** Rounds of short runs in which our library and the floor take turns, and the number of our long runs. */
  readonly priceRounds: number;
  readonly growthRuns: number;
  /** The folder for the results; undefined if they are only printed. */
  readonly out: string | undefined;
}

interface Sleepers {
  readonly runs: number;
  readonly spreadMs: number;
}

const full = {
  passes: 3,
  warmUpMs: 800,
  loadMs: 2000,
  steps: 1000,
  countedAlone: 100,
  countedInFlight: 1000,
  sleepers: { runs: 10_000, spreadMs: 60_000 },
  peerSleepers: { runs: 1000, spreadMs: 6000 },
  workerPasses: 3,
  recoveries: 3,
  priceRounds: 31,
  growthRuns: 7,
};

const quick = {
  passes: 1,
  warmUpMs: 400,
  loadMs: 1000,
  steps: 300,
  countedAlone: 20,
  countedInFlight: 200,
  sleepers: { runs: 1000, spreadMs: 6000 },
  peerSleepers: { runs: 200, spreadMs: 1200 },
  workerPasses: 1,
  recoveries: 1,
  priceRounds: 11,
  growthRuns: 3,
};

export function parsePlan(args: string[]): Plan {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: "boolean", default: false },
      "no-peers": { type: "boolean", default: false },
      "peers-only": { type: "boolean", default: false },
      out: { type: "string" },
    },
  });
  const [peers, ours] = [!values["no-peers"], !values["peers-only"]];
  if (!peers && !ours) throw new Error("--no-peers and --peers-only leave nothing to measure");
  // A partial or quick run must not replace the published figures.
  const whole = !values.quick && peers && ours;
  const out = values.out ?? (whole ? fileURLToPath(new URL("../../../bench/results/", import.meta.url)) : undefined);
  return { ...(values.quick ? quick : full), inFlight: 50, workerCounts: [1, 2, 4], peers, ours, out };
}
