import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration } from "../../core/ledger/options.js";
import type { Store } from "../../core/store/store.js";
import { ActionRefusedError } from "../define/errors.js";
import { decodeEvents } from "../journal/codec.js";
import { pollDelayMs, waitForChange } from "../waiting/run-change.js";
import { type ActionResult, type HandleActionOptions, handleActionNames } from "./actions/action.js";
import { type Mailed, mailRun } from "./actions/mail-run.js";

/** Options of {@link Run.pause}. */
export interface PauseOptions extends HandleActionOptions {
  /** How long to wait until the pause has taken effect. 0: do not wait. Default 5 s. */
  readonly waitMs?: number;
}

/** Result of {@link Run.pause}. */
export interface PauseResult extends ActionResult {
  /** paused: the pause is in the journal, and the code gets nothing any more. requested: no worker has taken the request yet. */
  readonly state: "paused" | "requested";
}

const pauseNames: OptionNames<PauseOptions> = { ...handleActionNames, waitMs: true };

export async function pauseRun(store: Store, id: string, options: PauseOptions): Promise<PauseResult> {
  knownOptions("run.pause", options, pauseNames);
  const { waitMs = 5000 } = options;
  duration("waitMs", waitMs);
  const result = mustRun(id, await mailRun(store, id, { action: "pause", kind: "pause", payload: null, options }));
  if (result.dryRun) return { ...result, state: "requested" };
  const until = store.clock.now() + waitMs;
  const journaled = new PauseInJournal(store, id);
  for (let polls = 0; ; polls++) {
    const waiting = waitForChange(store, id, Math.min(pollDelayMs(polls), Math.max(0, until - store.clock.now())), false);
    try {
      if (await journaled.isPaused()) return { ...result, state: "paused" };
      if (store.clock.now() >= until) return { ...result, state: "requested" };
      await waiting.changed;
    } finally {
      waiting.stop();
    }
  }
}

export async function resumeRun(store: Store, id: string, options: HandleActionOptions): Promise<ActionResult> {
  knownOptions("run.resume", options, handleActionNames);
  return mustRun(id, await mailRun(store, id, { action: "resume", kind: "resume", payload: null, options }));
}

function mustRun(id: string, { state, ...result }: Mailed): ActionResult {
  if (state === "ended") throw new ActionRefusedError(id, "ended", "the run has ended");
  return result;
}

const pageMax = 1000;

/** Reads each entry of a journal once. */
class PauseInJournal {
  readonly #store: Store;
  readonly #run: string;
  #read = 0;
  #isPaused = false;

  constructor(store: Store, run: string) {
    this.#store = store;
    this.#run = run;
  }

  async isPaused(): Promise<boolean> {
    for (;;) {
      const entries = await this.#store.runs.journal(this.#run, this.#read, pageMax);
      for (const { type } of entries.flatMap(({ events }) => decodeEvents(events)))
        if (type === "pause" || type === "resume") this.#isPaused = type === "pause";
      this.#read = entries.at(-1)?.seq ?? this.#read;
      if (entries.length < pageMax) return this.#isPaused;
    }
  }
}
