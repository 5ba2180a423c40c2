import { ConfigurationError } from "../core/errors/errors.js";
import { createStore } from "../core/store/create-store.js";
import type { Store } from "../core/store/store.js";
import { checkOptions, type OpenOptions } from "./open-options.js";
import { storesByScheme } from "./registry.js";

/**
 * Opens a store by its URL: `sqlite:./onceflow.db`, `memory:`, `postgres://user@host/database?schema=onceflow`,
 * `redis://host:6379`; all of them in docs/reference.
 *
 * @example
 * const store = await open("sqlite:./onceflow.db");
 */
export async function open(url: string, options: OpenOptions = {}): Promise<Store> {
  const scheme = typeof url === "string" ? (/^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0].toLowerCase() ?? "") : "";
  const load = storesByScheme.get(scheme);
  if (load === undefined) {
    const known = [...storesByScheme.keys()].join(", ");
    throw new ConfigurationError(`[onceflow] cannot open ${scheme === "" ? "a store without a URL" : `"${scheme}"`}; known are ${known}`, {
      code: "UNKNOWN_SCHEME",
    });
  }
  checkOptions(options);
  const { openUrl } = await load();
  return createStore(await openUrl(url, options), options);
}
