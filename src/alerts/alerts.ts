import { createOutbox, type Outbox } from "../outbox/outbox.js";
import type { RunAlert } from "./alert.js";
import { type AlertOptions, checkOptions } from "./options.js";
import { publisherTo } from "./send.js";
import { AlertWatch } from "./watch.js";

const secondMs = 1000;
const dayMs = 86_400_000;
/** About two days with the delays below. */
const attemptsMax = 60;
const backoffMsMax = 3_600_000;
const concurrency = 4;

/** Alerts that are running in this process. */
export interface Alerts {
  /** The outbox of the alerts: `pending`, `deadLetters`, `retry` and `discard` are for operators. */
  readonly outbox: Pick<Outbox<RunAlert>, "name" | "pending" | "deadLetters" | "retry" | "retryAll" | "discard" | "metrics">;
  /** Stops reading, and waits for alerts that are being sent. Other processes with the same name go on. */
  readonly stop: () => Promise<void>;
}

/**
 * Sends an alert for every run of the store, of all its processes, that fails, diverges, is parked, or has a step of unknown outcome. An alert is sent at least
 * once, with the same id at every delivery. It contains no input, result or error message. Processes with the same name share the work. Runs that fail
 * while no process sends alerts are found later. Throws InvalidInputError if an option is invalid, and ConfigurationError if the store has no runs or packets.
 *
 * @example
 * const alerts = alertOn({ store, webhook: { url: "https://alerts.example/onceflow", secret: process.env.ALERT_SECRET ?? "" } });
 */
export function alertOn(options: AlertOptions): Alerts {
  const policy = checkOptions(options);
  const { store, name, pollMs, leaseMs, timeoutMs, onTrouble } = policy;
  // Longer than an alert can wait in the outbox, so that an alert which is added again is recognised after it was sent.
  const outbox = createOutbox<RunAlert>(store, {
    ...{ name: `onceflow.alerts.${name}`, attemptsMax, backoffMs: secondMs, backoffMsMax, deadBlocks: false, retentionMs: 30 * dayMs },
  });
  const relay = outbox.relay(publisherTo(policy), { concurrency, timeoutMs, leaseMs, pollMs: Math.min(pollMs, secondMs), onTrouble });
  const watch = new AlertWatch(policy, outbox);
  let stopping: Promise<void> | undefined;
  const stop = () => {
    stopping ??= Promise.all([watch.stop(), relay.stop()]).then(forget);
    return stopping;
  };
  const forget = store.beforeClose(stop);
  return { outbox, stop };
}
