import type pg from "pg";
import { loadDriver } from "../../../stores/postgres/driver.js";
import { openTarget } from "./open-target.js";
import type { BusinessRows, ContractTarget } from "./target.js";

export interface PostgresTarget extends ContractTarget {
  /** Ends the connections that belong to nobody's store. */
  close(): Promise<void>;
}

let created = 0;

/** The PostgreSQL store, each ledger in a schema of its own in the one database of the URL. */
export async function postgresTarget({ url }: { readonly url: string }): Promise<PostgresTarget> {
  const driver = await loadDriver();
  const pool = new driver.Pool({ connectionString: url, max: 6 });
  // A database that is dropped ends what is still connected to it.
  pool.on("error", () => {});
  await pool.query("CREATE TABLE IF NOT EXISTS contract_business (id serial, ledger text NOT NULL, row text NOT NULL)");
  return {
    name: "postgres",
    capabilities: { transactions: true, sharedClock: true, durable: true, runs: true, packets: true },
    severs: true,
    async create() {
      created += 1;
      const schema = `contract_${process.pid}_${created}`;
      // Its connections carry its name, so that one case can lose them without its neighbours.
      const own = new URL(url);
      own.searchParams.set("schema", schema);
      own.searchParams.set("application_name", schema);
      return {
        open: (options) => openTarget(own.href, options),
        business: businessRows(pool, schema),
        async sever() {
          await pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", [schema]);
        },
        async remove() {
          await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
        },
      };
    },
    close: () => pool.end(),
  };
}

/** One table for all ledgers: making one for each would take longer than most cases. */
function businessRows(pool: pg.Pool, ledger: string): BusinessRows {
  return {
    async add(tx, row) {
      await (tx as pg.PoolClient).query("INSERT INTO contract_business (ledger, row) VALUES ($1, $2)", [ledger, row]);
    },
    async rows() {
      const { rows } = await pool.query<{ row: string }>("SELECT row FROM contract_business WHERE ledger = $1 ORDER BY id", [ledger]);
      return rows.map(({ row }) => row);
    },
    async runner(work) {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        const result = await work(client);
        await client.query("COMMIT");
        return result;
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
    },
  };
}
