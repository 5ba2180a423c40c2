import type { PacketBackend, PacketClaimQuery, PacketClaims } from "../../../core/packets/operation.js";
import { Gate } from "../../../core/work/gate.js";
import { Doubts } from "../../shared/doubtful-claims.js";
import { asking } from "../connection/ask.js";
import { openWatch } from "../connection/watch.js";
import type { MongoClient } from "../driver.js";
import type { Collections } from "../layout.js";
import { claimPackets } from "./claim.js";
import { listDeliveries } from "./deliveries.js";
import { flushPackets } from "./flush.js";
import { actOnPackets, discardLetter, purgePackets, reinjectLetter } from "./letters.js";
import * as list from "./list.js";
import { sendWithin } from "./within.js";
import { giveBack, joinWorkers, leaveWorkers, readFlowState, renewWorker, writeFlowState } from "./worker.js";

/** Packets that others may claim, and executions that have ended. */
const claimable = [
  {
    $match: {
      $or: [
        { operationType: "insert", "fullDocument.claimAt": { $exists: true } },
        // "replace": MongoDB may report an update of most of a document as a replacement.
        { operationType: "replace" },
        { "updateDescription.updatedFields.claimAt": { $exists: true } },
      ],
    },
  },
  { $project: { operationType: 1 } },
];
const endings = [
  {
    $match: {
      $or: [
        { operationType: "insert", "fullDocument.endedAt": { $exists: true } },
        { operationType: "replace" },
        { "updateDescription.updatedFields.endedAt": { $exists: true } },
      ],
    },
  },
  { $project: { operationType: 1 } },
];

/** The packets of a store, for servers with transactions. */
export function mongoPackets(
  client: MongoClient,
  collections: Collections,
): { readonly packets: PacketBackend; readonly close: () => Promise<void> } {
  const doubts = new Doubts();
  /** One flush at a time: operations are applied in the order in which they were queued. */
  const oneFlush = new Gate(1);
  const sent = openWatch(collections.packets, claimable);
  const ended = openWatch(collections.executions, endings);

  async function claim(query: PacketClaimQuery): Promise<PacketClaims> {
    const doubtful = doubts.of(query.worker);
    if (doubtful.length > 0) await asking("a claim", () => giveBack(collections, query.worker, doubtful));
    const no = doubts.next();
    try {
      return await asking("a claim", () => claimPackets(client, collections, query, no));
    } catch (error) {
      // Even if its last transaction wrote nothing: earlier ones may have claimed packets.
      doubts.add(query.worker, no);
      throw error;
    }
  }

  const packets: PacketBackend = {
    flush: (operations) => oneFlush.run(() => flushPackets(client, collections, operations)),
    join: ({ leaseMs }) => asking("a join", () => joinWorkers(collections, leaseMs)),
    renew: (worker, leaseMs) => asking("a renewal", () => renewWorker(collections, worker, leaseMs)),
    leave: (worker) => leaveWorkers(client, collections, worker),
    claim,
    sendWithin: (tx, send) => sendWithin(collections, tx, send),
    reinject: (no, alert) => reinjectLetter(client, collections, no, alert),
    discard: (no) => discardLetter(client, collections, no),
    act: (action) => actOnPackets(client, collections, action),
    packet: (no) => asking("a read", () => list.readPacket(collections, no)),
    deadLetters: (query) => asking("a listing", () => list.listDeadLetters(collections, query)),
    execution: (no) => asking("a read", () => list.readExecution(collections, no)),
    executions: (query) => asking("a listing", () => list.listExecutions(collections, query)),
    notes: (execution, limit) => asking("a read", () => list.readNotes(collections, execution, limit)),
    deliveries: (query) => asking("a read", () => listDeliveries(collections, query)),
    packetsOf: (execution, limit) => asking("a read", () => list.packetsOf(collections, execution, limit)),
    counts: () => asking("a count", () => list.readCounts(collections)),
    async prepareKeys(flow, collection) {
      await asking("preparing a flow", () => collections.flowKeys.claim(flow, collection));
    },
    flowState: (flow) => asking("a read", () => readFlowState(collections, flow)),
    setFlowState: (flow, state) => asking("a change of a flow", () => writeFlowState(collections, flow, state)),
    purge: (limit) => purgePackets(client, collections, limit),
    watch(changed) {
      const stops = [sent.watch(() => changed()), ended.watch(() => changed())];
      return () => {
        for (const stop of stops) stop();
      };
    },
  };
  return {
    packets,
    async close() {
      await sent.close();
      await ended.close();
    },
  };
}
