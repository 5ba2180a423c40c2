import { printable } from "../core/errors/printable.js";
import { hasColours } from "./terminal/colour.js";
import { tableLines } from "./terminal/table-lines.js";
import { padded, widthOf } from "./width.js";

/** Formats rows below column heads; undefined cells are empty. On a terminal long cells are folded to its width, and words such as "failed" have a colour. */
export function table(heads: readonly string[], rows: readonly (readonly (string | number | null | undefined)[])[]): string {
  const width = process.stdout.isTTY ? process.stdout.columns : undefined;
  return tableLines(heads, rows, { fit: "fold", colours: hasColours(process.stdout), ...(width === undefined ? {} : { width }) }).join(
    "\n",
  );
}

/** Formats names and values, one pair per line. */
export const facts = (rows: readonly (readonly [string, unknown])[]): string =>
  columns(rows.map(([name, value]) => [name, value instanceof Date ? (timeOf(value) ?? "") : String(value ?? "")]));

/** The time in the time zone of this process, and its distance from UTC: `2026-11-19 22:53:02+01:00`, or with `Z` in UTC. */
export function timeOf(at: Date | number | string | null | undefined): string | undefined {
  if (at === undefined || at === null) return undefined;
  const time = new Date(at);
  const minutes = -time.getTimezoneOffset();
  const local = new Date(time.getTime() + minutes * 60_000).toISOString().replace("T", " ").slice(0, 19);
  if (minutes === 0) return `${local}Z`;
  const two = (value: number) => String(Math.trunc(value)).padStart(2, "0");
  return `${local}${minutes < 0 ? "-" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}

/** Formats rows as lines with aligned columns. The last column is not padded. */
export function columns(rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(printable));
  const widths: number[] = [];
  for (const row of cells) for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, widthOf(cell));
  return cells.map((row) => row.map((cell, i) => (i === row.length - 1 ? cell : padded(cell, widths[i] ?? 0))).join("  ")).join("\n");
}

export const print = (text: string): void => void process.stdout.write(text.endsWith("\n") || text === "" ? text : `${text}\n`);

/** Prints one line with data in it, which must not control the terminal. */
export const printLine = (text: string): void => print(printable(text));

export const printJson = (value: unknown): void => print(JSON.stringify(value, undefined, 2));

/** Prints to standard error: messages for people, apart from the output that programs read. */
export const note = (text: string): void => void process.stderr.write(`${text.split("\n").map(printable).join("\n")}\n`);

export const counted = (count: number, word: string): string => `${count} ${word}${count === 1 ? "" : "s"}`;

const progressFrom = 20;

/** Shows a progress counter on a terminal, for work of 20 items or more; does nothing elsewhere. */
export function progress(total: number): { readonly step: () => void; readonly end: () => void } {
  if (!process.stderr.isTTY || total < progressFrom) return { step: () => {}, end: () => {} };
  let done = 0;
  return {
    step: () => {
      done += 1;
      process.stderr.write(`\r${done} of ${total}`);
    },
    end: () => process.stderr.write("\r\u001b[K"),
  };
}
