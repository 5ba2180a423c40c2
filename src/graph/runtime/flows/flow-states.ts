import { ConfigurationError } from "../../../core/errors/errors.js";
import type { FlowState } from "../../../core/packets/packet.js";
import type { Store } from "../../../core/store/store.js";

interface FlowStatePorts {
  readonly store: Store;
  /** Flows whose state no claim reports: it is read from the store. */
  readonly unclaimed: readonly string[];
  /** Called when a flow is active again. */
  deliverWaiting(): void;
}

/** Flows that are paused or archived, as far as this process knows. Each claim reports the state of the flows that it asked for. */
export class FlowStates {
  readonly #ports: FlowStatePorts;
  readonly #inactive = new Map<string, Exclude<FlowState, "active">>();

  constructor(ports: FlowStatePorts) {
    this.#ports = ports;
  }

  isActive(flow: string): boolean {
    return this.#inactive.size === 0 || !this.#inactive.has(flow);
  }

  of(flow: string): FlowState {
    return this.#inactive.get(flow) ?? "active";
  }

  /** Takes effect in this process at once; in others with their next claim. */
  set(flow: string, state: FlowState): void {
    if (state !== "active") this.#inactive.set(flow, state);
    else if (this.#inactive.delete(flow)) this.#ports.deliverWaiting();
  }

  /** Updates the flows that a claim asked for; `inactive` are those among them that are not active. */
  update(asked: ReadonlySet<string>, inactive: readonly string[]): void {
    for (const flow of asked) {
      if (!inactive.includes(flow)) this.set(flow, "active");
      else if (!this.#inactive.has(flow)) this.#inactive.set(flow, "paused");
    }
  }

  async refresh(): Promise<void> {
    for (const flow of this.#ports.unclaimed) this.set(flow, await this.#ports.store.packets.flowState(flow));
  }
}

export function flowArchived(flow: string): ConfigurationError {
  return new ConfigurationError(`[onceflow] flow "${flow}" is archived and accepts no triggers; resume it first`, {
    code: "FLOW_ARCHIVED",
  });
}
