import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { checkName } from "../core/ledger/key.js";
import { stateAt } from "../core/ledger/record.js";
import type { Store } from "../core/store/store.js";
import { type StandardSchema, validate } from "../core/values/schema.js";
import { systemClock } from "../core/work/clock.js";
import { RunContext } from "./context.js";
import { Definition, type ParallelOptions, type ParallelStep, type StepFunction, type StepOptions } from "./definition.js";
import { FlowValidationError, IdempotencyRecordNotFoundError } from "./errors.js";
import { type FlowEvent, type FlowHooks, type FlowPlugin, tellOf } from "./event.js";
import { FlowExecution } from "./execution.js";
import { FlowRun } from "./flow-run.js";
import { runOnForeign } from "./foreign-store.js";
import { type IdempotencyStore, ledgerOf } from "./idempotency-store.js";
import { type Admission, runKeyed } from "./keyed-run.js";
import { createConsoleLoggerPlugin } from "./logger.js";
import { decodeProgress } from "./progress.js";
import type { FlowResult } from "./result.js";
import { type CheckedRun, checkRun, type RunOptions, runOptions } from "./run-options.js";

export interface FlowConfig<Input = unknown> {
  /** Where keyed runs are recorded. Default: the process's own store, see `configure`. */
  readonly idempotency?: IdempotencyStore | Store;
  /** The same as `idempotency`. */
  readonly store?: Store;
  /** Tenant or namespace of its keys. Default "". */
  readonly scope?: string;
  readonly hooks?: FlowHooks;
  /** What the input has to be. Any library that speaks Standard Schema v1. */
  readonly schema?: StandardSchema<Input>;
  /** True, or how: lines on the console. */
  readonly logging?: boolean | { readonly enabled?: boolean; readonly prefix?: string };
  readonly plugins?: readonly FlowPlugin[];
}

const flowOptions: OptionNames<FlowConfig> = {
  ...{ idempotency: true, store: true, scope: true, hooks: true, schema: true, logging: true, plugins: true },
};

export interface RecoverOptions extends Omit<RunOptions, "key" | "signal"> {
  /** How many at most. Default 100. */
  readonly limit?: number;
}

/** Given by the entry: the process's own store, opened when it is needed first. */
type Ambient = () => Promise<Store>;

/**
 * A flow of steps in one process, with retries, timeouts and compensation. Under a key it runs once: whoever asks again
 * gets its result; after a crash it goes on behind its last completed step.
 */
export class Flow<Input = unknown> {
  readonly name: string;
  readonly #config: FlowConfig<Input>;
  readonly #definition: Definition;
  readonly #listeners: readonly (FlowHooks & Partial<Pick<FlowPlugin, "onEvent" | "around">>)[];
  readonly #ambient: Ambient;

  constructor(name: string, config: FlowConfig<Input> = {}, ambient: Ambient = noStore) {
    if (typeof name !== "string" || name === "" || name.length > 256)
      throw new InvalidInputError("name", "must be a string of 1 to 256 characters");
    checkName("scope", config.scope ?? "");
    this.name = name;
    knownOptions(`flow "${name}"`, config, flowOptions);
    this.#config = config;
    this.#definition = new Definition(name);
    this.#listeners = [...(config.hooks ? [config.hooks] : []), ...loggersOf(config.logging), ...(config.plugins ?? [])];
    this.#ambient = ambient;
  }

  /** Adds a step. They run one after the other. */
  step(name: string, fn: StepFunction<Input>, options?: StepOptions<Input>): this {
    this.#definition.step(name, fn as StepFunction<never>, options as StepOptions<never>);
    return this;
  }

  /** Adds steps that run side by side. The next stage begins when all of them have ended. */
  parallel(name: string, steps: readonly ParallelStep<Input>[], options: ParallelOptions = {}): this {
    this.#definition.parallel(name, steps as readonly ParallelStep<never>[], options);
    return this;
  }

  /**
   * Runs it. A failure is part of the result; it rejects only when it could not be run at all.
   *
   * @example
   * const result = await payment.run(order, { key: `payment:${order.id}`, ttlMs: 86_400_000 });
   */
  run(input: Input, options: RunOptions = {}): Promise<FlowResult> {
    return this.#run(input, options, undefined);
  }

