import { answer, isKeyed } from "./answer.js";
import type { IncomingRequest } from "./incoming-request.js";
import { checkOptions, type IdempotentOptions } from "./options.js";
import { type Capture, capture, requestBytes, sent } from "./web.js";

/** A Fetch handler, as in Next, Remix, Workers, Bun and Deno. The framework may pass more arguments after the request. */
export type FetchHandler<More extends readonly unknown[] = []> = (request: Request, ...more: More) => Response | Promise<Response>;

/**
 * Wraps a Fetch handler so that it runs once per idempotency key: the first request runs it, every retry gets the stored
 * response. Throws InvalidInputError for wrong options; errors of the handler are rethrown.
 *
 * @example
 * export const POST = idempotent(createOrder, { store, scope: (request) => callerOf(request) });
 */
export function idempotent<More extends readonly unknown[] = []>(
  handler: FetchHandler<More>,
  options: IdempotentOptions,
): (request: Request, ...more: More) => Promise<Response> {
  const policy = checkOptions(options);
  return async (request, ...more) => {
    const incoming = incomingRequest(request);
    if (!isKeyed(policy, incoming)) return await handler(request, ...more);
    let made: Capture | undefined;
    const reply = await answer(policy, incoming, async () => {
      made = await capture(await handler(request, ...more), policy.responseBytesMax);
      return made.captured;
    });
    return sent(reply, made, policy.ownHeaders);
  };
}

function incomingRequest(request: Request): IncomingRequest<Request> {
  const { pathname, search } = new URL(request.url);
  return {
    from: request,
    method: request.method,
    path: pathname,
    query: search,
    header: (name) => request.headers.get(name),
    body: (bytesMax) => requestBytes(request, bytesMax),
  };
}
