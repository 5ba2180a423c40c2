import { answer, isKeyed } from "./answer.js";
import type { Asked } from "./asked.js";
import { checkOptions, type IdempotentOptions } from "./options.js";
import { type Capture, capture, requestBytes, sent } from "./web.js";

/** A Fetch handler, as Next, Remix, Workers, Bun and Deno have them. What comes after the request is the framework's. */
export type FetchHandler<More extends readonly unknown[] = []> = (request: Request, ...more: More) => Response | Promise<Response>;

/**
 * The same handler, executed once per key: the first request runs it, every retry gets the stored response.
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
    const asked = askedOf(request);
    if (!isKeyed(policy, asked)) return await handler(request, ...more);
    let made: Capture | undefined;
    const reply = await answer(policy, asked, async () => {
      made = await capture(await handler(request, ...more), policy.responseBytesMax);
      return made.captured;
    });
    return sent(reply, made, policy.ownHeaders);
  };
}

function askedOf(request: Request): Asked<Request> {
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
