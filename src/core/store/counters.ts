import type { AnswerKind } from "../ledger/operation.js";
import type { RunAnswer } from "../runs/operation.js";
import type { Answered } from "./commit/group-commit.js";
import type { Metrics } from "./store.js";

type Counts = Omit<Metrics, "flushes">;

/** Counts the answers of a store since it was opened. */
export class Counters {
  readonly #counts: { -readonly [Name in keyof Counts]: number } = {
    started: 0,
    takenOver: 0,
    replayed: 0,
    running: 0,
    mismatched: 0,
    unknown: 0,
    gone: 0,
    settled: 0,
    renewed: 0,
    stale: 0,
    runsCreated: 0,
    appended: 0,
    overtaken: 0,
    purged: 0,
  };

  countAnswers(answered: readonly Answered[]): void {
    for (const { answer } of answered) {
      this.#counts[counterOf[answer.kind]] += 1;
      if (answer.kind === "started" && answer.attempt > 1) this.#counts.takenOver += 1;
    }
  }

  countRunAnswer({ kind }: RunAnswer): void {
    if (kind === "created") this.#counts.runsCreated += 1;
    if (kind === "appended") this.#counts.appended += 1;
    if (kind === "overtaken") this.#counts.overtaken += 1;
  }

  countPurged(records: number): void {
    this.#counts.purged += records;
  }

  with(flushes: number): Metrics {
    return { ...this.#counts, flushes };
  }
}

const counterOf: Readonly<Record<AnswerKind, keyof Counts>> = {
  started: "started",
  replay: "replayed",
  running: "running",
  mismatch: "mismatched",
  unknown: "unknown",
  gone: "gone",
  settled: "settled",
  renewed: "renewed",
  stale: "stale",
};
