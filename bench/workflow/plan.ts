import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

export interface Plan {
  readonly peers: boolean;
  readonly ours: boolean;
  /** Every contender, once in each, in another order each time. Odd, as all such counts: then the median is the middle one. */
  readonly passes: number;
  readonly inFlight: number;
  readonly warmUpMs: number;
  readonly loadMs: number;
  /** Of the long run. */
  readonly steps: number;
  /** How many runs are counted one after the other, and how many at once. */
  readonly countedAlone: number;
  readonly countedInFlight: number;
  readonly sleepers: Sleepers;
  /** As often per second as ours, but fewer: they take long to fall asleep. */
  readonly peerSleepers: Sleepers;
  readonly workerCounts: readonly number[];
  readonly workerPasses: number;
  readonly recoveries: number;
  /** Of short runs in which ours and the floor take turns, and of long ones of ours. */
  readonly priceRounds: number;
  readonly growthRuns: number;
  /** Where results are saved; undefined: they are only printed. */
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
  // A part of the whole, or a hurried one, must not replace the figures that are kept.
  const whole = !values.quick && peers && ours;
  const out = values.out ?? (whole ? fileURLToPath(new URL("../../../bench/results/", import.meta.url)) : undefined);
  return { ...(values.quick ? quick : full), inFlight: 50, workerCounts: [1, 2, 4], peers, ours, out };
}
