import { effectKeyOf } from "../core/ledger/key.js";

/** State shared by all steps of one run. */
export interface Shared {
  readonly input: unknown;
  readonly values: Map<string, unknown>;
  readonly scope: string;
  readonly key: string | undefined;
  readonly runAttempt: number;
}

/** The input of a run and the values that its steps pass on. Event callbacks get it as `context`. */
export class RunContext<Input = unknown> {
  readonly #shared: Shared;

  constructor(shared: Shared) {
    this.#shared = shared;
  }

  get input(): Input {
    return this.#shared.input as Input;
  }

  /** The key of the run; undefined if the run has none. */
  get key(): string | undefined {
    return this.#shared.key;
  }

  /** Number of this attempt of the run, from 1. Greater than 1 after a crash. */
  get runAttempt(): number {
    return this.#shared.runAttempt;
  }

  /** Returns a value that a step has set, or undefined. */
  get<Value = unknown>(name: string): Value | undefined {
    return this.#shared.values.get(name) as Value | undefined;
  }

  /** Sets a value for later steps. In a keyed run the value is saved with the step's result, so it must be storable. */
  set(name: string, value: unknown): void {
    this.#shared.values.set(name, value);
  }

  has(name: string): boolean {
    return this.#shared.values.has(name);
  }
}

/** The argument of a step's body and of its compensation. */
export class FlowContext<Input = unknown> extends RunContext<Input> {
  /** Number of this attempt of the step, from 1. */
  readonly attempt: number;
  readonly #scope: string;
  readonly #effect: string;
  readonly #signal: () => AbortSignal;

  constructor(shared: Shared, effect: string, attempt: number, signal: () => AbortSignal) {
    super(shared);
    this.#scope = shared.scope;
    this.#effect = effect;
    this.#signal = signal;
    this.attempt = attempt;
  }

  /**
   * Idempotency key to send to the provider. It is the same in every attempt of this step, also after a crash, and
   * different in every other step and in the compensation of this step. Undefined in a run without a key.
   */
  get stepKey(): string | undefined {
    const { key } = this;
    // Neither a key nor a step name contains a line break, so two different pairs never give the same text.
    return key === undefined ? undefined : effectKeyOf(this.#scope, `${key}\n${this.#effect}`);
  }

  /** Aborts when the run is cancelled, when this attempt exceeds `timeoutMs`, and when another process takes over the run. */
  get signal(): AbortSignal {
    return this.#signal();
  }
}
