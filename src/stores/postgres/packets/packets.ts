import { StoreRefusedError } from "../../../core/errors/errors.js";
import type { PacketBackend, PacketClaimQuery, PacketClaims } from "../../../core/packets/operation.js";
import { Gate } from "../../../core/work/gate.js";
import { Doubts } from "../../shared/doubtful-claims.js";
import { Flusher } from "../connection/flusher.js";
import { openPool } from "../connection/pool.js";
import { sessionOf } from "../connection/session.js";
import { explain } from "../errors.js";
import type { RunConnections } from "../runs/runs.js";
import { openWatch } from "../runs/watch.js";
import { actOnPackets } from "./act.js";
import type { PacketConnection } from "./ask.js";
import { claimPackets } from "./claim/claim.js";
import { listDeliveries } from "./deliveries.js";
import { flushPackets } from "./flush.js";
import { discardLetter, purgePackets, reinjectLetter } from "./letters.js";
import * as list from "./list.js";
import { packetChannel } from "./notify.js";
import { sendWithin } from "./within.js";
import { giveBack, joinWorkers, leaveWorkers, renewWorker, setFlowState } from "./worker.js";

/** How long a process that stops in the middle of a transaction can keep its locks. */
const restMsMax = 15_000;

/**
 * The packets of a store, with their own connections, each opened at its first use: one for flushes; a few for claims, renewals and
 * dead letters, which must not wait for flushes or for each other; one for LISTEN.
 */
export function postgresPackets({ pg, schema, pool, config: given }: RunConnections): {
  readonly packets: PacketBackend;
  close(): Promise<void>;
} {
  const config = { ...given, settings: { ...given.settings, idle_in_transaction_session_timeout: restMsMax } };
  const flusher = new Flusher(pg, config);
  const queue = openPool(pg, config, 3);
  const watch = openWatch(pg, config, packetChannel(schema));
  const doubts = new Doubts();
  /** One flush at a time: a statement of a second flush would run inside the first one's transaction. */
  const oneFlush = new Gate(1);
  const poolConnection: PacketConnection = { client: pool, schema, prepared: false };
  const explained = <T>(what: string, work: () => Promise<T>): Promise<T> =>
    work().catch((error: unknown) => {
      throw explain(error, what);
    });
  /** Runs `work` on a connection that is not used for anything else meanwhile. */
  const onOwnConnection = <T>(what: string, work: (connection: PacketConnection) => Promise<T>): Promise<T> =>
    explained(what, async () => {
      const client = await queue.connect();
      let broken: Error | undefined;
      const onError = (error: Error) => {
        broken = error;
      };
      client.on("error", onError);
      try {
        return await work({ client: sessionOf(client), schema, prepared: true });
      } catch (error) {
        // Also after a bug: the transaction may still be open.
        if (!(explain(error, what) instanceof StoreRefusedError)) broken = error as Error;
        throw error;
      } finally {
        client.off("error", onError);
        client.release(broken);
      }
    });

  async function claim(query: PacketClaimQuery): Promise<PacketClaims> {
    // A worker that claims will soon settle.
    flusher.connect();
    const doubtful = doubts.of(query.worker);
    if (doubtful.length > 0) await onOwnConnection("a claim", (connection) => giveBack(connection, query.worker, doubtful));
    const no = doubts.next();
    try {
      return await onOwnConnection("a claim", (connection) => claimPackets(connection, query, no));
    } catch (error) {
      // Even if its last statement wrote nothing: earlier statements may have claimed packets.
      doubts.add(query.worker, no);
      throw error;
    }
  }

  const packets: PacketBackend = {
    flush: (operations) =>
      oneFlush.run(() => flusher.run("a flush of packets", (client) => flushPackets({ client, schema, prepared: true }, operations))),
    join: ({ leaseMs }) => onOwnConnection("a join", (connection) => joinWorkers(connection, leaseMs)),
    renew: (worker, leaseMs) => onOwnConnection("a renewal", (connection) => renewWorker(connection, worker, leaseMs)),
    leave: (worker) => onOwnConnection("a leave", (connection) => leaveWorkers(connection, worker)),
    claim,
    sendWithin: (tx, send) => sendWithin(tx, schema, send),
    reinject: (no, alert) => onOwnConnection("a re-injection", (connection) => reinjectLetter(connection, no, alert)),
    discard: (no) => onOwnConnection("a discard", (connection) => discardLetter(connection, no)),
    act: (action) => onOwnConnection("an action", (connection) => actOnPackets(connection, action)),
    packet: (no) => explained("a read", () => list.readPacket(poolConnection, no)),
    deadLetters: (query) => explained("a listing", () => list.deadLetters(poolConnection, query)),
    execution: (no) => explained("a read", () => list.readExecution(poolConnection, no)),
    executions: (query) => explained("a listing", () => list.listExecutions(poolConnection, query)),
    notes: (execution, limit) => explained("a read", () => list.readNotes(poolConnection, execution, limit)),
    deliveries: (query) => explained("a read", () => listDeliveries(poolConnection, query)),
    packetsOf: (execution, limit) => explained("a read", () => list.packetsOf(poolConnection, execution, limit)),
    counts: () => explained("a count", () => list.readCounts(poolConnection)),
    flowState: (flow) => explained("a read", () => list.readFlowState(poolConnection, flow)),
    setFlowState: (flow, state) => onOwnConnection("a change of a flow", (connection) => setFlowState(connection, flow, state)),
    purge: (limit) => onOwnConnection("a purge", (connection) => purgePackets(connection, limit)),
    watch: (changed) => watch.watch(() => changed()),
  };
  return {
    packets,
    async close() {
      await watch.close();
      await flusher.close();
      await queue.end();
    },
  };
}
