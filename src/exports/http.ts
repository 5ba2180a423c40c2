/** Idempotency keys over HTTP: Fetch handlers, a client, and a conformance check for any server. Frameworks: `onceflow/http/…`. */
export { type ClientOptions, idempotentFetch } from "../http/client.js";
export { type ConformanceCase, type ConformanceOptions, type ConformanceReport, conformance } from "../http/conformance/conformance.js";
export { currentAttempt } from "../http/current-attempt.js";
export type { FingerprintPolicy } from "../http/fingerprint.js";
export { type FetchHandler, idempotent } from "../http/idempotent.js";
export type { IdempotentOptions } from "../http/options.js";
export { type ServeOptions, serveOperation } from "../http/serve-operation.js";
