import { closest } from "../../core/errors/closest.js";
import { plainOf, type Spot } from "../load/tree.js";
import { NodeError, nodeErrorCodes } from "../node/node-error.js";
import { type Normalising, spelledIn } from "./dialect.js";
import { Fields } from "./fields.js";
import { isoDurationMs } from "./iso-duration.js";
import { backoffs, type ExecutionLimits, type RetryPolicy } from "./model.js";

const delayMsMax = 30 * 86_400_000;
const attemptsMax = 1000;
export const defaultRetry: RetryPolicy = {
  maxAttempts: 4,
  backoff: "exponential",
  initialDelayMs: 1000,
  maxDelayMs: 60_000,
  jitter: false,
};

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly inWords: string;
}

const delayBounds: Bounds = { min: 0, max: delayMsMax, inWords: "30 days" };
export const retentionBounds: Bounds = { min: 1, max: 10 * 366 * 86_400_000, inWords: "ten years" };

/** `initialDelayMs: 2000` (form A) or `initialDelay: PT2S` (form B). */
export function durationMs(
  fields: Fields,
  name: string,
  about: Normalising,
  { min, max, inWords }: Bounds = delayBounds,
): number | undefined {
  const inMs = fields.integer(`${name}Ms`, min, max);
  const text = fields.text(name);
  const spot = fields.at(name);
  if (fields.at(`${name}Ms`) !== undefined) spelledIn("A", fields.at(`${name}Ms`), `${name}Ms`, about);
  if (text === undefined || spot === undefined) return inMs;
  spelledIn("B", spot, name, about);
  const ms = isoDurationMs(text);
  if (ms !== undefined && ms >= min && ms <= max) return inMs ?? ms;
  about.findings.add(
    "FLOW_BAD_VALUE",
    spot,
    `"${text}" is not an ISO 8601 duration of at most ${inWords}`,
    "use a value like PT2S, PT5M or PT1H",
  );
  return inMs;
}

export interface Retrying {
  readonly policy: RetryPolicy;
  readonly deadLetters?: boolean;
}

/** Reads a `retryPolicy`, inline or by reference. */
export function normaliseRetry(spot: Spot | undefined, about: Normalising): Retrying | undefined {
  const fields = Fields.of(about.components.resolveName("policies", spot), about.findings);
  if (fields === undefined) return undefined;
  const retryOn = fields.at("retryOn") && retryCodes(fields, about);
  // If only one of the two delays is given, the default of the other is adjusted to it.
  const firstMs = durationMs(fields, "initialDelay", about);
  const longestMs = durationMs(fields, "maxDelay", about);
  const initialDelayMs = firstMs ?? Math.min(defaultRetry.initialDelayMs, longestMs ?? defaultRetry.maxDelayMs);
  const policy: RetryPolicy = {
    maxAttempts: fields.integer("maxAttempts", 1, attemptsMax) ?? defaultRetry.maxAttempts,
    backoff: fields.oneOf("backoff", backoffs) ?? defaultRetry.backoff,
    initialDelayMs,
    maxDelayMs: longestMs ?? Math.max(defaultRetry.maxDelayMs, initialDelayMs),
    jitter: fields.flag("jitter") ?? defaultRetry.jitter,
    ...(retryOn && { retryOn }),
  };
  const deadLetters = fields.flag("deadLetterQueue");
  if (deadLetters !== undefined) spelledIn("A", fields.at("deadLetterQueue"), "retryPolicy.deadLetterQueue", about);
  if (policy.maxDelayMs < policy.initialDelayMs)
    about.findings.add("FLOW_BAD_VALUE", fields.spot, "maxDelay is shorter than initialDelay", "raise maxDelay, or lower initialDelay");
  fields.done();
  return { policy, ...(deadLetters !== undefined && { deadLetters }) };
}

/** Error codes that can be retried: those of NodeError, and ERROR for any other error. */
const retriedCodes = [...nodeErrorCodes.filter((code) => new NodeError(code, "").retryable), "ERROR"] as const;
/** Names that the specification's guides use. */
const otherNames: Readonly<Record<string, string>> = { TEMPORARY_FAILURE: "TEMPORARY" };

/** Reports unknown codes: a code that no error has would silently disable retries. */
function retryCodes(fields: Fields, { findings }: Normalising): readonly string[] {
  return fields.items("retryOn").flatMap((spot) => {
    const written = plainOf(spot.tree);
    const code = otherNames[String(written)] ?? written;
    if ((retriedCodes as readonly unknown[]).includes(code)) return [String(code)];
    const allowed = [...retriedCodes, ...Object.keys(otherNames)];
    if ((nodeErrorCodes as readonly unknown[]).includes(code))
      findings.add("FLOW_NEVER_RETRIED", spot, `${String(code)} is never retried, even if retryOn lists it`, "remove it");
    else {
      const near = typeof written === "string" ? closest(written, allowed) : undefined;
      const fix = near === undefined ? "choose one of them" : `did you mean "${near}"?`;
      findings.add("FLOW_BAD_VALUE", spot, `${JSON.stringify(written)} is not allowed; allowed values: ${allowed.join(", ")}`, fix);
    }
    return [];
  });
}

export function normaliseExecution(fields: Fields | undefined, about: Normalising): ExecutionLimits {
  if (fields === undefined) return {};
  const timeoutMs = durationMs(fields, "timeout", about);
  const concurrency = fields.integer("concurrency", 1, 100_000);
  const maxRetries = fields.integer("maxRetries", 0, attemptsMax - 1);
  fields.done();
  return {
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(concurrency !== undefined && { concurrency }),
    ...(maxRetries !== undefined && { maxRetries }),
  };
}
