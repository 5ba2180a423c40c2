import type { ExecutionStatus } from "../../../core/packets/packet.js";

/** An event of a runtime. Listeners are called after the commit. */
export type RuntimeEvent =
  | (Of<"triggered"> & { readonly node: string; readonly key: string | undefined })
  /** The node is called. */
  | (Of<"delivering"> & About)
  /** The node has returned, and the commit was made. */
  | (Of<"processed"> & About & { readonly ms: number })
  /** Not delivered: its key was completed before, by an equal packet or (`mismatch`) by a different one. */
  | (Of<"acknowledged"> & About & { readonly mismatch: boolean })
  /** It waits: another packet has its key, or is before it in its lane. */
  | (Of<"held"> & About)
  | (Of<"retrying"> & About & { readonly code: string; readonly message: string; readonly delayMs: number })
  | (Of<"dead"> & About & { readonly code: string; readonly message: string; readonly deadLetter: string | undefined })
  /** A part was removed, because a port that its node needs cannot be filled any more: the node is not called. */
  | (Of<"closed"> & About)
  /** A dead letter was retried, by `runtime.retry` in this process. */
  | (Of<"reinjected"> & About)
  | (Of<"ended"> & { readonly status: ExecutionStatus })
  | { readonly type: "paused" | "resumed" | "archived"; readonly flow: string }
  /** This runtime did not renew its lease in time: other workers may have its packets. */
  | { readonly type: "leaseLost" }
  | { readonly type: "storeTrouble"; readonly message: string };

interface Of<Type extends string> {
  readonly type: Type;
  readonly flow: string;
  readonly executionId: string | undefined;
}

interface About {
  readonly node: string;
  readonly edge: string;
  readonly packetId: string;
  readonly attempt: number;
}

/** Called with each event of a runtime (`runtime.on`). Must not block; an error becomes a process warning. */
export type Listener = (event: RuntimeEvent) => void;

/** Calls listeners one after the other. An error of a listener becomes a warning and stops nothing. */
export class Listeners {
  readonly #all = new Set<Listener>();

  get any(): boolean {
    return this.#all.size > 0;
  }

  add(listener: Listener): () => void {
    this.#all.add(listener);
    return () => void this.#all.delete(listener);
  }

  notify(event: RuntimeEvent): void {
    for (const listener of this.#all) {
      try {
        listener(event);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        process.emitWarning(`[onceflow] a runtime listener threw for event "${event.type}": ${why}`, {
          type: "OnceflowWarning",
          code: "ONCEFLOW_RUNTIME_LISTENER",
        });
      }
    }
  }
}
