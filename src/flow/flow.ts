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
import { createEmitter, type FlowEvent, type FlowHooks, type FlowPlugin } from "./event.js";
import { FlowExecution } from "./execution.js";
import { FlowRun } from "./flow-run.js";
import { runOnCustomStore } from "./foreign-store.js";
import { type IdempotencyStore, ledgerOf } from "./idempotency-store.js";
import { type Admission, runKeyed } from "./keyed-run.js";
import { createConsoleLoggerPlugin } from "./logger.js";
import { decodeProgress } from "./progress.js";
import type { FlowResult } from "./result.js";
import { type CheckedRun, checkRun, type RunOptions, runOptions } from "./run-options.js";

/** Configuration of a flow. */
export interface FlowConfig<Input = unknown> {
  /** Where keyed runs are recorded. Default: the default store of the process, see `configure`. */
  readonly idempotency?: IdempotencyStore | Store;
  /** The same as `idempotency`. */
  readonly store?: Store;
  /** Tenant or namespace of the keys. Default "". */
  readonly scope?: string;
  readonly hooks?: FlowHooks;
  /** Validates the input. A schema of any library that implements Standard Schema v1. */
  readonly schema?: StandardSchema<Input>;
  /** True, or an object of options: log events to the console. */
  readonly logging?: boolean | { readonly enabled?: boolean; readonly prefix?: string };
  readonly plugins?: readonly FlowPlugin[];
}

const flowOptions: OptionNames<FlowConfig> = {
  ...{ idempotency: true, store: true, scope: true, hooks: true, schema: true, logging: true, plugins: true },
};

/** Options of {@link Flow.recover}. */
export interface RecoverOptions extends Omit<RunOptions, "key" | "signal"> {
  /** Maximum number of runs to resume. Default 100. */
  readonly limit?: number;
}

/** Returns the default store of the process and opens it on first use. */
type Ambient = () => Promise<Store>;

/**
 * A list of steps that run in one process, with retries, timeouts and compensation. With a key, a later call gets the
 * stored result instead of a second run, and a run that crashed continues after its last completed step. Made by `create`.
 */
export class Flow<Input = unknown> {
  readonly name: string;
  readonly #config: FlowConfig<Input>;
  readonly #definition: Definition;
  readonly #listeners: readonly (FlowHooks & Partial<Pick<FlowPlugin, "onEvent" | "around">>)[];
  readonly #ambient: Ambient;

