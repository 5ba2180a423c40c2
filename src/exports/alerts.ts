/** Alerts about runs that failed, diverged, are parked, or have a step of unknown outcome: by a signed webhook or a function, through an outbox. */
export type { AlertStatus, RunAlert } from "../alerts/alert.js";
export { type Alerts, alertOn } from "../alerts/alerts.js";
export type { AlertContext, AlertFunction, AlertOptions, AlertWebhook } from "../alerts/options.js";
