import type { NodeContext } from "./node.js";

/**
 * A node throws it to get its packet again after a delay. The packet returns to its queue in the store, with its key, and the
 * attempt does not count: no timer of this process is needed. Only for nodes whose packets are in the store.
 */
export class DeliverLater extends Error {
  readonly delayMs: number;

  constructor(delayMs: number) {
    super(`deliver again after ${delayMs} ms`);
    this.delayMs = delayMs;
  }
}

/** The context of a delivery from the store, with the member that only ready-made nodes read. */
export interface StoredContext extends NodeContext {
  /** The store's time, as far as this process knows it: never ahead of the store's clock. Undefined: the packet was not stored. */
  readonly storeNow?: number | undefined;
}
