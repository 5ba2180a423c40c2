import type { PacketBackend } from "../../../core/packet-operation.js";
import type { Backend } from "../../../core/store.js";
import { faulty, type Weathered } from "../workflow/run-faults.js";

export type WithPackets = Backend & { readonly packets: PacketBackend };

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
      claim: write("claim", packets.claim),
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