  constructor(name: string, config: FlowConfig<Input> = {}, ambient: Ambient = missingStore) {
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

  /**
   * Adds a step. Steps run in sequence, in the order in which they were added. Throws StepAlreadyExistsError if the name is
   * taken, and InvalidInputError if an option is invalid.
   */
  step(name: string, fn: StepFunction<Input>, options?: StepOptions<Input>): this {
    this.#definition.step(name, fn as StepFunction<never>, options as StepOptions<never>);
    return this;
  }

  /**
   * Adds a stage of steps that run in parallel. The next stage starts when all of them have ended. Throws
   * StepAlreadyExistsError if a name is taken, and InvalidInputError if an option is invalid.
   */
  parallel(name: string, steps: readonly ParallelStep<Input>[], options: ParallelOptions = {}): this {
    this.#definition.parallel(name, steps as readonly ParallelStep<never>[], options);
    return this;
  }

  /**
   * Runs the flow. A failed step does not reject the promise: look at `status` and `error` of the result. The promise rejects
   * if the flow could not run or its outcome could not be saved: InvalidInputError, MismatchError (the key was used with
   * another input), FlowAlreadyRunningError, LeaseLostError, NotSavedError.
   *
   * @example
   * const result = await payment.run(order, { key: `payment:${order.id}`, ttlMs: 86_400_000 });
   */
  run(input: Input, options: RunOptions = {}): Promise<FlowResult> {
    return this.#run(input, options, undefined);
  }

  /** Runs the flow and returns a handle that iterates its events: `for await (const event of flow.start(input)) …`. */
  start(input: Input, options: RunOptions = {}): FlowRun {
    return new FlowRun((listener) => this.#run(input, options, listener));
  }

  /**
   * Continues a run that a crash interrupted, with its original input, or returns the stored result if the run has ended.
   * Throws IdempotencyRecordNotFoundError if the key has neither, and InvalidInputError if the store is a custom
   * IdempotencyStore, which does not keep progress.
   */
  async resume(key: string, options: Omit<RunOptions, "key"> = {}): Promise<FlowResult> {
    const store = await this.#ledger();
    if (store === undefined) throw new InvalidInputError("idempotency", customStoreKeepsNoProgress);
    checkName("key", key);
    const reading = await store.read({ scope: this.#scope, key });
    if (reading === undefined) throw new IdempotencyRecordNotFoundError(key);
    const { progress, outcome } = reading.record;
    const from = progress === null ? undefined : decodeProgress(this.name, progress);
    if (from === undefined && outcome === null)
      throw new IdempotencyRecordNotFoundError(key, `flow "${this.name}" has no run to resume here; call run() with the input`);
    // Progress, and with it the input, is deleted when a run ends. The stored result is then returned without comparing inputs.
    return await this.#run(from?.input as Input, { ...options, key, ...(from ? {} : { onMismatch: "replay" as const }) }, undefined, true);
  }

  /**
   * Resumes the runs of this flow that a crash interrupted: those whose lease has expired. Call it when a process starts, and
   * periodically. Throws InvalidInputError if the store is a custom IdempotencyStore, which does not keep progress.
   */
  async recover({ limit = 100, ...options }: RecoverOptions = {}): Promise<FlowResult[]> {
    if (!Number.isInteger(limit) || limit < 1 || limit > 10_000)
      throw new InvalidInputError("limit", "must be a whole number from 1 to 10000");
    const store = await this.#ledger();
    if (store === undefined) throw new InvalidInputError("idempotency", customStoreKeepsNoProgress);
    const keys = await interruptedRuns(store, this.#scope, this.name, limit);
    return await Promise.all(keys.map((key) => this.resume(key, options)));
  }

  async #run(given: Input, options: RunOptions, listener: ((event: FlowEvent) => void) | undefined, checked = false): Promise<FlowResult> {
    const input = checked || this.#config.schema === undefined ? given : await this.#validated(given);
    if (input instanceof Invalid) return { name: this.name, status: "failed", durationMs: 0, steps: [], error: input.error };
    knownOptions(`flow "${this.name}"`, options, runOptions);
    const { key, signal } = options;
    // `key: undefined` is probably a bug of the caller. Running without a key would repeat the effect at every retry.
    if (key === undefined && Object.hasOwn(options, "key"))
      throw new InvalidInputError("key", "is undefined; pass the name of the operation, or omit `key` for a run that is not recorded");
    const execute = (admission?: Admission) => this.#execute(input, key, signal, listener, admission);
    if (key === undefined) return await execute();
    const request = await checkRun(this.name, this.#scope, input, { ...options, key });
    return await this.#runKeyed(request, execute);
  }

  async #runKeyed(request: CheckedRun, execute: (admission?: Admission) => Promise<FlowResult>): Promise<FlowResult> {
    request.signal?.throwIfAborted();
    const store = await this.#ledger();
    if (store !== undefined) return await runKeyed(store, request, execute);
    return await runOnCustomStore(this.#config.idempotency as IdempotencyStore, request, execute);
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
      emit: createEmitter(listener ? [...this.#listeners, { onEvent: listener }] : this.#listeners, this.name, new RunContext(shared)),
      around: aroundAll(this.#listeners),
      signal,
      ledger,
      clock: systemClock,
      random: Math.random,
    }).run();
  }

  /** Undefined if the user passed a custom IdempotencyStore. */
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

const customStoreKeepsNoProgress = "is a custom store, which keeps no progress to resume from";

async function missingStore(): Promise<never> {
  throw new InvalidInputError(
    "idempotency",
    "is missing, and a run with a key needs a store; create the flow with create(name, { idempotency })",
  );
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

/** Keys of unfinished runs of this flow whose lease has expired. */
async function interruptedRuns(store: Store, scope: string, flow: string, limit: number): Promise<string[]> {
  const keys: string[] = [];
  let after: { scope: string; key: string } | undefined;
  for (;;) {
    const page = await store.list({ scope, state: "running", limit: pageMax, ...(after ? { after } : {}) });
    for (const { record, now } of page) {
      const hasExpired = now >= record.leaseUntil && stateAt(record, now) === "running";
      if (hasExpired && record.progress !== null && decodeProgress(flow, record.progress)) keys.push(record.key);
      if (keys.length === limit) return keys;
    }
    const last = page.at(-1)?.record;
    if (last === undefined || page.length < pageMax) return keys;
    after = { scope: last.scope, key: last.key };
  }
}
