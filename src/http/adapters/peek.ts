import type { IncomingMessage } from "node:http";
import { InvalidInputError } from "../../core/errors.js";
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
  if (body !== undefined) return { parsed: body };
  return { bytes: await peek(request, bytesMax) };
}

function bounded(bytes: Buffer, bytesMax: number): RequestBody {
  if (bytes.byteLength > bytesMax) throw tooLong(bytesMax);
  return { bytes };
}

/** Reads the whole body, and puts it back: whoever reads the request after this finds it unread. */
export async function peek(request: IncomingMessage, bytesMax: number): Promise<Uint8Array> {
  const length = Number(request.headers["content-length"] ?? 0);
  if (length === 0 && request.headers["transfer-encoding"] === undefined) return new Uint8Array();
  if (request.readableDidRead || request.readableEnded)
    throw new InvalidInputError(
      "body",
      "was read before the idempotency middleware could see it: mount that first, or keep the bytes as request.rawBody",
    );
  if (length > bytesMax) throw tooLong(bytesMax);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for (;;) {
    for (let chunk = request.read() as Buffer | null; chunk !== null; chunk = request.read() as Buffer | null) {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes > bytesMax) throw tooLong(bytesMax);
    }
    if (request.complete) break;
    await moreOf(request);
  }
  const whole = Buffer.concat(chunks);
  // In the same turn as the last read: the end is told in the next one, and only if nothing is left to read.
  if (whole.byteLength > 0) request.unshift(whole);
  return whole;
}

function moreOf(request: IncomingMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    const broken = (error?: Error) => end(() => reject(error ?? new Error("the client left before its request was complete")));
    const ready = () => end(resolve);
    const end = (tell: () => void) => {
      request.off("readable", ready).off("end", ready).off("error", broken).off("close", broken);
      tell();
    };
    request.on("readable", ready).on("end", ready).on("error", broken).on("close", broken);
  });
}
