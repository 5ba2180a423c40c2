import type { Backend } from "../../core/store/store.js";
import { createMemoryLedger, memoryBackend } from "./backend.js";
import { checkMemoryUrl } from "./url.js";

/** Opens a new, empty store. Its data is lost when the process ends. */
export async function openUrl(url: string): Promise<Backend> {
  checkMemoryUrl(url);
  return memoryBackend(createMemoryLedger());
}
