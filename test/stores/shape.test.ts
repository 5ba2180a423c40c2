import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";

/**
 * All stores have one shape (docs/reference/writing-a-store.md), so that a reader who knows one of them knows where to look in
 * the others. Of the shared files, only the registry names a store, in one line.
 */
const src = resolve(import.meta.dirname, "../../src");
const stores = readdirSync(join(src, "stores"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && existsSync(join(src, "stores", entry.name, "index.ts")))
  .map(({ name }) => name);

/** Files of every store, files of stores with a database, and files that some stores have. */
const always = ["backend.ts", "index.ts", "ledger", "url.ts"];
const withDatabase = ["connection", "driver.ts", "errors.ts", "heartbeat.ts"];
const sometimes = ["layout.ts", "migrations", "packets", "runs", "transactions"];
/** Entries that only one database has. */
const own: Readonly<Record<string, readonly string[]>> = {
  dynamodb: ["options.ts"],
  memory: ["bounded.ts"],
  postgres: ["parameters"],
  redis: ["scripts"],
};

const entriesOf = (store: string) => readdirSync(join(src, "stores", store)).filter((name) => !name.endsWith(".test.ts"));
const textOf = (path: string) => readFileSync(join(src, path), "utf8");

test("every folder beside the shared ones is a store, and the registry lists exactly these", () => {
  const folders = readdirSync(join(src, "stores"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(folders.map(({ name }) => name).filter((name) => !["heartbeat", "shared"].includes(name))).toEqual(stores);
  const registered = [...textOf("stores/registry.ts").matchAll(/"\.\/([\w-]+)\/index\.js"/g)].map(([, name]) => name);
  expect(registered.toSorted()).toEqual(stores.toSorted());
});

describe.each(stores)("%s", (store) => {
  const entries = entriesOf(store);
  const required = store === "memory" ? always : [...always, ...withDatabase];

  test("has the files of a store, and no others", () => {
    expect(entries).toEqual(expect.arrayContaining(required));
    expect(entries.filter((name) => ![...required, ...sometimes, ...(own[store] ?? [])].includes(name))).toEqual([]);
  });

  test("defines its schema by migrations or by a layout", () => {
    const places = ["layout.ts", "migrations"].filter((name) => entries.includes(name));
    expect(places).toHaveLength(store === "memory" ? 0 : 1);
  });

  test("is opened by the function that its index.ts exports", async () => {
    const { openUrl } = (await import(`../../src/stores/${store}/index.ts`)) as { openUrl?: unknown };
    expect(openUrl).toBeTypeOf("function");
  });

  test("is named in one line of the registry, and in no other shared file", () => {
    const lines = textOf("stores/registry.ts").split("\n");
    expect(lines.filter((line) => line.includes(`"./${store}/`))).toHaveLength(1);
    const shared = ["stores", "stores/heartbeat", "stores/shared"].flatMap((folder) =>
      readdirSync(join(src, folder))
        .filter((file) => file.endsWith(".ts"))
        .map((file) => `${folder}/${file}`),
    );
    const naming = shared.filter((file) => file !== "stores/registry.ts" && new RegExp(`"\\.{1,2}/${store}/`).test(textOf(file)));
    expect(naming).toEqual([]);
  });
});
