import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

/**
 * The allowed directions of imports (ARCHITECTURE.md): core imports no other folder; stores import core; front ends import core
 * and get a store as an argument. `ambient` binds front ends to the process's own store. `exports` has one file per subpath of
 * the package, and may import any folder.
 */
const allowed: Readonly<Record<string, readonly string[]>> = {
  core: [],
  stores: ["core"],
  flow: ["core"],
  workflow: ["core"],
  operate: ["core", "workflow"],
  transform: ["core"],
  graph: ["core", "workflow"],
  http: ["core"],
  inbox: ["core"],
  outbox: ["core"],
  // Graphs have the signature and the private-address checks of webhooks.
  alerts: ["core", "outbox", "graph"],
  testing: ["core", "stores", "workflow", "graph"],
  ambient: ["core", "stores", "flow", "workflow", "graph"],
  bundlers: ["core", "transform", "workflow", "ambient", "stores"],
  server: ["operate", "ambient", "exports", "core", "flow", "workflow", "graph", "http", "inbox", "outbox"],
  cli: ["operate", "ambient", "exports", "core", "flow", "workflow", "graph", "http", "inbox", "outbox", "server", "testing"],
};

const src = resolve(import.meta.dirname, "../../src");
const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"));

function importsOf(file: string): string[] {
  const text = readFileSync(join(src, file), "utf8");
  return [...text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map(([, path = ""]) =>
    relative(src, resolve(src, dirname(file), path)),
  );
}

const folderOf = (file: string) => (file.includes("/") ? file.slice(0, file.indexOf("/")) : "");

test("imports follow the allowed directions", () => {
  expect(files.length).toBeGreaterThan(30);
  const wrong = files.flatMap((file) => {
    const from = folderOf(file);
    if (from === "exports") return [];
    const may = allowed[from];
    if (may === undefined) return [`src/${from}/ has no rule in test/package/imports.test.ts`];
    return importsOf(file)
      .filter((to) => folderOf(to) !== from && !may.includes(folderOf(to)))
      .map((to) => `${file} imports ${to}`);
  });
  expect(wrong).toEqual([]);
});

test("a store does not import another store", () => {
  const storeOf = (file: string) => file.split("/")[1] ?? "";
  const isStore = (file: string) => /^stores\/(?!heartbeat\/|shared\/)[^/]+\//.test(file);
  const wrong = files
    .filter((file) => isStore(file))
    .flatMap((file) =>
      importsOf(file)
        .filter((to) => isStore(to) && storeOf(to) !== storeOf(file))
        .map((to) => `${file} → ${to}`),
    );
  expect(wrong).toEqual([]);
});

test("drivers are loaded when they are used, not when the package is imported", () => {
  const { peerDependencies } = JSON.parse(readFileSync(join(src, "../package.json"), "utf8")) as { peerDependencies: object };
  const drivers = ["node:sqlite", ...Object.keys(peerDependencies)];
  expect(drivers).toContain("pg");
  const importing = new RegExp(`^import (?!type)[^;]*from "(${drivers.join("|")})["/]`, "m");
  const eager = files.filter((file) => importing.test(readFileSync(join(src, file), "utf8")));
  // A separate subpath, which only programs with Nest import: its interceptor returns an Observable of RxJS.
  expect(eager).toEqual(["http/adapters/nest.ts"]);
});
