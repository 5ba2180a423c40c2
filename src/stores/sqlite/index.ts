import type { Backend } from "../../core/store/store.js";
import type { OpenOptions } from "../open-options.js";
import { sqliteBackend } from "./backend.js";
import { parseSqliteUrl } from "./url.js";

export async function openUrl(url: string, { clock, stallMsMax }: OpenOptions): Promise<Backend> {
  return await sqliteBackend({
    ...parseSqliteUrl(url),
    ...(clock === undefined ? {} : { clock }),
    ...(stallMsMax === undefined ? {} : { stallMsMax }),
  });
}
