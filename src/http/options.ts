import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { whole } from "../core/ledger/key-ref.js";
import { duration, leaseMsMax, leaseMsMin, oneOf, type Reconciled, type ReconcileRequest } from "../core/ledger/options.js";
import { type EffectClass, effectClasses } from "../core/ledger/record.js";
import { requireStore } from "../core/store/require-store.js";
import type { Store, TxRunner } from "../core/store/store.js";
import type { FingerprintPolicy } from "./fingerprint.js";
import { headerFilter } from "./stored-response.js";

/** Options of `idempotent` and of the middleware. `From` is the framework's request type. */
export interface IdempotentOptions<From = Request> {
  readonly store: Store;
  /** Returns the authenticated caller: each caller has separate keys. A string: all callers share their keys. */
  readonly scope: string | ((request: From) => string | Promise<string>);
  /** A name that several routes share: their keys are then independent of method and path. */
  readonly operation?: string;
  /** Methods that use keys. Default POST and PATCH; requests with other methods pass untouched. */
  readonly methods?: readonly string[];
  /** Whether a request without a key is rejected with 400. Default true; if false, it passes untouched. */
  readonly required?: boolean | ((request: From) => boolean);
  /** Default "Idempotency-Key". */
  readonly header?: string;
  /** Maximum length of a key. Default 255. */
  readonly keyCharsMax?: number;
  /** What must be equal in two requests with the same key. Default "bytes", or "json" if a body parser ran before. */
  readonly fingerprint?: FingerprintPolicy;
  /** Maximum size of a request with a key; longer ones get 413. Default 1 MiB. */
  readonly bodyBytesMax?: number;
  /** Maximum size of a response that is stored. Default 1 MiB. */
  readonly responseBytesMax?: number;
  /** What the first caller gets if the response is too long to store: the response (default), or a problem. */
  readonly onTooLong?: "pass" | "refuse";
  /** Which responses are stored, by status. Default: below 500, except 401, 409 and 429. */
  readonly keeps?: (status: number) => boolean;
  /** Headers to store and replay; `content-*` matches all names that start with `content-`. */
  readonly keptHeaders?: readonly string[];
  /** What a duplicate gets while the first request is running: 409 (default), or it waits for the response. */
  readonly onRunning?: "refuse" | "wait";
  /** How long a duplicate waits before it gets 409. Default 30 s. */
  readonly waitMs?: number;
  /** The value of `Retry-After`. Default 1 s. */
  readonly retryAfterMs?: number;
  /** If the store is unreachable: answer 503 (default), or run the handler without protection against duplicates. */
  readonly onUnreachable?: "refuse" | "run";
  /** How long this process may go without a heartbeat before another process takes over. Default 30 s. */
  readonly leaseMs?: number;
  /** Time limit of the handler. Then its signal aborts, and after `graceMs` the attempt fails. Default 5 min. */
  readonly timeoutMs?: number;
  /** Default 5 s. */
  readonly graceMs?: number;
  /** How long a response is replayed; afterwards the key executes again. Default 24 h; many providers retry for longer. */
  readonly retentionMs?: number | "forever";
  /** How long after `retentionMs` a late retry is still rejected. Default 0. */
  readonly horizonMs?: number;
  /** Send the retention in seconds in the header `Idempotency-Retention`. Default false. */
  readonly tellRetention?: boolean;
  /** The effect class of the handler: what happens after an attempt failed or its process died. Default "idempotent". */
  readonly effect?: EffectClass;
  /** Asks the provider whether an attempt took effect. Required for `effect: "reconcile"`. */
  readonly reconcile?: (request: ReconcileRequest<undefined>) => Promise<Reconciled<Response>> | Reconciled<Response>;
  /** Writes the outcome in the handler's transaction, `currentAttempt().tx`. */
  readonly tx?: true | TxRunner;
  /** URL of your documentation of idempotency keys, linked in every problem response. */
  readonly policyUrl?: string;
}

const optionNames: OptionNames<IdempotentOptions> = {
  store: true,
  scope: true,
  operation: true,
  methods: true,
  required: true,
  header: true,
  keyCharsMax: true,
  fingerprint: true,
  bodyBytesMax: true,
  responseBytesMax: true,
  onTooLong: true,
  keeps: true,
  keptHeaders: true,
  onRunning: true,
  waitMs: true,
  retryAfterMs: true,
  onUnreachable: true,
  leaseMs: true,
  timeoutMs: true,
  graceMs: true,
  retentionMs: true,
  horizonMs: true,
  tellRetention: true,
  effect: true,
  reconcile: true,
  tx: true,
  policyUrl: true,
};

