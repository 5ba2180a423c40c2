import { retryAfterMsOf } from "../../../core/work/retry-after.js";
import { NodeError, type NodeErrorCode } from "../../node/node-error.js";
import { type CheckedRequest, type CheckedResponse, requestChecked, unreachableReason } from "../../runtime/alerts/checked-request.js";

/** One request, and the time limit for its whole response. */
export interface Exchange extends CheckedRequest {
  readonly timeoutMs: number;
}

/**
 * Makes one request and returns its response, whatever its status. Throws NodeError: TIMEOUT or NETWORK_ERROR if there is no response
 * (the server may have received the request), PERMANENT if the address is refused or the response is too long. Messages do not
 * contain the URL or the headers, which may have secrets.
 */
export async function exchange({ timeoutMs, signal, ...request }: Exchange): Promise<CheckedResponse & { readonly body: Buffer }> {
  const limit = AbortSignal.timeout(timeoutMs);
  const response = await requestChecked({ ...request, signal: AbortSignal.any([signal, limit]) }).catch((error: unknown) => {
    // The delivery was aborted: the worker stops or has lost its lease.
    if (error instanceof NodeError) throw error;
    if (limit.aborted) throw new NodeError("TIMEOUT", `no complete response within ${timeoutMs} ms; the server may have done the work`);
    throw new NodeError("NETWORK_ERROR", `no response: ${unreachableReason(error)}`);
  });
  if (response === undefined)
    throw new NodeError(
      "PERMANENT",
      "the URL has a private or link-local address; to allow it, add its host to the option privateAddresses",
    );
  const { body, status } = response;
  if (body === undefined)
    throw new NodeError(
      "PERMANENT",
      `the response (status ${status}) is longer than ${request.bytesMax} bytes; the server may have done the work`,
    );
  return { ...response, body };
}

/** The error of a response that is not a success. The next attempt waits for the response's `Retry-After`. */
export function statusError(code: NodeErrorCode, who: "server" | "receiver", { status, headers }: CheckedResponse): NodeError {
  const redirect = status >= 300 && status < 400 ? "; redirects are not followed" : "";
  const retryAfterMs = retryAfterMsOf(headers["retry-after"]);
  const later = retryAfterMs === undefined ? {} : { retryAfterMs };
  return new NodeError(code, `the ${who} responded with ${status}${redirect}`, undefined, later);
}
