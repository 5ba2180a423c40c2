/**
 * All errors of this package extend OnceflowError and carry a stable `code`, a `retryable` flag and the facts a caller
 * needs to act. A class exists only where a caller would act differently.
 *
 * `instanceof` works across two loaded copies of this package (for example a bundle and a dependency): each
 * error stores the names of its classes under a registered symbol, and `instanceof` compares those names.
 */
const lineage = Symbol.for("onceflow.error.lineage");

/** The facts that an {@link OnceflowError} carries besides its message. */
export interface ErrorFacts {
  /** Stable, such as `"MISMATCH"`. Messages may change between versions; codes do not. */
  readonly code: string;
  /** True: the same call may succeed later. Default false. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
  /** Scope of the key that the error is about. */
  readonly scope?: string;
  /** Key that the error is about. */
  readonly key?: string;
  /** Number of the attempt that the error is about. */
  readonly attempt?: number;
  /** When to try again, if that is known. */
  readonly retryAfterMs?: number;
}

type ErrorClass = abstract new (...args: never[]) => unknown;

/**
 * Base class of every error that this package throws. Decide by class or `code`, not by the message. `instanceof` also works if two
 * copies of the package are loaded.
 *
 * @example
 * try {
 *   await once(store, options, handler);
 * } catch (error) {
 *   if (error instanceof OnceflowError && error.retryable) scheduleRetry(error.retryAfterMs);
 *   else throw error;
 * }
 */
export class OnceflowError extends Error {
  static readonly kind: string = "OnceflowError";

  static override [Symbol.hasInstance](value: unknown): boolean {
    // A subclass defined by the user has no own `kind`: use the ordinary prototype check.
    if (!Object.hasOwn(this, "kind")) return Function.prototype[Symbol.hasInstance].call(this, value);
    if (typeof value !== "object" || value === null) return false;
    const names: unknown = (value as Record<symbol, unknown>)[lineage];
    return Array.isArray(names) && names.includes(this.kind);
  }

  /** The same as `error instanceof Class`, as a type guard. */
  static is<Class extends ErrorClass>(this: Class, error: unknown): error is InstanceType<Class> {
    return error instanceof this;
  }

  /** Stable name of what went wrong, such as `"MISMATCH"`. */
  readonly code: string;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;
  readonly scope: string | undefined;
  readonly key: string | undefined;
  readonly attempt: number | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(message?: string, facts: ErrorFacts = { code: "ERROR" }) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = facts.code ?? "ERROR";
    this.retryable = facts.retryable ?? false;
    this.scope = facts.scope;
    this.key = facts.key;
    this.attempt = facts.attempt;
    this.retryAfterMs = facts.retryAfterMs;
    const names: string[] = [];
    for (let c = new.target; typeof c?.kind === "string"; c = Object.getPrototypeOf(c)) {
      if (Object.hasOwn(c, "kind")) names.push(c.kind);
    }
    Object.defineProperty(this, lineage, { value: names, configurable: true });
    Object.defineProperty(this, "name", { value: names[0], configurable: true, writable: true });
  }
}

/** The names of the OnceflowError classes that an error is an instance of, most specific first. Empty for any other error. */
export function lineageOf(error: object): readonly string[] {
  const names: unknown = (error as Record<symbol, unknown>)[lineage];
  return Array.isArray(names) ? (names as string[]) : [];
}

const classes = new Map<string, ErrorClass>();

/** Registers error classes, so that a stored error is revived as an instance of its class. */
export function registerErrors(...added: readonly (ErrorClass & { readonly kind: string })[]): void {
  for (const each of added) classes.set(each.kind, each);
}

/**
 * Revives a stored OnceflowError without calling its class's constructor, which would need the facts that its message was made
 * from. If its class is not loaded here, the error keeps the names: `instanceof` works once the class is loaded.
 */
export function reviveOnceflowError(names: readonly string[], message: string, code: string): OnceflowError {
  const of = names.map((name) => classes.get(name)).find((known) => known !== undefined) ?? OnceflowError;
  const error = Reflect.construct(OnceflowError, [message, { code }], of) as OnceflowError;
  Object.defineProperty(error, lineage, { value: names, configurable: true });
  return error;
}

