import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { open } from "onceflow";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { chooseDriver, openDatabase, type SqliteDatabase } from "../../src/stores/sqlite/driver.js";
import { olderPostgres, olderSqlite, versions } from "./older-schema.js";
import { database, direct, ownPostgres, server } from "./postgres/own-postgres.js";
import { postgresSchema, sqliteSchema } from "./schema-dump.js";

ownPostgres();

/**
 * Compares the result of all migrations with migrations/schema.sql of the store. A new database and an upgraded database of
 * any earlier version must end with the same schema.
 */
const stores = join(import.meta.dirname, "../../src/stores");
const fixtures = join(import.meta.dirname, "../fixtures/0.1.0");
const folder = mkdtempSync(join(tmpdir(), "onceflow-schema-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const header =
  "-- The schema after all migrations in this folder. ONCEFLOW_UPDATE_SCHEMA=1 npx vitest run test/stores/schema.test.ts writes it.\n\n";
const advice =
  "schema.sql differs from the result of the migrations: set ONCEFLOW_UPDATE_SCHEMA=1 to rewrite it, and review the difference";

function expectCommitted(store: string, schema: string): void {
  const path = join(stores, store, "migrations/schema.sql");
  if (process.env["ONCEFLOW_UPDATE_SCHEMA"] === "1") writeFileSync(path, header + schema);
  expect(schema, advice).toBe(readFileSync(path, "utf8").slice(header.length));
}

/** The migrations up to this version, as that version applied them. */
function migrationsTo(store: string, version: number): string[] {
  const files = readdirSync(join(stores, store, "migrations")).filter((file) => /^\d{3}-/.test(file));
  return files
    .sort()
    .slice(0, version)
    .map((file) => readFileSync(join(stores, store, "migrations", file), "utf8"));
}

const before = (newest: number) => Array.from({ length: newest - 1 }, (_, i) => i + 1);
const downgradedTo = (newest: number) => before(newest).filter((version) => version >= versions.oldest);

async function migrate(url: string): Promise<void> {
  const store = await open(url, { purgeEveryMs: 0, stallMsMax: 0 });
  await store.close();
}

describe("the schema of SQLite", () => {
  /** Opens a file that `prepare` has left as an earlier version leaves it, and returns its schema. */
  async function schemaOf(name: string, prepare: (path: string) => Promise<void> | void): Promise<string> {
    const path = join(folder, `${name}.db`);
    await prepare(path);
    await migrate(`sqlite:${path}`);
    const file = openDatabase(path, chooseDriver());
    onTestFinished(() => void file.close());
    return sqliteSchema(file);
  }

  function withFile(path: string, work: (file: SqliteDatabase) => void): void {
    const file = openDatabase(path, chooseDriver());
    work(file);
    file.close();
  }

  test("of a new file is the committed one", async () => {
    expectCommitted("sqlite", await schemaOf("new", () => {}));
  });

  test.each(before(versions.sqlite))("of a file of version %i becomes that of a new one", async (version) => {
    const schema = await schemaOf(`version-${version}`, (path) =>
      withFile(path, (file) => {
        file.exec("CREATE TABLE onceflow_schema (version INTEGER NOT NULL) STRICT");
        for (const [i, sql] of migrationsTo("sqlite", version).entries())
          file.exec(`${sql}; INSERT INTO onceflow_schema VALUES (${i + 1})`);
      }),
    );
    expect(schema).toBe(await schemaOf("compared", () => {}));
  });

  test.each(downgradedTo(versions.sqlite))("of a file that was downgraded to version %i becomes that of a new one", async (version) => {
    const schema = await schemaOf(`downgraded-to-${version}`, async (path) => {
      await migrate(`sqlite:${path}`);
      withFile(path, (file) => olderSqlite(file, version));
    });
    expect(schema).toBe(await schemaOf("compared", () => {}));
  });

  test.each(["sqlite.db.gz", "keys/sqlite.db.gz"])("of a file that 0.1.0 wrote (%s) becomes that of a new one", async (fixture) => {
    const schema = await schemaOf(fixture.replaceAll("/", "-"), (path) =>
      writeFileSync(path, gunzipSync(readFileSync(join(fixtures, fixture)))),
    );
    expect(schema).toBe(await schemaOf("compared", () => {}));
  });
});

describe.skipIf(!server.ok)("the schema of PostgreSQL", () => {
  /** Opens a schema that `prepare` has left as an earlier version leaves it, and returns its definition. */
  async function schemaOf(schema: string, prepare: () => Promise<unknown>): Promise<string> {
    await prepare();
    await migrate(`${database.url}?schema=${schema}`);
    return await postgresSchema(direct, schema);
  }

  test("of a new database is the committed one", async () => {
    expectCommitted("postgres", await schemaOf("fresh", async () => {}));
  });

  test.each(before(versions.postgres))("of a database of version %i becomes that of a new one", async (version) => {
    const schema = `version_${version}`;
    const found = await schemaOf(schema, async () => {
      await direct.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.schema_version (version int NOT NULL)`);
      for (const [i, sql] of migrationsTo("postgres", version).entries())
        await direct.query(`${sql.replaceAll(':"schema"', schema)}; INSERT INTO ${schema}.schema_version VALUES (${i + 1})`);
    });
    expect(found).toBe(await schemaOf("compared", async () => {}));
  });

  test.each(downgradedTo(versions.postgres))(
    "of a database that was downgraded to version %i becomes that of a new one",
    async (version) => {
      const schema = `downgraded_to_${version}`;
      const found = await schemaOf(schema, async () => {
        await migrate(`${database.url}?schema=${schema}`);
        await olderPostgres(direct, schema, version);
      });
      expect(found).toBe(await schemaOf("compared", async () => {}));
    },
  );

  test("of a database that 0.1.0 wrote becomes that of a new one", async () => {
    const found = await schemaOf("onceflow", () => direct.query(readFileSync(join(fixtures, "postgres.sql"), "utf8")));
    expect(found).toBe(await schemaOf("compared", async () => {}));
  });
});
