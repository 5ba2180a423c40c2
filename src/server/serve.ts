import type { Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ConfigurationError } from "../core/errors/errors.js";
import { whole } from "../core/ledger/key-ref.js";
import { isLoopback } from "../core/values/loopback.js";
import type { Runtime } from "../exports/graph.js";
import { createApp } from "./app.js";
import { missingPackages } from "./load-hono.js";
import type { AppOptions } from "./options.js";

/** Options of `serve`. */
export interface ServeOptions extends Omit<AppOptions, "signal"> {
  /** Address to bind. Default 127.0.0.1. An address that is not loopback requires a token. */
  readonly host?: string;
  /** Default 4000; 0 chooses a free port. */
  readonly port?: number;
}

/** A running server. */
export interface Served {
  readonly url: string;
  readonly port: number;
  /** Accepts no more requests, ends event streams, and waits up to 10 s for other requests. Does not stop the runtime. */
  close(): Promise<void>;
}

/** How long `close` waits for requests in progress. */
const closeMsMax = 10_000;

/**
 * Serves the HTTP API of a runtime. Resolves when the server listens. Throws ConfigurationError: `TOKEN_MISSING` (not a
 * loopback address and no token), `CANNOT_LISTEN` (port in use, for example), `MISSING_PACKAGE` (Hono is not installed).
 *
 * @example
 * const server = await serve(runtime, { port: 4000 });
 */
export async function serve(runtime: Runtime, { host = "127.0.0.1", port = 4000, ...options }: ServeOptions = {}): Promise<Served> {
  whole("port", port, 0, 65_535);
  if (options.token === undefined && !isLoopback(host))
    throw new ConfigurationError(
      `[onceflow] refusing to listen on ${host} without a token: anyone on the network could trigger flows and read payloads. ` +
        "Set a token (--token-file, ONCEFLOW_TOKEN), or use host 127.0.0.1",
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
      stop.abort(new Error("the server is shutting down"));
      await closeServer(server);
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
      const why = error.code === "EADDRINUSE" ? `port ${port} is in use; choose another (0: any free port)` : String(error.code);
      reject(new ConfigurationError(`[onceflow] the server cannot listen on ${host}: ${why}`, { code: "CANNOT_LISTEN", cause: error }));
    });
    server.listen(port, host, () => resolve(server.address() as AddressInfo));
  });
}

function closeServer(server: HttpServer): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(() => server.closeAllConnections(), closeMsMax);
    server.close(() => {
      clearTimeout(late);
      resolve();
    });
    server.closeIdleConnections();
  });
}
