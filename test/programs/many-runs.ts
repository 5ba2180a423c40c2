import type { RunFilter } from "../../src/core/runs/search/filter.js";
import { servedSearches } from "../../src/core/runs/search/served.js";

/**
 * Runs that are hard to search: most are alike, and what a search asks for is either very common or only among the oldest. Written by SQL: a
 * million starts would take hours.
 */
const members = {
  workflow: "'workflow ' || (i % 10)",
  status: `CASE WHEN i <= 300 THEN 'unknown' WHEN i % 20 = 0 THEN 'failed' WHEN i % 97 = 0 THEN 'cancelled'
    WHEN i % 101 = 0 THEN 'running' WHEN i % 103 = 0 THEN 'pending' ELSE 'completed' END`,
  scope: "CASE WHEN i <= 1000 THEN 'rare' WHEN i % 5 < 2 THEN 'common' ELSE '' END",
  parent: "CASE WHEN i <= 500 THEN 'rare' WHEN i % 7 = 0 THEN 'common' END",
  trouble: "CASE WHEN i <= 300 THEN 'why' END",
  attributes: `CASE WHEN i <= 500 THEN '{"tier":"\\"rare\\""}' WHEN i % 6 = 0 THEN '{"tier":"\\"common\\"","n":"1"}' END`,
} as const;

const isOpen = "status IN ('unknown', 'running', 'pending')";

/** Columns and expressions over a number `i` from 1 and the status of the run. */
function columnsFor(base: number): Readonly<Record<string, string>> {
  return {
    id: "'run ' || i",
    workflow: "workflow",
    status: "status",
    input: "'[]'",
    creator: "'c'",
    // Workers have 1 in 1,000 runs in memory.
    owner: "CASE WHEN status = 'running' AND i % 10 = 1 THEN 'worker' END",
    epoch: "1",
    mail: "0",
    consumed: "0",
    created_at: `${base} + i`,
    ended_at: `CASE WHEN ${isOpen} THEN NULL ELSE ${base} + i + 1000 END`,
    output: `CASE WHEN status = 'failed' THEN '{"name":"Error","message":"no"}' WHEN status = 'completed' THEN '1' END`,
    parent: "parent",
    trouble: "trouble",
    scope: "scope",
    attributes: "attributes",
    error_name: "CASE WHEN status = 'failed' THEN CASE WHEN i <= 2000 THEN 'rare' ELSE 'common' END END",
    error_code: "CASE WHEN status = 'failed' AND i % 40 = 0 THEN CASE WHEN i <= 4000 THEN 'rare' ELSE 'common' END END",
  };
}

const base = 1_700_000_000_000;

function selectFrom(series: string, statusType: string): { readonly names: string; readonly select: string } {
  const columns = columnsFor(base);
  const inner = Object.entries(members).map(([name, expression]) => `${expression} AS ${name}`);
  const outer = Object.entries(columns).map(([name, expression]) => (name === "status" ? `status${statusType}` : expression));
  return {
    names: Object.keys(columns).join(", "),
    select: `SELECT ${outer.join(", ")} FROM (SELECT i, ${inner.join(", ")} FROM ${series}) x`,
  };
}

export function fillSqlite(count: number): string {
  const { names, select } = selectFrom("n", "");
  return `INSERT INTO onceflow_runs (${names}) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count}) ${select}`;
}

export function fillPostgres(schema: string, count: number): string {
  const { names, select } = selectFrom(`generate_series(1, ${count}) AS n(i)`, `::${schema}.run_status`);
  return `INSERT INTO ${schema}.runs (${names}) ${select}`;
}

const values: Readonly<Record<string, readonly RunFilter[]>> = {
  idPrefix: [{ idPrefix: "run 77" }],
  workflow: [{ workflow: "workflow 3" }],
  status: [{ status: "completed" }, { status: "unknown" }],
  parentId: [{ parent: "common" }, { parent: "rare" }],
  scope: [{ scope: "common" }, { scope: "rare" }],
  created: [{ createdAfter: base + 100, createdBefore: base + 20_000 }],
  ended: [{ endedAfter: base }, { endedAfter: base + 2000, endedBefore: base + 20_000 }],
  errorName: [{ errorName: "common" }, { errorName: "rare" }],
  errorCode: [{ errorCode: "common" }, { errorCode: "rare" }],
  attribute: [{ attribute: { name: "tier", text: '"common"' } }, { attribute: { name: "tier", text: '"rare"' } }],
  needsPerson: [{ needsPerson: true }],
};

/** Every served combination of filters, each with a common and a rare value. */
export function allSearches(): { readonly names: string; readonly filter: RunFilter }[] {
  const found: { names: string; filter: RunFilter }[] = [];
  for (const { needs, allows } of servedSearches) {
    const subsets: string[][] = [[]];
    for (const name of allows) subsets.push(...subsets.map((names) => [...names, name]));
    for (const subset of subsets) {
      const names = [...needs, ...subset];
      for (const which of [0, 1]) {
        const parts = names.map((name) => values[name]?.[which] ?? values[name]?.[0]);
        const isSame = which === 1 && names.every((name) => (values[name]?.length ?? 0) < 2);
        if (!isSame)
          found.push({ names: `${names.join(", ")}${which === 1 ? " (rare)" : ""}`, filter: Object.assign({}, ...parts) as RunFilter });
      }
    }
  }
  return found;
}
