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

const root = import.meta.dirname;
const files = (readdirSync(root, { recursive: true }) as string[]).filter((file) => file.includes(sep) && /(?<!\.test)\.ts$/.test(file));

test("imports between the folders go one way", () => {
  const rankOf = (path: string) => order.indexOf(path.split(sep)[0] as (typeof order)[number]);
  const upward = files.flatMap((file) =>
    [...readFileSync(join(root, file), "utf8").matchAll(/from "(\.[^"]+)"/g)]
      .map(([, specifier = ""]) => relative(root, join(root, dirname(file), specifier)))
      .filter((target) => !target.startsWith("..") && rankOf(target) > rankOf(file))
      .map((target) => `${file} → ${target}`),
  );
  expect(files.length).toBeGreaterThan(100);
  expect([...new Set(files.map((file) => file.split(sep)[0]))].sort()).toEqual([...order].sort());
  expect(upward).toEqual([]);
});