  /** Runs it, and tells what happens: `for await (const event of flow.start(input)) …`. */
  start(input: Input, options: RunOptions = {}): FlowRun {
    return new FlowRun((listener) => this.#run(input, options, listener));
  }

  /** Goes on with what a crash has left behind, with the input it had; or gives the result that is there. */
  async resume(key: string, options: Omit<RunOptions, "key"> = {}): Promise<FlowResult> {
    const store = await this.#ledger();
    if (store === undefined) throw new InvalidInputError("idempotency", "is a store of your own, which keeps no progress to resume from");
    checkName("key", key);
    const reading = await store.read({ scope: this.#scope, key });
    if (reading === undefined) throw new IdempotencyRecordNotFoundError(key);
    const { progress, outcome } = reading.record;
    const from = progress === null ? undefined : decodeProgress(this.name, progress);
    if (from === undefined && outcome === null)
      throw new IdempotencyRecordNotFoundError(key, `there is nothing of flow "${this.name}" to resume; run it with its input`);
    // What is over is asked for without an input: whatever was done under the key is the answer.
    return await this.#run(from?.input as Input, { ...options, key, ...(from ? {} : { onMismatch: "replay" as const }) }, undefined, true);
  }

  /** Resumes every run of this flow that a crash has left behind. Call it when a process starts, or from time to time. */
  async recover({ limit = 100, ...options }: RecoverOptions = {}): Promise<FlowResult[]> {
    if (!Number.isInteger(limit) || limit < 1 || limit > 10_000)
      throw new InvalidInputError("limit", "must be a whole number from 1 to 10000");
    const store = await this.#ledger();
    if (store === undefined) throw new InvalidInputError("idempotency", "is a store of your own, which keeps no progress to resume from");
    const keys = await lapsedRuns(store, this.#scope, this.name, limit);
    return await Promise.all(keys.map((key) => this.resume(key, options)));
  }

  async #run(given: Input, options: RunOptions, listener: ((event: FlowEvent) => void) | undefined, checked = false): Promise<FlowResult> {
    const input = checked || this.#config.schema === undefined ? given : await this.#validated(given);
    if (input instanceof Invalid) return { name: this.name, status: "failed", durationMs: 0, steps: [], error: input.error };
    knownOptions(`flow "${this.name}"`, options, runOptions);
    const { key, signal } = options;
    // An unkeyed run in its place would repeat the effect at every retry.
    if (key === undefined && Object.hasOwn(options, "key"))
      throw new InvalidInputError("key", "is undefined; leave `key` out for a run that is not recorded, or give the name of the operation");
    const execute = (admission?: Admission) => this.#execute(input, key, signal, listener, admission);
    if (key === undefined) return await execute();
    const asked = await checkRun(this.name, this.#scope, input, { ...options, key });
    return await this.#runKeyed(asked, execute);
  }

  async #runKeyed(asked: CheckedRun, execute: (admission?: Admission) => Promise<FlowResult>): Promise<FlowResult> {
    asked.signal?.throwIfAborted();
    const store = await this.#ledger();
    if (store !== undefined) return await runKeyed(store, asked, execute);
    return await runOnForeign(this.#config.idempotency as IdempotencyStore, asked, execute);
  }

  async #execute(
    input: Input,
    key: string | undefined,
    signal: AbortSignal | undefined,
    listener: ((event: FlowEvent) => void) | undefined,
    admission: Admission | undefined,
  ): Promise<FlowResult> {
    const { from, runAttempt = 1, ledger } = admission ?? {};
    const shared = { input: from ? from.input : input, values: new Map(from?.values), scope: this.#scope, key, runAttempt };
    return await new FlowExecution({
      name: this.name,
      stages: this.#definition.stages,
      shared,
      from,
      tell: tellOf(listener ? [...this.#listeners, { onEvent: listener }] : this.#listeners, this.name, new RunContext(shared)),
      around: aroundAll(this.#listeners),
      signal,
      ledger,
      clock: systemClock,
      random: Math.random,
    }).run();
  }

  /** Undefined: a store of the user's own making. */
  async #ledger(): Promise<Store | undefined> {
    const { store, idempotency = store } = this.#config;
    return idempotency === undefined ? await this.#ambient() : await ledgerOf(idempotency);
  }

  async #validated(given: Input): Promise<Input | Invalid> {
    const { value, issues } = await validate(this.#config.schema as StandardSchema<Input>, given);
    return issues === undefined ? (value as Input) : new Invalid(new FlowValidationError(this.name, issues));
  }

  get #scope(): string {
    return this.#config.scope ?? "";
  }
}

class Invalid {
  readonly error: FlowValidationError;
  constructor(error: FlowValidationError) {
    this.error = error;
  }
}

async function noStore(): Promise<never> {
  throw new InvalidInputError("idempotency", "is missing, and a key needs a store; make flows with create(name, { idempotency })");
}

function loggersOf(logging: FlowConfig["logging"]): FlowPlugin[] {
  if (logging === undefined || logging === false) return [];
  const { enabled = true, prefix } = logging === true ? {} : logging;
  return enabled ? [createConsoleLoggerPlugin(prefix === undefined ? {} : { prefix })] : [];
}

function aroundAll(listeners: readonly Pick<FlowPlugin, "around">[]): FlowPlugin["around"] {
  const arounds = listeners.flatMap(({ around }) => around ?? []);
  if (arounds.length === 0) return undefined;
  return (step, body) => arounds.reduceRight<typeof body>((inner, around) => () => around(step, inner), body)();
}

const pageMax = 100;

/** Keys whose owner fell silent before this flow was over. */
async function lapsedRuns(store: Store, scope: string, flow: string, limit: number): Promise<string[]> {
  const keys: string[] = [];
  let after: { scope: string; key: string } | undefined;
  for (;;) {
    const page = await store.list({ scope, state: "running", limit: pageMax, ...(after ? { after } : {}) });
    for (const { record, now } of page) {
      const lapsed = now >= record.leaseUntil && stateAt(record, now) === "running";
      if (lapsed && record.progress !== null && decodeProgress(flow, record.progress)) keys.push(record.key);
      if (keys.length === limit) return keys;
    }
    const last = page.at(-1)?.record;
    if (last === undefined || page.length < pageMax) return keys;
    after = { scope: last.scope, key: last.key };
  }
}
