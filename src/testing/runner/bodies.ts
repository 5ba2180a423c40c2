import { AssertionError } from "node:assert";
import { setTimeout } from "node:timers";
import { FatalError } from "../../workflow/define/errors.js";
import type { AttemptInDoubt } from "../../workflow/steps/reconcile.js";
import type { StepBody, StepFunction } from "../../workflow/steps/step-body.js";
import { never } from "../simulator/world.js";
import type { Crashes } from "./crashes.js";
import type { StepExecution } from "./step-execution.js";
import type { StepMocks } from "./step-mocks.js";

/** The process that a body runs in. */
export interface BodyProcess {
  readonly dead: boolean;
  die(): void;
}

interface Running {
  readonly about: AttemptInDoubt;
  readonly process: BodyProcess;
  /** It was told to stop. */
  readonly aborted: () => boolean;
}

export interface BodiesOptions {
  readonly now: () => Date;
  readonly patienceMs: number;
  /** There are no tables behind its transactions. */
  readonly pretends: boolean;
}

/** Every body that a runner's workers execute: counted, replaced by its mock, and struck by death where that was asked for. */
export class Bodies {
  readonly executions: StepExecution[] = [];
  /** Something has begun or ended. */
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

  /** The other side is asked about an attempt. */
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

  /** Those that time waits for. Who was told to stop may need time to pass until it is left alone. */
  get holding(): readonly Running[] {
    return [...this.#running].filter(({ process, aborted }) => !process.dead && !aborted());
  }

  /** Those of them that have not been given up. */
  get awaited(): readonly Running[] {
    return this.holding.filter((running) => !this.#givenUp.has(running));
  }

  /** Resolves when one of them has ended. Time is real here: bodies may do anything. */
  async next(): Promise<void> {
    if (await this.#ended()) return;
    const those = this.holding.map(({ about: { step, attempt, runId } }) => `step "${step}" of run "${runId}" (attempt ${attempt})`);
    throw new AssertionError({
      message:
        `still running after ${this.#patienceMs} ms of real time: ${those.join(", ")}. ` +
        "Let it end; or, when it waits for its time-out, call advance(…); or raise patienceMs",
    });
  }

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

  /** Nothing more comes from here. An open transaction has to end all the same: its database would wait for it. */
  async #die(process: BodyProcess, tx: boolean): Promise<never> {
    process.die();
    if (tx) throw new Error("its process has died");
    return await never();
  }
}

function needsMock(name: string): FatalError {
  return new FatalError(
    `step "${name}" is transactional, and the runner's own store has no tables: mock it (mockStep), or give testWorkflows a store that has them`,
  );
}
