import { AssertionError } from "node:assert";
import { InvalidInputError } from "../../core/errors/errors.js";
import { hasEnded } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { decode } from "../../core/values/codec.js";
import { getHookByToken, getRun, resumeHook } from "../../workflow/client/api.js";
import type { Run } from "../../workflow/client/run-handle.js";
import { type StartOptions, start } from "../../workflow/client/start.js";
import type { Workflow } from "../../workflow/define/definition.js";
import { RunNotFoundError } from "../../workflow/define/errors.js";
import { type DeliverTwiceOptions, deliverTwice } from "../deliver-twice.js";
import type { EffectLedger } from "../effect-ledger.js";
import type { Bodies } from "./bodies.js";
import type { Crash, Crashes, CrashOptions } from "./crashes.js";
import { type ExpectedEffect, expectCalls, expectEffect, expectReplay } from "./expectations.js";
import { describeSituation, type RunSituation, recordOf } from "./run-situation.js";
import type { StepExecution } from "./step-execution.js";
import { type StepLike, type StepMock, type StepMocks, stepNameOf } from "./step-mocks.js";
import type { TestProcess } from "./test-process.js";
import type { Timeline } from "./timeline.js";

/** A run, or the id of a run. */
export type RunLike = Pick<Run, "id"> | string;

/** The sleep that `WorkflowTest.waitForSleep` found. */
export interface SleepingRun {
  /** The id of the sleep: "sleep#0" is the first sleep of its run. */
  readonly id: string;
  /** When the sleep ends. */
  readonly until: Date;
}

/** The hook that `WorkflowTest.waitForHook` found. */
export interface WaitingHook {
  /** The token of the hook. */
  readonly token: string;
  /** The metadata that the workflow gave to the hook. */
  readonly metadata: unknown;
  /** Delivers a payload and waits until no run continues by itself. A payload with a `key` that was delivered before is ignored. */
  resume(payload?: unknown, options?: { readonly key?: string }): Promise<void>;
}

interface Parts {
  readonly store: Store;
  readonly time: Timeline;
  readonly mocks: StepMocks;
  readonly crashes: Crashes;
  readonly bodies: Bodies;
  readonly effects: EffectLedger;
  readonly twice: { on: boolean };
  /** Messages of the replay check that no call has thrown yet. */
  readonly foreseen: string[];
  readonly process: () => TestProcess;
  readonly end: () => Promise<void>;
}

/**
 * A runner for workflows, as `testWorkflows` returns it.
 *
 * Every method that lets runs continue throws an AssertionError, once for each run, when the replay check finds that the
 * run's code would not match its journal.
 */
