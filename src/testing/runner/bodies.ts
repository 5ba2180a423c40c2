import { AssertionError } from "node:assert";
import { setTimeout } from "node:timers";
import { FatalError } from "../../workflow/define/errors.js";
import type { AttemptInDoubt } from "../../workflow/steps/reconcile.js";
import type { StepBody, StepFunction } from "../../workflow/steps/step-body.js";
import { never } from "../simulator/world.js";
import type { Crashes } from "./crashes.js";
import type { StepExecution } from "./step-execution.js";
import type { StepMocks } from "./step-mocks.js";

/** The process in which a body runs. */
export interface BodyProcess {
  readonly dead: boolean;
  die(): void;
}

interface Running {
  readonly about: AttemptInDoubt;
  readonly process: BodyProcess;
  /** Whether the body's signal was aborted. */
  readonly aborted: () => boolean;
}

export interface BodiesOptions {
  readonly now: () => Date;
  readonly patienceMs: number;
  /** True when the runner's store only pretends to have transactions: there are no tables behind them. */
  readonly pretends: boolean;
}

/** Runs every step body of a runner's workers: counts it, replaces it with its mock, and kills the process at an armed crash. */
export class Bodies {
  readonly executions: StepExecution[] = [];
  /** Called when a body has ended. */
  onActivity: () => void = () => {};
  readonly #mocks: StepMocks;
  readonly #crashes: Crashes;
  readonly #now: () => Date;
  readonly #patienceMs: number;
  readonly #pretends: boolean;
  readonly #running = new Set<Running>();
  readonly #givenUp = new WeakSet<Running>();
  #waiting: (() => void)[] = [];

  constructor(mocks: StepMocks, crashes: Crashes, { now, patienceMs, pretends }: BodiesOptions) {
    this.#mocks = mocks;
    this.#crashes = crashes;
    this.#now = now;
    this.#patienceMs = patienceMs;
    this.#pretends = pretends;
  }

  around(process: BodyProcess, body: StepBody, own: StepFunction): StepFunction {
    const { name, tx } = body.definition;
    return async (...given) => {
      if (process.dead) return await never();
      const mock = this.#mocks.of(name);
      const args = tx ? given.slice(1) : given;
      const runId = body.execution.id;
      const { stepId, attempt } = body;
      const execution = { step: name, runId, stepId, attempt, args, at: this.#now(), mocked: mock !== undefined };
      if (this.#crashes.strike(execution, "before")) return await this.#die(process, tx);
      this.executions.push(execution);
      mock?.note(execution);
      try {
        if (tx && mock === undefined && this.#pretends) throw needsMock(name);
        return await this.#hold({ about: execution, process, aborted: () => body.aborted }, () => (mock ? mock.call(args) : own(...given)));
      } finally {
        if (!process.dead && this.#crashes.strike(execution, "after")) await this.#die(process, tx);
      }
    };
  }

  /** Runs a step's `reconcile` function, which asks the provider about an attempt. */
  async ask(process: BodyProcess, about: AttemptInDoubt, reconcile: () => unknown): Promise<unknown> {
    return await this.#hold({ about, process, aborted: () => false }, reconcile);
  }

  async #hold(running: Running, work: () => unknown): Promise<unknown> {
    this.#running.add(running);
    try {
      return await work();
    } finally {
      this.#running.delete(running);
      for (const go of this.#waiting.splice(0)) go();
      this.onActivity();
    }
  }

  /** Bodies during which virtual time stands still. An aborted body is not one: the end of its grace period needs time to pass. */
  get holding(): readonly Running[] {
    return [...this.#running].filter(({ process, aborted }) => !process.dead && !aborted());
  }

  /** The holding bodies for which the runner still waits. */
  get awaited(): readonly Running[] {
    return this.holding.filter((running) => !this.#givenUp.has(running));
  }

  /** Resolves when a body has ended; fails after `patienceMs`. This waits in real time, because a body may do real I/O. */
  async next(): Promise<void> {
    if (await this.#ended()) return;
    const those = this.holding.map(({ about: { step, attempt, runId } }) => `step "${step}" of run "${runId}" (attempt ${attempt})`);
    throw new AssertionError({
      message:
        `still running after ${this.#patienceMs} ms of real time: ${those.join(", ")}. ` +
        "Make the step end, call advance(…) if it waits for its timeout, or raise patienceMs",
    });
  }

  /** As `next`, but after `patienceMs` the runner stops waiting for the bodies that run now. */
  async nextOrGiveUp(): Promise<void> {
    if (await this.#ended()) return;
    for (const running of this.#running) this.#givenUp.add(running);
  }

  #ended(): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), this.#patienceMs);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }

  /** Kills the process and never returns. A transactional step throws instead, so that the database ends its transaction. */
  async #die(process: BodyProcess, tx: boolean): Promise<never> {
    process.die();
    if (tx) throw new Error("the process of this step has died");
    return await never();
  }
}

function needsMock(name: string): FatalError {
  return new FatalError(
    `step "${name}" is transactional, but the store of testWorkflows() has no tables: mock the step (mockStep), or pass a store that has tables`,
  );
}
