import type { Context, MiddlewareHandler } from "hono";
import { answer, isKeyed } from "../answer.js";
import type { IncomingRequest } from "../incoming-request.js";
import { checkOptions, type IdempotentOptions } from "../options.js";
import { ownHeaders, withEarlier } from "../own-headers.js";
import type { Reply } from "../reply.js";
import { type Capture, capture, requestBytes, sent, tooLong } from "../web.js";

/**
 * Hono middleware: later handlers run once per idempotency key, and retries get the stored response. Mount it after
 * authentication. Throws InvalidInputError for wrong options.
 *
 * @example
 * app.post("/orders", idempotency({ store, scope: (c) => c.get("user") }), createOrder);
 */
export function idempotency(options: IdempotentOptions<Context>): MiddlewareHandler {
  const policy = checkOptions(options);
  return async (c, next) => {
    const incoming = incomingRequest(c);
    if (!isKeyed(policy, incoming)) return await next();
    let made: Capture | undefined;
    // This response is not sent: it only shows the headers that earlier middleware has set.
    const before: Reply["headers"] = [...c.body(null).headers];
    const reply = await answer(policy, incoming, async () => {
      await next();
      made = await capture(c.res, policy.responseBytesMax);
      return { ...made.captured, headers: ownHeaders(made.captured.headers, before) };
    });
    // Cleared first: otherwise Hono would merge the headers of both responses.
    c.res = undefined;
    c.res = sent(reply === "captured" ? reply : withEarlier(reply, before), made, policy.ownHeaders);
  };
}

function incomingRequest(c: Context): IncomingRequest<Context> {
  const { pathname, search } = new URL(c.req.url);
  return {
    from: c,
    method: c.req.method,
    path: pathname,
    // Without `strict` Hono ignores a trailing slash.
    routePath: pathname.endsWith("/") && !c.req.path.endsWith("/") ? pathname.slice(0, -1) : pathname,
    query: search,
    header: (name) => c.req.header(name),
    // If earlier middleware has read the body, Hono's cache has it.
    body: async (bytesMax) => {
      if (!c.req.raw.bodyUsed) return await requestBytes(c.req.raw, bytesMax);
      const bytes = new Uint8Array(await c.req.arrayBuffer());
      if (bytes.byteLength > bytesMax) throw tooLong(bytesMax);
      return { bytes };
    },
  };
}
