import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { LongestFirst, longest } from "./longest-first.js";

const folder = resolve(import.meta.dirname, "..");
const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".test.ts"));
const named = longest.map((name) => `${name}.test.ts`);

test("every name belongs to a file and is listed once", () => {
  expect(named.filter((file) => !files.includes(file))).toEqual([]);
  expect(new Set(named).size).toBe(named.length);
});

test("files that take turns start early, and no two of them are neighbours", () => {
  const takesTurns = (file: string) => /^takeTurns\(\);$/m.test(readFileSync(join(folder, file), "utf8"));
  expect(files.filter((file) => takesTurns(file) && !named.includes(file))).toEqual([]);
  const places = named.flatMap((file, place) => (takesTurns(file) ? [place] : []));
  expect(places.filter((place) => places.includes(place + 1))).toEqual([]);
});

test("the other files follow in their order", async () => {
  const project = { name: "", config: { sequence: { groupOrder: 0 }, isolate: true } };
  const specs = ["a", longest[1], "b", longest[0]].map((name) => ({ project, moduleId: `/test/${name}.test.ts` }));
  const cache = { getFileTestResults: () => undefined, getFileStats: () => undefined };
  const sorted = await new LongestFirst({ config: { root: "/" }, cache } as never).sort(specs as never);
  expect(sorted.map(({ moduleId }) => moduleId)).toEqual([longest[0], longest[1], "a", "b"].map((name) => `/test/${name}.test.ts`));
});
