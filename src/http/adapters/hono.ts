import type { Context, MiddlewareHandler } from "hono";
import { answer, isKeyed } from "../answer.js";
import type { Asked } from "../asked.js";
import { checkOptions, type IdempotentOptions } from "../options.js";
import { ownHeaders, withEarlier } from "../own-headers.js";
import type { Reply } from "../reply.js";
import { type Capture, capture, requestBytes, sent, tooLong } from "../web.js";

/**
 * Hono middleware: what comes after it is executed once per key. Mount it behind whoever finds out who asks.
 *
 * @example
 * app.post("/orders", idempotency({ store, scope: (c) => c.get("user") }), createOrder);
 */
export function idempotency(options: IdempotentOptions<Context>): MiddlewareHandler {
  const policy = checkOptions(options);
  return async (c, next) => {
    const asked = askedOf(c);
    if (!isKeyed(policy, asked)) return await next();
    let made: Capture | undefined;
    // A response that is not sent: it has the headers that earlier middleware has set so far.
    const before: Reply["headers"] = [...c.body(null).headers];
    const reply = await answer(policy, asked, async () => {
      await next();
      made = await capture(c.res, policy.responseBytesMax);
      return { ...made.captured, headers: ownHeaders(made.captured.headers, before) };
    });
    // Set to nothing first: Hono would mix the headers of the two.
    c.res = undefined;
    c.res = sent(reply === "captured" ? reply : withEarlier(reply, before), made, policy.ownHeaders);
  };
}

function askedOf(c: Context): Asked<Context> {
  const { pathname, search } = new URL(c.req.url);
  return {
    from: c,
    method: c.req.method,
    path: pathname,
    // Without `strict` Hono leaves out a slash at the end.
    routePath: pathname.endsWith("/") && !c.req.path.endsWith("/") ? pathname.slice(0, -1) : pathname,
    query: search,
    header: (name) => c.req.header(name),
    // Who has read the body before us has left it in Hono's cache.
    body: async (bytesMax) => {
      if (!c.req.raw.bodyUsed) return await requestBytes(c.req.raw, bytesMax);
      const bytes = new Uint8Array(await c.req.arrayBuffer());
      if (bytes.byteLength > bytesMax) throw tooLong(bytesMax);
      return { bytes };
    },
  };
}
