import { InvalidInputError } from "../errors/errors.js";
import type { Store } from "../store/store.js";
import { canonicalJson, sha256 } from "../values/canonical.js";
import { key as keys } from "./key.js";
import { type OnceResult, once } from "./once.js";
import type { OnceOptions } from "./options.js";
import type { Attempt, Handler } from "./run-attempt.js";

export interface OperationOptions<Input, Value>
  extends Omit<OnceOptions<Value, Input>, "key" | "scope" | "input" | "fingerprint" | "onRunning" | "waitMs" | "signal"> {
  /** The same wherever the operation can be asked for; another one for every other operation. */
  readonly name: string;
  /** Tenant or caller. Default: all are one. */
  readonly scope?: (input: Input) => string;
  /** Names this one: from the business (an order's id), or as the client gave it. */
  readonly key: (input: Input) => string;
  /** What must be the same at a retry. Default: the whole input. */
  readonly fingerprint?: (input: Input) => unknown;
  readonly run: (input: Input, attempt: Attempt) => Promise<Value> | Value;
}

/** How one caller of an operation waits. */
export type AskOptions = Pick<OnceOptions, "onRunning" | "waitMs" | "signal">;

/** What asking for an operation comes to: the record that it is kept under, and what runs. */
export interface AskedOperation<Input, Value> {
  readonly options: OnceOptions<Value, Input>;
  readonly handler: Handler<Value>;
}

/** One operation, wherever it is asked for: a route and a consumer that share it execute it once between them. */
export interface NamedOperation<Input, Value> {
  readonly name: string;
  readonly once: (store: Store, input: Input, options?: AskOptions) => Promise<OnceResult<Value>>;
  /** For front ends that ask in their own way. */
  readonly ask: (input: Input) => AskedOperation<Input, Value>;
  /** The scope that its records have for a tenant or caller. */
  readonly scopeOf: (scope: string) => string;
}

/**
 * An operation that has one key space, whoever asks for it.
 *
 * @example
 * const charge = operation({ name: "charge", key: (order) => order.id, run: (order, { effectKey }) => provider.charge(order, effectKey) });
 * await charge.once(store, order);
 */
export function operation<Input, Value>(options: OperationOptions<Input, Value>): NamedOperation<Input, Value> {
  const { name, scope, key, fingerprint, run, ...rest } = options;
  if (typeof name !== "string" || name === "") throw new InvalidInputError("name", "must be a non-empty string");
  for (const [field, value] of Object.entries({ key, run }))
    if (typeof value !== "function") throw new InvalidInputError(field, "must be a function of the input");
  // The name has no spaces then: no two of (name, scope) make the same text.
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
