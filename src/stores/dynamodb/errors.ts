import { ConfigurationError, NotKnownError, OnceflowError, UnreachableError } from "../../core/errors/errors.js";
import { dataRefused, mayBeDone, notDoneNow, setUpWrong } from "../../core/store/server-answer.js";

interface SdkError extends Error {
  readonly $metadata?: { readonly httpStatusCode?: number; readonly attempts?: number };
  readonly code?: string;
}

/** The data itself is refused: too large, say. It will be refused again. */
const refusals = /^(ValidationException|ItemCollectionSizeLimitExceededException|RequestEntityTooLargeException|SerializationException)$/;
/** The credentials or their rights are wrong. */
const misconfigured = /^(AccessDeniedException|UnrecognizedClientException|InvalidSignatureException|MissingAuthenticationTokenException)$/;
/** The system's names for a connection that never came about. */
const unsent = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/;
const ended = /^(AbortError|TimeoutError)$/;

/**
 * Converts a failed request into the error that its sender acts on. A short list of answers refuses the data; every other
 * answer is retried. What comes neither from the server nor from the connection is returned as it is.
 *
 * The SDK has already tried it again by itself: when it did, an earlier try may have been written although its reply was lost,
 * so that only the answer to a first try proves that nothing was.
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
  // Before anything is sent the SDK looks for credentials, and may find none.
  const unasked = name === "CredentialsProviderError";
  const lost = $metadata !== undefined || ended.test(name) || /^E[A-Z]+$/.test(code);
  // Whatever else is thrown (a bug of ours) is no matter of the connection.
  if (!(unasked || lost)) return error;
  if (of === "read" || unasked || (unsent.test(code) && onlyTry))
    return new UnreachableError(`[onceflow] [dynamodb] ${what} could not be done now (${code || name}): ${message}`, error);
  return new NotKnownError(
    `[onceflow] [dynamodb] the reply to ${what} was lost (${code || name}); whether it was done is not known`,
    error,
  );
}

export function missingTable(cause?: unknown): ConfigurationError {
  return new ConfigurationError(
    "[onceflow] [dynamodb] there is no such table: add create=true to the URL (create: true with a client), or make it as docs/reference/store-dynamodb.md says",
    { code: "MISSING_TABLE", cause },
  );
}