/** All optional: constructing an error by hand, in a test or an application, must not itself throw. */
interface KeyFacts {
  readonly scope?: string;
  readonly key?: string;
  readonly attempt?: number;
}

function named({ scope = "", key }: KeyFacts): string {
  if (key === undefined) return "the key";
  return scope === "" ? `key "${key}"` : `key "${key}" in scope "${scope}"`;
}

const attemptOf = (facts: KeyFacts) => `${facts.attempt === undefined ? "an attempt" : `attempt ${facts.attempt}`} of ${named(facts)}`;

/** An argument or option is not valid. Nothing was written. `field` names it. Not retryable. */
export class InvalidInputError extends OnceflowError {
  static override readonly kind: string = "InvalidInputError";
  readonly field: string;
  /** Each violation with its JSON pointer, if a schema was checked; else empty. */
  readonly problems: readonly { readonly pointer: string; readonly message: string }[];
  constructor(field: string, problem: string, problems: InvalidInputError["problems"] = []) {
    super(`${field}: ${problem}`, { code: "INVALID_INPUT" });
    this.field = field;
    this.problems = problems;
  }
}

/** The store cannot be used as requested: unknown URL, missing driver, newer schema, missing capability. `code` says which. */
export class ConfigurationError extends OnceflowError {
  static override readonly kind: string = "ConfigurationError";
}

/** The key was already used with a different input. The handler did not run. */
export class MismatchError extends OnceflowError {
  static override readonly kind: string = "MismatchError";
  constructor(facts: KeyFacts = {}) {
    super(`${named(facts)} was already used with a different input. Use a new key for a new operation, or retry with the original input.`, {
      code: "MISMATCH",
      ...facts,
    });
  }
}

/**
 * The key was settled, its retention is over and its horizon is not: whether this is a late retry cannot be answered from the
 * outcome any more, so the call is refused. The handler did not run.
 */
export class GoneError extends OnceflowError {
  static override readonly kind: string = "GoneError";
  constructor(facts: KeyFacts = {}) {
    super(`${named(facts)} was settled, but its outcome has expired, so this late retry is refused. Check the effect itself.`, {
      code: "GONE",
      ...facts,
    });
  }
}

/** Another attempt of this operation is running. Retryable after `retryAfterMs`. */
export class RunningError extends OnceflowError {
  static override readonly kind: string = "RunningError";
  constructor(facts: KeyFacts & { readonly retryAfterMs?: number } = {}) {
    const { attempt, retryAfterMs } = facts;
    const number = attempt === undefined ? "" : ` as attempt ${attempt}`;
    super(`${named(facts)} is running${number}; try again ${retryAfterMs === undefined ? "later" : `in ${retryAfterMs} ms`}.`, {
      code: "RUNNING",
      retryable: true,
      ...facts,
    });
  }
}

/** The operation completed, but its result could not be stored. It does not run again. */
export class ResultNotKeptError extends OnceflowError {
  static override readonly kind: string = "ResultNotKeptError";
  constructor(facts: KeyFacts = {}) {
    super(`${named(facts)} completed, but its result could not be stored (too large, or not serializable); it does not run again.`, {
      code: "RESULT_NOT_KEPT",
      ...facts,
    });
  }
}

/** This attempt lost its lease, and its outcome was not recorded. Call again with the same key to get the outcome. */
export class LeaseLostError extends OnceflowError {
  static override readonly kind: string = "LeaseLostError";
  constructor(facts: KeyFacts = {}, why = "it was not renewed in time") {
    super(`${attemptOf(facts)} lost its lease: ${why}. Call again with the same key to get the outcome.`, {
      code: "LEASE_LOST",
      retryable: true,
      ...facts,
    });
  }
}

/** The operation ended, but its outcome was not saved before the caller stopped waiting. Saving continues in the background. */
export class NotSavedError extends OnceflowError {
  static override readonly kind: string = "NotSavedError";
  constructor(facts: KeyFacts = {}, cause?: unknown) {
    const why = cause instanceof OnceflowError ? ` Last error of the store: ${cause.message}` : "";
    super(`${attemptOf(facts)} ended, but its outcome is not saved yet. Call again with the same key later.${why}`, {
      code: "NOT_SAVED",
      retryable: true,
      cause,
      ...facts,
    });
  }
}

