import type { PacketBackend, PacketClaimQuery, PacketClaims } from "../../../core/packets/operation.js";
import type { PacketRecord } from "../../../core/packets/packet.js";
import type { Backend } from "../../../core/store/store.js";
import { type FaultyProcess, faulty } from "../workflow/run-faults.js";

export type WithPackets = Backend & { readonly packets: PacketBackend };

/** Packets of a claim whose reply was lost are released by the worker's next claim, as in every real store. */
function releaseLostClaims(packets: PacketBackend, overNetwork: Network): PacketBackend["claim"] {
  const taken = new Map<number, readonly PacketRecord[]>();
  const lostClaims: number[] = [];
  let count = 0;
  const claim = overNetwork(async (query: PacketClaimQuery, id: number, lost: readonly number[]) => {
    for (const packet of lost.flatMap((other) => taken.get(other) ?? [])) if (packet.owner === query.worker) await release(packets, packet);
    const claims = await packets.claim(query);
    taken.set(id, claims.claimed);
    return claims;
  });
  return async (query) => {
    count += 1;
    const id = count;
    try {
      return await claim(query, id, [...lostClaims]);
    } catch (error) {
      lostClaims.push(id);
      throw error;
    }
  };
}

type Claim = (query: PacketClaimQuery, id: number, lost: readonly number[]) => Promise<PacketClaims>;
type Network = (claim: Claim) => Claim;

async function release(packets: PacketBackend, { no, owner, attempt }: PacketRecord): Promise<void> {
  const row = await packets.packet(no);
  if (row?.owner !== owner || row?.attempt !== attempt) return;
  await packets.flush([{ verb: "settlePacket", no, worker: owner as number, attempt, to: { kind: "release" }, packets: [], outputs: [] }]);
}

/** Ledger and packets as a process sees them over an unreliable network: each call may be lost, and the process may crash in it. */
export function withPacketFaults(backend: WithPackets, faults: FaultyProcess): WithPackets {
  const { world, process, storm } = faults;
  const { packets } = backend;
  const write = <Args extends unknown[], T>(name: string, call: (...args: Args) => Promise<T>) => faulty(faults, name, call, true);
  const read = <Args extends unknown[], T>(name: string, call: (...args: Args) => Promise<T>) => faulty(faults, name, call, false);
  return {
    ...backend,
    flush: write("flush of the ledger", backend.flush),
    packets: {
      ...packets,
      flush: write("flush", packets.flush),
      claim: releaseLostClaims(packets, (claim) => write("claim", claim)),
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
          if (!storm.over && world.random.chance(storm.weather.loseNotification)) return;
          world.after(world.random.between(0, storm.weather.latencyMsMax), changed, process);
        });
        return stop;
      },
    },
  };
}
