import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { checkName } from "../core/ledger/key.js";
import { whole } from "../core/ledger/key-ref.js";
import type { NamedOperation } from "../core/ledger/named-operation.js";
import { duration, leaseMsMax, leaseMsMin, oneOf } from "../core/ledger/options.js";
import { requireStore } from "../core/store/require-store.js";
import { requireTransactions, type Store, type TxRunner } from "../core/store/store.js";
import type { Message } from "./message.js";

/** Options that both kinds of inbox share. */
export interface ConsumerOptions {
  /** Name of the consumer. Two consumers each handle the same message. */
  readonly consumer: string;
  /** Attempts before a message becomes a dead letter. A crash counts only if the process handled no other message. Default 5. */
  readonly attemptsMax?: number;
  /** Delay before attempt 2, doubled for each further attempt; or a function of the failed attempt's number. Default 1 s. */
  readonly backoffMs?: number | ((attempt: number) => number);
  /** Maximum delay. Default 5 min. */
  readonly backoffMsMax?: number;
  /** How long a duplicate waits for the running attempt before it is `held`. Default 10 s, less than the timeouts of most brokers. */
  readonly waitMs?: number;
  /** Time limit of the handler. Then its signal aborts, and after `graceMs` the attempt fails. Default 5 min. */
  readonly timeoutMs?: number;
  /** Default 5 s. */
  readonly graceMs?: number;
  /** "perKey": messages with the same `orderKey` are handled one after the other, in order of arrival. Default "none". */
  readonly order?: "none" | "perKey";
  /** Maximum number of messages of a batch handled at the same time. Default 16. */
  readonly concurrency?: number;
  /** How long this process may go without a heartbeat before another process takes over a message. Default 30 s. */
  readonly leaseMs?: number;
  /** How long results (to recognize duplicates) and dead letters are kept. Default 7 days. */
  readonly retentionMs?: number | "forever";
}

/** Options of an inbox whose handler is passed to `handle`. */
export interface InboxOptions extends ConsumerOptions {
  /** Returns the idempotency key: `key.template("{{payload.orderId}}-charge")`, or a function. Default: the message's `key`, else its `id`. */
  readonly key?: (message: Message) => string;
  /** Returns the value that must be equal in all copies. Default: the payload. False: no check. */
  readonly fingerprint?: false | ((message: Message) => unknown);
  /** How long after `retentionMs` a late copy still counts as a duplicate. Default 0. */
  readonly horizonMs?: number;
  /** "keyed": the provider deduplicates by `effectKey`. With both classes the handler runs again after a crash. Default "idempotent". */
  readonly effect?: "idempotent" | "keyed";
  /** Commits the handler's rows together with the outcome. `true`: in a transaction of the store. A function: in one of your database layer. */
  readonly tx?: true | TxRunner;
  readonly operation?: undefined;
}

/**
 * Options of an inbox that runs an operation. Key, fingerprint, effect class, transaction and handler come from the operation,
 * which other callers (an HTTP route, for example) share.
 */
export interface OperationInboxOptions<Input, Value> extends ConsumerOptions {
  readonly operation: NamedOperation<Input, Value>;
  /** Returns the operation's input. Default: the payload. */
  readonly input?: (message: Message) => Input;
}

export type AnyInboxOptions = InboxOptions | OperationInboxOptions<never, unknown>;

/** Checked options. */
export type Policy = ReturnType<typeof checkOptions>;

const dayMs = 86_400_000;

const optionNames: OptionNames<InboxOptions & OperationInboxOptions<never, unknown>> = {
  ...{ consumer: true, attemptsMax: true, backoffMs: true, backoffMsMax: true, waitMs: true, timeoutMs: true, graceMs: true, order: true },
  ...{ concurrency: true, leaseMs: true, retentionMs: true, key: true, fingerprint: true, horizonMs: true, effect: true, tx: true },
  ...{ operation: true, input: true },
};

export function checkOptions(store: Store, options: AnyInboxOptions) {
  requireStore(store);
  knownOptions("createInbox", options, optionNames);
  const { consumer, attemptsMax = 5, waitMs = 10_000, timeoutMs = 300_000, graceMs = 5000, order = "none", concurrency = 16 } = options;
  if (typeof consumer !== "string" || consumer === "" || !consumer.isWellFormed())
    throw new InvalidInputError("consumer", "must be a non-empty string that names the consumer");
  whole("attemptsMax", attemptsMax, 1, 1000);
  whole("concurrency", concurrency, 1, 10_000);
  oneOf("order", order, ["none", "perKey"]);
  const { backoffMs = 1000, backoffMsMax = 300_000, leaseMs = 30_000, retentionMs = 7 * dayMs } = options;
  duration("backoffMsMax", backoffMsMax);
  if (typeof backoffMs !== "function") duration("backoffMs", backoffMs);
  for (const [name, value] of Object.entries({ waitMs, graceMs })) duration(name, value);
  duration("timeoutMs", timeoutMs, 1);
  duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  if (retentionMs !== "forever") duration("retentionMs", retentionMs);
  return {
    ...{ store, consumer, attemptsMax, backoffMs, backoffMsMax, waitMs, timeoutMs, graceMs, order, concurrency, leaseMs, retentionMs },
    ...(options.operation === undefined ? own(store, options) : shared(options)),
  };
}

function own(store: Store, options: InboxOptions) {
  const { consumer, key = keyOf, fingerprint = payloadOf, horizonMs = 0, effect = "idempotent", tx } = options;
  // Encoded, the name contains no space: the scope of a consumer cannot equal that of a route or an operation.
  const scope = `inbox ${encodeURIComponent(consumer)}`;
  checkName("scope", scope);
  if (typeof key !== "function")
    throw new InvalidInputError("key", 'must be a function of the message: key.template("{{payload.orderId}}-charge")');
  if (fingerprint !== false && typeof fingerprint !== "function")
    throw new InvalidInputError("fingerprint", "must be a function of the message, or false");
  duration("horizonMs", horizonMs);
  oneOf("effect", effect, ["idempotent", "keyed"]);
  if (tx !== undefined && tx !== true && typeof tx !== "function")
    throw new InvalidInputError("tx", "must be true or a function that runs its argument in a transaction");
  if (tx !== undefined) requireTransactions(store);
  return { operation: undefined, scopeOf: (_of: string) => scope, key, fingerprint, horizonMs, effect, tx };
}

function shared({
  operation,
  input = payloadOf as (message: Message) => never,
  leaseMs,
  retentionMs,
}: OperationInboxOptions<never, unknown>) {
  if (typeof operation?.ask !== "function") throw new InvalidInputError("operation", "must be created by operation(…)");
  if (typeof input !== "function") throw new InvalidInputError("input", "must be a function of the message");
  // The operation's own values apply unless they are given here.
  const given = { ...(leaseMs === undefined ? {} : { leaseMs }), ...(retentionMs === undefined ? {} : { retentionMs }) };
  return { operation, scopeOf: operation.scopeOf, input, given, tx: undefined };
}

const keyOf = ({ key, id }: Message) => key ?? id;
const payloadOf = ({ payload }: Message) => payload;
