import type pg from "pg";
import { open } from "../../stores/open.js";
import { loadDriver } from "../../stores/postgres/driver.js";
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
  return {
    name: "postgres",
    capabilities: { transactions: true, sharedClock: true, durable: true },
    severs: true,
    async create() {
      created += 1;
      const schema = `contract_${process.pid}_${created}`;
      // Its connections carry its name, so that one case can lose them without its neighbours.
      const own = new URL(url);
      own.searchParams.set("schema", schema);
      own.searchParams.set("application_name", schema);
      const business = `"${schema}_business"`;
      await pool.query(`CREATE TABLE ${business} (id serial, row text NOT NULL)`);
      return {
        open: (options) => open(own.href, options),
        business: businessRows(pool, business),
        async sever() {
          await pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", [schema]);
        },
        async remove() {
          await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
          await pool.query(`DROP TABLE ${business}`);
        },
      };
    },
    close: () => pool.end(),
  };
}

function businessRows(pool: pg.Pool, table: string): BusinessRows {
  return {
    async add(tx, row) {
      await (tx as pg.PoolClient).query(`INSERT INTO ${table} (row) VALUES ($1)`, [row]);
    },
    async rows() {
      const { rows } = await pool.query<{ row: string }>(`SELECT row FROM ${table} ORDER BY id`);
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
