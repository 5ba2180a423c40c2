import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { duration, leaseMsMax, leaseMsMin } from "../core/ledger/options.js";
import { requireStore } from "../core/store/require-store.js";
import { requireRuns, type Store } from "../core/store/store.js";
import { addressOf } from "../graph/runtime/alerts/checked-request.js";
import { checkPrivateWebhooks, isRefused, type PrivateWebhooks } from "../graph/runtime/alerts/private-address.js";
import { webhookKey } from "../graph/webhooks/standard-webhooks.js";
import { type AlertStatus, alertStatuses, type RunAlert } from "./alert.js";

/** A server that gets alerts by POST, signed as the Standard Webhooks specification describes. */
export interface AlertWebhook {
  readonly url: string;
  /** `whsec_` and 24 to 64 bytes in base64. Several while a secret is being replaced: one signature for each. */
  readonly secret: string | readonly string[];
  /** Whether the server may have a private address: "refuse" (default), "allow", or the hosts that may. */
  readonly privateAddresses?: PrivateWebhooks;
}

/** What an alert function gets beside the alert. */
export interface AlertContext {
  /** From 1, across all processes. */
  readonly attempt: number;
  /** Aborts after `timeoutMs`, when the lease is lost, or when the alerts stop. */
  readonly signal: AbortSignal;
}

/** Sends one alert. It counts as sent when this resolves; an error is retried with a backoff. */
export type AlertFunction = (alert: RunAlert, context: AlertContext) => Promise<unknown> | unknown;

/** Options of {@link alertOn}. */
export interface AlertOptions {
  /** A store with runs and packets. */
  readonly store: Store;
  /** The statuses that cause an alert. Default: "failed", "unknown", "diverged" and "parked". */
  readonly on?: readonly AlertStatus[];
  /** Where alerts go; or use `send`. */
  readonly webhook?: AlertWebhook;
  /** Sends the alerts, in place of a webhook: to a chat, a pager, a queue. */
  readonly send?: AlertFunction;
  /** Processes with the same name and store share the work, and each alert is sent by one of them. Another destination needs another name. Default "runs". */
  readonly name?: string;
  /** How often the store is read. Default 5 s. */
  readonly pollMs?: number;
  /** How long a process may go without a heartbeat before another one takes over its work, and how long others wait after it has stopped. Default 15 s. */
  readonly leaseMs?: number;
  /** The first process ever alerts of runs that ended from this time on. Default: from its start on. */
  readonly since?: Date;
  /** Time limit of one attempt to send an alert. Default 10 s. */
  readonly timeoutMs?: number;
  /** Called when the store is unreachable. Default: does nothing. Reading is retried. */
  readonly onTrouble?: (error: unknown) => void;
}

const optionNames: OptionNames<AlertOptions> = {
  ...{
    store: true,
    on: true,
    webhook: true,
    send: true,
    name: true,
    pollMs: true,
    leaseMs: true,
    since: true,
    timeoutMs: true,
    onTrouble: true,
  },
};
const webhookNames: OptionNames<AlertWebhook> = { url: true, secret: true, privateAddresses: true };

const hourMs = 3_600_000;
const secretsMax = 5;

/** Checked options. */
export type Policy = ReturnType<typeof checkOptions>;

export function checkOptions(options: AlertOptions) {
  knownOptions("alertOn", options, optionNames);
  const {
    store,
    on = alertStatuses,
    webhook,
    send,
    name = "runs",
    pollMs = 5000,
    leaseMs = 15_000,
    since,
    timeoutMs = 10_000,
    onTrouble = () => {},
  } = options;
  requireStore(store);
  if (!store.capabilities.runs) requireRuns({ name: store.name });
  if (typeof name !== "string" || !/^[\w-]{1,100}$/.test(name))
    throw new InvalidInputError("name", "must have 1 to 100 letters, digits, _ or -");
  duration("pollMs", pollMs, 10, hourMs);
  duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
  duration("timeoutMs", timeoutMs, 1, hourMs);
  if (since !== undefined && (!(since instanceof Date) || Number.isNaN(since.getTime())))
    throw new InvalidInputError("since", "must be a valid Date");
  if (typeof onTrouble !== "function") throw new InvalidInputError("onTrouble", "must be a function");
  return { store, on: checkStatuses(on), to: destinationOf(webhook, send), name, pollMs, leaseMs, since, timeoutMs, onTrouble };
}

function checkStatuses(on: unknown): readonly AlertStatus[] {
  const wrong = Array.isArray(on) ? on.find((status) => !alertStatuses.includes(status)) : on;
  if (Array.isArray(on) && on.length > 0 && wrong === undefined) return [...new Set(on as AlertStatus[])];
  throw new InvalidInputError("on", `must be a list of at least one of: ${alertStatuses.join(", ")}; not ${JSON.stringify(wrong)}`);
}

function destinationOf(webhook: unknown, send: unknown) {
  if ((webhook === undefined) === (send === undefined)) throw new InvalidInputError("webhook", "or send must be given, and not both");
  if (send === undefined) return checkWebhook(webhook);
  if (typeof send !== "function") throw new InvalidInputError("send", "must be a function of an alert");
  return { kind: "function", send: send as AlertFunction } as const;
}

function checkWebhook(webhook: unknown) {
  if (typeof webhook !== "object" || webhook === null) throw new InvalidInputError("webhook", "must be an object { url, secret }");
  knownOptions("webhook", webhook, webhookNames);
  const { url, secret, privateAddresses: given = "refuse" } = webhook as AlertWebhook;
  const address = typeof url === "string" ? addressOf(url) : undefined;
  // Not the URL itself: it may be a secret.
  if (address === undefined) throw new InvalidInputError("webhook.url", "must be an http or https URL");
  const privateAddresses = checkPrivateWebhooks(given, "webhook.privateAddresses");
  if (isRefused(address.url, privateAddresses))
    throw new InvalidInputError(
      "webhook.url",
      "has a private or link-local address; to allow that, add its host to the option privateAddresses",
    );
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret];
  if (secrets.length === 0 || secrets.length > secretsMax || !secrets.every((each) => typeof each === "string"))
    throw new InvalidInputError("webhook.secret", `must be a secret, or a list of 1 to ${secretsMax} secrets`);
  const keys = secrets.map((each) => webhookKey("webhook.secret", each as string));
  return { kind: "webhook", address, keys, privateAddresses } as const;
}
