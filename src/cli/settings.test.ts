import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { Ajv, type AnySchemaObject } from "ajv";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { temporaryFolder } from "../../test/kit/temporary-folder.js";
import { substituteNames } from "../graph/plan/substitutes.js";
import { loadOptionsFrom, pathsFrom } from "./document-options.js";
import { readSettings } from "./settings.js";

const schema = JSON.parse(readFileSync(resolve(import.meta.dirname, "../../schema/flowdslrc.json"), "utf8")) as AnySchemaObject;
const matches = new Ajv({ strict: true }).compile(schema);

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder(onTestFinished);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

const here = (folder: string, path: string) => relative(process.cwd(), join(folder, path));

const everything = `$schema: ./node_modules/onceflow/schema/flowdslrc.json
paths: [flows, more/one.flowdsl.yaml]
references: { /asyncapi.json: ./api/asyncapi.json, "https://example.com/o.json": "https://example.org/o.json" }
substitutes: [backend, store]
registry: nodes.yaml
allowRemote: true
strict: true
schemaUrl: https://flowdsl.com/schemas/v1/flowdsl.schema.json
registryUrl: https://repo.flowdsl.com
validateOnSave: true
format: { indent: 2, sortKeys: true }
x-mine: 1
`;

test("reads every member; paths are relative to the file", async () => {
  const folder = folderWith({ ".flowdslrc": everything });
  expect(matches(parse(everything))).toBe(true);
  expect(await readSettings(folder)).toEqual({
    file: join(folder, ".flowdslrc"),
    paths: [here(folder, "flows"), here(folder, "more/one.flowdsl.yaml")],
    references: { "/asyncapi.json": here(folder, "api/asyncapi.json"), "https://example.com/o.json": "https://example.org/o.json" },
    substitutes: ["backend", "store"],
    registry: here(folder, "nodes.yaml"),
    allowRemote: true,
    strict: true,
  });
});

test("the schema knows every substitute", () => {
  const { properties } = schema as { properties: { substitutes: { items: { enum: readonly string[] } } } };
  expect(properties.substitutes.items.enum).toEqual(substituteNames);
});

test.each([".flowdslrc", ".flowdslrc.yaml", ".flowdslrc.yml", ".flowdslrc.json"])("%s", async (name) => {
  expect((await readSettings(folderWith({ [name]: '{ "strict": true }' }))).strict).toBe(true);
});

describe("where it is searched", () => {
  const files = { ".flowdslrc": "strict: true", "a/b/x": "" };

  test("above the folder, up to the root of the repository", async () => {
    const folder = folderWith({ ...files, ".git/HEAD": "" });
    expect((await readSettings(join(folder, "a/b"))).file).toBe(join(folder, ".flowdslrc"));
  });

  test("not above the root of the repository", async () => {
    const folder = folderWith({ ...files, "a/.git/HEAD": "" });
    expect(await readSettings(join(folder, "a/b"))).toEqual({ references: {} });
  });

  test("outside of a repository, only in the folder itself", async () => {
    expect(await readSettings(join(folderWith(files), "a/b"))).toEqual({ references: {} });
  });

  test("the nearest one", async () => {
    const folder = folderWith({ ...files, ".git/HEAD": "", "a/.flowdslrc.json": '{ "strict": false }' });
    expect((await readSettings(join(folder, "a/b"))).strict).toBe(false);
  });
});

test.each([
  ["pathes: [a]", ':1:1 error FLOW_UNKNOWN_FIELD /pathes unknown field "pathes" (did you mean "paths"?)'],
  ["strict: yes please", "/strict must be true or false, not a string"],
  ["paths: flows", "/paths must be a list, not a string"],
  ["substitutes: [bakend]", '"bakend" is not a substitute'],
  ["references: [a]", "/references must be a map, not a list"],
  ["references: { /a: 1 }", "/references/~1a must be a string"],
  ["format: { indent: 4 }", "/format/indent indent 4 is not supported (use 2, or remove it)"],
  ["a: [", "FLOW_SYNTAX"],
  ["- 1", "must be a map, not a list"],
  ["", "the document is empty"],
])("rejects %j", async (text, problem) => {
  const folder = folderWith({ ".flowdslrc": text });
  await expect(readSettings(folder)).rejects.toMatchObject({
    code: "SETTINGS_INVALID",
    message: expect.stringContaining(problem) as string,
  });
  await expect(readSettings(folder)).rejects.toThrow(/\.flowdslrc is not valid/);
});

test("the command line comes before the settings", () => {
  const settings = { references: { "/a": "settings", "/b": "settings" }, paths: ["flows"], allowRemote: true };
  expect(loadOptionsFrom({ reference: { "/a": "given" } }, settings)).toEqual({
    allowRemote: true,
    references: { "/a": "given", "/b": "settings" },
  });
  expect([pathsFrom(["given"], settings), pathsFrom([], settings)]).toEqual([["given"], ["flows"]]);
  expect(() => pathsFrom([], { references: {} })).toThrow("name files or folders, or set `paths` in .flowdslrc");
});
