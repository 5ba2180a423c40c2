import type { Store } from "../../core/store/store.js";

/** Selects the store of a call. */
export interface InStore {
  /** Default: the default store of the process, see `configure`. */
  readonly store?: Store;
}
