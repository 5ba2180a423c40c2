import type { FlowState } from "../../../core/packets/packet.js";
import { serverNow } from "../ledger/read.js";
import { ask, askAlone, type PacketConnection } from "./ask.js";
import { notify } from "./notify.js";

const statements = {
  join: `WITH w AS (INSERT INTO $schema.workers (lease_until) VALUES (${serverNow} + $1::bigint) RETURNING no) SELECT no::text AS answer FROM w`,
  renew: `WITH w AS (UPDATE $schema.workers SET lease_until = ${serverNow} + $2::bigint WHERE no = $1::bigint RETURNING 1)
    SELECT (count(*) = 1)::text AS answer FROM w`,
  // The worker's packets were not delivered. A packet that a concurrent flush of the worker claims has an unknown owner, and a
  // claim reaps it.
  leave: `WITH gone AS (DELETE FROM $schema.workers WHERE no = $1::bigint),
    theirs AS MATERIALIZED (SELECT p.no FROM $schema.packets p WHERE p.owner = $1::bigint ORDER BY p.no FOR UPDATE),
    freed AS (UPDATE $schema.packets p SET owner = NULL, since = p.since + 1, due_at = ${serverNow} FROM theirs t WHERE p.no = t.no)
    SELECT json_build_object('notified', ${notify}::text)::text AS answer`,
  giveBack: `WITH theirs AS MATERIALIZED (
      SELECT p.no FROM $schema.packets p WHERE p.owner = $1::bigint AND p.claim = ANY ($2::bigint[]) ORDER BY p.no FOR UPDATE),
    freed AS (UPDATE $schema.packets p SET owner = NULL, since = p.since + 1 FROM theirs t WHERE p.no = t.no)
    SELECT (SELECT count(*) FROM theirs)::text AS answer`,
  setFlow: `WITH f AS (INSERT INTO $schema.flows (flow, state) VALUES ($1, $2) ON CONFLICT (flow) DO UPDATE SET state = excluded.state)
    SELECT json_build_object('notified', ${notify}::text)::text AS answer`,
};

function asked<T>(connection: PacketConnection, name: keyof typeof statements, values: readonly unknown[]): Promise<T> {
  return askAlone<T>(connection, { name, text: statements[name] }, values);
}

export function joinWorkers(connection: PacketConnection, leaseMs: number): Promise<number> {
  return asked<number>(connection, "join", [leaseMs]);
}

export function renewWorker(connection: PacketConnection, worker: number, leaseMs: number): Promise<boolean> {
  return asked<boolean>(connection, "renew", [worker, leaseMs]);
}

export async function leaveWorkers(connection: PacketConnection, worker: number): Promise<void> {
  await asked(connection, "leave", [worker]);
}

/** Releases packets of claims whose reply was lost: the worker does not know them, so they were not delivered. */
export async function giveBack(connection: PacketConnection, worker: number, claims: readonly number[]): Promise<void> {
  await asked(connection, "giveBack", [worker, `{${claims.join(",")}}`]);
}

export async function setFlowState(connection: PacketConnection, flow: string, state: FlowState): Promise<void> {
  await asked(connection, "setFlow", [flow, state]);
}

/** Inside a transaction. */
export async function setFlowInside(connection: PacketConnection, flow: string, state: FlowState): Promise<void> {
  await ask(connection, { name: "setFlow", text: statements.setFlow }, [flow, state]);
}
