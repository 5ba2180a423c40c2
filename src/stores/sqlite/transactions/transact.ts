import { StoreRefusedError } from "../../../core/errors/errors.js";
import type { Answer, Settle } from "../../../core/ledger/operation.js";
import type { PacketAnswer, SendPackets } from "../../../core/packets/operation.js";
import { sendPackets } from "../../../core/packets/rules/send.js";
import type { Append, RunAnswer } from "../../../core/runs/operation.js";
import { appendEntry } from "../../../core/runs/rules/append.js";
import type { Tx } from "../../../core/store/store.js";
import type { Clock } from "../../../core/work/clock.js";
import { undo, whenFree } from "../connection/connections.js";
import { prepareOnce } from "../connection/prepared.js";
import type { SqliteDatabase, SqliteStatement } from "../driver.js";
import { explain } from "../errors.js";
import { RecordStatements } from "../ledger/record-statements.js";
import { SqlitePacketTable } from "../packets/table.js";
import { RunNumberHints } from "../runs/number-hints.js";
import { SqliteRunTable } from "../runs/table.js";

/**
 * What a handler gets as `attempt.tx` on SQLite: statements in the open transaction. After the transaction has ended, they throw
 * StoreRefusedError.
 *
 * @example
 * (attempt.tx as SqliteTx).prepare("INSERT INTO orders (id) VALUES (?)").run("o-1");
 */
export interface SqliteTx {
  prepare(sql: string): SqliteStatement;
}

/** Well below any sensible lease: while the transaction is open, this process cannot write anything else. */
const txMsMax = 2000;

/**
 * Runs `work` between BEGIN IMMEDIATE and COMMIT on its own connection. The caller must not flush meanwhile.
 * A transaction that stays open too long is rolled back, and its handle refuses every later statement: otherwise those would
 * run outside a transaction and commit by themselves.
 */
export async function transact<T>(database: SqliteDatabase, path: string, clock: Clock, work: (tx: Tx) => Promise<T>): Promise<T> {
  await whenFree(path, clock, () => database.exec("BEGIN IMMEDIATE"));
  let open = true;
  const rollback = () => {
    if (open) undo(database);
    open = false;
  };
  const commit = () => {
    if (!open) return;
    try {
      database.exec("COMMIT");
    } catch (error) {
      throw explain(error, path);
    }
    open = false;
  };
  const guarded = <R>(run: () => R): R => {
    if (!open) throw new StoreRefusedError("[onceflow] [sqlite] this transaction has ended");
    return run();
  };
  const tx: SqliteTx = {
    prepare: (sql) =>
      guarded(() => {
        const statement = database.prepare(sql);
        return {
          run: (...values) => guarded(() => statement.run(...values)),
          get: (...values) => guarded(() => statement.get(...values)),
          all: (...values) => guarded(() => statement.all(...values)),
        };
      }),
  };
  let cancel = () => {};
  const tooLong = new Promise<never>((_, reject) => {
    cancel = clock.after(txMsMax, () => {
      rollback();
      reject(new StoreRefusedError(`[onceflow] [sqlite] the transaction was open for more than ${txMsMax} ms and was rolled back`));
    });
  });
  try {
    const result = await Promise.race([work(tx), tooLong]);
    commit();
    return result;
  } catch (error) {
    rollback();
    throw error;
  } finally {
    cancel();
  }
}

export function settleWithin(tx: Tx, settle: Settle): Answer {
  const statements = new RecordStatements(handleOf(tx));
  return statements.apply(settle, statements.now()).answer;
}

export function appendWithin(tx: Tx, append: Append): RunAnswer {
  const sql = prepareOnce(handleOf(tx));
  return appendEntry(new SqliteRunTable(sql, new RunNumberHints()).begin(), append);
}

export function sendWithin(tx: Tx, send: SendPackets): PacketAnswer {
  if (send.packets.some(({ claim }) => claim))
    throw new StoreRefusedError(
      "[onceflow] [sqlite] packets that are sent in a transaction cannot be claimed in it: it may be rolled back",
    );
  const handle = handleOf(tx);
  const table = new SqlitePacketTable(prepareOnce(handle), new RecordStatements(handle));
  const answer = sendPackets(table, send);
  table.finish();
  return answer;
}

/** Accepts the store's own handle and those of better-sqlite3, node:sqlite and @photostructure/sqlite: all have `prepare`. */
function handleOf(tx: Tx): SqliteTx {
  const { prepare, inTransaction, isTransaction } = tx as Partial<Record<"prepare" | "inTransaction" | "isTransaction", unknown>>;
  // The flag has one of two names, or is missing, depending on the driver. Outside a transaction every statement would commit by itself.
  if (typeof prepare === "function" && inTransaction !== false && isTransaction !== false) return tx as SqliteTx;
  throw new StoreRefusedError("[onceflow] [sqlite] tx must be a database handle with prepare() and an open transaction");
}
