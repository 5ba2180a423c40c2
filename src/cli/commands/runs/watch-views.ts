import { printable } from "../../../core/errors/printable.js";
import type { RunRow } from "../../operations/operations.js";
import { columns, counted, note, print, timeOf } from "../../output.js";
import { hasColours, styled } from "../../terminal/colour.js";
import { Screen } from "../../terminal/screen.js";
import { cut, tableLines } from "../../terminal/table-lines.js";
import { runTable, troubleOf } from "./list.js";

/** Shows the runs that were found, as often as they were looked for. */
export interface RunView {
  show(rows: readonly RunRow[]): void;
  /** The last look failed; another one follows. */
  showTrouble(message: string): void;
  close(): void;
}

/** A table that stays in place. Its last state is printed when it is closed. */
export function runScreen(everyMs: number): RunView {
  let rows: readonly RunRow[] = [];
  let at = new Date();
  let trouble: string | undefined;
  const colours = hasColours(process.stdout);
  const draw = (): void => screen.draw(frameOf({ rows, at, trouble, everyMs, colours, width: screen.columns - 1, height: screen.rows }));
  const screen = new Screen(process.stdout, draw);
  return {
    show: (found) => {
      [rows, at, trouble] = [found, new Date(), undefined];
      draw();
    },
    showTrouble: (message) => {
      trouble = printable(message);
      draw();
    },
    close: () => {
      screen.close();
      const table = runTable(rows);
      print(tableLines(table.heads, table.rows, { fit: "fold", colours, width: screen.columns }).join("\n"));
    },
  };
}

interface Frame {
  readonly rows: readonly RunRow[];
  readonly at: Date;
  readonly trouble: string | undefined;
  readonly everyMs: number;
  readonly colours: boolean;
  readonly width: number;
  readonly height: number;
}

/** The lines of one frame: a heading, the table, and what does not fit. */
export function frameOf({ rows, at, trouble, everyMs, colours, width, height }: Frame): string[] {
  const heading = `${counted(rows.length, "run")} at ${timeOf(at)}, every ${everyMs / 1000} s. Ctrl-C ends`;
  const warning = trouble === undefined ? [] : [colours ? styled("red", cut(trouble, width)) : cut(trouble, width)];
  const table = rows.map((run) => [run.id, run.workflow, run.status, ...agesOf(run, at), troubleOf(run)]);
  const lines = tableLines(["ID", "WORKFLOW", "STATUS", "AGE", "TOOK", "TROUBLE"], table, { fit: "cut", colours, width });
  const room = Math.max(1, height - 1 - warning.length);
  if (lines.length <= room) return [cut(heading, width), ...warning, ...lines];
  const shown = lines.slice(0, Math.max(1, room - 1));
  return [
    cut(heading, width),
    ...warning,
    ...shown,
    cut(`… ${counted(lines.length - shown.length, "more run")}; the window is too low`, width),
  ];
}

/** Since when the run exists, and how long it took or has taken. They are shorter than times, and a table that stays in place has to fit. */
function agesOf({ createdAt, startedAt, completedAt }: RunRow, at: Date): readonly (string | undefined)[] {
  const ms = (from: string | undefined, to: string | Date) =>
    from === undefined ? undefined : new Date(to).getTime() - new Date(from).getTime();
  return [shortDuration(ms(createdAt, at)), shortDuration(ms(startedAt, completedAt ?? at))];
}

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

/** `3d`, `12m`; below a second in ms. */
export function shortDuration(ms: number | undefined): string | undefined {
  if (ms === undefined) return undefined;
  const [unit, size] = units.find(([, each]) => ms >= each) ?? ["ms", 1];
  return `${Math.max(0, Math.floor(ms / size))}${unit}`;
}

/** One line for each run that has changed, for files and programs. */
export function runLines(json: boolean): RunView {
  let seen = new Map<string, string>();
  return {
    show: (rows) => {
      const now = new Map<string, string>();
      // Oldest first, as lines of a log.
      for (const row of rows.toReversed()) {
        const text = JSON.stringify(row);
        now.set(row.id, text);
        if (seen.get(row.id) === text) continue;
        const at = new Date();
        if (json) print(JSON.stringify({ at, ...row }));
        else print(columns([[timeOf(at) ?? "", row.id, row.workflow, row.status, troubleOf(row) ?? ""]]).trimEnd());
      }
      seen = now;
    },
    showTrouble: note,
    close: () => {},
  };
}