export class WorkflowTest implements AsyncDisposable {
  /** The store of this runner. */
  readonly store: Store;
  /** A fake provider: let mocks call it, then assert its counts with `expectEffect`. */
  readonly effects: EffectLedger;
  readonly #parts: Parts;
  #started = 0;
  #closing: Promise<void> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.store = parts.store;
    this.effects = parts.effects;
  }

  // ——— runs and time

  /** Starts a run in this runner's store, as `start` does. The default ids are "run-1", "run-2", …, the same at every execution of a test. */
  async start<Args extends unknown[], Result>(
    workflow: (...args: Args) => Promise<Result>,
    args?: Args,
    options: Omit<StartOptions, "store"> = {},
  ): Promise<Run<Result>> {
    this.#started += 1;
    const given = args ?? ([] as unknown[] as Args);
    const run = await start(workflow as Workflow<Args, Result>, given, { id: `run-${this.#started}`, ...options, store: this.store });
    this.#parts.time.follow(run.id);
    return run;
  }

  /** The current time of the runner: virtual, or real with the option `store`. */
  get now(): Date {
    return this.#parts.time.now;
  }

  /**
   * Moves virtual time forward, by milliseconds or by a duration such as "3d". Everything that becomes due on the way happens, in order.
   *
   * @throws ConfigurationError ("NO_VIRTUAL_TIME") when the runner has the option `store`.
   */
  async advance(by: number | string): Promise<void> {
    await this.#parts.time.advance(by);
    this.#mustReplay();
  }

  /**
   * Waits until no run continues by itself: every run has ended, sleeps, or waits for a message from outside.
   *
   * @throws AssertionError when a step's body does not end within `patienceMs`.
   */
  async settle(): Promise<void> {
    await this.#parts.time.settle();
    this.#mustReplay();
  }

  /**
   * Waits for the end of the run and returns its value.
   *
   * @throws The error of a run that failed; AssertionError when the run does not end by itself.
   */
  async result<Result>(run: Run<Result>): Promise<Result> {
    await this.#until("the end of the run", run, () => false, { orEnded: true });
    return await run.returnValue;
  }

  /**
   * Waits until the run sleeps, and returns the sleep that ends first.
   *
   * @throws AssertionError when the run ends first, or waits for something else; RunNotFoundError when there is no such run.
   */
  async waitForSleep(run: RunLike): Promise<SleepingRun> {
    const { sleeps } = await this.#until("a sleep", run, (found) => found.sleeps.length > 0);
    const [first] = sleeps as [RunSituation["sleeps"][number]];
    return { id: first.id, until: new Date(first.until) };
  }

  /** Waits until the run sleeps, ends its sleeps, and waits until no run continues by itself. Throws as `waitForSleep` does. */
  async wakeUp(run: RunLike): Promise<void> {
    const { id } = await this.waitForSleep(run);
    await getRun(idOf(run), { store: this.store }).wakeUp();
    await this.#parts.time.until(idOf(run), ({ sleeps }) => !sleeps.some((sleep) => sleep.id === id));
    await this.#parts.time.rest();
    this.#mustReplay();
  }

  /**
   * Waits until the run has a hook, and returns it. With `token`, only a hook with this token counts.
   *
   * @throws AssertionError when the run ends first, or waits for something else; RunNotFoundError when there is no such run.
   *
   * @example
   * const hook = await t.waitForHook(run);
   * await hook.resume({ approved: true });
   */
  async waitForHook(run: RunLike, { token: wanted }: { readonly token?: string } = {}): Promise<WaitingHook> {
    const isIt = ({ token }: { readonly token: string }) => wanted === undefined || token === wanted;
    const what = wanted === undefined ? "a hook" : `a hook with the token "${wanted}"`;
    const { hooks } = await this.#until(what, run, (found) => found.hooks.some(isIt));
    const { token } = hooks.find(isIt) as { token: string };
    const { metadata } = await getHookByToken(token, { store: this.store });
    const resume: WaitingHook["resume"] = async (payload, options = {}) => {
      await resumeHook(token, payload, { store: this.store, waitMs: 0, ...options });
      await this.#parts.time.rest();
      this.#mustReplay();
    };
    return { token, metadata, resume };
  }

  // ——— steps

  /**
   * Replaces the body of a step, in this runner's runs only. The newest mock of a step wins.
   *
   * @throws InvalidInputError when there is no such step.
   *
   * @example
   * const mock = t.mockStep(charge, (orderId) => t.effects.call(`charge:${orderId}`, { result: { id: "ch_1" } }));
   */
  mockStep<Args extends readonly unknown[], Result>(
    step: StepLike<Args, Result>,
    stand: (...args: Args) => Promise<Result> | Result,
  ): StepMock<Args> {
    return this.#parts.mocks.add(stepNameOf("mockStep", step), stand as (...args: never[]) => unknown) as unknown as StepMock<Args>;
  }

  /** Every execution of the step's body or of its mock, in order. Throws InvalidInputError when there is no such step. */
  calls<Args extends readonly unknown[], Result>(step: StepLike<Args, Result>): readonly StepExecution<Args>[] {
    const name = stepNameOf("calls", step);
    return this.#parts.bodies.executions.filter((each) => each.step === name) as unknown as readonly StepExecution<Args>[];
  }

  // ——— crashes and duplicates

  /**
   * Arms a crash: the worker dies at this point of the step, and a new worker takes over its runs when their lease has expired.
   *
   * @throws InvalidInputError when there is no such step or an option is invalid.
   *
   * @example
   * const crash = t.crash({ step: charge, when: "after" });
   * await t.result(await t.start(order, ["order-1"]));
   * crash.happened; // → true
   */
  crash(options: CrashOptions): Crash {
    return this.#parts.crashes.arm(options);
  }

  /** Kills the worker now. A new worker takes over its runs. */
  async restart(): Promise<void> {
    this.#parts.process().die();
    await this.#parts.time.rest();
  }

  /** From now on, every start, payload, cancel and wake-up arrives twice, and every write of the worker is sent twice. */
  deliverTwice(): void;
  /** The same as `deliverTwice` of `onceflow/testing`: makes one delivery twice and returns both results. */
  deliverTwice<T>(deliver: () => Promise<T> | T, options?: DeliverTwiceOptions): Promise<[T, T]>;
  deliverTwice<T>(deliver?: () => Promise<T> | T, options?: DeliverTwiceOptions): Promise<[T, T]> | undefined {
    if (deliver !== undefined) return deliverTwice(deliver, options);
    this.#parts.twice.on = true;
    return undefined;
  }

  // ——— assertions

  /**
   * Asserts how often the step's body or its mock was executed, over all runs and attempts.
   *
   * @throws AssertionError with a table of the executions.
   */
  expectCalls(step: StepLike, expected: number): void {
    if (!Number.isInteger(expected) || expected < 0)
      throw new InvalidInputError("expectCalls", "needs the expected number of calls, 0 or more");
    expectCalls(stepNameOf("expectCalls", step), this.calls(step), expected);
  }

  /**
   * Asserts how often the effect of a key was called and applied at `effects`.
   *
   * @throws AssertionError with a table of the calls.
   *
   * @example
   * t.expectEffect("charge:order-1", { applied: 1 });
   */
  expectEffect(key: string, expected: ExpectedEffect): void {
    if (expected?.applied === undefined && expected?.calls === undefined)
      throw new InvalidInputError("expectEffect", "needs { applied }, { calls }, or both");
    expectEffect(this.effects, key, expected);
  }

  /**
   * Replays the run's code on its journal from the start, and asserts that the code matches the journal and ends as the run did.
   *
   * @throws AssertionError with the journal; RunNotFoundError when there is no such run.
   */
  async expectReplay(run: RunLike): Promise<void> {
    const recorded = await recordOf(this.store, idOf(run));
    if (recorded === undefined) throw new RunNotFoundError(idOf(run));
    await expectReplay({ ...recorded, store: this.store });
  }

  // ——— close

  /** Stops the worker and closes the runner's own store. Code that names no store uses its previous store again. */
  close(): Promise<void> {
    this.#closing ??= this.#parts.end().then(() => this.#mustReplay());
    return this.#closing;
  }

  /** Throws what the replay check has found, once for each run. */
  #mustReplay(): void {
    const message = this.#parts.foreseen.shift();
    if (message !== undefined) throw new AssertionError({ message });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #until(
    what: string,
    run: RunLike,
    met: (situation: RunSituation) => boolean,
    { orEnded = false }: { readonly orEnded?: boolean } = {},
  ): Promise<RunSituation> {
    const id = idOf(run);
    const found = await this.#parts.time.until(id, met);
    this.#mustReplay();
    if (found === undefined) throw new RunNotFoundError(id);
    const ended = hasEnded(found.status);
    if (ended ? orEnded : met(found)) return found;
    const outcome = ended ? await this.#outcome(id) : "";
    const advice = ended ? "" : `. ${this.#parts.time.advice}`;
    throw new AssertionError({ message: `waited for ${what}, but ${describeSituation(found)}${outcome}${advice}` });
  }

  async #outcome(id: string): Promise<string> {
    const run = await this.store.runs.read(id);
    if (run?.output == null) return "";
    const value = decode(run.output) as { readonly message?: string };
    return run.status === "failed" ? ` with ${value.message}` : ` with ${run.output.slice(0, 100)}`;
  }
}

function idOf(run: RunLike): string {
  return typeof run === "string" ? run : run.id;
}
