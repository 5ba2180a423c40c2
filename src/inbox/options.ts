import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { checkName } from "../core/ledger/key.js";
import { whole } from "../core/ledger/key-ref.js";
import type { NamedOperation } from "../core/ledger/named-operation.js";
import { duration, leaseMsMax, leaseMsMin, oneOf } from "../core/ledger/options.js";
import { requireStore } from "../core/store/require-store.js";
import { requireTransactions, type Store, type TxRunner } from "../core/store/store.js";
import type { Message } from "./message.js";

/** What both kinds of inbox can be told. */
export interface ConsumerOptions {
  /** Who consumes. Two consumers of one message handle it once each. */
  readonly consumer: string;
  /** How often a message is tried before it is a dead letter. A death of the process counts if it handled no other message. Default 5. */
  readonly attemptsMax?: number;
  /** What must be waited before attempt 2, and doubled from there on; or a function of the attempt that failed. Default 1 s. */
  readonly backoffMs?: number | ((attempt: number) => number);
  /** Default 5 min. */
  readonly backoffMsMax?: number;
  /** How long a duplicate waits for who is at it, before it is held. Default 10 s: less than brokers usually allow. */
  readonly waitMs?: number;
  /** How long a handler may take. Then its signal aborts, and after `graceMs` the attempt has failed. Default 5 min. */
  readonly timeoutMs?: number;
  /** Default 5 s. */
  readonly graceMs?: number;
  /** "perKey": messages with the same `orderKey` one after the other, as they came. Default "none". */
  readonly order?: "none" | "perKey";
  /** How many messages of a batch are worked on at the same time. Default 16. */
  readonly concurrency?: number;
  /** How long this process may fall silent before others may take over. Default 30 s. */
  readonly leaseMs?: number;
  /** How long duplicates are known, and dead letters kept. Default 7 days. */
  readonly retentionMs?: number | "forever";
}

export interface InboxOptions extends ConsumerOptions {
  /** Names the operation: `key.template("{{payload.orderId}}-charge")`, or a function. Default: the message's `key`, else its `id`. */
  readonly key?: (message: Message) => string;
  /** What must be the same in every copy. Default: the payload. False: nothing. */
  readonly fingerprint?: false | ((message: Message) => unknown);
  /** How long after retention a late copy is still taken as a duplicate. Default 0. */
  readonly horizonMs?: number;
  /** "keyed": the other side knows `effectKey` again. Both are run again after a death. Default "idempotent". */
  readonly effect?: "idempotent" | "keyed";
  /** The handler's rows and the outcome commit together. `true`: a transaction of the store's own. A function: your database layer's. */
  readonly tx?: true | TxRunner;
  readonly operation?: undefined;
}

/** Key, fingerprint, class, transaction and handler are the operation's: whoever else asks for it shares them. */
export interface OperationInboxOptions<Input, Value> extends ConsumerOptions {
  readonly operation: NamedOperation<Input, Value>;
  /** What the message asks for. Default: its payload. */
  readonly input?: (message: Message) => Input;
}

export type AnyInboxOptions = InboxOptions | OperationInboxOptions<never, unknown>;

/** Options, checked when the inbox is made. */
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
    throw new InvalidInputError("consumer", "must be a non-empty string that names who consumes");
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
  // No spaces in the name then: no consumer's keys meet those of a route or an operation.
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
  if (typeof operation?.ask !== "function") throw new InvalidInputError("operation", "must be one that operation(…) has made");
  if (typeof input !== "function") throw new InvalidInputError("input", "must be a function of the message");
  // Unless they are given here, they are the operation's own.
  const given = { ...(leaseMs === undefined ? {} : { leaseMs }), ...(retentionMs === undefined ? {} : { retentionMs }) };
  return { operation, scopeOf: operation.scopeOf, input, given, tx: undefined };
}

const keyOf = ({ key, id }: Message) => key ?? id;
const payloadOf = ({ payload }: Message) => payload;
