import { ConfigurationError, NotKnownError, OnceflowError, UnreachableError } from "../../core/errors/errors.js";
import { dataRefused, mayBeDone, notDoneNow, setUpWrong } from "../../core/store/server-answer.js";

interface SdkError extends Error {
  readonly $metadata?: { readonly httpStatusCode?: number; readonly attempts?: number };
  readonly code?: string;
}

/** The data is refused permanently, for example because it is too large. */
const refusals = /^(ValidationException|ItemCollectionSizeLimitExceededException|RequestEntityTooLargeException|SerializationException)$/;
/** The credentials or their permissions are wrong. */
const misconfigured = /^(AccessDeniedException|UnrecognizedClientException|InvalidSignatureException|MissingAuthenticationTokenException)$/;
/** System error codes of a connection that was not established. */
const unsent = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/;
const ended = /^(AbortError|TimeoutError)$/;

/**
 * Converts the error of a failed request into an error of the store. A short list of answers means refused data; every other
 * answer is retried. An error that comes neither from the server nor from the connection is returned unchanged.
 *
 * The SDK retries by itself. If it did, an earlier try may have been applied although its reply was lost, so only an
 * error of the first try proves that nothing was written.
 */
export function explain(error: unknown, what: string, of: "write" | "read"): unknown {
  if (error instanceof OnceflowError || !(error instanceof Error)) return error;
  const { name, message, code = "", $metadata } = error as SdkError;
  const status = $metadata?.httpStatusCode ?? 0;
  const onlyTry = ($metadata?.attempts ?? 1) <= 1;
  if (name === "ResourceNotFoundException") return missingTable(error);
  const answer = { store: "dynamodb", what, why: `${name}: ${message}`, cause: error };
  if (refusals.test(name)) return dataRefused(answer);
  if (misconfigured.test(name)) return setUpWrong(answer);
  const undone = of === "read" || (status >= 400 && status < 500 && onlyTry);
  if (status > 0) return undone ? notDoneNow(answer) : mayBeDone(answer);
  // The SDK found no credentials; this happens before anything is sent.
  const unasked = name === "CredentialsProviderError";
  const lost = $metadata !== undefined || ended.test(name) || /^E[A-Z]+$/.test(code);
  // Any other error is a bug.
  if (!(unasked || lost)) return error;
  if (of === "read" || unasked || (unsent.test(code) && onlyTry))
    return new UnreachableError(`[onceflow] [dynamodb] ${what} could not be done now (${code || name}): ${message}`, error);
  return new NotKnownError(
    `[onceflow] [dynamodb] the reply to ${what} was lost (${code || name}); it may or may not have been applied`,
    error,
  );
}

export function missingTable(cause?: unknown): ConfigurationError {
  return new ConfigurationError(
    "[onceflow] [dynamodb] the table was not found: add create=true to the URL (create: true with a client), or create it as docs/reference/store-dynamodb.md describes",
    { code: "MISSING_TABLE", cause },
  );
}