const defaultKeptHeaders = [
  "content-*",
  "location",
  "etag",
  "last-modified",
  "link",
  "set-cookie",
  "cache-control",
  "expires",
  "vary",
  "allow",
  "retry-after",
  "www-authenticate",
];

/** 401, 409 and 429 are temporary: a retry may get another response, so they are not stored. */
function keepsByDefault(status: number): boolean {
  return status < 500 && status !== 401 && status !== 409 && status !== 429;
}

/** Checked options. */
export type Policy<From> = ReturnType<typeof checkOptions<From>>;

const mebibyte = 1024 * 1024;
const bytesMaxMax = 1024 * mebibyte;

export function checkOptions<From>(options: IdempotentOptions<From>) {
  const { store, scope, operation, methods = ["POST", "PATCH"], header = "Idempotency-Key", policyUrl } = options;
  requireStore(store);
  knownOptions("idempotent", options, optionNames);
  if (typeof scope !== "string" && typeof scope !== "function")
    throw new InvalidInputError("scope", 'must be a function that returns the authenticated caller, or "" if all callers share their keys');
  if (operation !== undefined && (typeof operation !== "string" || operation === ""))
    throw new InvalidInputError("operation", "must be a non-empty string");
  if (!Array.isArray(methods) || methods.some((method) => typeof method !== "string"))
    throw new InvalidInputError("methods", 'must be an array of methods such as ["POST"]');
  if (typeof header !== "string" || !/^[\w!#$%&'*+.^`|~-]+$/.test(header))
    throw new InvalidInputError("header", "must be the name of a header");
  if (policyUrl !== undefined && !/^[\x21\x23-\x3b\x3d\x3f-\x7e]+$/.test(policyUrl))
    throw new InvalidInputError("policyUrl", "must be a URL");
  const { effect = "idempotent", reconcile, tx, fingerprint = "bytes", keptHeaders = defaultKeptHeaders } = options;
  oneOf("effect", effect, effectClasses);
  if ((effect === "reconcile") !== (typeof reconcile === "function"))
    throw new InvalidInputError("reconcile", 'must be a function when, and only when, effect is "reconcile"');
  if (typeof fingerprint === "string") oneOf("fingerprint", fingerprint, ["bytes", "json"]);
  const { onRunning = "refuse", onTooLong = "pass", onUnreachable = "refuse", retentionMs = 86_400_000 } = options;
  oneOf("onRunning", onRunning, ["refuse", "wait"]);
  oneOf("onTooLong", onTooLong, ["pass", "refuse"]);
  oneOf("onUnreachable", onUnreachable, ["refuse", "run"]);
  const { leaseMs = 30_000, waitMs = 30_000, retryAfterMs = 1000, timeoutMs = 300_000, graceMs = 5000, horizonMs = 0 } = options;
  duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  for (const [name, value] of Object.entries({ waitMs, retryAfterMs, graceMs, horizonMs })) duration(name, value);
  duration("timeoutMs", timeoutMs, 1);
  if (retentionMs !== "forever") duration("retentionMs", retentionMs);
  const { keyCharsMax = 255, bodyBytesMax = mebibyte, responseBytesMax = mebibyte } = options;
  whole("keyCharsMax", keyCharsMax, 1, 512);
  whole("bodyBytesMax", bodyBytesMax, 0, bytesMaxMax);
  whole("responseBytesMax", responseBytesMax, 0, bytesMaxMax);
  const { required = true, keeps = keepsByDefault, tellRetention = false } = options;
  return {
    ...{ store, scope, operation, required, header, keyCharsMax, fingerprint, bodyBytesMax, responseBytesMax, onTooLong, keeps },
    ...{
      onRunning,
      waitMs,
      retryAfterMs,
      onUnreachable,
      leaseMs,
      timeoutMs,
      graceMs,
      retentionMs,
      horizonMs,
      effect,
      reconcile,
      tx,
      policyUrl,
    },
    methods: new Set(methods.map((method) => method.toUpperCase())),
    keptHeader: headerFilter(keptHeaders),
    /** Added to every response of an attempt or a replay. */
    ownHeaders: tellRetention
      ? [["idempotency-retention", retentionMs === "forever" ? "forever" : String(Math.floor(retentionMs / 1000))] as const]
      : [],
  };
}
