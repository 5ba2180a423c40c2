import { isHeard, publish } from "../../../core/events/channels.js";
import { historyOf } from "../../../core/packets/history.js";
import type { Ended, NewPacket, PacketOutcome, Placed, Woken } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import { storeMade } from "../alerts/store-made.js";
import type { Failure } from "../delivery/failure.js";
import type { Route } from "../flows/route.js";
import type { Listeners } from "./event.js";
import { executionId, packetId } from "./ids.js";
import type { Counters } from "./metrics.js";

/** How a delivery ended, as its event says it. */
interface Settled {
  readonly to: PacketOutcome;
  readonly failure: Failure | undefined;
  readonly ms: number;
}

/** Counts what happens, notifies listeners and publishes deliveries. Without listeners and subscribers no event object is made. */
export class EventReporter {
  readonly #store: string;
  readonly #counters: Counters;
  readonly #listeners: Listeners;

  constructor(store: string, counters: Counters, listeners: Listeners) {
    this.#store = store;
    this.#counters = counters;
    this.#listeners = listeners;
  }

  reportTriggered(route: Route, no: number, key: string | undefined): void {
    this.#counters.add("triggered");
    if (!this.#listeners.any) return;
    this.#listeners.notify({ type: "triggered", flow: route.flow.id, executionId: executionId(no), node: route.node.plan.id, key });
  }

  reportDelivering(route: Route, packet: About): void {
    if (route.reportLost === undefined && this.#listeners.any) this.#listeners.notify({ type: "delivering", ...about(route, packet) });
  }

  reportSettled(route: Route, packet: About, { to, failure, ms }: Settled): void {
    if (to.kind === "release") return;
    // The dead letter of a lost packet has a separate event (reportPlaced).
    if (route.reportLost !== undefined) return this.#counters.add("lost");
    const counter = to.kind === "done" ? "processed" : to.kind === "retry" ? "retried" : "dead";
    this.#counters.add(counter, route, ms);
    if (isHeard("delivery")) this.#publish(about(route, packet), to.kind, failure?.code, ms);
    if (!this.#listeners.any) return;
    const what = about(route, packet);
    const { code = "", message = "" } = failure ?? {};
    if (to.kind === "done") this.#listeners.notify({ type: "processed", ...what, ms });
    if (to.kind === "retry") this.#listeners.notify({ type: "retrying", ...what, code, message, delayMs: to.delayMs });
    if (to.kind === "dead") this.#listeners.notify({ type: "dead", ...what, code, message, deadLetter: route.letter?.name });
  }

  #publish(what: ReturnType<typeof about>, kind: "done" | "retry" | "dead" | "trial", code: string | undefined, ms: number): void {
    const { flow, node, edge, executionId: execution, packetId: packet, attempt } = what;
    const outcome = kind === "trial" ? "retry" : kind;
    publish("delivery", { store: this.#store, flow, node, edge, execution, packet, attempt, outcome, code, ms });
  }

  /** A packet was sent that this worker does not deliver now: it is held, acknowledged, or a dead letter. */
  reportPlaced(route: Route, packet: NewPacket, { kind }: Placed): void {
    const what = { ...packet, attempt: 0 };
    if (kind === "held") {
      this.#counters.add("held", route);
      if (this.#listeners.any) this.#listeners.notify({ type: "held", ...about(route, what) });
    }
    if (kind === "duplicate" || kind === "mismatch") this.reportAcknowledged(route, what, kind === "mismatch");
    if (kind === "dead") {
      this.#reportDead(route, what, historyOf(packet.failed ?? null).at(-1) ?? storeMade(null));
    }
  }

  /** A packet no longer waits. Route undefined: no flow of this runtime has its queue, so there is no event. */
  reportWoken(route: Route | undefined, { no, execution, to, note }: Woken): void {
    if (route === undefined) return;
    const what = { no, execution, attempt: 0 };
    if (to === "duplicate" || to === "mismatch") this.reportAcknowledged(route, what, to === "mismatch");
    if (to === "closed" && this.#listeners.any) this.#listeners.notify({ type: "closed", ...about(route, what) });
    if (to === "dead") this.#reportDead(route, what, storeMade(note));
  }

  reportDeadLetterRetried(route: Route | undefined, letter: PacketRecord): void {
    if (route !== undefined && this.#listeners.any) this.#listeners.notify({ type: "reinjected", ...about(route, letter) });
  }

  reportEnded(ended: readonly Ended[]): void {
    for (const { no, flow, status } of ended) {
      this.#counters.add("ended");
      if (this.#listeners.any) this.#listeners.notify({ type: "ended", flow, executionId: executionId(no), status });
    }
  }

  reportLeaseLost(): void {
    this.#counters.add("leasesLost");
    this.#listeners.notify({ type: "leaseLost" });
  }

  reportTrouble(error: unknown): void {
    this.#listeners.notify({ type: "storeTrouble", message: error instanceof Error ? error.message : String(error) });
  }

  /** The packet was not delivered: its key had been completed before. */
  reportAcknowledged(route: Route, what: About, mismatch: boolean): void {
    this.#counters.add("acknowledged", route);
    if (this.#listeners.any) this.#listeners.notify({ type: "acknowledged", ...about(route, what), mismatch });
  }

  #reportDead(route: Route, what: About, { code, message }: Pick<Failure, "code" | "message">): void {
    this.#counters.add("dead", route);
    if (this.#listeners.any) this.#listeners.notify({ type: "dead", ...about(route, what), code, message, deadLetter: route.letter?.name });
  }
}

/** The members of a packet that its events name. */
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
