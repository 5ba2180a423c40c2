import { OnceflowError, StoreRefusedError } from "./errors.js";

/** What the database says to data that it will never take. */
export function refusal(store: string, error: unknown): unknown {
  if (error instanceof OnceflowError) return error;
  const why = error instanceof Error ? error.message : String(error);
  return new StoreRefusedError(`[onceflow] [${store}] the store refused this write: ${why}`, error);
}
