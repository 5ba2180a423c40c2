import cliProgress from "cli-progress";

/** The progress of a benchmark: a bar in a terminal, plain lines elsewhere. It is printed to stderr, results to stdout. */
export interface Progress {
  /** Sets what is measured now. */
  now(what: string): void;
  tick(steps?: number): void;
  end(): void;
}

export function startProgress(steps: number): Progress {
  return process.stderr.isTTY ? bar(steps) : lines(steps);
}

function bar(steps: number): Progress {
  const shown = new cliProgress.SingleBar(
    { format: " {bar} {percentage}% | {what}", hideCursor: true, clearOnComplete: true, stream: process.stderr },
    cliProgress.Presets.shades_classic,
  );
  shown.start(steps, 0, { what: "starting" });
  return {
    now: (what) => shown.update({ what }),
    tick: (by = 1) => shown.increment(by),
    end: () => shown.stop(),
  };
}

function lines(steps: number): Progress {
  let done = 0;
  return {
    now: (what) => void process.stderr.write(`[${String(Math.round((done / steps) * 100)).padStart(3)}%] ${what}\n`),
    tick: (by = 1) => {
      done += by;
    },
    end: () => {},
  };
}
