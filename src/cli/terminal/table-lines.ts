import { printable } from "../../core/errors/printable.js";
import { padded, widthOf } from "../width.js";
import { styled, styleOf } from "./colour.js";

export interface TableStyle {
  /** Columns of the terminal. Default: no limit. */
  readonly width?: number;
  /** What happens to a cell that is too long: `fold` continues it on the next line; `cut` ends it with "…". */
  readonly fit: "fold" | "cut";
  readonly colours: boolean;
}

type Cell = string | number | null | undefined;

const gap = 2;
/** A column is not made narrower than this. */
const narrowest = 8;

/** The lines of a table. Rows keep their order; the heads come first. */
export function tableLines(heads: readonly string[], rows: readonly (readonly Cell[])[], style: TableStyle): string[] {
  const cells = [heads, ...rows.map((row) => row.map((cell) => printable(String(cell ?? ""))))];
  const widths = fitted(
    heads.map((_, i) => Math.max(...cells.map((row) => widthOf(row[i] ?? "")))),
    style.width,
  );
  return cells.flatMap((row, i) => linesOf(row, widths, style, i === 0));
}

/** Takes from the widest column until the table fits, or all columns are narrow. */
function fitted(widths: readonly number[], limit = Number.POSITIVE_INFINITY): number[] {
  const fit = [...widths];
  const total = () => fit.reduce((sum, each) => sum + each + gap, -gap);
  for (let over = total() - limit; over > 0; over = total() - limit) {
    const widest = Math.max(...fit);
    if (widest <= narrowest) break;
    const next = Math.max(narrowest, ...fit.filter((each) => each < widest));
    const columns = fit.filter((each) => each === widest).length;
    const less = Math.max(1, Math.min(widest - next, Math.ceil(over / columns)));
    for (const [i, each] of fit.entries()) if (each === widest) fit[i] = each - less;
  }
  return fit;
}

function linesOf(row: readonly string[], widths: readonly number[], { fit, colours }: TableStyle, isHead: boolean): string[] {
  const parts = row.map((cell, i) => (fit === "fold" ? folded(cell, widths[i] ?? 0) : [cut(cell, widths[i] ?? 0)]));
  const height = Math.max(...parts.map(({ length }) => length));
  return Array.from({ length: height }, (_, line) =>
    parts
      .map((lines, i) => {
        const text = padded(lines[line] ?? "", i === row.length - 1 ? 0 : (widths[i] ?? 0));
        const style = isHead ? "bold" : styleOf(row[i] ?? "");
        return colours && style !== undefined ? styled(style, text) : text;
      })
      .join(" ".repeat(gap))
      .trimEnd(),
  );
}

const characters = new Intl.Segmenter();

/** Cuts a text into lines of this width: after a space, "/" or "," unless the line would be very short. */
export function folded(text: string, width: number): string[] {
  if (widthOf(text) <= width) return [text];
  const lines: string[] = [];
  let line = "";
  for (const { segment } of characters.segment(text)) {
    if (line !== "" && widthOf(line + segment) > width) {
      const at = Math.max(line.lastIndexOf(" "), line.lastIndexOf("/"), line.lastIndexOf(",")) + 1;
      const rest = at > line.length / 3 ? line.slice(at) : "";
      lines.push((rest === "" ? line : line.slice(0, at)).trimEnd());
      line = rest;
    }
    // The space at which a line was folded does not begin the next one.
    if (line !== "" || segment !== " " || lines.length === 0) line += segment;
  }
  return line === "" ? lines : [...lines, line];
}

/** The beginning of a text, and "…" if there is more. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let line = "";
  for (const { segment } of characters.segment(text)) {
    if (widthOf(line + segment) > width - 1) break;
    line += segment;
  }
  return `${line}…`;
}
