import type { Backend } from "../../core/store/store.js";
import { createMemoryLedger, memoryBackend } from "./backend.js";
import { checkMemoryUrl } from "./url.js";

/** A new ledger at each call, which ends with the process. */
export async function openUrl(url: string): Promise<Backend> {
  checkMemoryUrl(url);
  return memoryBackend(createMemoryLedger());
}
