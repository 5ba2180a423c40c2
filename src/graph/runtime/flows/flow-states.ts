import type { FlowState } from "../../../core/packets/packet.js";
import type { Store } from "../../../core/store/store.js";

/** Flows that are not active, as far as is known here: every claim brings news of those that it asks for. */
export class FlowStates {
  readonly #store: Store;
  /** Flows of which nothing is ever claimed: nobody else would tell. */
  readonly #unclaimed: readonly string[];
  readonly #resumed: () => void;
  readonly #resting = new Map<string, Exclude<FlowState, "active">>();

  constructor(store: Store, unclaimed: readonly string[], resumed: () => void) {
    this.#store = store;
    this.#unclaimed = unclaimed;
    this.#resumed = resumed;
  }

  isActive(flow: string): boolean {
    return this.#resting.size === 0 || !this.#resting.has(flow);
  }

  of(flow: string): FlowState {
    return this.#resting.get(flow) ?? "active";
  }

  /** In this process at once; in others when they next look. */
  set(flow: string, state: FlowState): void {
    if (state !== "active") this.#resting.set(flow, state);
    else if (this.#resting.delete(flow)) this.#resumed();
  }

  /** Of the flows that were asked for, those that rest. */
  learn(asked: ReadonlySet<string>, resting: readonly string[]): void {
    for (const flow of asked) {
      if (!resting.includes(flow)) this.set(flow, "active");
      else if (!this.#resting.has(flow)) this.#resting.set(flow, "paused");
    }
  }

  async look(): Promise<void> {
    for (const flow of this.#unclaimed) this.set(flow, await this.#store.packets.flowState(flow));
  }
}