/** `resolve` was called for an attempt whose outcome is not (or no longer) unknown. Nothing was changed. */
export class NotUnknownError extends OnceflowError {
  static override readonly kind: string = "NotUnknownError";
  constructor(facts: KeyFacts = {}, found = "its outcome is not unknown") {
    super(`${attemptOf(facts)} cannot be resolved: ${found}. Only an unknown outcome can be resolved by hand.`, {
      code: "NOT_UNKNOWN",
      ...facts,
    });
  }
}

interface AnswerFacts {
  /** True: the server answered this write with an error. False: there was no connection, or it broke. Default false. */
  readonly answered?: boolean;
}

/** The store could not be reached, or the server could not do this write now. Nothing was written. Retryable. */
export class UnreachableError extends OnceflowError {
  static override readonly kind: string = "UnreachableError";
  /** The server answered this write with an error: other writes of the same flush may succeed on their own. */
  readonly answered: boolean;
  constructor(message: string, cause?: unknown, { answered = false }: AnswerFacts = {}) {
    super(message, { code: "STORE_UNREACHABLE", retryable: true, cause });
    this.answered = answered;
  }
}

/**
 * The request was sent, but its reply was lost: it may or may not have been applied. Sending the same request again is safe and
 * finds out.
 */
export class NotKnownError extends OnceflowError {
  static override readonly kind: string = "NotKnownError";
  /** The server answered this write with an error: other writes of the same flush may succeed on their own. */
  readonly answered: boolean;
  constructor(message: string, cause?: unknown, { answered = false }: AnswerFacts = {}) {
    super(message, { code: "NOT_KNOWN", retryable: true, cause });
    this.answered = answered;
  }
}

/** The store rejected the data of this write (a value, a constraint). Nothing of it was written, and a retry will not help. */
export class StoreRefusedError extends OnceflowError {
  static override readonly kind: string = "StoreRefusedError";
  constructor(message: string, cause?: unknown) {
    super(message, { code: "STORE_REFUSED", cause });
  }
}

/**
 * Throw this in a handler to state that the effect certainly did not happen. The key becomes free for a retry, whatever the effect class,
 * so also for `atMostOnce` and `reconcile`.
 *
 * @example
 * throw new NotApplied("card declined before authorisation");
 */
export class NotApplied extends OnceflowError {
  static override readonly kind: string = "NotApplied";
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(message, { code: "NOT_APPLIED", retryable: true, ...options });
  }
}

/** A stored value cannot be decrypted: its key is not in `encryption.keys`, or the value was changed or moved in the database. */
export class EncryptionError extends OnceflowError {
  static override readonly kind: string = "EncryptionError";
  /** Id of the key that the value was encrypted with; undefined if the value is not encrypted. */
  readonly keyId: string | undefined;
  constructor(message: string, keyId?: string) {
    super(message, { code: "CANNOT_DECRYPT" });
    this.keyId = keyId;
  }
}

registerErrors(
  OnceflowError,
  InvalidInputError,
  ConfigurationError,
  MismatchError,
  GoneError,
  RunningError,
  ResultNotKeptError,
  LeaseLostError,
  NotSavedError,
  NotUnknownError,
  UnreachableError,
  NotKnownError,
  StoreRefusedError,
  NotApplied,
  EncryptionError,
);

const brokenInvariant = "onceflow invariant broken: ";

/** Throws if an invariant of this package is broken, which is a bug. The error is never caught or retried. */
export function assert(condition: boolean, invariant: string): asserts condition {
  if (!condition) throw new Error(`${brokenInvariant}${invariant}`);
}

/** Whether an error is a bug in this package or in the driver, and not an answer of the server or a lost connection. Never retried. */
export function isBug(error: unknown): boolean {
  if (!(error instanceof Error)) return true;
  // fetch() reports a lost connection as a TypeError with the system's error as its cause.
  const isLanguageError = /^(Type|Range|Reference|Syntax|Eval|URI)Error$/.test(error.constructor.name) && error.cause === undefined;
  return isLanguageError || error.message.startsWith(brokenInvariant);
}
