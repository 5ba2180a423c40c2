import { resolve as resolvePath } from "node:path";
import { ConfigurationError, InvalidInputError } from "../core/errors/errors.js";
import { createStore } from "../core/store/create-store.js";
import type { Backend, Store } from "../core/store/store.js";
import type { StoreOptions } from "../core/store/store-options.js";
import { checkParameters } from "./url-parameters.js";

export interface OpenOptions extends StoreOptions {
  /** How long a process whose event loop is stuck keeps its leases. Default 60 s; 0: no thread stands in for it. */
  readonly stallMsMax?: number;
  /**
   * How long `open` waits for a server that cannot be reached, and how long every later connection may take. Default 5 s.
   * PostgreSQL only: a file has no server to wait for, and other stores have bounds of their own.
   */
  readonly connectMs?: number;
}

const optionNames: Readonly<Record<keyof OpenOptions, true>> = {
  clock: true,
  valueBytesMax: true,
  asideBytes: true,
  streamChunksMax: true,
  audit: true,
  purgeEveryMs: true,
  encryption: true,
  stallMsMax: true,
  connectMs: true,
};

/** Stores that `connectMs` means nothing to, and would be taken to obey. */
const ownConnectBounds = /^(mongodb|dynamodb|redis)/;

/** A store's folder is loaded when its URL is first opened, and its driver with it. */
const openers: Readonly<Record<string, (url: string, options: OpenOptions) => Promise<Backend>>> = {
  "memory:": async (url) => {
    if (url.slice("memory:".length) !== "")
      throw new InvalidInputError(
        "url",
        'of a store in memory is "memory:" and nothing more: it has no name and no parameters, and each open() makes a new one',
      );
    const { createMemoryLedger, memoryBackend } = await import("./memory/backend.js");
    return memoryBackend(createMemoryLedger());
  },
  "sqlite:": async (url, { clock, stallMsMax }) => {
    const { openSqlite } = await import("./sqlite/backend.js");
    const [path = "", query = ""] = url.slice("sqlite:".length).split("?");
    const parameters = new URLSearchParams(query);
    if (parameters.has("mode"))
      throw new InvalidInputError(
        "url",
        'has the parameter "mode"; a store cannot be opened read-only: every begin and settle writes. Leave it out',
      );
    checkParameters(parameters, ["driver"]);
    const driver = parameters.get("driver");
    if (path === "" || path === ":memory:")
      throw new InvalidInputError("url", 'needs a file, such as "sqlite:./onceflow.db"; or use "memory:"');
    if (driver !== null && driver !== "node:sqlite" && driver !== "@photostructure/sqlite")
      throw new InvalidInputError("url", `has an unknown driver "${driver}"; use node:sqlite or @photostructure/sqlite`);
    return openSqlite({
      path: resolvePath(wellFormed(() => decodeURIComponent(path.replace(/^\/\/(?=\/|\.)/, "")))),
      ...(driver === null ? {} : { driver }),
      ...(clock === undefined ? {} : { clock }),
      ...(stallMsMax === undefined ? {} : { stallMsMax }),
    });
  },
  "postgres:": openPostgresUrl,
  "postgresql:": openPostgresUrl,
  "mongodb:": openMongoDbUrl,
  "mongodb+srv:": openMongoDbUrl,
  "dynamodb:": async (url, { stallMsMax }) => {
    const { openDynamo } = await import("./dynamodb/backend.js");
    return openDynamo({ url: wellFormed(() => new URL(url)).href, ...(stallMsMax === undefined ? {} : { stallMsMax }) });
  },
  "redis:": openRedisUrl,
  "rediss:": openRedisUrl,
  "redis+cluster:": openRedisUrl,
  "rediss+cluster:": openRedisUrl,
  "redis+sentinel:": openRedisUrl,
  "rediss+sentinel:": openRedisUrl,
};

async function openPostgresUrl(url: string, { stallMsMax, connectMs }: OpenOptions): Promise<Backend> {
  const [{ openPostgres }, { parsePostgresUrl }] = await Promise.all([import("./postgres/backend.js"), import("./postgres/url.js")]);
  const address = parsePostgresUrl(wellFormed(() => new URL(url)));
  return openPostgres({
    ...address,
    ...(connectMs === undefined ? {} : { connectMs }),
    ...(stallMsMax === undefined ? {} : { stallMsMax }),
  });
}

async function openRedisUrl(url: string, { stallMsMax }: OpenOptions): Promise<Backend> {
  const { openRedis } = await import("./redis/open.js");
  return openRedis({ url, ...(stallMsMax === undefined ? {} : { stallMsMax }) });
}

async function openMongoDbUrl(url: string, { stallMsMax }: OpenOptions): Promise<Backend> {
  const { openMongoUrl } = await import("./mongodb/backend.js");
  return openMongoUrl({ url, ...(stallMsMax === undefined ? {} : { stallMsMax }) });
}

/** The message must not repeat the URL: it may hold a password. */
function wellFormed<T>(parse: () => T): T {
  try {
    return parse();
  } catch {
    throw new InvalidInputError(
      "url",
      "is malformed; write postgres://user@host:5432/database or sqlite:./file.db, special characters as %XX",
    );
  }
}

/**
 * Opens a store by its URL: `sqlite:./onceflow.db`, `memory:`, `postgres://user@host/database?schema=onceflow`,
 * `redis://host:6379`; all of them in docs/reference.
 *
 * @example
 * const store = await open("sqlite:./onceflow.db");
 */
export async function open(url: string, options: OpenOptions = {}): Promise<Store> {
  const scheme = typeof url === "string" ? (/^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0].toLowerCase() ?? "") : "";
  const opener = Object.hasOwn(openers, scheme) ? openers[scheme] : undefined;
  if (opener === undefined) {
    const known = Object.keys(openers).join(", ");
    throw new ConfigurationError(`[onceflow] cannot open ${scheme === "" ? "a store without a URL" : `"${scheme}"`}; known are ${known}`, {
      code: "UNKNOWN_SCHEME",
    });
  }
  checkOptions(options, scheme);
  return createStore(await opener(url, options), options);
}

function checkOptions(options: OpenOptions, scheme: string): void {
  for (const name of Object.keys(options))
    if (!Object.hasOwn(optionNames, name))
      throw new InvalidInputError("options", `open() has no option "${name}"; it has ${Object.keys(optionNames).join(", ")}`);
  if (options.connectMs !== undefined && ownConnectBounds.test(scheme))
    throw new InvalidInputError("connectMs", `is an option of PostgreSQL stores; a store of "${scheme}" has a bound of its own`);
}
