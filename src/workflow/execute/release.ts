import type { Then } from "../../core/runs/operation.js";
import type { Departure } from "../journal/writer/departure.js";
import type { Draft } from "../journal/writer/draft.js";
import type { ExecutionState } from "./state.js";

/** The run that is released to the store. */
interface ReleasedRun {
  readonly calls: { readonly busy: boolean; withhold(): void };
  readonly draft: Pick<Draft, "hasEvents">;
  readonly pausing: { readonly isPaused: boolean; releaseThen(trouble: string | null): Then };
  now(): number;
  touch(): void;
  commit(then: Then): void;
}

/** The run that is released while its bodies run. */
interface ForcedRun {
  /** Nothing is written any more if the run is gone, its end is recorded, or its release is being written. */
  readonly gone: boolean;
  readonly ending: { readonly recorded: boolean };
  readonly state: ExecutionState;
  readonly calls: { abort(reason: unknown): void };
  readonly writer: { readonly busy: boolean; dropStarts(): void };
  readonly draft: Pick<Draft, "unready" | "withholdStarts">;
  readonly answers: { readonly unreadable: string | undefined };
  readonly arrivals: { recordAll(): void };
  readonly release: Pick<Release, "commit">;
  leave(departure: Departure): void;
  /** Stops the run here before its replay is complete. */
  stopReplay(): void;
}

/** Releases a run because its worker stops: immediately if no body runs, otherwise when the last one has ended. */
export class Release {
  readonly #run: ReleasedRun;
  #isRequested = false;

  constructor(run: ReleasedRun) {
    this.#run = run;
  }

  get isRequested(): boolean {
    return this.#isRequested;
  }

  request(): void {
    this.#isRequested = true;
    this.#run.touch();
  }

  /** Called in each turn after `request`. */
  commitOrWait(): void {
    const { calls, draft } = this.#run;
    calls.withhold();
    if (!calls.busy) return this.commit();
    if (draft.hasEvents) this.#run.commit({ kind: "hold" });
  }

  commit(): void {
    const { pausing } = this.#run;
    if (pausing.isPaused) return this.#run.commit(pausing.releaseThen(null));
    this.#run.commit({ kind: "release", wakeAt: this.#run.now(), status: "running", trouble: null });
  }
}

/** The grace period has ended: bodies that still run are abandoned. The next owner sees in the journal that they started. */
export function forceRelease(run: ForcedRun, reason: unknown): void {
  const { calls, writer, draft, arrivals, answers, ending, state, gone, release } = run;
  calls.abort(reason);
  writer.dropStarts();
  if (gone || writer.busy || ending.recorded || state === "returning") return;
  // A value that is only partly read cannot be written: the next owner continues from the end of the journal.
  if (draft.unready !== undefined || answers.unreadable !== undefined) return run.leave({ why: "lost" });
  // Record results that the code has not received yet: without them the next owner would run the steps again.
  if (state === "live") arrivals.recordAll();
  draft.withholdStarts();
  if (state === "replaying") run.stopReplay();
  release.commit();
}
