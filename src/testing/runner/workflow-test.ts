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

/** A run, or its id. */
export type RunLike = Pick<Run, "id"> | string;

export interface SleepingRun {
  /** "sleep#0" is the first sleep of its run. */
  readonly id: string;
  readonly until: Date;
}

export interface WaitingHook {
  readonly token: string;
  readonly metadata: unknown;
  /** Delivers a payload, and lets happen what follows. The same key again is not delivered again. */
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
  /** What the replay check has found, and no call has reported yet. */
  readonly foreseen: string[];
  readonly process: () => TestProcess;
  readonly end: () => Promise<void>;
}

/** What `testWorkflows` gives to a test. */
export class WorkflowTest implements AsyncDisposable {
  readonly store: Store;
  /** The other side: let mocks and fakes call it, and see how often it was called. */
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

  /** As `start` does, in this runner's store. Without an id: "run-1", "run-2", …, so that every run of a test is the same. */
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

  get now(): Date {
    return this.#parts.time.now;
  }

  /** Lets time pass: "3d", or milliseconds. What is due on the way happens, in order. */
  async advance(by: number | string): Promise<void> {
    await this.#parts.time.advance(by);
    this.#mustReplay();
  }

  /** Until nothing happens by itself: every run has ended, sleeps, or waits for something from outside. */
  async settle(): Promise<void> {
    await this.#parts.time.settle();
    this.#mustReplay();
  }

  /** How the run ended: its value, or its error thrown. Fails when it does not end by itself. */
  async result<Result>(run: Run<Result>): Promise<Result> {
    await this.#until("its end", run, () => false, { orEnded: true });
    return await run.returnValue;
  }

  async waitForSleep(run: RunLike): Promise<SleepingRun> {
    const { sleeps } = await this.#until("a sleep", run, (found) => found.sleeps.length > 0);
    const [first] = sleeps as [RunSituation["sleeps"][number]];
    return { id: first.id, until: new Date(first.until) };
  }

  /** Ends the sleeps of a run that sleeps, and lets happen what follows. */
  async wakeUp(run: RunLike): Promise<void> {
    const { id } = await this.waitForSleep(run);
    await getRun(idOf(run), { store: this.store }).wakeUp();
    await this.#parts.time.until(idOf(run), ({ sleeps }) => !sleeps.some((sleep) => sleep.id === id));
    await this.#parts.time.rest();
    this.#mustReplay();
  }

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

  /** Stands in for a step, in this runner's runs only. */
  mockStep<Args extends readonly unknown[], Result>(
    step: StepLike<Args, Result>,
    stand: (...args: Args) => Promise<Result> | Result,
  ): StepMock<Args> {
    return this.#parts.mocks.add(stepNameOf("mockStep", step), stand as (...args: never[]) => unknown) as unknown as StepMock<Args>;
  }

  /** Every execution of its body, or of its mock, in order. */
  calls<Args extends readonly unknown[], Result>(step: StepLike<Args, Result>): readonly StepExecution<Args>[] {
    const name = stepNameOf("calls", step);
    return this.#parts.bodies.executions.filter((each) => each.step === name) as unknown as readonly StepExecution<Args>[];
  }

  // ——— trouble

  /** The worker dies there, without a word. Another one comes, and takes its runs over when their lease is over. */
  crash(options: CrashOptions): Crash {
    return this.#parts.crashes.arm(options);
  }

  /** The worker dies now, and another one takes over. */
  async restart(): Promise<void> {
    this.#parts.process().die();
    await this.#parts.time.rest();
  }

  /** From now on every start, payload, cancel and wake-up arrives twice, and every write of the worker is sent twice. */
  deliverTwice(): void;
  /** The same as `deliverTwice` of `onceflow/testing`: makes one delivery twice and returns both results. */
  deliverTwice<T>(deliver: () => Promise<T> | T, options?: DeliverTwiceOptions): Promise<[T, T]>;
  deliverTwice<T>(deliver?: () => Promise<T> | T, options?: DeliverTwiceOptions): Promise<[T, T]> | undefined {
    if (deliver !== undefined) return deliverTwice(deliver, options);
    this.#parts.twice.on = true;
    return undefined;
  }

  // ——— assertions

  expectCalls(step: StepLike, expected: number): void {
    if (!Number.isInteger(expected) || expected < 0) throw new InvalidInputError("expectCalls", "needs the number of calls, from 0");
    expectCalls(stepNameOf("expectCalls", step), this.calls(step), expected);
  }

  expectEffect(key: string, expected: ExpectedEffect): void {
    if (expected?.applied === undefined && expected?.calls === undefined)
      throw new InvalidInputError("expectEffect", "needs { applied }, { calls }, or both");
    expectEffect(this.effects, key, expected);
  }

  /** Replays the run from its start: its code must ask for what its journal says. */
  async expectReplay(run: RunLike): Promise<void> {
    const recorded = await recordOf(this.store, idOf(run));
    if (recorded === undefined) throw new RunNotFoundError(idOf(run));
    await expectReplay({ ...recorded, store: this.store });
  }

  // ——— the end

  /** The worker is lost, the store of this runner is gone, and code that names no store has its own again. */
  close(): Promise<void> {
    this.#closing ??= this.#parts.end().then(() => this.#mustReplay());
    return this.#closing;
  }

  /** Fails the test, once for each run: its code would not find its way through its journal. */
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
