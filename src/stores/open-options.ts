import { InvalidInputError } from "../core/errors/errors.js";
import type { Backend } from "../core/store/store.js";
import type { StoreOptions } from "../core/store/store-options.js";

/** Options of `open`. */
export interface OpenOptions extends StoreOptions {
  /** How long a process whose event loop is blocked keeps its leases: a thread renews them. Default 60 s; 0: no thread. */
  readonly stallMsMax?: number;
  /**
   * How long `open` waits for a server that cannot be reached, and how long every later connection may take. Default 5 s.
   * Only for PostgreSQL: SQLite has no server, and the other stores have fixed limits.
   */
  readonly connectMs?: number;
}

/** What `index.ts` of each store exports: it opens the database of a URL. */
export interface StoreModule {
  openUrl(url: string, options: OpenOptions): Promise<Backend>;
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

export function checkOptions(options: OpenOptions): void {
  for (const name of Object.keys(options))
    if (!Object.hasOwn(optionNames, name))
      throw new InvalidInputError("options", `open() has no option "${name}"; options: ${Object.keys(optionNames).join(", ")}`);
}

/** Rejects `connectMs` for a store that ignores it: the caller would expect it to work. */
export function refuseConnectMs(url: string, { connectMs }: OpenOptions): void {
  if (connectMs === undefined) return;
  const scheme = url.slice(0, url.indexOf(":") + 1).toLowerCase();
  throw new InvalidInputError("connectMs", `is an option of PostgreSQL stores only; stores of "${scheme}" do not support it`);
}
