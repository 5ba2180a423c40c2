import type pg from "pg";
import { loadDriver } from "../../../stores/postgres/driver.js";
import { emptySchema } from "./empty-schema.js";
import { openTarget } from "./open-target.js";
import type { BusinessRows, ContractTarget } from "./target.js";

/** The PostgreSQL store as a target of the contract. */
export interface PostgresTarget extends ContractTarget {
  /** Closes the target's own connections. */
  close(): Promise<void>;
}

let created = 0;

/**
 * Makes a contract target of the PostgreSQL store. Each ledger has its own schema in the database of the URL. A schema that was used is emptied
 * for the next ledger, because creating its tables takes longer than most cases; `close` drops the schemas. The table contract_business stays.
 *
 * @throws When the driver is not installed or the server cannot be reached.
 */
export async function postgresTarget({ url }: { readonly url: string }): Promise<PostgresTarget> {
  const driver = await loadDriver();
  const pool = new driver.Pool({ connectionString: url, max: 6 });
  // When a test drops the database, the server ends the idle connections of this pool.
  pool.on("error", () => {});
  await pool.query("CREATE TABLE IF NOT EXISTS contract_business (id serial, ledger text NOT NULL, row text NOT NULL)");
  const emptied: string[] = [];
  const dropSchema = (schema: string) => pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
  return {
    name: "postgres",
    capabilities: { transactions: true, sharedClock: true, durable: true, runs: true, packets: true },
    severs: true,
    async create({ unopened = false } = {}) {
      const schema = (unopened ? undefined : emptied.pop()) ?? newSchema();
      // Connections carry the ledger's name, so that one case can cut its own and no others.
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
          await pool.query("DELETE FROM contract_business WHERE ledger = $1", [schema]);
          if (await emptySchema(pool, schema)) emptied.push(schema);
          else await dropSchema(schema);
        },
      };
    },
    async close() {
      for (const schema of emptied) await dropSchema(schema);
      await pool.end();
    },
  };
}

function newSchema(): string {
  created += 1;
  return `contract_${process.pid}_${created}`;
}

/** One table for all ledgers: creating a table for each would take longer than most cases. */
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
