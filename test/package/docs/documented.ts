import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { root, textOf } from "./pages.js";

/** The members of an exported interface. */
export function membersOf(file: string, name: string): string[] {
  const body = textOf(file).split(`export interface ${name}`)[1]?.split("\n}")[0] ?? "";
  const members = [...body.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, member = ""]) => member);
  expect(members, `the members of ${name} in ${file}`).not.toEqual([]);
  return members;
}

/** The exported names of a file that only re-exports. */
export function exportsOf(file: string): string[] {
  const lists = [...textOf(file).matchAll(/^export (?:type )?\{([^}]*)\}/gm)].map(([, list = ""]) => list);
  return lists.flatMap((list) => list.split(",").map((name) => name.trim().replace(/^.* as |^type /, ""))).filter((name) => name !== "");
}

/** The codes of errors and warnings that the source files use. */
export function sourceCodes(of: (file: string) => boolean = () => true): { readonly errors: string[]; readonly warnings: string[] } {
  const src = join(root, "src");
  // Tests, and the testing tools of the product, use codes of their own.
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
    (file) => /^(?!testing\/).*(?<!\.test)\.ts$/.test(file) && of(file),
  );
  const codes = files.flatMap((file) =>
    [...readFileSync(join(src, file), "utf8").matchAll(/code: "([A-Z_]+)"/g)].map(([, code = ""]) => code),
  );
  const all = [...new Set(codes)].sort();
  return { errors: all.filter((code) => !code.startsWith("ONCEFLOW_")), warnings: all.filter((code) => code.startsWith("ONCEFLOW_")) };
}
