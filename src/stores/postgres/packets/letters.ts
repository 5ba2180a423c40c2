import { UnreachableError } from "../../../core/errors/errors.js";
import type { Alert } from "../../../core/packets/operation.js";
import { discard, reinject } from "../../../core/packets/rules/letters.js";
import type { LoadedTable } from "../../shared/loaded-packet-table.js";
import { letterWishes, Wishes } from "../../shared/packet-wishes.js";
import { serverNow } from "../ledger/read.js";
import { askAlone, type PacketConnection } from "./ask.js";
import { discover } from "./transaction/discover.js";
import { decideInside, inTransaction } from "./transaction/transaction.js";

const rowsMsMax = 5000;

export async function reinjectLetter(connection: PacketConnection, no: number, alert?: Alert): Promise<boolean> {
  return (await onLetters(connection, [no], (table) => (reinject(table, no, alert) === undefined ? 0 : 1))) === 1;
}

export async function discardLetter(connection: PacketConnection, no: number): Promise<boolean> {
  return (await discardLetters(connection, [no])) === 1;
}

function discardLetters(connection: PacketConnection, nos: readonly number[]): Promise<number> {
  return onLetters(connection, nos, (table) => nos.filter((no) => discard(table, no) !== undefined).length);
}

/** Returns how many of the packets were dead letters. */
function onLetters(connection: PacketConnection, nos: readonly number[], verb: (table: LoadedTable) => number): Promise<number> {
  return inPatientTransaction(connection, (extra) => changeInside(connection, nos, extra, verb));
}

/** Inside a transaction: changes dead letters. */
export async function changeInside<T>(
  connection: PacketConnection,
  nos: readonly number[],
  extra: Wishes,
  verb: (table: LoadedTable) => T,
): Promise<T> {
  const seen = await discover(connection, { nos });
  const wishes = nos.reduce((sum, no) => sum.add(letterWishes(no, seen)), new Wishes().add(extra));
  return await decideInside(connection, { wishes, mode: "wait" }, verb);
}

/** For a change that a person asks for: waits for other transactions. */
export async function inPatientTransaction<T extends object | number>(
  connection: PacketConnection,
  work: (extra: Wishes) => Promise<T>,
): Promise<T> {
  const done = await inTransaction(connection.client, rowsMsMax, work);
  if (done === undefined) throw new UnreachableError("[onceflow] [postgres] the change lost a race at every try; nothing was changed");
  return done;
}

/** Removes executions with their notes and history. The instant is a subquery that is evaluated once: otherwise it would not limit the index scan. */
const purgeStatement = {
  name: "purge",
  text: `WITH over AS MATERIALIZED (
  SELECT no FROM $schema.executions WHERE expires_at <= (SELECT ${serverNow}) ORDER BY expires_at LIMIT $1::int FOR UPDATE SKIP LOCKED
), noted AS (DELETE FROM $schema.notes WHERE execution = ANY (ARRAY(SELECT no FROM over))),
found AS (DELETE FROM $schema.execution_attributes WHERE execution = ANY (ARRAY(SELECT no FROM over))),
entered AS (DELETE FROM $schema.deliveries WHERE execution = ANY (ARRAY(SELECT no FROM over))),
removed AS (DELETE FROM $schema.executions WHERE no = ANY (ARRAY(SELECT no FROM over)) RETURNING 1)
SELECT json_build_object('executions', (SELECT count(*) FROM removed), 'letters', (
  SELECT json_agg(no) FROM (
    SELECT no FROM $schema.packets WHERE state = 'dead' AND expires_at <= (SELECT ${serverNow}) ORDER BY expires_at, no LIMIT $1::int) d
))::text AS answer`,
};

export async function purgePackets(connection: PacketConnection, limit: number): Promise<number> {
  const { executions, letters } = await askAlone<{ executions: number; letters: number[] | null }>(connection, purgeStatement, [limit]);
  const over = (letters ?? []).slice(0, limit - executions);
  return executions + (over.length === 0 ? 0 : await discardLetters(connection, over));
}
