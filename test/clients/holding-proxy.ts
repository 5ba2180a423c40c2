import { createServer, type IncomingMessage, type ServerResponse, request as send } from "node:http";
import type { AddressInfo } from "node:net";
import type { EffectServer } from "onceflow/testing";
import { type Gate, gate } from "../kit/gate.js";

/** A request that the proxy holds: before it reaches the server ("request"), or after the server has answered it ("reply"). */
export interface Held {
  readonly arrived: Promise<void>;
  release(): void;
}

interface Hold {
  readonly path: string;
  readonly point: "request" | "reply";
  readonly arrived: Gate;
  readonly released: Gate;
}

/** Stands between a client and its servers: the API below /onceflow, and the provider: /effects, and /find for its records. */
export class HoldingProxy {
  /** The paths of all requests that arrived. */
  readonly requests: string[] = [];
  readonly #holds: Hold[] = [];
  readonly #broken = new Map<string, "half" | "other">();
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  readonly #provider: EffectServer;
  /** The port of the API: a test changes it when it starts another server. */
  apiPort: number;

  constructor(apiPort: number, provider: EffectServer) {
    this.apiPort = apiPort;
    this.#provider = provider;
  }

  async listen(): Promise<void> {
    await new Promise<void>((listening) => this.#server.listen(0, "127.0.0.1", listening));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  /** Holds the next request to this path. */
  hold(path: string, point: Hold["point"]): Held {
    const held: Hold = { path, point, arrived: gate(), released: gate() };
    this.#holds.push(held);
    return { arrived: held.arrived.opened, release: () => held.released.open() };
  }

  /** Breaks the next reply to this path: its connection breaks in the middle ("half"), or another server answers in place of the API ("other"). */
  breakNext(path: string, how: "half" | "other"): void {
    this.#broken.set(path, how);
  }

  close(): Promise<void> {
    for (const { released } of this.#holds) released.open();
    return new Promise((closed) => {
      this.#server.close(() => closed());
      this.#server.closeAllConnections();
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? "";
    this.requests.push(path);
    response.on("error", () => {});
    const body = await bodyOf(request);
    await this.#waitAt(path, "request");
    if (response.destroyed) return;
    const broken = this.#broken.get(path);
    this.#broken.delete(path);
    if (broken === "other") return void response.setHeader("content-type", "application/json").end("{}");
    if (path === "/find") {
      const found = this.#provider.effects.find(String(request.headers["idempotency-key"]));
      response.end(JSON.stringify(found === "absent" ? null : found));
      return;
    }
    const target = path === "/effects" ? this.#provider.url : `http://127.0.0.1:${this.apiPort}${path}`;
    const { host: _, ...headers } = request.headers;
    const upstream = send(target, { method: "POST", headers, agent: false }, async (answer) => {
      const received = await bodyOf(answer).catch(() => undefined);
      await this.#waitAt(path, "reply");
      if (received === undefined) return void response.destroy();
      if (broken === "half") {
        response.writeHead(answer.statusCode ?? 502, { "content-length": received.length });
        return void response.write(received.subarray(0, received.length / 2), () => response.destroy());
      }
      response.writeHead(answer.statusCode ?? 502, { "content-type": answer.headers["content-type"] ?? "text/plain" }).end(received);
    });
    // The server is down: so is the connection of its client.
    upstream.on("error", () => response.destroy());
    upstream.end(body);
  }

  async #waitAt(path: string, point: Hold["point"]): Promise<void> {
    const at = this.#holds.findIndex((hold) => hold.path === path && hold.point === point);
    const [held] = at < 0 ? [] : this.#holds.splice(at, 1);
    if (held === undefined) return;
    held.arrived.open();
    await held.released.opened;
  }
}

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
