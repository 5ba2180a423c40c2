/**
 * Every error of ours has one base class, a stable `code`, a `retryable` flag and the facts a caller
 * needs to act. A class exists only where a caller would act differently.
 *
 * `instanceof` works across two loaded copies of this package (a bundle and a dependency, say): each
 * error carries the names of its classes under a registered symbol, and the classes look there.
 */
const lineage = Symbol.for("onceflow.error.lineage");

export interface ErrorFacts {
  readonly code: string;
  readonly retryable?: boolean;
  readonly cause?: unknown;
  readonly scope?: string;
  readonly key?: string;
  readonly attempt?: number;
  readonly retryAfterMs?: number;
}

type ErrorClass = abstract new (...args: never[]) => unknown;

export class OnceflowError extends Error {
  static readonly kind: string = "OnceflowError";

  static override [Symbol.hasInstance](value: unknown): boolean {
    // A user's own subclass has no `kind` of its own: it gets the ordinary prototype check.
    if (!Object.hasOwn(this, "kind")) return Function.prototype[Symbol.hasInstance].call(this, value);
    if (typeof value !== "object" || value === null) return false;
    const names: unknown = (value as Record<symbol, unknown>)[lineage];
    return Array.isArray(names) && names.includes(this.kind);
  }

  /** The same as `instanceof`, for those who prefer to ask the class. */
  static is<Class extends ErrorClass>(this: Class, error: unknown): error is InstanceType<Class> {
    return error instanceof this;
  }

