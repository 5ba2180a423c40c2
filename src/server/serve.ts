import type { Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ConfigurationError } from "../core/errors/errors.js";
import { whole } from "../core/ledger/key-ref.js";
import type { Runtime } from "../exports/graph.js";
import { createApp } from "./app.js";
import { missingPackages } from "./load-hono.js";
import { isLoopback } from "./loopback.js";
import type { AppOptions } from "./options.js";

export interface ServeOptions extends Omit<AppOptions, "signal"> {
  /** Default 127.0.0.1. Any other than a loopback address needs a token. */
  readonly host?: string;
  /** Default 4000; 0: a free one. */
  readonly port?: number;
}

export interface Served {
  readonly url: string;
  readonly port: number;
  /** Takes no more requests, ends event streams, and waits for the others. The runtime is left as it is. */
  close(): Promise<void>;
}

/** How long requests have that are under way when the server is closed. */
const closeMsMax = 10_000;

/**
 * Listens. Resolves when it does.
 *
 * @example
 * const server = await serve(runtime, { port: 4000 });
 */
export async function serve(runtime: Runtime, { host = "127.0.0.1", port = 4000, ...options }: ServeOptions = {}): Promise<Served> {
  whole("port", port, 0, 65_535);
  if (options.token === undefined && !isLoopback(host))
    throw new ConfigurationError(
      `[onceflow] the server is not bound to ${host} without a token: anybody could trigger flows and read payloads. ` +
        "Set a token (--token-file, ONCEFLOW_TOKEN), or bind it to 127.0.0.1",
      { code: "TOKEN_MISSING" },
    );
  const { createAdaptorServer } = await loadAdapter();
  const stop = new AbortController();
  const app = createApp(runtime, { ...options, signal: stop.signal });
  const server = createAdaptorServer({ fetch: app.fetch }) as HttpServer;
  const address = await listen(server, host, port);
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`,
    port: address.port,
    close: async () => {
      stop.abort(new Error("the server is being stopped"));
      await closed(server);
    },
  };
}

async function loadAdapter(): Promise<typeof import("@hono/node-server")> {
  try {
    return await import("@hono/node-server");
  } catch (error) {
    throw missingPackages(error);
  }
}

function listen(server: HttpServer, host: string, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const why = error.code === "EADDRINUSE" ? `port ${port} is taken; choose another (0: any free one)` : String(error.code);
      reject(new ConfigurationError(`[onceflow] the server cannot listen on ${host}: ${why}`, { code: "CANNOT_LISTEN", cause: error }));
    });
    server.listen(port, host, () => resolve(server.address() as AddressInfo));
  });
}

function closed(server: HttpServer): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(() => server.closeAllConnections(), closeMsMax);
    server.close(() => {
      clearTimeout(late);
      resolve();
    });
    server.closeIdleConnections();
  });
}
