import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { ownHeaders, withEarlier } from "../own-headers.js";
import { type Captured, headerList, headersByName, type Reply } from "../reply.js";
import { ResponseLayer } from "./response-layer.js";

type Done = (error?: Error | null) => void;

/**
 * Holds back what is written to a Node response until it may go out.
 *
 *   held ──end, or longer than what is kept──▶ captured ──release──▶ passes on to the layer below
 *     └──destroy──▶ failed                              └─replace──▶ another response; late writes are dropped
 *
 * Hooks that earlier middleware installed (express-session, compression) are the layer below: they see the response when it
 * is released or replaced. Meanwhile the handler does not notice if the client disconnects: it finishes, and its response is
 * stored for the retry.
 */
export class NodeCapture {
  /** Rejects when the handler destroys the response before it has ended. */
  readonly captured: Promise<Captured>;
  readonly #response: ServerResponse;
  readonly #layer: ResponseLayer;
  readonly #before: Reply["headers"];
  readonly #bytesMax: number;
  readonly #chunks: Buffer[] = [];
  readonly #onEnd: Done[] = [];
  #bytes = 0;
  #ended = false;
  #full = false;
  #destroyed: { readonly error: Error | undefined } | undefined;
  #begunWith: number | undefined;
  #resolve: (captured: Captured) => void = () => {};
  #reject: (error: Error) => void = () => {};

  constructor(response: ServerResponse, bytesMax: number) {
    this.#response = response;
    this.#bytesMax = bytesMax;
    this.#before = headerList(response.getHeaders());
    this.captured = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // After its time limit a handler may still destroy the response: then no caller handles the rejection.
    this.captured.catch(() => {});
    this.#layer = new ResponseLayer(response, {
      ended: () => this.#ended,
      destroyed: () => this.#destroyed !== undefined,
      writeHead: (status, rest) => this.#writeHead(status, rest),
      write: (chunk, rest) => this.#write(chunk, rest),
      end: (rest) => this.#end(rest),
      destroy: (error) => this.#destroy(error),
    });
  }

  /** Sends the held response; later writes of the handler follow it. */
  release(more: Reply["headers"]): void {
    const response = this.#response;
    const waiting = this.#layer.pass();
    if (this.#layer.isGone) return;
    for (const [name, value] of more) response.setHeader(name, value);
    const whole = Buffer.concat(this.#chunks);
    if (this.#ended) return void this.#layer.end(whole, () => this.#onEnd.forEach((done) => void done()));
    // The writer waits for "drain".
    if (this.#layer.write(whole)) for (const resume of waiting) resume.call(response);
  }

  /** Sends another response, with the headers of earlier middleware. Later writes of the handler are dropped. */
  replace(reply: Reply): void {
    const response = this.#response;
    this.#layer.pass();
    if (this.#layer.isGone) return;
    const { status, headers, body } = withEarlier(reply, this.#before);
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    response.statusCode = status;
    response.statusMessage = "";
    for (const [name, value] of headersByName(headers)) response.setHeader(name, value);
    this.#layer.drop(status);
    this.#layer.end(body ?? undefined);
  }

  /** Lets the framework answer with its own error. True: the handler has destroyed the response, so the framework cannot. */
  abandon(): boolean {
    this.#layer.pass();
    if (this.#destroyed === undefined) return false;
    this.#response.destroy(this.#destroyed.error);
    return true;
  }

  #writeHead(status: number, rest: unknown[]): ServerResponse {
    const response = this.#response;
    response.statusCode = status;
    if (typeof rest[0] === "string") response.statusMessage = rest.shift() as string;
    const headers = rest[0] as OutgoingHttpHeaders | unknown[] | undefined;
    if (Array.isArray(headers)) for (const [name, value] of pairsOf(headers)) response.appendHeader(name, value);
    else for (const [name, value] of Object.entries(headers ?? {})) if (value !== undefined) response.setHeader(name, value);
    this.#begunWith ??= response.statusCode;
    return response;
  }

  /** Calls writeHead before the first write, as Node does, for hooks on `writeHead` that later middleware installed. */
  #implicitHead(): void {
    if (this.#begunWith === undefined) this.#response.writeHead(this.#response.statusCode);
  }

  #write(chunk: unknown, rest: unknown[]): boolean {
    this.#take(chunk, rest[0]);
    const done = rest.find((one) => typeof one === "function") as Done | undefined;
    if (done) process.nextTick(done);
    if (this.#bytes > this.#bytesMax && !this.#full) {
      this.#full = true;
      this.#resolve(this.#capture(false));
    }
    return !this.#full;
  }

  #end(rest: unknown[]): ServerResponse {
    if (this.#ended) return this.#response;
    const done = rest.find((one) => typeof one === "function") as Done | undefined;
    if (done) this.#onEnd.push(done);
    if (typeof rest[0] !== "function" && rest[0] !== undefined && rest[0] !== null) this.#take(rest[0], rest[1]);
    else this.#implicitHead();
    this.#ended = true;
    this.#resolve(this.#capture(this.#bytes <= this.#bytesMax));
    return this.#response;
  }

  /** Without this the attempt would wait for an end that never comes. False: the outcome is known, so the layer below may be destroyed. */
  #destroy(error: Error | undefined): boolean {
    if (this.#ended || this.#full) return false;
    this.#destroyed ??= { error };
    this.#reject(error ?? new Error("the handler destroyed the response before it ended"));
    return true;
  }

  #take(chunk: unknown, encoding: unknown): void {
    this.#implicitHead();
    const { statusCode } = this.#response;
    // The status changed: a first response failed midway, and an error handler sends the whole response in its place.
    if (this.#begunWith !== statusCode && !this.#full) {
      this.#chunks.length = 0;
      this.#bytes = 0;
    }
    this.#begunWith = statusCode;
    const bytes = typeof chunk === "string" ? Buffer.from(chunk, encodingOf(encoding)) : Buffer.from(chunk as Uint8Array);
    this.#chunks.push(bytes);
    this.#bytes += bytes.byteLength;
  }

  #capture(whole: boolean): Captured {
    const { statusCode: status } = this.#response;
    const headers = ownHeaders(headerList(this.#response.getHeaders()), this.#before);
    return { status, headers, body: whole ? Buffer.concat(this.#chunks) : null, whole };
  }
}

function encodingOf(encoding: unknown): BufferEncoding {
  return typeof encoding === "string" && Buffer.isEncoding(encoding) ? encoding : "utf8";
}

/** Accepts [[name, value], …] and [name, value, name, value, …]. */
function pairsOf(headers: readonly unknown[]): [string, string | string[]][] {
  if (Array.isArray(headers[0])) return headers as [string, string][];
  return headers.flatMap((name, i) => (i % 2 === 0 ? [[String(name), headers[i + 1] as string] as [string, string]] : []));
}