  readonly code: string;
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

/** The names of an error's classes of ours, its own first. */
export function lineageOf(error: object): readonly string[] {
  const names: unknown = (error as Record<symbol, unknown>)[lineage];
  return Array.isArray(names) ? (names as string[]) : [];
}

const classes = new Map<string, ErrorClass>();

/** So that what was stored of them comes back as one of them. */
export function knowErrors(...known: readonly (ErrorClass & { readonly kind: string })[]): void {
  for (const one of known) classes.set(one.kind, one);
}

/**
 * An error of ours again, without its constructor, which would want what its message was made of. Of a class that is not
 * loaded here it is one all the same, when it is loaded later.
 */
export function revivedOurs(names: readonly string[], message: string, code: string): OnceflowError {
  const of = names.map((name) => classes.get(name)).find((known) => known !== undefined) ?? OnceflowError;
  const error = Reflect.construct(OnceflowError, [message, { code }], of) as OnceflowError;
  Object.defineProperty(error, lineage, { value: names, configurable: true });
  return error;
}

/** Each may be absent: an error that a test or an application makes by hand must not throw another one in its place. */
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

/** Something handed to us is not allowed. Nothing was written. */
export class InvalidInputError extends OnceflowError {
  static override readonly kind: string = "InvalidInputError";
  readonly field: string;
  /** One by one, with JSON pointers, where a schema was asked. */
  readonly problems: readonly { readonly pointer: string; readonly message: string }[];
  constructor(field: string, problem: string, problems: InvalidInputError["problems"] = []) {
    super(`${field}: ${problem}`, { code: "INVALID_INPUT" });
    this.field = field;
    this.problems = problems;
  }
}

/** The store cannot be used as asked: unknown URL, missing driver, newer schema, missing capability. */
export class ConfigurationError extends OnceflowError {
  static override readonly kind: string = "ConfigurationError";
}

/** The same key was used before for a different input. The handler did not run. */
export class MismatchError extends OnceflowError {
  static override readonly kind: string = "MismatchError";
  constructor(facts: KeyFacts = {}) {
    super(
      `${named(facts)} was used before with another input; one key names one operation. Use a new key for a new operation, or send the first input again.`,
      { code: "MISMATCH", ...facts },
    );
  }
}

/** The outcome is no longer kept and the horizon is not over: a retry this late is refused. */
export class GoneError extends OnceflowError {
  static override readonly kind: string = "GoneError";
  constructor(facts: KeyFacts = {}) {
    super(`${named(facts)} was settled, and its outcome is no longer kept; a retry this late is refused. Look at the effect itself.`, {
      code: "GONE",
      ...facts,
    });
  }
}

/** Somebody else is running this operation now. */
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

/** The operation completed, but its result could not be stored; it will not run again. */
export class ResultNotKeptError extends OnceflowError {
  static override readonly kind: string = "ResultNotKeptError";
  constructor(facts: KeyFacts = {}) {
    super(`${named(facts)} completed, but its result could not be kept (too large, or not storable); it is not run again.`, {
      code: "RESULT_NOT_KEPT",
      ...facts,
    });
  }
}

/** This attempt fell silent and lost its lease; its outcome was not recorded. Calling again finds the truth. */
export class LeaseLostError extends OnceflowError {
  static override readonly kind: string = "LeaseLostError";
  constructor(facts: KeyFacts = {}, why = "it was silent for too long") {
    super(`${attemptOf(facts)} lost its lease: ${why}. Call again with the same key to get the outcome.`, {
      code: "LEASE_LOST",
      retryable: true,
      ...facts,
    });
  }
}

/** The operation ended, and its outcome could not be saved before the caller gave up. The saving goes on. */
export class NotSavedError extends OnceflowError {
  static override readonly kind: string = "NotSavedError";
  constructor(facts: KeyFacts = {}, cause?: unknown) {
    const why = cause instanceof OnceflowError ? ` The store says: ${cause.message}` : "";
    super(`${attemptOf(facts)} ended, but its outcome is not saved yet. Call again with the same key later.${why}`, {
      code: "NOT_SAVED",
      retryable: true,
      cause,
      ...facts,
    });
  }
}

/** `resolve` named an attempt whose outcome is not unknown (any more). Nothing was changed. */
export class NotUnknownError extends OnceflowError {
  static override readonly kind: string = "NotUnknownError";
  constructor(facts: KeyFacts = {}, found = "its outcome is not unknown") {
    super(`${attemptOf(facts)} cannot be resolved: ${found}. Only an unknown outcome can be settled by hand.`, {
      code: "NOT_UNKNOWN",
      ...facts,
    });
  }
}

interface AnswerFacts {
  /** The server answered this very write with an error. Else there was no connection, or it broke. Default false. */
  readonly answered?: boolean;
}

/** The store could not be reached, or the server could not do this now. Nothing was written. */
export class UnreachableError extends OnceflowError {
  static override readonly kind: string = "UnreachableError";
  /** The server answered this very write with an error: others of the same flush may succeed alone. */
  readonly answered: boolean;
  constructor(message: string, cause?: unknown, { answered = false }: AnswerFacts = {}) {
    super(message, { code: "STORE_UNREACHABLE", retryable: true, cause });
    this.answered = answered;
  }
}

/** The request was sent and its reply was lost: it may or may not have been applied. The same request again finds out. */
export class NotKnownError extends OnceflowError {
  static override readonly kind: string = "NotKnownError";
  /** The server answered this very write with an error: others of the same flush may succeed alone. */
  readonly answered: boolean;
  constructor(message: string, cause?: unknown, { answered = false }: AnswerFacts = {}) {
    super(message, { code: "NOT_KNOWN", retryable: true, cause });
    this.answered = answered;
  }
}

/** The store refused this very write (a value, a constraint). Nothing of it was written; trying again will not help. */
export class StoreRefusedError extends OnceflowError {
  static override readonly kind: string = "StoreRefusedError";
  constructor(message: string, cause?: unknown) {
    super(message, { code: "STORE_REFUSED", cause });
  }
}

/**
 * Thrown by a handler to say: the effect did certainly not happen. The key becomes free for a retry,
 * also in the classes `atMostOnce` and `reconcile`.
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

/** A stored text cannot be decrypted: its key is not among those given, or it was changed or moved. Nothing of it is returned. */
export class EncryptionError extends OnceflowError {
  static override readonly kind: string = "EncryptionError";
  /** The id of the key that it was encrypted with, where there is one. */
  readonly keyId: string | undefined;
  constructor(message: string, keyId?: string) {
    super(message, { code: "CANNOT_DECRYPT" });
    this.keyId = keyId;
  }
}

knowErrors(
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

/** An invariant of ours is broken: a bug. Never caught. */
export function assert(condition: boolean, invariant: string): asserts condition {
  if (!condition) throw new Error(`${brokenInvariant}${invariant}`);
}

/** A bug in the code, ours or the driver's: it comes neither from the server nor from the connection, and is never retried. */
export function isOwnMistake(error: unknown): boolean {
  if (!(error instanceof Error)) return true;
  // fetch() reports a lost connection as a TypeError with the system's error as its cause.
  const isLanguages = /^(Type|Range|Reference|Syntax|Eval|URI)Error$/.test(error.constructor.name) && error.cause === undefined;
  return isLanguages || error.message.startsWith(brokenInvariant);
}
