import type { PacketAct, PacketActed } from "../../../core/packets/operation.js";
import { changeLetters } from "../../../core/packets/rules/act.js";
import type { LogEntry } from "../../../core/runs/log.js";
import { serverNow } from "../ledger/read.js";
import { selectedLogEntry } from "../runs/row.js";
import { ask, type PacketConnection } from "./ask.js";
import { changeInside, inPatientTransaction } from "./letters.js";
import { setFlowInside } from "./worker.js";

const loggedStatement = {
  name: "logged",
  text: `SELECT json_build_object('entry', (SELECT row_to_json(l) FROM (SELECT ${selectedLogEntry} FROM $schema.operator_log WHERE id = $1::text) l))::text AS answer`,
};

const logStatement = {
  name: "log",
  text: `WITH l AS (INSERT INTO $schema.operator_log (id, at, actor, action, subject, reason, detail)
  VALUES ($1::text, ${serverNow}, $2::text, $3::text, $4::text, $5::text, $6::text) RETURNING ${selectedLogEntry})
SELECT row_to_json(l)::text AS answer FROM l`,
};

/**
 * An operator's action: the change and its entry in the operator log are one transaction. Of two concurrent requests with the same action id, the second one waits
 * for the first one at the unique id of its entry, is rolled back, and finds the entry at its next try.
 */
export function actOnPackets(connection: PacketConnection, { log, change }: PacketAct): Promise<PacketActed> {
  return inPatientTransaction(connection, async (extra): Promise<PacketActed> => {
    const earlier = await repeatedIn(connection, log.id);
    if (earlier !== undefined) return earlier;
    if (change.kind === "flow") await setFlowInside(connection, change.flow, change.state);
    else {
      const nos = change.letters.map(({ no }) => no);
      const changed = await changeInside(connection, nos, extra, (table) => changeLetters(table, change));
      // The same action may have been committed while this one waited for the rows.
      if (changed === 0) return (await repeatedIn(connection, log.id)) ?? { kind: "absent" };
    }
    const { id, actor, action, subject, reason, detail } = log;
    const entry = await ask<LogEntry>(connection, logStatement, [id, actor, action, subject, reason, detail]);
    return { kind: "acted", entry, repeated: false };
  });
}

async function repeatedIn(connection: PacketConnection, id: string): Promise<PacketActed | undefined> {
  const { entry } = await ask<{ entry: LogEntry | null }>(connection, loggedStatement, [id]);
  return entry === null ? undefined : { kind: "acted", entry, repeated: true };
}
