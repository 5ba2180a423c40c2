import type { IncomingMessage } from "node:http";
import type { Http2ServerRequest, ServerHttp2Stream } from "node:http2";
import { InvalidInputError } from "../../core/errors/errors.js";
import type { RequestBody } from "../fingerprint.js";
import { tooLong } from "../web.js";

/** A request of Express, Koa or Nest: unread, or with the body that a parser has read. */
export interface MaybeParsed {
  readonly body?: unknown;
  /** The bytes, if the parser is configured to keep them. */
  readonly rawBody?: unknown;
}

/** The body for the fingerprint: its bytes if they are available, else the parsed body. */
export async function nodeBody(request: IncomingMessage, { body, rawBody }: MaybeParsed, bytesMax: number): Promise<RequestBody> {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLong(bytesMax);
  for (const known of [rawBody, body])
    if (known instanceof Uint8Array || typeof known === "string") return bounded(Buffer.from(known), bytesMax);
  if (body === undefined) return await streamBody(request, bytesMax);
  if (!isEmptyObject(body) || !mayHaveBody(request)) return { parsed: body };
  // A parser that skips a body because of its content type sets an empty object: then the body is still unread.
  const unseen = { parsed: body };
  if (!wasRead(request)) return { ...(await streamBody(request, bytesMax)), unseen };
  if (!isParsedEmpty(request)) throw readBefore();
  return { parsed: body, seenEmpty: true, unseen };
}

/** The bytes of an unread body. Version 0.1.0 could not read HTTP/2 bodies: `unseen` is what it recorded instead. */
export async function streamBody(request: IncomingMessage, bytesMax: number): Promise<RequestBody> {
  const bytes = await peek(request, bytesMax);
  if (request.httpVersionMajor < 2) return { bytes };
  return { bytes, unseen: { bytes: new Uint8Array() }, ...(bytes.byteLength === 0 ? { seenEmpty: true } : {}) };
}

function isEmptyObject(body: unknown): boolean {
  return typeof body === "object" && body !== null && !Array.isArray(body) && Object.keys(body).length === 0;
}

/** Bodies that this module read and put back; Node reports them as read. */
const putBack = new WeakMap<IncomingMessage, Uint8Array>();

function wasRead(request: IncomingMessage): boolean {
  return !putBack.has(request) && (request.readableDidRead || request.readableEnded);
}

/** Whether a parser really parsed an empty object. Other readers consume the body and leave an empty object. */
function isParsedEmpty(request: IncomingMessage): boolean {
  const { "content-type": type = "", "content-length": length } = request.headers;
  const parsed = (request as { _body?: unknown })._body === true || /[/+]json\b|x-www-form-urlencoded/i.test(type);
  return parsed || length === "{}".length.toString();
}

function mayHaveBody(request: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  if (length !== undefined) return Number(length) !== 0;
  // HTTP/2 requires neither header.
  return encoding !== undefined || (request.httpVersionMajor >= 2 && !streamOf(request).endAfterHeaders);
}

function streamOf(request: IncomingMessage): ServerHttp2Stream {
  return (request as unknown as Http2ServerRequest).stream;
}

function readBefore(): InvalidInputError {
  return new InvalidInputError(
    "body",
    "was read before the idempotency middleware; mount the middleware before body parsers, or keep the bytes as request.rawBody",
  );
}

function bounded(bytes: Buffer, bytesMax: number): RequestBody {
  if (bytes.byteLength > bytesMax) throw tooLong(bytesMax);
  return { bytes };
}

/** Reads the whole body and puts it back, so that the handler finds the request unread. */
async function peek(request: IncomingMessage, bytesMax: number): Promise<Uint8Array> {
  if (!mayHaveBody(request)) return new Uint8Array();
  if (wasRead(request)) throw readBefore();
  const known = putBack.get(request);
  if (known !== undefined && known.byteLength <= bytesMax) return known;
  if (known !== undefined) throw tooLong(bytesMax);
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLong(bytesMax);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for (;;) {
    // Reads only if bytes are available: a read at the end would emit "end" before the handler listens.
    while (request.readableLength > 0) {
      const chunk = request.read() as Buffer;
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes > bytesMax) throw tooLong(bytesMax);
    }
    if (isComplete(request)) break;
    await moreOf(request);
  }
  const whole = Buffer.concat(chunks);
  // In the same turn of the event loop as the last read: "end" is emitted in the next one, and only if nothing is left to read.
  if (whole.byteLength > 0) request.unshift(whole);
  putBack.set(request, whole);
  return whole;
}

/** Whether the whole body has arrived. `complete` of an HTTP/2 request is true only after it has also been read. */
function isComplete(request: IncomingMessage): boolean {
  if (request.httpVersionMajor < 2) return request.complete;
  const { readableEnded, aborted, rstCode } = streamOf(request);
  if (aborted || rstCode !== 0) throw clientLeft();
  return readableEnded;
}

function clientLeft(): Error {
  return new Error("the client disconnected before its request was complete");
}

function moreOf(request: IncomingMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    const broken = (error?: Error) => end(() => reject(error ?? clientLeft()));
    const ready = () => end(resolve);
    const end = (settle: () => void) => {
      request.off("readable", ready).off("end", ready).off("error", broken).off("close", broken);
      settle();
    };
    request.on("readable", ready).on("end", ready).on("error", broken).on("close", broken);
  });
}
