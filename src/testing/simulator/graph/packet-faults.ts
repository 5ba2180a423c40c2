import type { PacketRecord } from "../../../core/packet.js";
import type { PacketBackend } from "../../../core/packet-operation.js";
import type { Backend } from "../../../core/store.js";
import { faulty, type Weathered } from "../workflow/run-faults.js";

export type WithPackets = Backend & { readonly packets: PacketBackend };

/** As every store has it: what a claim took whose reply was lost, the worker's next claim gives back. */
function withDoubts(
  packets: PacketBackend,
  overNetwork: (claim: PacketBackend["claim"]) => PacketBackend["claim"],
): PacketBackend["claim"] {
  const doubtful = new Map<number, PacketRecord>();
  const faulty = overNetwork(async (query) => {
    for (const { no, owner, attempt } of [...doubtful.values()].filter(({ owner }) => owner === query.worker)) {
      doubtful.delete(no);
      const release = {
        verb: "settlePacket",
        no,
        worker: owner as number,
        attempt,
        to: { kind: "release" },
        packets: [],
        outputs: [],
      } as const;
      await packets.flush([release]);
    }
    const claims = await packets.claim(query);
    for (const packet of claims.claimed) doubtful.set(packet.no, packet);
    return claims;
  });
  return async (query) => {
    const claims = await faulty(query);
    for (const { no } of claims.claimed) doubtful.delete(no);
    return claims;
  };
}

/** Ledger and packets as a process sees them over a bad network: every call may be lost, or kill the process. */
export function withPacketFaults(backend: WithPackets, weathered: Weathered): WithPackets {
  const { world, process, storm } = weathered;
  const { packets } = backend;
  const write = <Args extends unknown[], T>(name: string, call: (...args: Args) => Promise<T>) => faulty(weathered, name, call, true);
  const read = <Args extends unknown[], T>(name: string, call: (...args: Args) => Promise<T>) => faulty(weathered, name, call, false);
  return {
    ...backend,
    flush: write("flush of the ledger", backend.flush),
    packets: {
      ...packets,
      flush: write("flush", packets.flush),
      claim: withDoubts(packets, (claim) => write("claim", claim)),
      join: write("join", packets.join),
      renew: write("renew", packets.renew),
      leave: write("leave", packets.leave),
      reinject: write("reinject", packets.reinject),
      discard: write("discard", packets.discard),
      setFlowState: write("setFlowState", packets.setFlowState),
      packet: read("packet", packets.packet),
      deadLetters: read("deadLetters", packets.deadLetters),
      execution: read("execution", packets.execution),
      notes: read("notes", packets.notes),
      packetsOf: read("packetsOf", packets.packetsOf),
      watch(changed) {
        const stop = packets.watch(() => {
          if (process.dead) return stop();
          if (!storm.over && world.random.chance(storm.weather.loseNews)) return;
          world.after(world.random.between(0, storm.weather.latencyMsMax), changed, process);
        });
        return stop;
      },
    },
  };
}
