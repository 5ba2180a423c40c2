/** Pieces of Go source as gofmt writes them. */

/** A Go string literal. Half of a surrogate pair is not valid in Go, nor is a byte order mark within a file. */
export const goString = (text: string): string =>
  JSON.stringify(text.toWellFormed()).replace(
    /[\u007f-\u009f\ufeff\u2028\u2029]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** A comment of one line: gofmt rewrites longer doc comments (lists, headings, indented text) in its own way. */
export function goComment(text: string, indent = ""): string {
  const line = text
    .toWellFormed()
    .replace(/[\s\p{C}\p{Z}]+/gu, " ")
    .replace(/``|''/g, '"')
    .trim();
  return `${indent}// ${line}\n`;
}

/** A row of a struct or of a list of constants: its comment, and its columns. */
export interface Row {
  readonly comment?: string | undefined;
  readonly cells: readonly string[];
}

/** Rows with aligned columns. A comment ends a block of aligned rows, as in gofmt. */
export function alignedRows(rows: readonly Row[]): string {
  const blocks: Row[][] = [];
  for (const row of rows) {
    const block = blocks.at(-1);
    if (block === undefined || row.comment !== undefined) blocks.push([row]);
    else block.push(row);
  }
  return blocks.map(blockText).join("");
}

function blockText(block: readonly Row[]): string {
  const widths: number[] = [];
  for (const { cells } of block) for (const [i, cell] of cells.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  return block
    .map(({ comment, cells }) => {
      const line = cells.map((cell, i) => (i === cells.length - 1 ? cell : cell.padEnd(widths[i] ?? 0))).join(" ");
      return `${comment === undefined ? "" : goComment(comment, "\t")}\t${line}\n`;
    })
    .join("");
}
