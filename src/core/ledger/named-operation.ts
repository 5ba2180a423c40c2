import { InvalidInputError } from "../errors/errors.js";
import type { Store } from "../store/store.js";
import { canonicalJson, sha256 } from "../values/canonical.js";
import { key as keys } from "./key.js";
import { type OnceResult, once } from "./once.js";
import type { OnceOptions } from "./options.js";
import type { Attempt, Handler } from "./run-attempt.js";

/** Options of {@link operation}. Besides these, the options of `once` that are the same for every caller. */
export interface OperationOptions<Input, Value>
  extends Omit<OnceOptions<Value, Input>, "key" | "scope" | "input" | "fingerprint" | "onRunning" | "waitMs" | "signal"> {
  /** Identifies the operation in every process and front end. Must be unique among operations. */
  readonly name: string;
  /** Tenant or caller of an input: keys in different scopes are independent. Default: one scope for all. */
  readonly scope?: (input: Input) => string;
  /** Key of an input: from the business (an order's id), or from the client's request. */
  readonly key: (input: Input) => string;
  /** The part of the input that a retry must repeat. Default: the whole input. */
  readonly fingerprint?: (input: Input) => unknown;
  /** Executes the operation. */
  readonly run: (input: Input, attempt: Attempt) => Promise<Value> | Value;
}

/** How one caller of an operation waits. */
export type AskOptions = Pick<OnceOptions, "onRunning" | "waitMs" | "signal">;

/** A {@link NamedOperation} applied to one input: the options and the handler to pass to `once`. */
export interface AskedOperation<Input, Value> {
  readonly options: OnceOptions<Value, Input>;
  readonly handler: Handler<Value>;
}

/** An operation that several front ends can share: a route and a consumer that receive the same key execute it once between them. */
export interface NamedOperation<Input, Value> {
  readonly name: string;
  /** Executes the operation for `input`, or returns the outcome that its key already has. Throws what `once` throws. */
  readonly once: (store: Store, input: Input, options?: AskOptions) => Promise<OnceResult<Value>>;
  /** Returns what to pass to `once`: for front ends that call `once` themselves. */
  readonly ask: (input: Input) => AskedOperation<Input, Value>;
  /** The ledger scope of this operation's records for a tenant or caller, as `scope` returned it. */
  readonly scopeOf: (scope: string) => string;
}

/**
 * Defines an operation with one key space for all callers: HTTP routes, inbox consumers and direct calls.
 *
 * @throws InvalidInputError if the name is empty, or `key` or `run` is not a function.
 * @example
 * const charge = operation({ name: "charge", key: (order) => order.id, run: (order, { effectKey }) => provider.charge(order, effectKey) });
 * await charge.once(store, order);
 */
export function operation<Input, Value>(options: OperationOptions<Input, Value>): NamedOperation<Input, Value> {
  const { name, scope, key, fingerprint, run, ...rest } = options;
  if (typeof name !== "string" || name === "") throw new InvalidInputError("name", "must be a non-empty string");
  for (const [field, value] of Object.entries({ key, run }))
    if (typeof value !== "function") throw new InvalidInputError(field, "must be a function of the input");
  // The encoded name has no space, so two different (name, scope) pairs never make the same text.
  const scopeOf = (of: string) => `operation ${encodeURIComponent(name)} ${of}`;
  const ask = (input: Input): AskedOperation<Input, Value> => ({
    options: {
      ...rest,
      key: keys.of(key(input)),
      scope: scopeOf(scope?.(input) ?? ""),
      ...(fingerprint === undefined ? { input } : { fingerprint: sha256(canonicalJson(fingerprint(input), "fingerprint")) }),
    },
    handler: (attempt) => run(input, attempt),
  });
  return {
    name,
    scopeOf,
    ask,
    once: async (store, input, how = {}) => {
      const { options: asked, handler } = ask(input);
      return await once(store, { ...asked, ...how }, handler);
    },
  };
}
