import { STATUS_CODES } from "node:http";
import { PassThrough, Readable } from "node:stream";
import type { Middleware, ParameterizedContext } from "koa";
import { isResponse } from "../../core/web-kinds.js";
import { answer, isKeyed } from "../answer.js";
import type { Asked } from "../asked.js";
import { checkOptions, type IdempotentOptions } from "../options.js";
import { type Captured, headerList, headersByName, type Reply } from "../reply.js";
import { type Taken, take, whole } from "../take.js";
import { type MaybeParsed, nodeBody } from "./peek.js";

/**
 * Koa middleware: what comes after it is executed once per key. Mount it behind whoever finds out who asks.
 *
 * @example
 * app.use(idempotency({ store, scope: (ctx) => ctx.state.user.id }));
 */
export function idempotency(options: IdempotentOptions<ParameterizedContext>): Middleware {
  const policy = checkOptions(options);
  return async (ctx, next) => {
    const asked = askedOf(ctx);
    if (!isKeyed(policy, asked)) return await next();
    const reply = await answer(policy, asked, async () => {
      const letGo = keepFromClosing(ctx);
      await next().catch((error: unknown) => refused(ctx, error));
      return await captured(ctx, letGo(), policy.responseBytesMax);
    });
    if (reply === "captured") for (const [name, value] of policy.ownHeaders) ctx.set(name, value);
    else replace(ctx, reply);
  };
}

function askedOf(ctx: ParameterizedContext): Asked<ParameterizedContext> {
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

/** `ctx.throw(404)` is how Koa answers: it is a response like any other, and has the form that Koa would give it. */
function refused(ctx: ParameterizedContext, error: unknown): void {
  const { status, expose, message, headers } = error as { status?: unknown; expose?: unknown; message?: string; headers?: object };
  if (typeof status !== "number" || status < 400 || status >= 500 || expose !== true) throw error;
  for (const name of Object.keys(ctx.response.headers)) ctx.remove(name);
  for (const [name, value] of headerList((headers ?? {}) as Record<string, unknown>)) ctx.append(name, value);
  ctx.status = status;
  ctx.type = "text";
  ctx.body = message ?? STATUS_CODES[status];
}

/**
 * Koa destroys a body that is a stream when the client leaves. Here it is read to its end all the same, and kept for the
 * retry: Koa gets another stream in its place. Returns how to end that, which tells the body.
 */
function keepFromClosing({ response }: ParameterizedContext): () => unknown {
  const proto = Object.getPrototypeOf(response) as object;
  let held: unknown = Reflect.get(proto, "body", response);
  Object.defineProperty(response, "body", {
    configurable: true,
    get: () => held,
    set: (body: unknown) => {
      held = body;
      Reflect.set(proto, "body", body instanceof Readable ? new PassThrough() : body, response);
    },
  });
  return () => {
    Reflect.deleteProperty(response, "body");
    return held;
  };
}

async function captured(ctx: ParameterizedContext, body: unknown, bytesMax: number): Promise<Captured> {
  const taken = await bodyOf(body, bytesMax);
  if (taken !== null) ctx.body = taken.rest === undefined ? Buffer.from(taken.bytes) : Readable.from(whole(taken));
  const { status } = ctx;
  return { status, headers: headerList(ctx.response.headers), body: taken?.bytes ?? null, whole: taken?.rest === undefined };
}

/** Whatever Koa takes for a body. */
async function bodyOf(body: unknown, bytesMax: number): Promise<Taken | null> {
  if (body === null || body === undefined) return null;
  const stream = isResponse(body) ? body.body : body instanceof Blob ? body.stream() : body;
  if (stream === null) return null;
  if (typeof stream === "object" && Symbol.asyncIterator in stream) return await take(stream as AsyncIterable<Uint8Array>, bytesMax);
  const bytes = stream instanceof Uint8Array ? stream : Buffer.from(typeof stream === "string" ? stream : JSON.stringify(stream));
  return await take(Readable.from([bytes]), bytesMax);
}

function replace(ctx: ParameterizedContext, { status, headers, body }: Reply): void {
  for (const name of Object.keys(ctx.response.headers)) ctx.remove(name);
  ctx.body = body === null ? null : Buffer.from(body);
  // Setting a body sets a status and a type of Koa's own.
  ctx.status = status;
  if (body === null) ctx.remove("content-type");
  for (const [name, value] of headersByName(headers)) ctx.set(name, value);
}
