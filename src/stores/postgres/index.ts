import type { Backend } from "../../core/store/store.js";
import type { OpenOptions } from "../open-options.js";
import { postgresBackend } from "./backend.js";
import { parsePostgresUrl } from "./url.js";

export async function openUrl(url: string, { stallMsMax, connectMs }: OpenOptions): Promise<Backend> {
  return await postgresBackend({
    ...parsePostgresUrl(url),
    ...(connectMs === undefined ? {} : { connectMs }),
    ...(stallMsMax === undefined ? {} : { stallMsMax }),
  });
}
