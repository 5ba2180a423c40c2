import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { whole } from "../core/ledger/key-ref.js";
import { duration, leaseMsMax, leaseMsMin, oneOf, type Reconciled, type ReconcileRequest } from "../core/ledger/options.js";
import { type EffectClass, effectClasses } from "../core/ledger/record.js";
import { requireStore } from "../core/store/require-store.js";
import type { Store, TxRunner } from "../core/store/store.js";
import type { FingerprintPolicy } from "./fingerprint.js";
import { headerFilter } from "./stored-response.js";

/** `From` is what the framework calls a request. */
export interface IdempotentOptions<From = Request> {
  readonly store: Store;
  /** Who asks: the authenticated caller. Two callers' keys never meet. A string: all callers are one. */
  readonly scope: string | ((request: From) => string | Promise<string>);
  /** A name that routes share: then method and path are no part of scope and fingerprint. */
  readonly operation?: string;
  /** Which requests are keyed. Default POST and PATCH; others pass untouched. */
  readonly methods?: readonly string[];
  /** Whether a request without a key is refused. Default true; else it passes untouched. */
  readonly required?: boolean | ((request: From) => boolean);
  /** Default "Idempotency-Key". */
  readonly header?: string;
  /** Longer keys are refused. Default 255. */
  readonly keyCharsMax?: number;
  /** What makes two requests the same. Default "bytes"; "json" where a body parser came first. */
  readonly fingerprint?: FingerprintPolicy;
  /** Longer requests with a key are refused. Default 1 MiB. */
  readonly bodyBytesMax?: number;
  /** Longer responses are not kept. Default 1 MiB. */
  readonly responseBytesMax?: number;
  /** What the first caller gets of a response that is too long to be kept: it (default), or a problem. */
  readonly onTooLong?: "pass" | "refuse";
  /** Which responses are kept, by status. Default: below 500, but for 401, 409 and 429. */
  readonly keeps?: (status: number) => boolean;
  /** Which headers a replay has; `content-*` stands for all that begin so. */
  readonly keptHeaders?: readonly string[];
  /** A duplicate of a request that is being worked on: 409 (default), or wait for its response. */
  readonly onRunning?: "refuse" | "wait";
  /** How long a duplicate waits, then 409. Default 30 s. */
  readonly waitMs?: number;
  /** What `Retry-After` says. Default 1 s. */
  readonly retryAfterMs?: number;
  /** When the store cannot be reached: 503 (default), or run the handler without protection. */
  readonly onUnreachable?: "refuse" | "run";
  /** How long this process may fall silent before others may take over. Default 30 s. */
  readonly leaseMs?: number;
  /** How long a handler may take. Then its signal aborts, and after `graceMs` the attempt is given up. Default 5 min. */
  readonly timeoutMs?: number;
  /** Default 5 s. */
  readonly graceMs?: number;
  /** How long a response can be replayed; then the key executes again. Default 24 h: many providers retry for longer. */
  readonly retentionMs?: number | "forever";
  /** How long after that a late retry is still refused. Default 0. */
  readonly horizonMs?: number;
  /** Tell the retention in the header `Idempotency-Retention`, in seconds. Default false. */
  readonly tellRetention?: boolean;
  /** What to do when an attempt died midway or failed. Default "idempotent". */
  readonly effect?: EffectClass;
  /** Asks the other side about an attempt in doubt; goes with `effect: "reconcile"`. */
  readonly reconcile?: (request: ReconcileRequest<undefined>) => Promise<Reconciled<Response>> | Reconciled<Response>;
  /** The outcome is written in the handler's transaction, which is `currentAttempt().tx`. */
  readonly tx?: true | TxRunner;
  /** Where your rules for keys are explained: a link in every refusal. */
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

/** What is kept by default. 401, 409 and 429 say "not now": the next try may be answered otherwise. */
function keepsByDefault(status: number): boolean {
  return status < 500 && status !== 401 && status !== 409 && status !== 429;
}

/** Options, checked when the handler is made. */
export type Policy<From> = ReturnType<typeof checkOptions<From>>;

const mebibyte = 1024 * 1024;
const bytesMaxMax = 1024 * mebibyte;

export function checkOptions<From>(options: IdempotentOptions<From>) {
  const { store, scope, operation, methods = ["POST", "PATCH"], header = "Idempotency-Key", policyUrl } = options;
  requireStore(store);
  knownOptions("idempotent", options, optionNames);
  if (typeof scope !== "string" && typeof scope !== "function")
    throw new InvalidInputError("scope", 'must say who asks: a function of the request; or "" where all callers are one');
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
    /** On every response that an attempt or a replay gives. */
    ownHeaders: tellRetention
      ? [["idempotency-retention", retentionMs === "forever" ? "forever" : String(Math.floor(retentionMs / 1000))] as const]
      : [],
  };
}
