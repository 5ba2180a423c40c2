import { MismatchError } from "../../../core/errors/errors.js";
import { key as keys } from "../../../core/ledger/key.js";
import { once } from "../../../core/ledger/once.js";
import type { NewPacket, PacketAnswer } from "../../../core/packets/operation.js";
import { afterEffect } from "../../../core/work/until-answered.js";
import { alertFor } from "../alerts/alert.js";
import { keyScope, packetFor } from "../delivery/outgoing.js";
import { pack } from "../delivery/pack.js";
import type { ResolvedOptions } from "../runtime-options.js";
import type { Teller } from "../views/event-reporter.js";
import { executionId } from "../views/ids.js";
import { type Courier, marksOf } from "../worker/packet-worker.js";
import type { ByKey, EphemeralHost, Item } from "./ephemeral.js";

/** What edges in memory need of the store: keys, what they send on, and their dead letters. */
export function ephemeralHost(
  courier: Courier,
  { timeoutMs, graceMs, random, onMismatch }: ResolvedOptions,
  teller: Teller,
): EphemeralHost {
  const { store, capacity } = courier;
  return {
    clock: store.clock,
    timeoutMs,
    graceMs,
    random,
    onMismatch,
    teller,
    next: courier.numbers.next,
    take: (route) => courier.states.isActive(route.flow.id) && !courier.takesNothing() && capacity.take(route) && courier.enter(route),
    give(route) {
      courier.leave(route);
      capacity.give(route);
      courier.hasRoom(route);
    },
    isOurs: ({ mark }) => mark === undefined || mark.worker === courier.worker,
    async onceByKey(route, key, { data }, work): Promise<ByKey> {
      if (key === undefined) {
        await work();
        return "executed";
      }
      const retentionMs = route.delivery.key?.retentionMs;
      const operation = {
        scope: keyScope(route.flow.id),
        key: keys.of(key),
        input: data,
        ...(retentionMs === undefined ? {} : { retentionMs }),
      };
      try {
        const { status } = await once(store, operation, work);
        return status === "executed" ? "executed" : "duplicate";
      } catch (error) {
        if (!(error instanceof MismatchError)) throw error;
        return "mismatch";
      }
    },
    async send(leaving, item) {
      const { execution, trace, mark } = item;
      courier.needsRoom(leaving.ephemeral);
      const { packets, marks, outputs } = pack(courier.sender, leaving, { execution, trace });
      const answer = await commit(courier, item, { packets: [...packets, ...(mark === undefined ? [] : marks)], outputs });
      if (answer === "nothing") return courier.sendEphemeral(leaving.ephemeral, { execution, trace }, []);
      // Another process has reported the packet as lost: then what it would send on is not sent.
      if (!("placed" in answer)) return courier.giveBack(packets);
      courier.take(answer, packets);
      courier.sendEphemeral(leaving.ephemeral, { execution, trace }, mark === undefined ? [] : marksOf(marks, mark.worker));
    },
    async dead(item, failure) {
      const { route, data, execution, trace, attempt, history } = item;
      const { sender } = courier;
      const { packet } = packetFor(sender, { route, data, problem: undefined }, { execution, trace });
      const alerts = alertFor(sender, route, { ...packet, attempt, data }, failure);
      const packets = [{ ...packet, failed: history ?? "[]", join: null, lane: null }, ...alerts];
      const answer = await commit(courier, item, { packets, outputs: [] });
      if (answer !== "nothing" && "placed" in answer) courier.take(answer, []);
      courier.wake();
    },
  };
}

interface Ending {
  readonly packets: readonly NewPacket[];
  readonly outputs: readonly string[];
}

/** With a mark, what ends the packet and what it sends on is one commit; dies the process before it, the packet is lost. */
async function commit(
  { store, worker }: Courier,
  { mark, execution }: Pick<Item, "mark" | "execution">,
  { packets, outputs }: Ending,
): Promise<PacketAnswer | "nothing"> {
  const to = { kind: "done", keep: false, note: null } as const;
  if (mark === undefined && packets.length === 0) return "nothing";
  const packet =
    mark === undefined
      ? ({ verb: "sendPackets", worker, execution: null, packets } as const)
      : ({ verb: "settlePacket", no: mark.no, worker: mark.worker, attempt: 1, to, packets, outputs } as const);
  const what = execution === null ? "what a node has sent" : `what a node of execution ${executionId(execution)} has sent`;
  return await afterEffect(store, () => store.commit({ packet }), { what });
}
