import pg from "pg";
import type { Contender, OpenOptions } from "./contender.js";
import { entryEvents } from "./floor-row.js";

const insert = {
  name: "floor-entry",
  text: `INSERT INTO floor (run, seq, epoch, at, events)
    VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, $4)`,
};

/** The minimum cost of a step: its journal row, committed by itself through the store's driver. */
export async function open({ url, hooks }: OpenOptions): Promise<Contender> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`CREATE TABLE floor (run bigint NOT NULL, seq bigint NOT NULL, epoch bigint NOT NULL, at bigint NOT NULL,
    events text NOT NULL, PRIMARY KEY (run, seq))`);
  let runs = 0;
  return {
    async longRun(steps) {
      runs += 1;
      for (let seq = 1; seq <= steps; seq++) {
        await client.query({ ...insert, values: [runs, seq, 1, entryEvents(seq)] });
        hooks.step();
      }
    },
    close: () => client.end(),
  };
}
