import { InvalidInputError } from "../core/errors/errors.js";
import type { Backend } from "../core/store/store.js";
import type { StoreOptions } from "../core/store/store-options.js";

export interface OpenOptions extends StoreOptions {
  /** How long a process whose event loop is stuck keeps its leases. Default 60 s; 0: no thread renews them. */
  readonly stallMsMax?: number;
  /**
   * How long `open` waits for a server that cannot be reached, and how long every later connection may take. Default 5 s.
   * PostgreSQL only: a file has no server to wait for, and other stores have bounds of their own.
   */
  readonly connectMs?: number;
}

/** What the index.ts of a store exports: it opens the database that the URL names. */
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
      throw new InvalidInputError("options", `open() has no option "${name}"; it has ${Object.keys(optionNames).join(", ")}`);
}

/** For a store that `connectMs` means nothing to, and would be taken to obey. */
export function refuseConnectMs(url: string, { connectMs }: OpenOptions): void {
  if (connectMs === undefined) return;
  const scheme = url.slice(0, url.indexOf(":") + 1).toLowerCase();
  throw new InvalidInputError("connectMs", `is an option of PostgreSQL stores; a store of "${scheme}" has a bound of its own`);
}
