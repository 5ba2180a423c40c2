import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import Table from "cli-table3";
import type { Conditions } from "./conditions.js";

/** A column of a table. Columns with figures are aligned right. */
interface Column {
  readonly title: string;
  readonly right?: boolean;
}

export interface Section {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly string[])[];
  readonly notes?: readonly string[];
}

export interface Report {
  readonly name: string;
  readonly title: string;
  readonly intro: readonly string[];
  readonly conditions: Conditions;
  readonly sections: readonly Section[];
  readonly raw: unknown;
  readonly svg?: string;
}

export function printReport({ title, conditions, sections }: Report): void {
  console.log(`\n${title}`);
  console.log(
    Object.entries(conditions)
      .map(([name, value]) => `  ${name}: ${value}`)
      .join("\n"),
  );
  for (const section of sections) {
    console.log(`\n${section.title}`);
    const table = new Table({
      head: section.columns.map((c) => c.title),
      colAligns: section.columns.map((c) => (c.right ? "right" : "left")),
      style: { head: process.stdout.isTTY ? ["bold"] : [], border: process.stdout.isTTY ? ["gray"] : [], compact: true },
    });
    table.push(...section.rows.map((row) => [...row]));
    console.log(table.toString());
    for (const note of section.notes ?? []) console.log(`  ${note}`);
  }
}

/** Writes `<name>.md`, `<name>.json` and, if there is a chart, `<name>.svg`. */
export async function saveReport(report: Report, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const { name, conditions, raw, svg } = report;
  await writeFile(join(folder, `${name}.md`), toMarkdown(report));
  await writeFile(join(folder, `${name}.json`), `${JSON.stringify({ conditions, ...(raw as object) }, null, 1)}\n`);
  if (svg !== undefined) await writeFile(join(folder, `${name}.svg`), svg);
}

function toMarkdown({ name, title, intro, conditions, sections, svg }: Report): string {
  const conditionRows = Object.entries(conditions).map(([condition, value]) => [condition, value]);
  const parts = [
    `# ${title}`,
    ...intro,
    ...(svg === undefined ? [] : [`![${title}](./${name}.svg)`]),
    ...sections.flatMap((section) => [`## ${section.title}`, markdownTable(section.columns, section.rows), ...(section.notes ?? [])]),
    "## Conditions",
    markdownTable([{ title: "condition" }, { title: "value" }], conditionRows),
  ];
  return `${parts.join("\n\n")}\n`;
}

function markdownTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const widths = columns.map(({ title }, i) => Math.max(title.length, 4, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => (columns[i]?.right ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))).join(" | ")} |`;
  const rule = columns.map(({ right }, i) => "-".repeat((widths[i] ?? 0) - 1) + (right ? ":" : "-"));
  return [line(columns.map((c) => c.title)), line(rule), ...rows.map(line)].join("\n");
}

export function rate(perSecond: number): string {
  return Math.round(perSecond).toLocaleString("en");
}

export function milliseconds(ms: number): string {
  return ms.toFixed(ms < 10 ? 3 : 1);
}
