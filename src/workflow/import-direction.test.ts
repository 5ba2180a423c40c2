import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { expect, test } from "vitest";

/** A folder imports from those before it, and from itself. */
const order = [
  "define",
  "journal",
  "replay",
  "process",
  "waiting",
  "streams",
  "hooks",
  "steps",
  "children",
  "execute",
  "worker",
  "client",
] as const;

/** The same within `journal`: "" is the files that stand in no folder of their own. */
const orderInJournal = ["", "arguments", "mail", "history", "writer", "plans", "ends"] as const;

const root = import.meta.dirname;
const files = (readdirSync(root, { recursive: true }) as string[]).filter((file) => file.includes(sep) && /(?<!\.test)\.ts$/.test(file));

/** A path relative to this folder. */
type Rank = (path: string) => number;

const rankOf: Rank = (path) => order.indexOf(path.split(sep)[0] as (typeof order)[number]);

const rankInJournal: Rank = (path) => {
  const [, folder = "", file] = path.split(sep);
  return orderInJournal.indexOf((file === undefined ? "" : folder) as (typeof orderInJournal)[number]);
};

const isJournal = (path: string) => path.startsWith(`journal${sep}`);

/** Imports of `imported` files by a file that stands before them. */
function upwardImports(of: readonly string[], imported: (path: string) => boolean, rank: Rank): string[] {
  return of.flatMap((file) =>
    [...readFileSync(join(root, file), "utf8").matchAll(/from "(\.[^"]+)"/g)]
      .map(([, specifier = ""]) => relative(root, join(root, dirname(file), specifier)))
      .filter((target) => imported(target) && rank(target) > rank(file))
      .map((target) => `${file} → ${target}`),
  );
}

test("imports between the folders go one way", () => {
  expect(files.length).toBeGreaterThan(100);
  expect([...new Set(files.map((file) => file.split(sep)[0]))].sort()).toEqual([...order].sort());
  expect(upwardImports(files, (target) => !target.startsWith(".."), rankOf)).toEqual([]);
});

test("so do those between the folders of the journal", () => {
  const inJournal = files.filter(isJournal);
  const folders = inJournal.map((file) => file.split(sep).slice(1, -1).join(sep));
  expect([...new Set(folders)].sort()).toEqual([...orderInJournal].sort());
  expect(upwardImports(inJournal, isJournal, rankInJournal)).toEqual([]);
});
