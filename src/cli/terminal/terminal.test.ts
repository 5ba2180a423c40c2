import { expect, test } from "vitest";
import { frameOf, shortDuration } from "../commands/runs/watch-views.js";
import type { RunRow } from "../operations/operations.js";
import { widthOf } from "../width.js";
import { hasColours } from "./colour.js";
import { shellWord } from "./shell-word.js";
import { cut, folded, tableLines } from "./table-lines.js";

test.each([
  [{}, true, true],
  [{}, undefined, false],
  [{ NO_COLOR: "1" }, true, false],
  [{ NO_COLOR: "" }, true, true],
  [{ TERM: "dumb" }, true, false],
  [{ FORCE_COLOR: "1" }, undefined, true],
  [{ FORCE_COLOR: "1", NO_COLOR: "1" }, true, true],
  [{ FORCE_COLOR: "0" }, true, false],
] as const)("colours with %j, terminal: %s → %s", (env, isTTY, coloured) => {
  expect(hasColours(isTTY === undefined ? {} : { isTTY }, env)).toBe(coloured);
});

test("a long cell is folded at a space, wide characters count twice, and nothing is lost", () => {
  expect(folded("card declined by the bank", 12)).toEqual(["card", "declined by", "the bank"]);
  expect(folded("abcdefghij", 4)).toEqual(["abcd", "efgh", "ij"]);
  expect(folded("日本語のテキスト", 6)).toEqual(["日本語", "のテキ", "スト"]);
  expect(folded("short", 10)).toEqual(["short"]);
});

test("a cut cell says so", () => {
  expect(cut("card declined", 8)).toBe("card de…");
  expect(widthOf(cut("日本語のテキスト", 6))).toBeLessThanOrEqual(6);
  expect(cut("short", 5)).toBe("short");
});

const rows = [
  ["order-1", "failed", "FatalError: the bank refused the card because it has expired"],
  ["order-2", "completed", undefined],
] as const;

test("a table fits the width: folded in lists, cut in frames; without a width it is as wide as its cells", () => {
  const plain = { colours: false } as const;
  const wide = tableLines(["ID", "STATUS", "TROUBLE"], rows, { ...plain, fit: "fold" });
  expect(wide).toHaveLength(3);
  for (const fit of ["fold", "cut"] as const) {
    const lines = tableLines(["ID", "STATUS", "TROUBLE"], rows, { ...plain, fit, width: 40 });
    for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(40);
    expect(lines.length).toBe(fit === "fold" ? 6 : 3);
  }
  const folds = tableLines(["ID", "STATUS", "TROUBLE"], rows, { ...plain, fit: "fold", width: 40 });
  expect(folds.join(" ").replace(/\s+/g, " ")).toContain("order-1 failed FatalError: the bank refused the card because it has expired");
});

test("colours do not change the columns, and control characters of data are printed as spaces", () => {
  const evil = [["a\u001b[2Jb", "failed", "x"]];
  const [, line = ""] = tableLines(["ID", "STATUS", "T"], evil, { fit: "fold", colours: true });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the colours
  expect(line.replace(/\u001b\[\d+m/g, "")).toBe("a [2Jb  failed  x");
  expect(line).toContain("\u001b[31mfailed");
});

const run = (id: string, more: Partial<RunRow> = {}): RunRow => ({
  id,
  workflow: "order",
  status: "running",
  createdAt: "2026-11-19T08:00:00Z",
  startedAt: "2026-11-19T08:00:01Z",
  needsPerson: false,
  unsettled: 0,
  ...more,
});

test("a frame fits the window, and says what it leaves out", () => {
  const runs = Array.from({ length: 30 }, (_, i) => run(`order-${i}`, i === 0 ? { trouble: "a very long text ".repeat(9) } : {}));
  const about = { rows: runs, at: new Date("2026-11-19T08:02:01Z"), trouble: undefined, everyMs: 1000, colours: false };
  const frame = frameOf({ ...about, width: 60, height: 10 });
  expect(frame).toHaveLength(10);
  for (const line of frame) expect(widthOf(line)).toBeLessThanOrEqual(60);
  expect(frame.at(-1)).toBe("… 23 more runs; the window is too low");
  expect(frame[2]).toMatch(/^order-0 +order +running +2m +2m +a very long.*…$/);
  const troubled = frameOf({ ...about, rows: runs.slice(0, 2), trouble: "the store cannot be reached", width: 80, height: 24 });
  expect(troubled[1]).toBe("the store cannot be reached");
});

test.each([
  [undefined, undefined],
  [12, "12ms"],
  [61_000, "1m"],
  [26 * 3_600_000, "1d"],
])("%s ms is %s", (ms, text) => {
  expect(shortDuration(ms)).toBe(text);
});

test.each([
  ["--status=failed", "--status=failed"],
  ["it's", "'it'\\''s'"],
  ["a b", "'a b'"],
  ["$(rm)", "'$(rm)'"],
])("%s is one word of a shell", (text, word) => {
  expect(shellWord(text)).toBe(word);
});
