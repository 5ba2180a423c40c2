import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Option } from "commander";
import { ambientUrl } from "../ambient/ambient.js";
import { ConfigurationError, open, type Store } from "../exports/index.js";

export const storeOption = (): Option => new Option("--store <url>", "URL of the store (default: ONCEFLOW_URL, else SQLite in .onceflow/)");

/** Runs `work` with an open store and always closes the store. `create: false` rejects an SQLite file that does not exist. */
export async function withStore<T>(
  url: string | undefined,
  { create }: { readonly create: boolean },
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const from = url ?? ambientUrl();
  if (!create) mustBeThere(from);
  const store = await open(from);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** A command that only reads must not create a database: in the wrong folder it would create an empty one and report nothing. */
function mustBeThere(url: string): void {
  const [, path = ""] = /^sqlite:(?:\/\/(?=\/|\.))?([^?]*)/i.exec(url) ?? [];
  if (path === "" || existsSync(resolve(decoded(path)))) return;
  throw new ConfigurationError(`[onceflow] database not found: ${path}; run this in its folder, or set --store`, {
    code: "STORE_MISSING",
  });
}

/** Returns "." for a malformed path, so that `open` rejects the URL with its own error. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return ".";
  }
}
