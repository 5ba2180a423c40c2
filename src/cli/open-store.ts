import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Option } from "commander";
import { ambientUrl } from "../ambient/ambient.js";
import { ConfigurationError, open, type Store } from "../exports/index.js";

export const storeOption = (): Option => new Option("--store <url>", "where it is kept (default: ONCEFLOW_URL, else SQLite in .onceflow/)");

/** Does it with the store, and closes that however it ends. */
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

/** Whoever only looks makes no database: in the wrong folder there would be one, and nothing in it. */
function mustBeThere(url: string): void {
  const [, path = ""] = /^sqlite:(?:\/\/(?=\/|\.))?([^?]*)/i.exec(url) ?? [];
  if (path === "" || existsSync(resolve(decoded(path)))) return;
  throw new ConfigurationError(`[onceflow] there is no database at ${path}; go to its folder, or name it with --store`, {
    code: "STORE_MISSING",
  });
}

/** One that is malformed is refused by whoever opens it. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return ".";
  }
}
