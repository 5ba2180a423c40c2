import { resolve as resolvePath } from "node:path";
import { createStore, type StoreOptions } from "../core/create-store.js";
import { ConfigurationError, InvalidInputError } from "../core/errors.js";
import type { Backend, Store } from "../core/store.js";

export interface OpenOptions extends StoreOptions {
  /** How long a process whose event loop is stuck keeps its leases. Default 60 s; 0: no thread stands in for it. */
  readonly stallMsMax?: number;
}

/** A store's folder is loaded when its URL is first opened, and its driver with it. */
const openers: Readonly<Record<string, (url: string, options: OpenOptions) => Promise<Backend>>> = {
  "memory:": async () => {
    const { createMemoryLedger, memoryBackend } = await import("./memory/memory-ledger.js");
    return memoryBackend(createMemoryLedger());
  },
  "sqlite:": async (url, { clock, stallMsMax }) => {
    const { openSqlite } = await import("./sqlite/open.js");
    const [path = "", query = ""] = url.slice("sqlite:".length).split("?");
    const driver = new URLSearchParams(query).get("driver");
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
    const { openDynamo } = await import("./dynamodb/open.js");
    return openDynamo({ url: wellFormed(() => new URL(url)).href, ...(stallMsMax === undefined ? {} : { stallMsMax }) });
  },
  "redis:": openRedisUrl,
  "rediss:": openRedisUrl,
  "redis+cluster:": openRedisUrl,
  "rediss+cluster:": openRedisUrl,
  "redis+sentinel:": openRedisUrl,
  "rediss+sentinel:": openRedisUrl,
};

async function openPostgresUrl(url: string, { stallMsMax }: OpenOptions): Promise<Backend> {
  const { openPostgres } = await import("./postgres/open.js");
  const parsed = wellFormed(() => new URL(url));
  const schema = parsed.searchParams.get("schema");
  parsed.searchParams.delete("schema");
  return openPostgres({
    url: parsed.href,
    ...(schema === null ? {} : { schema }),
    ...(stallMsMax === undefined ? {} : { stallMsMax }),
  });
}

async function openRedisUrl(url: string, { stallMsMax }: OpenOptions): Promise<Backend> {
  const { openRedis } = await import("./redis/open.js");
  return openRedis({ url, ...(stallMsMax === undefined ? {} : { stallMsMax }) });
}

async function openMongoDbUrl(url: string, { stallMsMax }: OpenOptions): Promise<Backend> {
  const { openMongoUrl } = await import("./mongodb/open.js");
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
  return createStore(await opener(url, options), options);
}
