import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { orderOf, positionOf } from "../../src/core/runs/search/filter.js";
import type { Backend } from "../../src/core/store/store.js";
import { postgresBackend } from "../../src/stores/postgres/backend.js";
import { sqliteBackend } from "../../src/stores/sqlite/backend.js";
import { chooseDriver, openDatabase } from "../../src/stores/sqlite/driver.js";
import { allSearches, fillPostgres, fillSqlite } from "./many-runs.js";

/**
 * Measures a page of 100 and a count for every served combination of filters, as a client sees it (ms, median of 9). docs/reference/searches.md has a result. To run:
 * `npx esbuild test/programs/measure-searches.ts --bundle --platform=node --format=esm --packages=external --outfile=node_modules/.cache/measure.mjs`,
 * then `node node_modules/.cache/measure.mjs 1000000 [postgres://…]`.
 */
const [given = "1000000", url] = process.argv.slice(2);
const count = Number(given);
const pageSize = 100;
const countedMax = 10_001;

async function medianMs(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < 10; i++) {
    const begun = performance.now();
    await work();
    times.push(performance.now() - begun);
  }
  // The first one prepares the statement.
  return times.slice(1).sort((a, b) => a - b)[4] ?? 0;
}

async function measure(name: string, backend: Backend): Promise<void> {
  const { runs } = backend;
  if (runs === undefined) throw new Error(`${name} has no runs`);
  console.log(`| ${name}, ${count} runs: filters | page of ${pageSize}, ms | count, ms |\n|---|---|---|`);
  for (const { names, filter } of allSearches()) {
    const order = orderOf(filter);
    const first = await runs.list({ ...filter, limit: pageSize });
    const last = first.at(-1);
    const after = last === undefined ? {} : { after: positionOf(last, order) };
    // The slower one of the first two pages.
    const pages = [
      await medianMs(() => runs.list({ ...filter, limit: pageSize })),
      await medianMs(() => runs.list({ ...filter, ...after, limit: pageSize })),
    ];
    const page = Math.max(...pages);
    const counted = await medianMs(() => runs.count(filter, countedMax));
    console.log(`| ${names || "none"} | ${page.toFixed(2)} | ${counted.toFixed(1)} |`);
  }
  await backend.close();
}

const folder = mkdtempSync(join(tmpdir(), "onceflow-searches-"));
try {
  const path = join(folder, "searches.db");
  await (await sqliteBackend({ path })).close();
  const file = openDatabase(path, chooseDriver());
  file.exec(fillSqlite(count));
  file.close();
  await measure("SQLite", await sqliteBackend({ path }));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

if (url !== undefined) {
  const schema = `searches_${Date.now()}`;
  await (await postgresBackend({ url, schema })).close();
  const client = new pg.Client(url);
  await client.connect();
  await client.query(fillPostgres(schema, count));
  await client.query(`ANALYZE ${schema}.runs; ANALYZE ${schema}.run_attributes`);
  await measure("PostgreSQL", await postgresBackend({ url, schema }));
  await client.query(`DROP SCHEMA ${schema} CASCADE`);
  await client.end();
}
