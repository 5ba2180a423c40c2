import type { IncomingMessage } from "node:http";
import type { Http2ServerRequest, ServerHttp2Stream } from "node:http2";
import { InvalidInputError } from "../../core/errors/errors.js";
import type { RequestBody } from "../fingerprint.js";
import { tooLong } from "../web.js";

/** A request as Express, Koa and Nest leave it: read by nobody yet, or with what a parser made of it. */
export interface MaybeParsed {
  readonly body?: unknown;
  /** The bytes, where a parser was told to keep them. */
  readonly rawBody?: unknown;
}

/** The body for the fingerprint: its bytes wherever they can be had, else what the parser made of them. */
export async function nodeBody(request: IncomingMessage, { body, rawBody }: MaybeParsed, bytesMax: number): Promise<RequestBody> {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLong(bytesMax);
  for (const known of [rawBody, body])
    if (known instanceof Uint8Array || typeof known === "string") return bounded(Buffer.from(known), bytesMax);
  if (body === undefined) return await streamBody(request, bytesMax);
  if (!isEmptyObject(body) || !mayHaveBody(request)) return { parsed: body };
  // Parsers leave an empty object behind for a body that they skipped, because of its content type: then it is still unread.
  const unseen = { parsed: body };
  if (!wasRead(request)) return { ...(await streamBody(request, bytesMax)), unseen };
  if (!isParsedEmpty(request)) throw readBefore();
  return { parsed: body, seenEmpty: true, unseen };
}

/** The bytes of a body that has not been read. 0.1.0 did not see those of HTTP/2. */
export async function streamBody(request: IncomingMessage, bytesMax: number): Promise<RequestBody> {
  const bytes = await peek(request, bytesMax);
  if (request.httpVersionMajor < 2) return { bytes };
  return { bytes, unseen: { bytes: new Uint8Array() }, ...(bytes.byteLength === 0 ? { seenEmpty: true } : {}) };
}

function isEmptyObject(body: unknown): boolean {
  return typeof body === "object" && body !== null && !Array.isArray(body) && Object.keys(body).length === 0;
}

/** Bodies that were read and put back: Node counts them as read. */
const putBack = new WeakMap<IncomingMessage, Uint8Array>();

function wasRead(request: IncomingMessage): boolean {
  return !putBack.has(request) && (request.readableDidRead || request.readableEnded);
}

/** Whether a parser read the body and made the empty object of it. Other readers leave one in the place of a body that is gone. */
function isParsedEmpty(request: IncomingMessage): boolean {
  const { "content-type": type = "", "content-length": length } = request.headers;
  const parsed = (request as { _body?: unknown })._body === true || /[/+]json\b|x-www-form-urlencoded/i.test(type);
  return parsed || length === "{}".length.toString();
}

function mayHaveBody(request: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  if (length !== undefined) return Number(length) !== 0;
  // HTTP/2 needs neither of the two.
  return encoding !== undefined || (request.httpVersionMajor >= 2 && !streamOf(request).endAfterHeaders);
}

function streamOf(request: IncomingMessage): ServerHttp2Stream {
  return (request as unknown as Http2ServerRequest).stream;
}

function readBefore(): InvalidInputError {
  return new InvalidInputError(
    "body",
    "was read before the idempotency middleware could see it: mount that first, or keep the bytes as request.rawBody",
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
    // Not at the end: a read there, with nothing left, would emit "end" before the handler listens.
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
  // In the same turn as the last read: "end" is emitted in the next one, and only if nothing is left to read.
  if (whole.byteLength > 0) request.unshift(whole);
  putBack.set(request, whole);
  return whole;
}

/** Whether all of the body has arrived. `complete` of an HTTP/2 request is true only when it has been read, too. */
function isComplete(request: IncomingMessage): boolean {
  if (request.httpVersionMajor < 2) return request.complete;
  const { readableEnded, aborted, rstCode } = streamOf(request);
  if (aborted || rstCode !== 0) throw clientLeft();
  return readableEnded;
}

function clientLeft(): Error {
  return new Error("the client left before its request was complete");
}

function moreOf(request: IncomingMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    const broken = (error?: Error) => end(() => reject(error ?? clientLeft()));
    const ready = () => end(resolve);
    const end = (tell: () => void) => {
      request.off("readable", ready).off("end", ready).off("error", broken).off("close", broken);
      tell();
    };
    request.on("readable", ready).on("end", ready).on("error", broken).on("close", broken);
  });
}
