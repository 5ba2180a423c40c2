import pg from "pg";
import type { Backend } from "../../../src/core/store/store.js";
import { postgresBackend } from "../../../src/stores/postgres/backend.js";

/** The clock of a PostgreSQL store, set by the test, so that leases and timestamps can be compared to the millisecond. */
export class PostgresClock {
  readonly #client: pg.Client;
  #now = 0;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  /**
   * Opens a store on such a clock, in the schema `differential`. Commits do not wait for the disk: a crash of the server would
   * lose the latest ones, but these tests crash no server.
   */
  static async open(url: string): Promise<{ readonly backend: Backend; readonly clock: PostgresClock }> {
    const client = new pg.Client(url);
    await client.connect();
    await client.query(`CREATE SCHEMA ours; CREATE SEQUENCE ours.clock MINVALUE 0;
      CREATE FUNCTION ours.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
        $$ SELECT timestamptz 'epoch' + last_value * interval '1 millisecond' FROM ours.clock $$`);
    const own = new URL(url);
    own.searchParams.set("options", "-c search_path=ours,pg_catalog -c synchronous_commit=off");
    return { backend: await postgresBackend({ url: own.href, schema: "differential" }), clock: new PostgresClock(client) };
  }

  now(): number {
    return this.#now;
  }

  async set(at: number): Promise<void> {
    this.#now = at;
    await this.#client.query("SELECT setval('ours.clock', $1)", [at]);
  }

  async pass(ms: number): Promise<void> {
    await this.set(this.#now + ms);
  }

  async close(): Promise<void> {
    await this.#client.end();
  }
}
