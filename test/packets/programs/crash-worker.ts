import { open, type Store } from "onceflow";
import type { PacketOperation } from "../../../src/core/packets/operation.js";
import { dieAtDurable } from "../../programs/die-at-durable.js";

/** Does one operation on packets and dies by SIGKILL, before or after one of its durable writes. */
export interface PacketDoom {
  readonly url: string;
  readonly act: Act;
  readonly point: "before" | "after";
  /** The number of the durable write, from 1. */
  readonly nth?: number;
}

export type Act =
  | { readonly verb: "commit"; readonly operation: PacketOperation }
  | { readonly verb: "claim" | "leave" | "renew"; readonly worker: number }
  | { readonly verb: "reinject" | "discard"; readonly no: number }
  | { readonly verb: "join" | "pause" | "purge" }
  /** Claims, calls the provider under the packet's number, and settles. */
  | { readonly verb: "deliver"; readonly worker: number; readonly providerUrl: string };

const { url, act, point, nth = 1 } = JSON.parse(process.argv[2] ?? "") as PacketDoom;
const queues = [{ flow: "flow", queue: "edge", limit: 10 }];

process.on("disconnect", () => process.exit());
const dooming = await dieAtDurable(url, point, nth);
const store = await open(url.startsWith("sqlite:") ? `${url}?driver=@photostructure/sqlite` : url, { purgeEveryMs: 0, stallMsMax: 0 });
dooming.arm();
await perform(store);
console.error("the process did not die at its crash point");
process.exit();

async function perform({ packets, commit }: Store): Promise<unknown> {
  switch (act.verb) {
    case "commit":
      return await commit({ packet: act.operation });
    case "claim":
      return await packets.claim({ worker: act.worker, queues, limit: 10 });
    case "leave":
      return await packets.leave(act.worker);
    case "renew":
      return await packets.renew(act.worker, 60_000);
    case "reinject":
      return await packets.reinject(act.no);
    case "discard":
      return await packets.discard(act.no);
    case "join":
      return await packets.join({ leaseMs: 300 });
    case "pause":
      return await packets.setFlowState("flow", "paused");
    case "purge":
      return await packets.purge(100);
    case "deliver": {
      const { worker, providerUrl } = act;
      const [packet] = (await packets.claim({ worker, queues, limit: 10 })).claimed;
      if (packet === undefined) return undefined;
      const { no, attempt } = packet;
      await fetch(providerUrl, { method: "POST", headers: { "idempotency-key": String(no), "x-attempt": String(attempt) } });
      const to = { kind: "done", keep: false, note: null } as const;
      return await commit({ packet: { verb: "settlePacket", no, worker, attempt, to, packets: [], outputs: [] } });
    }
  }
}
