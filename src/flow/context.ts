import { effectKeyOf } from "../core/ledger/key.js";

/** What the steps of one run share. */
export interface Shared {
  readonly input: unknown;
  readonly values: Map<string, unknown>;
  readonly scope: string;
  readonly key: string | undefined;
  readonly runAttempt: number;
}

/** What the steps of one run share: its input and the values that steps hand on. Hooks get it as `context`. */
export class RunContext<Input = unknown> {
  readonly #shared: Shared;

  constructor(shared: Shared) {
    this.#shared = shared;
  }

  get input(): Input {
    return this.#shared.input as Input;
  }

  /** Of the run; undefined in a run without one. */
  get key(): string | undefined {
    return this.#shared.key;
  }

  /** How often a run was begun under this key, this one included: more than 1 after a crash. */
  get runAttempt(): number {
    return this.#shared.runAttempt;
  }

  get<Value = unknown>(name: string): Value | undefined {
    return this.#shared.values.get(name) as Value | undefined;
  }

  set(name: string, value: unknown): void {
    this.#shared.values.set(name, value);
  }

  has(name: string): boolean {
    return this.#shared.values.has(name);
  }
}

/** What a step, or what undoes it, is given. */
export class FlowContext<Input = unknown> extends RunContext<Input> {
  /** Which attempt of this step it is, from 1. */
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
   * Hand this to the provider as its idempotency key: the same at every attempt of this step and after every crash, another
   * one in every other step and in what undoes it. Undefined in a run without a key.
   */
  get stepKey(): string | undefined {
    const { key } = this;
    // Neither has a line break in it, so that no two pairs make one text.
    return key === undefined ? undefined : effectKeyOf(this.#scope, `${key}\n${this.#effect}`);
  }

  /** Aborts when the run is cancelled, when this attempt has taken too long, and when another process has taken the run over. */
  get signal(): AbortSignal {
    return this.#signal();
  }
}
