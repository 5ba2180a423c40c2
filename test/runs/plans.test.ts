import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { postgresBackend } from "../../src/stores/postgres/backend.js";
import { countRuns as countPostgres, listRuns as listPostgres } from "../../src/stores/postgres/runs/search.js";
import { sqliteBackend } from "../../src/stores/sqlite/backend.js";
import { prepareOnce } from "../../src/stores/sqlite/connection/prepared.js";
import { chooseDriver, openDatabase } from "../../src/stores/sqlite/driver.js";
import { countRuns, listRuns } from "../../src/stores/sqlite/runs/search.js";
import { effort } from "../kit/effort.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { allSearches, fillPostgres, fillSqlite } from "../programs/many-runs.js";
import { database, direct, ownPostgres, server } from "../stores/postgres/own-postgres.js";

ownPostgres();

const folder = temporaryFolder(afterAll);
const count = effort({ quick: 10_000, full: 60_000 });
const limit = 20;
/** A page is put together from the workflows and statuses that there are: 10 and 9, each with as many rows as a page has. */
const branches = 10 * 9;

/** Parts of a plan that read a whole table, or sort. A scan of one of these indexes is in the order of the list, and ends with the page. */
const bad =
  /SCAN (?!json_each|n\b|p\b|pairs|CONSTANT|x\b|\(|.*USING (COVERING )?INDEX onceflow_runs_(newest|listed|ended|person))|USE TEMP B-TREE/;

describe("on SQLite", () => {
  test("every search and every count uses an index in the order of the list", async () => {
    const path = join(folder, "plans.db");
    await (await sqliteBackend({ path })).close();
    const file = openDatabase(path, chooseDriver());
    onTestFinished(() => void file.close());
    file.exec(fillSqlite(count));
    const texts = new Set<string>();
    const prepared = prepareOnce(file);
    const recorded: typeof prepared = (text) => {
      texts.add(text);
      return prepared(text);
    };
    for (const { filter } of allSearches()) {
      listRuns(recorded, { ...filter, limit });
      listRuns(recorded, { ...filter, limit, after: { at: 1_700_000_005_000, id: "run 5000" } });
      countRuns(recorded, filter, 50);
    }
    expect(texts.size).toBeGreaterThan(40);
    for (const text of texts) {
      const parameters = Array.from({ length: (text.match(/\?(?!\d)/g) ?? []).length }, () => null);
      const numbered = /\?1/.test(text) ? [null, null] : parameters;
      const plan = (file.prepare(`EXPLAIN QUERY PLAN ${text}`).all(...numbered) as { detail: string }[]).map(({ detail }) => detail);
      // Runs that workers have are sorted, and are few: see ownedRange.
      if (text.includes("INDEXED BY onceflow_runs_queue")) {
        expect(plan.join(), text).toMatch(/SEARCH r USING INDEX onceflow_runs_queue \(owner>\?/);
        continue;
      }
      // A cursor limits the range by time and id: comparing rows, SQLite uses the index for both only if the values have no type of their own.
      if (/, r\.id\) < \(/.test(text)) expect(plan.join(), text).toMatch(/,id\)<\(\?,\?\)/);
      expect(text).not.toMatch(/\) > \(/);
      // The rows of a page, in the order of their numbers in the list that was passed.
      const isPage = text.includes("ORDER BY n.key");
      expect(
        plan.filter((line) => bad.test(line) && !isPage),
        `${text}\n${plan.join("\n")}`,
      ).toEqual([]);
    }
  });
});

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly PlanNode[];
}

/** How many rows of tables and indexes a plan has read. */
function rowsRead(node: PlanNode): number {
  const own =
    node["Relation Name"] === undefined ? 0 : (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"];
  return (node.Plans ?? []).reduce((sum, each) => sum + rowsRead(each), own);
}

function scansOf(node: PlanNode): string[] {
  const own = node["Node Type"] === "Seq Scan" ? [node["Relation Name"] ?? ""] : [];
  return (node.Plans ?? []).reduce((all, each) => all.concat(scansOf(each)), own);
}

describe.skipIf(!server.ok)("on PostgreSQL", () => {
  test("every search and every count reads no more rows than its pages have", async () => {
    await (await postgresBackend({ url: database.url, schema: "plans" })).close();
    // As the connections for searches: runs/runs.ts.
    await direct.query("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off");
    await direct.query(`${fillPostgres("plans", count)}; ANALYZE plans.runs; ANALYZE plans.run_attributes`);
    const found: { what: string; rows: number; scans: string[] }[] = [];
    const client = {
      async query(text: string, values: readonly (string | number)[]) {
        const { rows } = await direct.query<{ "QUERY PLAN": { Plan: PlanNode }[] }>(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, [...values]);
        const [plan] = rows[0]?.["QUERY PLAN"] ?? [];
        if (plan) found.push({ what: `${what}\n${text}`, rows: rowsRead(plan.Plan), scans: scansOf(plan.Plan) });
        return { rows: [] };
      },
    } as never;
    let what = "";
    for (const { names, filter } of allSearches()) {
      what = names;
      await listPostgres(client, "plans", { ...filter, limit });
      await listPostgres(client, "plans", { ...filter, limit, after: { at: 1_700_000_005_000, id: "run 5000" } });
      await countPostgres(client, "plans", filter, limit);
    }
    expect(found.length).toBeGreaterThan(100);
    // The rows behind the positions of a page, and the workflows, are read, too.
    const rowsMax = branches * (limit + 1) + 100;
    expect(
      found
        .filter(({ rows, scans }) => rows > rowsMax || scans.length > 0)
        .map(({ what, rows, scans }) => `${rows} rows, ${scans.join()}: ${what}`),
    ).toEqual([]);
  });
});
