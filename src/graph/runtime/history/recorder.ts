import type { DeliveryVerdict, NewDeliveryEntry } from "../../../core/packets/delivery-entry.js";
import type { Delivery } from "../delivery/delivery.js";
import type { Failure } from "../delivery/failure.js";
import type { Leaving, Sent } from "../delivery/leaving.js";
import { type Data, decodeOutput, decodePayload, inputsOf } from "../delivery/payload.js";
import type { Settling } from "../delivery/settling.js";
import type { MemoryPacket } from "../memory-edges/memory-packet.js";
import type { HistorySettings } from "./history-options.js";
import { type DeliveryValues, encodeValues, type ValuesToRecord } from "./values.js";

/** Makes the entries of the history, for the commits that end deliveries. Undefined: the flow of the packet keeps no history. */
export class HistoryRecorder {
  readonly #settings: HistorySettings;

  constructor(settings: HistorySettings) {
    this.#settings = settings;
  }

  /** The settling with its entry. `withoutValues`: the store has refused the data of the delivery, so none of it is recorded. */
  recorded(delivery: Delivery, settling: Settling, { withoutValues = false } = {}): Settling {
    const { route, packet } = delivery;
    const level = this.#settings.levelOf(route.flow.id);
    if (level === "none" || packet.execution === null || route.reportLost !== undefined || !endsAttempt(settling)) return settling;
    const ms = Math.max(0, Math.round(delivery.ms));
    const { failure } = settling;
    const details = level === "full" && !withoutValues ? this.#details(() => valuesOf(delivery, settling), failure) : null;
    const joined = packet.parts === null ? [] : Object.values(packet.parts).map(({ no }) => no);
    return { ...settling, entry: this.#entry({ node: route.node.plan.id, ms, code: failure?.code ?? null, joined, details }) };
  }

  /** The entry of a packet in memory. `leaving`: what its node sent. */
  ofMemoryPacket(packet: MemoryPacket, verdict: DeliveryVerdict, ended: MemoryEnd): NewDeliveryEntry | undefined {
    const { route, attempt, execution } = packet;
    const level = this.#settings.levelOf(route.flow.id);
    if (level === "none" || execution === null) return undefined;
    const { leaving, failure, ms } = ended;
    const values = () => ({ input: { [route.port]: packet.data }, sent: leaving ? allSent(leaving) : [], outputs: leaving?.outputs ?? [] });
    const details = level === "full" ? this.#details(values, failure) : null;
    const memory = { queue: route.queue, attempt, verdict };
    return { ...this.#entry({ node: route.node.plan.id, ms, code: failure?.code ?? null, joined: [], details }), memory };
  }

  #entry(about: Omit<NewDeliveryEntry, "startedAt" | "entriesMax">): NewDeliveryEntry {
    return { ...about, startedAt: Date.now() - about.ms, entriesMax: this.#settings.entriesMax };
  }

  #details(values: () => ValuesToRecord, failure: Failure | undefined): string {
    const message = failure === undefined ? {} : { message: failure.message };
    let recorded: DeliveryValues;
    try {
      recorded = { ...encodeValues(values(), this.#settings.valueBytesMax), ...message };
    } catch {
      // A payload that this process cannot decrypt must not keep its delivery from being settled.
      recorded = { input: [], sent: [], outputs: [], ...message };
    }
    return JSON.stringify(recorded);
  }
}

interface MemoryEnd {
  readonly ms: number;
  readonly leaving?: Leaving;
  readonly failure?: Failure;
}

/** A released packet counts no attempt. */
function endsAttempt({ to }: Settling): boolean {
  return to.kind === "done" || to.kind === "retry" || to.kind === "dead";
}

function valuesOf(delivery: Delivery, { packets, outputs, ephemeral }: Settling): ValuesToRecord {
  const { packet, route, payload } = delivery;
  const own = packets.filter(({ execution }) => execution === packet.execution);
  return {
    input: inputsOf(packet, route.port, payload.data),
    sent: [...own.map(({ queue, payload: text }) => ({ edge: queue, data: decodePayload(text).data })), ...ephemeral.map(ofSent)],
    outputs: outputs.map(decodeOutput),
  };
}

function allSent({ stored, ephemeral }: Leaving): ValuesToRecord["sent"] {
  return [...stored, ...ephemeral].map(ofSent);
}

function ofSent({ route, data }: Sent): { edge: string; data: Data } {
  return { edge: route.queue, data };
}
