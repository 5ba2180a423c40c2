import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { folderWith, onceflow } from "./process.js";

// Each command is a process, which is slow on a busy machine.
vi.setConfig({ testTimeout: 120_000 });

const flow = `flowdsl: "1.0"
info: { title: T, version: "1" }
externalDocs: { asyncapi: /asyncapi.json }
nodes: { A: { operationId: a, kind: source, outputs: { out: { packet: "asyncapi#/components/messages/Placed" } } } }
`;
const files = {
  "flows/t.flowdsl.yaml": flow,
  "api/asyncapi.json": '{ "asyncapi": "3.0.0", "components": { "messages": { "Placed": { "payload": { "type": "object" } } } } }',
  "api/broken.json": "{",
  ".flowdslrc": "paths: [flows]\nreferences: { /asyncapi.json: api/asyncapi.json }\nstrict: true\n",
};

test("validate uses .flowdslrc and prints which; options of the command line win; --no-config reads none", async () => {
  const folder = folderWith(files);
  const [used, given, none, local, strict] = await Promise.all([
    onceflow(["validate", "--verbose"], folder),
    onceflow(["validate", "--reference", "/asyncapi.json=api/broken.json"], folder),
    onceflow(["validate", "--no-config"], folder),
    onceflow(["validate", "flows", "--no-config", "--reference", "/asyncapi.json=api/asyncapi.json"], folder),
    onceflow(["validate", "flows/t.flowdsl.yaml", "--reference", "/asyncapi.json=https://example.org/a.json"], folder),
  ]);
  expect([used.code, used.err, used.out]).toEqual([0, `settings: ${join(folder, ".flowdslrc")}\n`, "1 file, 0 errors, 0 warnings\n"]);
  expect([given.code, given.out]).toEqual([1, expect.stringContaining("api/broken.json:1:") as string]);
  expect([none.code, none.err]).toEqual([2, expect.stringContaining("set `paths` in .flowdslrc") as string]);
  expect([local.code, local.err]).toEqual([0, ""]);
  // A warning alone fails, because the settings are strict.
  expect([strict.code, strict.out]).toEqual([1, expect.stringContaining("FLOW_REMOTE_NOT_LOADED") as string]);
});

test("a misspelt member of .flowdslrc is an error; convert --format is --to", async () => {
  const folder = folderWith({ ...files, ".flowdslrc": "refrences: {}\n" });
  const [wrong, bad, json, both] = await Promise.all([
    onceflow(["format", "flows", "--check"], folder),
    onceflow(["validate", "flows", "--no-config", "--reference", "/asyncapi.json"], folder),
    onceflow(["convert", "flows/t.flowdsl.yaml", "--format", "json"], folder),
    onceflow(["convert", "flows/t.flowdsl.yaml", "--format", "json", "--to", "yaml"], folder),
  ]);
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('did you mean "references"?') as string]);
  expect([bad.code, bad.err]).toEqual([2, expect.stringContaining("Expected address=file") as string]);
  expect([json.code, JSON.parse(json.out)]).toMatchObject([0, { info: { title: "T" } }]);
  expect([both.code, both.err]).toEqual([2, expect.stringContaining("name different formats") as string]);
});
