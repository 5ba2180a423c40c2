import type { Batch } from "../../core/ledger/operation.js";
import type { Append, RunBackend } from "../../core/runs/operation.js";
import type { Store, Tx } from "../../core/store/store.js";
import type { Clock } from "../../core/work/clock.js";
import { registerLocalWorker } from "../../workflow/process/local-worker.js";
import type { WorkerOptions } from "../../workflow/process/worker-options.js";
import type { AttemptInDoubt } from "../../workflow/steps/reconcile.js";
import type { StepBody, StepFunction } from "../../workflow/steps/step-body.js";
import { Worker } from "../../workflow/worker/worker.js";
import { type Mortal, mortal } from "../mortal-store.js";
import type { Bodies } from "./bodies.js";
import type { Crashes } from "./crashes.js";

export interface TestProcessOptions {
  readonly store: Store;
  readonly worker: WorkerOptions;
  readonly crashes: Crashes;
  readonly bodies: Pick<Bodies, "around" | "ask">;
  /** The replay check has found that a run would diverge. */
  readonly warnOfDivergence: (message: string) => void;
  /** It has died of a crash that was asked for. */
  readonly onDeath: () => void;
}

/** A process with a worker, as far as one can be lost without ending the test's: when it dies, it is never heard of again. */
export class TestProcess {
  readonly worker: Worker;
  dead = false;
  readonly #mortal: Mortal;
  readonly #appended = new WeakMap<Tx, Append>();
  readonly #options: TestProcessOptions;

  constructor(options: TestProcessOptions) {
    this.#options = options;
    const { store, worker } = options;
    const transact = <T>(work: (tx: Tx) => Promise<T>) => this.#transact(work);
    this.#mortal = mortal(
      Object.create(store, {
        clock: own(mortalClock(store.clock, () => this.dead)),
        commit: own((batch: Batch) => this.#commit(batch)),
        transact: own(transact),
        runs: own(this.#runs(store.runs)),
        // The heartbeat thread would go on renewing for a process that is not really dead.
        holdRuns: own(() => ({ alive() {}, release() {} })),
        holdWorker: own(() => ({ alive() {}, release() {} })),
      }) as Store,
    );
    this.worker = registerLocalWorker(
      new TestWorker(this.#mortal.store, { random: () => 0, background: true, replayCheck: true, ...worker }, this, options),
    );
  }

  die(): void {
    this.kill();
    this.#options.onDeath();
  }

  kill(): void {
    this.dead = true;
    this.#mortal.die();
  }

  async #commit(batch: Batch): Promise<unknown> {
    const answer = await this.#options.store.commit(batch as never);
    if ("run" in batch && this.#options.crashes.strikeCommit(batch.run)) this.die();
    return answer;
  }

  /** The entry of a transactional step is written inside: it is there when the commit is. */
  async #transact<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const { store, crashes } = this.#options;
    let handle: Tx | undefined;
    const result = await store.transact(async (tx) => {
      handle = tx;
      return await work(tx);
    });
    const append = handle && this.#appended.get(handle);
    if (append && crashes.strikeCommit(append)) this.die();
    return result;
  }

  #runs(runs: RunBackend): RunBackend {
    const appendWithin: RunBackend["appendWithin"] = async (tx, append) => {
      this.#appended.set(tx, append);
      return (await runs.appendWithin?.(tx, append)) ?? { kind: "overtaken" };
    };
    return Object.create(runs, { appendWithin: own(appendWithin) }) as RunBackend;
  }
}

/** Configurable: a proxy may answer with something else only then. */
function own(value: unknown): PropertyDescriptor {
  return { value, configurable: true };
}

class TestWorker extends Worker {
  readonly #process: TestProcess;
  readonly #bodies: TestProcessOptions["bodies"];
  readonly #warn: TestProcessOptions["warnOfDivergence"];

  constructor(store: Store, options: WorkerOptions, process: TestProcess, { bodies, warnOfDivergence }: TestProcessOptions) {
    super(store, options);
    this.#process = process;
    this.#bodies = bodies;
    this.#warn = warnOfDivergence;
  }

  override warnOfDivergence(_run: string, message: string): void {
    if (!this.#process.dead) this.#warn(message);
  }

  override bodyOf(step: StepBody): StepFunction {
    return this.#bodies.around(this.#process, step, super.bodyOf(step));
  }

  override ask(about: AttemptInDoubt, reconcile: () => unknown): unknown {
    return this.#bodies.ask(this.#process, about, reconcile);
  }
}

/** The timers of the dead do not fire. */
function mortalClock(clock: Clock, isDead: () => boolean): Clock {
  const whileAlive = (fn: () => void) => () => {
    if (!isDead()) fn();
  };
  return {
    now: () => clock.now(),
    soon: (fn) => clock.soon(whileAlive(fn)),
    after: (ms, fn, background) => clock.after(ms, whileAlive(fn), background),
  };
}
