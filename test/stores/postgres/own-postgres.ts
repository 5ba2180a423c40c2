import pg from "pg";
import { afterAll, beforeAll, inject } from "vitest";
import { type FreshDatabase, freshDatabase } from "../../servers/postgres/databases.js";

/** Variables of the test file that called `ownPostgres`: a worker runs one file at a time. */
export const server = inject("postgres");
export let database: FreshDatabase;
export let direct: pg.Client;

/** Gives the test file that calls it a new database and a direct connection to it, until its last test has ended. */
export function ownPostgres(): void {
  beforeAll(async () => {
    if (!server.ok) return;
    database = await freshDatabase(server.url);
    direct = new pg.Client(database.url);
    await direct.connect();
  });

  afterAll(async () => {
    await direct?.end();
    await database?.drop();
  });
}
