import { ConfigurationError } from "../core/errors/errors.js";
import { createStore } from "../core/store/create-store.js";
import type { Store } from "../core/store/store.js";
import { checkOptions, type OpenOptions } from "./open-options.js";
import { storesByScheme } from "./registry.js";

/**
 * Opens a store by its URL: `sqlite:./onceflow.db`, `memory:`, `postgres://user@host/database?schema=onceflow`,
 * `redis://host:6379`, `mongodb://…`, `dynamodb://…`. Creates the tables if they do not exist. Call `store.close()` at the end.
 *
 * @throws ConfigurationError if the scheme is unknown, the driver is not installed, the schema is newer than this version, or the
 * server cannot be used; InvalidInputError if the URL or an option is not valid; UnreachableError if the server cannot be reached.
 * @example
 * const store = await open("sqlite:./onceflow.db");
 */
export async function open(url: string, options: OpenOptions = {}): Promise<Store> {
  const scheme = typeof url === "string" ? (/^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0].toLowerCase() ?? "") : "";
  const load = storesByScheme.get(scheme);
  if (load === undefined) {
    const known = [...storesByScheme.keys()].join(", ");
    const problem = scheme === "" ? "open() needs a URL with a scheme" : `there is no store for the scheme "${scheme}"`;
    throw new ConfigurationError(`[onceflow] ${problem}; schemes: ${known}`, { code: "UNKNOWN_SCHEME" });
  }
  checkOptions(options);
  const { openUrl } = await load();
  return createStore(await openUrl(url, options), options);
}
