import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { type Captured, headerList, headersByName, type Reply } from "../reply.js";

type Done = (error?: Error | null) => void;

/**
 * Holds back what is written to a Node response until it may go out.
 *
 *   held ──end, or longer than what is kept──▶ captured ──release──▶ as if nobody had held it
 *                                                       └─replace──▶ another response
 *
 * Meanwhile a client that leaves is not noticed by the handler: its work is finished, and kept for the retry.
 */
export class NodeCapture {
  readonly captured: Promise<Captured>;
  readonly #response: ServerResponse;
  readonly #bytesMax: number;
  readonly #chunks: Buffer[] = [];
  readonly #onEnd: Done[] = [];
  #bytes = 0;
  #ended = false;
  #full = false;
  #closed = false;
  #begunWith: number | undefined;
  #tell: (captured: Captured) => void = () => {};

  constructor(response: ServerResponse, bytesMax: number) {
    this.#response = response;
    this.#bytesMax = bytesMax;
    this.captured = new Promise((resolve) => {
      this.#tell = resolve;
    });
    this.#hold();
  }

  /** What was held goes out, and what is still to come goes out by itself. */
  release(more: Reply["headers"]): void {
    const response = this.#response;
    this.#letGo();
    if (isGone(response)) return this.#tellClosed();
    for (const [name, value] of more) response.setHeader(name, value);
    const whole = Buffer.concat(this.#chunks);
    if (this.#ended) return void response.end(whole, () => this.#onEnd.forEach((done) => void done()));
    // Whoever writes was told to wait.
    if (response.write(whole)) response.emit("drain");
  }

  /** Something else goes out; whatever is written after this goes nowhere. */
  replace({ status, headers, body }: Reply): void {
    const response = this.#response;
    this.#letGo();
    if (isGone(response)) return this.#tellClosed();
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    response.statusCode = status;
    response.statusMessage = "";
    for (const [name, value] of headersByName(headers)) response.setHeader(name, value);
    response.end(body ?? undefined);
    this.#silence();
  }

  /** The framework answers with an error of its own. */
  abandon(): void {
    this.#letGo();
    this.#tellClosed();
  }

  #hold(): void {
    const response = this.#response;
    const own = (name: string, value: unknown) => Object.defineProperty(response, name, { value, configurable: true, writable: true });
    own("writeHead", (status: number, ...rest: unknown[]) => this.#writeHead(status, rest));
    own("flushHeaders", () => {});
    own("write", (chunk: unknown, ...rest: unknown[]) => this.#write(chunk, rest));
    own("end", (...rest: unknown[]) => this.#end(rest));
    own("emit", (event: string, ...values: unknown[]) => {
      if (event !== "close") return Object.getPrototypeOf(response).emit.call(response, event, ...values);
      this.#closed = true;
      return false;
    });
    // Nothing is sent until the handler is done: until then an error can still be answered as such.
    Object.defineProperty(response, "headersSent", { get: () => this.#ended, configurable: true });
    Object.defineProperty(response, "writableEnded", { get: () => this.#ended, configurable: true });
  }

  #letGo(): void {
    const response = this.#response as unknown as Record<string, unknown>;
    for (const name of ["writeHead", "flushHeaders", "write", "end", "emit", "headersSent", "writableEnded"]) delete response[name];
  }

  /** Who does not know that it was answered may still be writing. */
  #silence(): void {
    const response = this.#response;
    const nothing = { value: () => response, configurable: true, writable: true };
    for (const name of ["end", "writeHead", "setHeader", "appendHeader", "removeHeader"]) Object.defineProperty(response, name, nothing);
    Object.defineProperty(response, "write", { value: () => true, configurable: true, writable: true });
  }

  #tellClosed(): void {
    if (this.#closed) this.#response.emit("close");
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

  #write(chunk: unknown, rest: unknown[]): boolean {
    this.#take(chunk, rest[0]);
    const done = rest.find((one) => typeof one === "function") as Done | undefined;
    if (done) process.nextTick(done);
    if (this.#bytes > this.#bytesMax && !this.#full) {
      this.#full = true;
      this.#tell(this.#capture(false));
    }
    return !this.#full;
  }

  #end(rest: unknown[]): ServerResponse {
    if (this.#ended) return this.#response;
    const done = rest.find((one) => typeof one === "function") as Done | undefined;
    if (done) this.#onEnd.push(done);
    if (typeof rest[0] !== "function" && rest[0] !== undefined && rest[0] !== null) this.#take(rest[0], rest[1]);
    this.#ended = true;
    this.#tell(this.#capture(this.#bytes <= this.#bytesMax));
    return this.#response;
  }

  #take(chunk: unknown, encoding: unknown): void {
    const { statusCode } = this.#response;
    // Somebody has begun and failed, and somebody else answers in its place: that is the whole response.
    if (this.#begunWith !== undefined && this.#begunWith !== statusCode && !this.#full) {
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
    return { status, headers: headerList(this.#response.getHeaders()), body: whole ? Buffer.concat(this.#chunks) : null, whole };
  }
}

function isGone(response: ServerResponse): boolean {
  return response.destroyed || response.socket?.destroyed === true;
}

function encodingOf(encoding: unknown): BufferEncoding {
  return typeof encoding === "string" && Buffer.isEncoding(encoding) ? encoding : "utf8";
}

/** [[name, value], …], or name and value in turn. */
function pairsOf(headers: readonly unknown[]): [string, string | string[]][] {
  if (Array.isArray(headers[0])) return headers as [string, string][];
  return headers.flatMap((name, i) => (i % 2 === 0 ? [[String(name), headers[i + 1] as string] as [string, string]] : []));
}
