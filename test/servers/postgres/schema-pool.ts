import pg from "pg";
import { emptySchema } from "../../../src/testing/contract/targets/empty-schema.js";
import type { FreshDatabase } from "./databases.js";

/** A schema that one test has at a time. */
export interface PooledSchema {
  readonly url: URL;
  /** Empties the schema for the next test. Every store on it must be closed. */
  giveBack(): Promise<void>;
}

/** Schemas of one database. Tests share them one after the other, because creating the tables takes longer than most tests. */
export class SchemaPool {
  readonly #database: FreshDatabase;
  readonly #free: string[] = [];
  readonly #pool: pg.Pool;
  #created = 0;

  constructor(database: FreshDatabase) {
    this.#database = database;
    this.#pool = new pg.Pool({ connectionString: database.url, max: 1 });
    // When the database is dropped, the server ends the idle connection.
    this.#pool.on("error", () => {});
  }

  take(): PooledSchema {
    const schema = this.#free.pop() ?? this.#newSchema();
    const url = new URL(this.#database.url);
    url.searchParams.set("schema", schema);
    return {
      url,
      giveBack: async () => {
        if (await emptySchema(this.#pool, schema)) this.#free.push(schema);
      },
    };
  }

  #newSchema(): string {
    this.#created += 1;
    return `case_${this.#created}`;
  }

  async drop(): Promise<void> {
    await this.#pool.end();
    await this.#database.drop();
  }
}
