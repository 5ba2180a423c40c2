/** What others wrote may hold what a terminal would obey, or line breaks. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters it replaces
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
}

/** Columns with their names above them; a cell that is not there is empty. */
export function table(heads: readonly string[], rows: readonly (readonly (string | number | undefined)[])[]): string {
  return columns([heads, ...rows.map((row) => row.map((cell) => printable(String(cell ?? ""))))]);
}

export const timeOf = (at: Date | number | null | undefined): string | undefined =>
  at === undefined || at === null ? undefined : new Date(at).toISOString().replace("T", " ").slice(0, 19);

/** Rows with their columns below each other; the last column is as long as it is. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  return rows.map((row) => row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0))).join("  ")).join("\n");
}

export const print = (text: string): void => void process.stdout.write(text.endsWith("\n") || text === "" ? text : `${text}\n`);

export const printJson = (value: unknown): void => print(JSON.stringify(value, undefined, 2));

/** For people, and beside what a program reads. */
export const note = (text: string): void => void process.stderr.write(`${text}\n`);

export const counted = (count: number, word: string): string => `${count} ${word}${count === 1 ? "" : "s"}`;

const fromFiles = 20;

/** How far long work has come, on a terminal; nothing elsewhere. */
export function progress(total: number): { readonly step: () => void; readonly end: () => void } {
  if (!process.stderr.isTTY || total < fromFiles) return { step: () => {}, end: () => {} };
  let done = 0;
  return {
    step: () => {
      done += 1;
      process.stderr.write(`\r${done} of ${total}`);
    },
    end: () => process.stderr.write("\r\u001b[K"),
  };
}
