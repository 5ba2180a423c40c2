import type { Ended, NewPacket, Placed, Woken } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import { storeMade } from "../alerts/store-made.js";
import type { Settling } from "../delivery/delivery.js";
import type { Failure } from "../delivery/failure.js";
import type { Route } from "../flows/routes.js";
import type { Listeners } from "./event.js";
import { historyOf } from "./history.js";
import { executionId, packetId } from "./ids.js";
import type { Counters } from "./metrics.js";

/** Counts what happens, and tells it where somebody listens: an event that nobody hears is not made. */
export class Teller {
  readonly #counters: Counters;
  readonly #listeners: Listeners;

  constructor(counters: Counters, listeners: Listeners) {
    this.#counters = counters;
    this.#listeners = listeners;
  }

  triggered(route: Route, no: number, key: string | undefined): void {
    this.#counters.add("triggered");
    if (!this.#listeners.any) return;
    this.#listeners.tell({ type: "triggered", flow: route.flow.id, executionId: executionId(no), node: route.node.plan.id, key });
  }

  delivering(route: Route, packet: About): void {
    if (route.report === undefined && this.#listeners.any) this.#listeners.tell({ type: "delivering", ...about(route, packet) });
  }

  settled(route: Route, packet: About, { to, failure, ms }: Pick<Settling, "to" | "failure"> & { readonly ms: number }): void {
    if (to.kind === "release") return;
    // The dead letter that it leaves is told by itself.
    if (route.report !== undefined) return this.#counters.add("lost");
    const counter = to.kind === "done" ? "processed" : to.kind === "retry" ? "retried" : "dead";
    this.#counters.add(counter, route, ms);
    if (!this.#listeners.any) return;
    const what = about(route, packet);
    const { code = "", message = "" } = failure ?? {};
    if (to.kind === "done") this.#listeners.tell({ type: "processed", ...what, ms });
    if (to.kind === "retry") this.#listeners.tell({ type: "retrying", ...what, code, message, delayMs: to.delayMs });
    if (to.kind === "dead") this.#listeners.tell({ type: "dead", ...what, code, message, deadLetter: route.letter?.name });
  }

  /** What became of a packet that was sent, where it is not delivered now. */
  placed(route: Route, packet: NewPacket, { kind }: Placed): void {
    const what = { ...packet, attempt: 0 };
    if (kind === "held") {
      this.#counters.add("held", route);
      if (this.#listeners.any) this.#listeners.tell({ type: "held", ...about(route, what) });
    }
    if (kind === "duplicate" || kind === "mismatch") this.#acknowledged(route, what, kind === "mismatch");
    if (kind === "dead") {
      this.#dead(route, what, historyOf(packet.failed ?? null).at(-1) ?? storeMade(null));
    }
  }

  /** What became of a packet that had waited; of one whose route is not known here there is nothing to say. */
  woken(route: Route | undefined, { no, execution, to, note }: Woken): void {
    if (route === undefined) return;
    const what = { no, execution, attempt: 0 };
    if (to === "duplicate" || to === "mismatch") this.#acknowledged(route, what, to === "mismatch");
    if (to === "closed" && this.#listeners.any) this.#listeners.tell({ type: "closed", ...about(route, what) });
    if (to === "dead") this.#dead(route, what, storeMade(note));
  }

  reinjected(route: Route | undefined, letter: PacketRecord): void {
    if (route !== undefined && this.#listeners.any) this.#listeners.tell({ type: "reinjected", ...about(route, letter) });
  }

  ended(ended: readonly Ended[]): void {
    for (const { no, flow, status } of ended) {
      this.#counters.add("ended");
      if (this.#listeners.any) this.#listeners.tell({ type: "ended", flow, executionId: executionId(no), status });
    }
  }

  /** A packet in memory whose key was completed. */
  acknowledged(route: Route, packet: About, mismatch: boolean): void {
    this.#acknowledged(route, packet, mismatch);
  }

  leaseLost(): void {
    this.#counters.add("leasesLost");
    this.#listeners.tell({ type: "leaseLost" });
  }

  trouble(error: unknown): void {
    this.#listeners.tell({ type: "storeTrouble", message: error instanceof Error ? error.message : String(error) });
  }

  #acknowledged(route: Route, what: About, mismatch: boolean): void {
    this.#counters.add("acknowledged", route);
    if (this.#listeners.any) this.#listeners.tell({ type: "acknowledged", ...about(route, what), mismatch });
  }

  #dead(route: Route, what: About, { code, message }: Pick<Failure, "code" | "message">): void {
    this.#counters.add("dead", route);
    if (this.#listeners.any) this.#listeners.tell({ type: "dead", ...about(route, what), code, message, deadLetter: route.letter?.name });
  }
}

/** What is told of a packet. */
type About = Pick<PacketRecord, "no" | "execution" | "attempt">;

function about(route: Route, { no, execution, attempt }: About) {
  return {
    flow: route.flow.id,
    executionId: execution === null ? undefined : executionId(execution),
    node: route.node.plan.id,
    edge: route.queue,
    packetId: packetId(no),
    attempt,
  };
}
