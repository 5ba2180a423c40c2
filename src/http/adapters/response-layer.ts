import type { ServerResponse } from "node:http";

/** Called instead of the response's methods while the response is held. */
export interface Holder {
  readonly ended: () => boolean;
  readonly destroyed: () => boolean;
  readonly writeHead: (status: number, rest: unknown[]) => ServerResponse;
  readonly write: (chunk: unknown, rest: unknown[]) => boolean;
  readonly end: (rest: unknown[]) => ServerResponse;
  /** False: the call goes to the layer below. */
  readonly destroy: (error: Error | undefined) => boolean;
}

type Method = (this: ServerResponse, ...rest: never[]) => unknown;
type Listener = (this: ServerResponse) => void;

const methods = ["writeHead", "flushHeaders", "write", "end", "emit", "destroy", "on", "addListener"] as const;
const headerMethods = ["setHeader", "appendHeader", "removeHeader"] as const;

/**
 * A layer of methods on a response, as middleware installs them: on top of the hooks of earlier middleware, below those of
 * later middleware. It stays where it is, because later hooks call it; what it does depends on the mode:
 *
 *   held ──pass──▶ passing: every call goes to the layer below
 *                    └──drop──▶ dropping: calls from above are ignored, the layer below finishes its own response
 */
export class ResponseLayer {
  readonly #response: ServerResponse;
  readonly #holder: Holder;
  readonly #below = {} as Record<(typeof methods)[number], Method>;
  readonly #masked = new Map<string, PropertyDescriptor | undefined>();
  #mode: "held" | "passing" | "dropping" = "held";
  #gone = false;
  #closed = false;
  #droppedFor = 0;
  #inHead = false;

  constructor(response: ServerResponse, holder: Holder) {
    this.#response = response;
    this.#holder = holder;
    this.#gone = response.destroyed;
    // With compression below, listeners for "drain" would wait for a stream that has not started. Until it starts they wait here.
    const emitter = Object.getPrototypeOf(response) as ServerResponse;
    for (const name of methods) this.#below[name] = response[name] as Method;
    this.#own("writeHead", (status: number, ...rest: unknown[]) => this.#writeHead(status, rest));
    this.#own("flushHeaders", () => (this.#mode === "passing" ? this.#call("flushHeaders", []) : undefined));
    this.#own("write", (chunk: unknown, ...rest: unknown[]) => {
      if (this.#mode === "held") return holder.write(chunk, rest);
      return this.#mode === "passing" ? this.#call("write", [chunk, ...rest]) : true;
    });
    this.#own("end", (...rest: unknown[]) => {
      if (this.#mode === "held") return holder.end(rest);
      return this.#mode === "passing" ? this.#call("end", rest) : response;
    });
    this.#own("destroy", (error?: Error) => {
      if (this.#mode === "held" && holder.destroy(error)) return response;
      return this.#call("destroy", [error]);
    });
    this.#own("emit", (event: string, ...values: unknown[]) => {
      if (this.#mode !== "held" || event !== "close") return this.#call("emit", [event, ...values]);
      this.#closed = true;
      return false;
    });
    for (const name of ["on", "addListener"] as const)
      this.#own(name, (event: string, listener: never) =>
        this.#mode === "held" ? emitter.on.call(response, event, listener) : this.#call(name, [event, listener]),
      );
    // Nothing is sent until the handler is done, so an error handler can still answer.
    this.#mask("headersSent", holder.ended);
    this.#mask("writableEnded", holder.ended);
    // Node sets these when the client disconnects.
    this.#mask("destroyed", holder.destroyed, (gone) => {
      this.#gone = gone;
    });
    this.#mask("closed", holder.destroyed);
  }

  /** Whether the client has disconnected. */
  get isGone(): boolean {
    return this.#gone || this.#response.socket?.destroyed === true;
  }

  /** Ends the hold. Moves the listeners for "drain" to the layer below and returns them. */
  pass(): Listener[] {
    const response = this.#response;
    this.#mode = "passing";
    for (const [name, before] of this.#masked)
      if (before === undefined) Reflect.deleteProperty(response, name);
      else Object.defineProperty(response, name, before);
    if (this.#gone) response.destroyed = true;
    const waiting = response.rawListeners("drain") as Listener[];
    for (const listener of waiting) {
      response.removeListener("drain", listener);
      this.#call("on", ["drain", listener]);
    }
    if (this.#closed) response.emit("close");
    return waiting;
  }

  /** From now on ignores calls from above. Hooks below may still set headers when the head is written. */
  drop(status: number): void {
    this.#mode = "dropping";
    this.#droppedFor = status;
    for (const name of headerMethods) {
      const below = this.#response[name] as Method;
      this.#own(name, (...rest: unknown[]) => (this.#inHead ? below.apply(this.#response, rest as never[]) : this.#response));
    }
  }

  write(chunk: Uint8Array): boolean {
    return this.#call("write", [chunk]) as boolean;
  }

  end(...rest: unknown[]): void {
    this.#call("end", rest);
  }

  #writeHead(status: number, rest: unknown[]): unknown {
    if (this.#mode === "held") return this.#holder.writeHead(status, rest);
    if (this.#mode === "passing") return this.#call("writeHead", [status, ...rest]);
    if (this.#response.headersSent) return this.#response;
    this.#inHead = true;
    try {
      return this.#call("writeHead", [this.#droppedFor]);
    } finally {
      this.#inHead = false;
    }
  }

  #call(name: (typeof methods)[number], rest: readonly unknown[]): unknown {
    return this.#below[name].apply(this.#response, rest as never[]);
  }

  #own(name: string, value: unknown): void {
    Object.defineProperty(this.#response, name, { value, configurable: true, writable: true, enumerable: true });
  }

  #mask(name: string, get: () => boolean, set: (value: boolean) => void = () => {}): void {
    this.#masked.set(name, Object.getOwnPropertyDescriptor(this.#response, name));
    Object.defineProperty(this.#response, name, { get, set, configurable: true });
  }
}
