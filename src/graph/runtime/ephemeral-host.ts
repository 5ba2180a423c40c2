import { MismatchError } from "../../core/errors.js";
import { key as keys } from "../../core/key.js";
import { once } from "../../core/once.js";
import { untilAnswered } from "../../core/save.js";
import { alertFor } from "./alert.js";
import type { Courier } from "./courier.js";
import type { EphemeralHost } from "./ephemeral.js";
import { keyScope, packetFor, packetsFor } from "./outgoing.js";
import type { ResolvedOptions } from "./runtime-options.js";
import type { Teller } from "./teller.js";

/** What edges in memory need of the store: keys, what they send on, and their dead letters. */
export function ephemeralHost(courier: Courier, { timeoutMs, graceMs, random }: ResolvedOptions, teller: Teller): EphemeralHost {
  const { store, capacity } = courier;
  return {
    clock: store.clock,
    timeoutMs,
    graceMs,
    random,
    teller,
    next: courier.numbers.next,
    take: (route) => courier.states.isActive(route.flow.id) && !courier.takesNothing() && capacity.take(route) && courier.enter(route),
    give(route) {
      courier.leave(route);
      capacity.give(route);
      courier.hasRoom(route);
    },
    async onceByKey(route, key, { data }, work) {
      if (key === undefined) return await work();
      const retentionMs = route.delivery.key?.retentionMs;
      const operation = {
        scope: keyScope(route.flow.id),
        key: keys.of(key),
        input: data,
        ...(retentionMs === undefined ? {} : { retentionMs }),
      };
      await once(store, operation, work).catch((error: unknown) => {
        // Completed with another packet: acknowledged, as everywhere.
        if (!(error instanceof MismatchError)) throw error;
      });
    },
    async send({ stored, ephemeral }, { execution, trace }) {
      courier.needsRoom(ephemeral);
      const packets = packetsFor(courier.sender, stored, { execution, trace });
      if (packets.length > 0) {
        const send = { verb: "sendPackets", worker: courier.worker, execution: null, packets } as const;
        const answer = await untilAnswered(store, () => store.commit({ packet: send }), Number.POSITIVE_INFINITY);
        if (answer.kind === "packetsSent") courier.take(answer, packets);
        else courier.giveBack(packets);
      }
      courier.sendEphemeral(ephemeral, execution, trace);
    },
    async dead({ route, data, execution, trace, attempt, history }, failure) {
      if (route.letter === null) return;
      const { sender } = courier;
      const { packet } = packetFor(sender, { route, data, problem: undefined }, { execution, trace });
      const alerts = alertFor(sender, route, { ...packet, attempt }, failure);
      const dead = [{ ...packet, failed: history ?? "[]", join: null, lane: null }, ...alerts];
      const send = { verb: "sendPackets", worker: courier.worker, execution: null, packets: dead } as const;
      await untilAnswered(store, () => store.commit({ packet: send }), Number.POSITIVE_INFINITY);
      courier.wake();
    },
  };
}
