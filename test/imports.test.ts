import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

/**
 * Who may import whom (ARCHITECTURE.md): core imports nothing of ours; stores import core; front ends import core and
 * are given a store; server and command line import the front ends' index files. The files directly under src put
 * folders together and may import any of them.
 */
const allowed: Readonly<Record<string, readonly string[]>> = {
  core: [],
  stores: ["core"],
  flow: ["core"],
  workflow: ["core"],
  transform: ["core"],
  graph: ["core", "workflow"],
  http: ["core"],
  inbox: ["core"],
  outbox: ["core"],
  testing: ["core", "stores", "workflow", "graph"],
  audit: ["core", "graph"],
  // "": the entry files, which are what server and command line have in common with everybody else.
  server: ["", "core", "flow", "workflow", "graph", "http", "inbox", "outbox"],
  cli: ["", "core", "flow", "workflow", "graph", "http", "inbox", "outbox", "server", "audit", "testing"],
};

const src = resolve(import.meta.dirname, "../src");
const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"));

function importsOf(file: string): string[] {
  const text = readFileSync(join(src, file), "utf8");
  return [...text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map(([, path = ""]) =>
    relative(src, resolve(src, dirname(file), path)),
  );
}

const folderOf = (file: string) => (file.includes("/") ? file.slice(0, file.indexOf("/")) : "");

test("imports go only in the directions of the design", () => {
  expect(files.length).toBeGreaterThan(30);
  const wrong = files.flatMap((file) => {
    const from = folderOf(file);
    if (from === "") return [];
    const may = allowed[from];
    if (may === undefined) return [`src/${from}/ has no rule in test/imports.test.ts`];
    return importsOf(file)
      .filter((to) => folderOf(to) !== from && !may.includes(folderOf(to)))
      .map((to) => `${file} imports ${to}`);
  });
  expect(wrong).toEqual([]);
});

test("a store does not import another store", () => {
  const storeOf = (file: string) => file.split("/")[1] ?? "";
  // The stand-in opens any of them.
  const isStore = (file: string) => /^stores\/(?!stand-in\/|shared\/)[^/]+\//.test(file);
  const wrong = files
    .filter((file) => isStore(file))
    .flatMap((file) =>
      importsOf(file)
        .filter((to) => isStore(to) && storeOf(to) !== storeOf(file))
        .map((to) => `${file} → ${to}`),
    );
  expect(wrong).toEqual([]);
});

test("drivers are loaded when they are used, never by importing the package", () => {
  const eager = files.filter((file) =>
    /^import (?!type)[^;]*from "(pg|@photostructure\/sqlite|node:sqlite|@aws-sdk\/client-dynamodb|redis|ioredis|mongodb|@aws-sdk\/client-sqs|@nats-io\/jetstream|amqplib|bullmq|kafkajs)"/m.test(
      readFileSync(join(src, file), "utf8"),
    ),
  );
  expect(eager).toEqual([]);
});
