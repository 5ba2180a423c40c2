import { STATUS_CODES } from "node:http";
import { PassThrough, Readable } from "node:stream";
import type { Middleware, ParameterizedContext } from "koa";
import { isResponse } from "../../core/values/web-kinds.js";
import { answer, isKeyed } from "../answer.js";
import type { IncomingRequest } from "../incoming-request.js";
import { checkOptions, type IdempotentOptions } from "../options.js";
import { ownHeaders, withEarlier } from "../own-headers.js";
import { type Captured, headerList, headersByName, type Reply } from "../reply.js";
import { type Taken, take, whole } from "../take.js";
import { errorOf, thrownBy } from "./koa-errors.js";
import { type MaybeParsed, nodeBody } from "./peek.js";

/**
 * Koa middleware: later middleware runs once per idempotency key, and retries get the stored response. Mount it after
 * authentication. Throws InvalidInputError for wrong options.
 *
 * @example
 * app.use(idempotency({ store, scope: (ctx) => ctx.state.user.id }));
 */
export function idempotency(options: IdempotentOptions<ParameterizedContext>): Middleware {
  const policy = checkOptions(options);
  return async (ctx, next) => {
    const incoming = incomingRequest(ctx);
    if (!isKeyed(policy, incoming)) return await next();
    const before = headerList(ctx.response.headers);
    let refusal: { readonly error: unknown } | undefined;
    const reply = await answer(policy, incoming, async () => {
      const letGo = keepFromClosing(ctx);
      try {
        await next();
      } catch (error) {
        letGo();
        const thrown = thrownBy(error);
        if (thrown === undefined) throw error;
        refusal = { error };
        return { ...thrown, whole: true };
      }
      const made = await captured(ctx, letGo(), policy.responseBytesMax);
      return { ...made, headers: ownHeaders(made.headers, before) };
    });
    if (reply !== "captured") return replace(ctx, withEarlier(reply, before));
    for (const [name, value] of policy.ownHeaders) ctx.set(name, value);
    // Outer middleware formats errors.
    if (refusal !== undefined) throw refusal.error;
  };
}

function incomingRequest(ctx: ParameterizedContext): IncomingRequest<ParameterizedContext> {
  const url = ctx.originalUrl;
  const at = url.indexOf("?");
  return {
    from: ctx,
    method: ctx.method,
    path: at === -1 ? url : url.slice(0, at),
    query: at === -1 ? "" : url.slice(at),
    header: (name) => ctx.req.headers[name.toLowerCase()] as string | undefined,
    body: (bytesMax) => nodeBody(ctx.req, ctx.request as MaybeParsed, bytesMax),
  };
}

/**
 * Koa destroys a body stream when the client disconnects. To read the stream to its end and store it for the retry, Koa gets
 * another stream in its place. Returns a function that undoes this and returns the body.
 */
function keepFromClosing({ response }: ParameterizedContext): () => unknown {
  // An outer mount of this middleware may already hold the body.
  const outer = Object.getOwnPropertyDescriptor(response, "body");
  const below =
    outer ?? (Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Object.getPrototypeOf(response)), "body") as PropertyDescriptor);
  let held: unknown = below.get?.call(response);
  Object.defineProperty(response, "body", {
    configurable: true,
    get: () => held,
    set: (body: unknown) => {
      held = body;
      below.set?.call(response, body instanceof Readable ? new PassThrough() : body);
    },
  });
  return () => {
    if (outer === undefined) Reflect.deleteProperty(response, "body");
    else Object.defineProperty(response, "body", outer);
    return held;
  };
}

async function captured(ctx: ParameterizedContext, body: unknown, bytesMax: number): Promise<Captured> {
  const { status } = ctx;
  const text = body === undefined || body === null ? statusText(ctx, status) : undefined;
  if (text !== undefined) {
    const headers = headerList({ ...ctx.response.headers, "content-type": "text/plain; charset=utf-8" });
    return { status, headers, body: Buffer.from(text), whole: true };
  }
  const taken = await bodyOf(body, bytesMax);
  if (taken !== null) ctx.body = taken.rest === undefined ? Buffer.from(taken.bytes) : Readable.from(whole(taken));
  return { status, headers: headerList(ctx.response.headers), body: taken?.bytes ?? null, whole: taken?.rest === undefined };
}

/** The body that Koa sends if a handler has set a status and no body; undefined if Koa sends none. */
function statusText(ctx: ParameterizedContext, status: number): string | undefined {
  if ([204, 205, 304].includes(status) || ctx.method === "HEAD") return undefined;
  if ((ctx.response as { _explicitNullBody?: boolean })._explicitNullBody === true) return undefined;
  if (ctx.req.httpVersionMajor >= 2) return String(status);
  return ctx.status === status ? ctx.message || String(status) : (STATUS_CODES[status] ?? String(status));
}

/** Reads any kind of body that Koa accepts. */
async function bodyOf(body: unknown, bytesMax: number): Promise<Taken | null> {
  if (body === null || body === undefined) return null;
  const stream = isResponse(body) ? body.body : body instanceof Blob ? body.stream() : body;
  if (stream === null) return null;
  if (typeof stream === "object" && Symbol.asyncIterator in stream) return await take(stream as AsyncIterable<Uint8Array>, bytesMax);
  const bytes = stream instanceof Uint8Array ? stream : Buffer.from(typeof stream === "string" ? stream : JSON.stringify(stream));
  return await take(Readable.from([bytes]), bytesMax);
}

function replace(ctx: ParameterizedContext, { status, headers, body, thrown }: Reply): void {
  for (const name of Object.keys(ctx.response.headers)) ctx.remove(name);
  if (thrown !== undefined) {
    for (const [name, value] of headersByName(headers)) if (!name.startsWith("content-")) ctx.set(name, value);
    throw errorOf(ctx, status, thrown, headers);
  }
  // If the body is the one that Koa makes from the status, Koa makes it again: outer middleware sees the same as the first time.
  if (body === null || Buffer.from(body).toString() !== statusText(ctx, status)) {
    ctx.body = body === null ? null : Buffer.from(body);
    if (body === null) ctx.remove("content-type");
  }
  // Set after the body, because setting a body changes status and content type.
  ctx.status = status;
  for (const [name, value] of headersByName(headers)) ctx.set(name, value);
}
