import type { Store } from "onceflow";
import type { PacketBackend } from "../../src/core/packets/operation.js";
import { prepareOnce } from "../../src/stores/sqlite/connection/prepared.js";
import type { SqliteDatabase, SqliteStatement } from "../../src/stores/sqlite/driver.js";
import { RecordStatements } from "../../src/stores/sqlite/ledger/record-statements.js";
import { migrate } from "../../src/stores/sqlite/migrations/migrate.js";
import { createPackets } from "../../src/stores/sqlite/packets/packets.js";
import { OwnTransactions } from "../../src/stores/sqlite/transactions/own-transactions.js";
import { Hand } from "../../src/testing/contract/packets/packet-operations.js";

export interface WatchedPackets {
  readonly packets: PacketBackend;
  readonly hand: Hand;
  readonly database: SqliteDatabase;
  /** The statements since the last call, shortened to verb and table. */
  readonly statements: () => string[];
  readonly all: Set<string>;
}

/** Packets on this handle, without group commit; every statement is recorded. */
export async function watchedPackets(database: SqliteDatabase, path: string): Promise<WatchedPackets> {
  migrate(database, path);
  const all = new Set<string>();
  let recent: string[] = [];
  const note = (sql: string, statement: SqliteStatement): SqliteStatement => {
    const noted =
      <A extends unknown[], R>(method: (...values: A) => R) =>
      (...values: A): R => {
        all.add(sql);
        recent.push(sql.replace(/\s+/g, " "));
        return method.apply(statement, values);
      };
    return { run: noted(statement.run), get: noted(statement.get), all: noted(statement.all) };
  };
  const watching = { prepare: (sql: string) => note(sql, database.prepare(sql)) };
  const inTurn = async <T>(work: () => T) => work();
  const packets = createPackets({
    sql: prepareOnce(watching),
    records: new RecordStatements(watching),
    transactions: new OwnTransactions(database),
    watching: { watch: () => () => {}, notify: () => {}, close: () => {} },
    flushing: inTurn,
    writing: inTurn,
    reading: inTurn,
  });
  const commit = async ({ packet }: { packet: Parameters<PacketBackend["flush"]>[0][number] }) => (await packets.flush([packet]))[0];
  const store = { packets, commit } as unknown as Store;
  const takeStatements = () => {
    const since = recent.filter((text) => !text.includes("julianday"));
    recent = [];
    return since.map((text) => outside(text).replace(/^(\w+) .*?(onceflow_\w+).*$/, "$1 $2"));
  };
  return { packets, hand: await Hand.on(store), database, statements: takeStatements, all };
}

/** The statement without subqueries: a table that is only read in parentheses is not its subject. */
function outside(text: string): string {
  const shorter = text.replace(/\([^()]*\)/g, "");
  return shorter === text ? text : outside(shorter);
}
