import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { checkName } from "../core/ledger/key.js";
import { whole } from "../core/ledger/key-ref.js";
import { duration, leaseMsMax, leaseMsMin } from "../core/ledger/options.js";
import { requireStore } from "../core/store/require-store.js";
import { requirePackets, type Store } from "../core/store/store.js";

/** Options of `createOutbox`. */
export interface OutboxOptions {
  /** Name of the outbox. Processes that use the same name and store share one outbox. */
  readonly name: string;
  /** Attempts before a message becomes a dead letter. A crash counts only if the process published no other message. Default 10. */
  readonly attemptsMax?: number | "unlimited";
  /** Delay before attempt 2, doubled for each further attempt; or a function of the failed attempt's number. Default 1 s. */
  readonly backoffMs?: number | ((attempt: number) => number);
  /** Maximum delay. Default 5 min. */
  readonly backoffMsMax?: number;
  /** Whether later messages of a dead letter's key wait until it is retried or discarded. Default true. */
  readonly deadBlocks?: boolean;
  /** How long the id of a published message is remembered: adding it again within that time does nothing. Default 0: not remembered. */
  readonly retentionMs?: number;
}

/** Options of `outbox.relay`. */
export interface RelayOptions {
  /** Maximum number of messages that this relay publishes at the same time. Default 16. */
  readonly concurrency?: number;
  /** How long this process may go without a heartbeat before other relays take its messages over. Default 30 s. */
  readonly leaseMs?: number;
  /** How often the relay polls for messages of which it got no notification. Default 1 s. */
  readonly pollMs?: number;
  /** Time limit of the publisher. Then its signal aborts, and after `graceMs` the attempt fails. Default 1 min. */
  readonly timeoutMs?: number;
  /** Default 5 s. */
  readonly graceMs?: number;
  /** Called when the store is unreachable or rejects the outcome of a message. Default: does nothing. */
  readonly onTrouble?: (error: unknown) => void;
}

const optionNames: OptionNames<OutboxOptions> = {
  ...{ name: true, attemptsMax: true, backoffMs: true, backoffMsMax: true, deadBlocks: true, retentionMs: true },
};
const relayOptionNames: OptionNames<RelayOptions> = {
  ...{ concurrency: true, leaseMs: true, pollMs: true, timeoutMs: true, graceMs: true, onTrouble: true },
};

/** Checked options. */
export type Policy = ReturnType<typeof checkOptions>;
export type RelayPolicy = ReturnType<typeof checkRelayOptions>;

export function checkOptions(store: Store, options: OutboxOptions) {
  requireStore(store);
  knownOptions("createOutbox", options ?? {}, optionNames);
  const { name, attemptsMax = 10, backoffMs = 1000, backoffMsMax = 300_000, deadBlocks = true, retentionMs = 0 } = options ?? {};
  if (typeof name !== "string" || name === "") throw new InvalidInputError("name", "must be a non-empty string that names the outbox");
  const flow = `outbox:${name}`;
  checkName("scope", flow);
  if (!store.capabilities.packets) requirePackets({ name: store.name });
  if (attemptsMax !== "unlimited") whole("attemptsMax", attemptsMax, 1, 1000);
  if (typeof backoffMs !== "function") duration("backoffMs", backoffMs);
  duration("backoffMsMax", backoffMsMax);
  duration("retentionMs", retentionMs);
  if (typeof deadBlocks !== "boolean") throw new InvalidInputError("deadBlocks", `must be true or false, not ${String(deadBlocks)}`);
  const triesMax = attemptsMax === "unlimited" ? Number.POSITIVE_INFINITY : attemptsMax;
  return { store, name, flow, queue, triesMax, backoffMs, backoffMsMax, deadBlocks, retentionMs };
}

/** An outbox has one queue, with a lane for each key. */
const queue = "messages";

export function checkRelayOptions(options: RelayOptions) {
  knownOptions("relay", options, relayOptionNames);
  const { concurrency = 16, leaseMs = 30_000, pollMs = 1000, timeoutMs = 60_000, graceMs = 5000, onTrouble = () => {} } = options;
  whole("concurrency", concurrency, 1, 10_000);
  duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  duration("pollMs", pollMs, 1, leaseMsMax);
  duration("timeoutMs", timeoutMs, 1);
  duration("graceMs", graceMs);
  if (typeof onTrouble !== "function") throw new InvalidInputError("onTrouble", "must be a function");
  // Polls at least twice per lease: a poll finds the messages of a relay whose lease has expired.
  return { concurrency, leaseMs, pollMs: Math.min(pollMs, Math.ceil(leaseMs / 2)), timeoutMs, graceMs, onTrouble };
}
