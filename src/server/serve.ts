import type { Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ConfigurationError, InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { whole } from "../core/ledger/key-ref.js";
import { checkText } from "../core/runs/log.js";
import { isLoopback } from "../core/values/loopback.js";
import { digestOf, sameDigest } from "../core/values/secret.js";
import type { Runtime } from "../exports/graph.js";
import { type Authorize, apiRoles } from "./api/caller.js";
import { createApi } from "./api/create-api.js";
import { type ApiOptions, apiOptionNames } from "./api/options.js";
import { createApp } from "./app.js";
import { bearerOf } from "./guard.js";
import { missingPackages } from "./load-hono.js";
import { type AppOptions, checkToken } from "./options.js";

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

/** Options of `serve` for a store: the API of `createApi`. */
export interface ServeStoreOptions extends Omit<ApiOptions, "authorize" | "signal" | "path"> {
  /** Token that clients must send as `Authorization: Bearer …`: 16 or more printable ASCII characters. It has all roles, in all scopes. */
  readonly token: string;
  /** Name of those who have the token, in the operator log. Default "token". */
  readonly actor?: string;
  /** Address to bind. Default 127.0.0.1. */
  readonly host?: string;
  /** Default 4000; 0 chooses a free port. */
  readonly port?: number;
}

/**
 * Serves the HTTP API of a runtime, or with `{ store, token }` that of a store. Resolves when the server listens. Throws ConfigurationError: `TOKEN_MISSING` (not a
 * loopback address, or a store, and no token), `CANNOT_LISTEN` (port in use, for example), `MISSING_PACKAGE` (Hono is not installed).
 *
 * @example
 * const server = await serve(runtime, { port: 4000 });
 */
export async function serve(runtime: Runtime, options?: ServeOptions): Promise<Served>;
export async function serve(options: ServeStoreOptions): Promise<Served>;
export async function serve(served: Runtime | ServeStoreOptions, options: ServeOptions = {}): Promise<Served> {
  if (isRuntime(served)) return await serveRuntime(served, options);
  return await serveStore(served);
}

const { authorize: _authorize, path: _path, signal: _signal, ...apiNames } = apiOptionNames;
const storeOptionNames: OptionNames<ServeStoreOptions> = { ...apiNames, token: true, actor: true, host: true, port: true };

/** A runtime has a store, too. */
function isRuntime(served: Runtime | ServeStoreOptions): served is Runtime {
  return typeof (served as Partial<Runtime> | undefined)?.trigger === "function";
}

async function serveRuntime(runtime: Runtime, { host = "127.0.0.1", port = 4000, ...options }: ServeOptions): Promise<Served> {
  whole("port", port, 0, 65_535);
  if (options.token === undefined && !isLoopback(host))
    throw new ConfigurationError(
      `[onceflow] refusing to listen on ${host} without a token: anyone on the network could trigger flows and read payloads. ` +
        "Set a token (--token-file, ONCEFLOW_TOKEN), or use host 127.0.0.1",
      { code: "TOKEN_MISSING" },
    );
  return await served({ host, port, handlerOf: (signal) => createApp(runtime, { ...options, signal }).fetch });
}

async function serveStore(options: ServeStoreOptions): Promise<Served> {
  if (typeof options !== "object" || options === null) throw new InvalidInputError("serve", "needs a runtime, or { store, token }");
  knownOptions("serve", options, storeOptionNames);
  const { token, actor = "token", host = "127.0.0.1", port = 4000, ...rest } = options;
  whole("port", port, 0, 65_535);
  if (token === undefined)
    throw new ConfigurationError("[onceflow] refusing to serve a store without a token: every program of this machine could act on it", {
      code: "TOKEN_MISSING",
    });
  checkToken(token);
  checkText("actor", actor);
  const authorize = tokenAuthorize(token, actor);
  return await served({ host, port, handlerOf: (signal) => createApi({ ...rest, authorize, signal }) });
}

/** Knows one sender, by its token, which is compared in constant time. */
function tokenAuthorize(token: string, actor: string): Authorize {
  const digest = digestOf(token);
  const caller = { actor, roles: apiRoles, scopes: "*" } as const;
  return ({ headers }) => (sameDigest(digest, digestOf(bearerOf(headers.get("authorization") ?? ""))) ? caller : null);
}

interface Listening {
  readonly host: string;
  readonly port: number;
  /** `signal` aborts when the server closes. */
  readonly handlerOf: (signal: AbortSignal) => (request: Request) => Response | Promise<Response>;
}

async function served({ host, port, handlerOf }: Listening): Promise<Served> {
  const { createAdaptorServer } = await loadAdapter();
  const stop = new AbortController();
  const server = createAdaptorServer({ fetch: handlerOf(stop.signal) }) as HttpServer;
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
