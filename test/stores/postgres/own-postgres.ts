import pg from "pg";
import { afterAll, beforeAll, inject } from "vitest";
import { type FreshDatabase, freshDatabase } from "../../servers/postgres/databases.js";

/** For a test file that looks into a database of its own: whoever imports this has it before its first test. */
export const server = inject("postgres");
export let database: FreshDatabase;
export let direct: pg.Client;

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
