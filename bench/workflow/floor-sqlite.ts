import { join } from "node:path";
import { connect, sqliteDriver } from "../ledger/sqlite-floor.js";
import type { Contender, OpenOptions } from "./contender.js";
import { entryEvents } from "./floor-row.js";

/** The minimum cost of a step: its journal row, committed by itself through the store's driver. */
export async function open({ folder, hooks }: OpenOptions): Promise<Contender> {
  const database = connect(join(folder, "floor.db"), sqliteDriver());
  database.exec(`CREATE TABLE floor (run INTEGER NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL, at INTEGER NOT NULL,
    events TEXT NOT NULL, PRIMARY KEY (run, seq)) STRICT, WITHOUT ROWID`);
  const insert = database.prepare("INSERT INTO floor (run, seq, epoch, at, events) VALUES (?, ?, ?, ?, ?)");
  let runs = 0;
  return {
    async longRun(steps) {
      runs += 1;
      for (let seq = 1; seq <= steps; seq++) {
        insert.run(runs, seq, 1, Date.now(), entryEvents(seq));
        hooks.step();
      }
    },
    async close() {
      database.close();
    },
  };
}
