import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { checkName } from "../core/ledger/key.js";
import { whole } from "../core/ledger/key-ref.js";
import { duration, leaseMsMax, leaseMsMin } from "../core/ledger/options.js";
import { requireStore } from "../core/store/require-store.js";
import { requirePackets, type Store } from "../core/store/store.js";

export interface OutboxOptions {
  /** Whoever has the same name and store has the same outbox. */
  readonly name: string;
  /** How often a message is tried before it is a dead letter; a death of the process counts if it published no other message. Default 10. */
  readonly attemptsMax?: number | "unlimited";
  /** What is waited before attempt 2, and doubled from there on; or a function of the attempt that failed. Default 1 s. */
  readonly backoffMs?: number | ((attempt: number) => number);
  /** Default 5 min. */
  readonly backoffMsMax?: number;
  /** Whether what is behind a dead letter, with the same key, waits until it is redriven or discarded. Default true. */
  readonly deadBlocks?: boolean;
  /** How long the id of a published message is known: who adds it again within that adds nothing. Default 0: not at all. */
  readonly retentionMs?: number;
}

export interface RelayOptions {
  /** Messages that are published at the same time, by this relay. Default 16. */
  readonly concurrency?: number;
  /** How long this process may be silent before others take its messages over. Default 30 s. */
  readonly leaseMs?: number;
  /** How often it looks for messages that nobody told it of. Default 1 s. */
  readonly pollMs?: number;
  /** How long a publisher may take. Then its signal aborts, and after `graceMs` the attempt has failed. Default 1 min. */
  readonly timeoutMs?: number;
  /** Default 5 s. */
  readonly graceMs?: number;
  /** Told when the store can't be reached, or will not take what became of a message. Default: nobody is. */
  readonly onTrouble?: (error: unknown) => void;
}

const optionNames: OptionNames<OutboxOptions> = {
  ...{ name: true, attemptsMax: true, backoffMs: true, backoffMsMax: true, deadBlocks: true, retentionMs: true },
};
const relayOptionNames: OptionNames<RelayOptions> = {
  ...{ concurrency: true, leaseMs: true, pollMs: true, timeoutMs: true, graceMs: true, onTrouble: true },
};

/** Options, checked when the outbox is made. */
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

/** An outbox has one queue; its lanes are the keys. */
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
  // Whoever dies is noticed by a look: it must not come later than that.
  return { concurrency, leaseMs, pollMs: Math.min(pollMs, Math.ceil(leaseMs / 2)), timeoutMs, graceMs, onTrouble };
}
