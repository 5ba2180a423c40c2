import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { NodeOutput } from "onceflow/graph";
import { NodeServer } from "onceflow/graph/remote";
import { expect, onTestFinished, test } from "vitest";
import { folderWith, onceflow } from "./process.js";

const document = `flowdsl: "1.0"
info: { title: Flow, version: "1" }
nodes:
  In: { operationId: take, kind: source }
  Work: { operationId: work, kind: action, runtime: { language: python } }
edges:
  - { from: In, to: Work, protocol: http, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-work" } }
`;

test("nodes, validate, trigger and run with a registry", async () => {
  const server = new NodeServer({
    nodes: { work: (input) => new NodeOutput().send("out", { done: input.packet("in").get("id") }) },
    ...{ manifest: { work: { version: "1.2.0", summary: "Works" } }, port: 0 },
  });
  const { http = "" } = await server.start();
  onTestFinished(() => server.stop({ graceMs: 0 }));
  const folder = folderWith({
    "flow.flowdsl.yaml": document,
    "registry.yaml": `servers: { main: { url: "${http}" }, gone: { url: "http://127.0.0.1:1" } }\nnodes: { work: main, other: main, lost: gone }\n`,
    "good.yaml": `nodes: { work: { url: "${http}" } }\n`,
    "empty.yaml": "nodes: {}\n",
    "typo.yaml": `nodes: { work: { url: "${http}" }, tkae: { url: "${http}" } }\n`,
    "wrong.yaml": `nodes: { work: { url: "grpc://127.0.0.1:1", concurency: 5 } }\n`,
  });
  const listed = await onceflow(["nodes", "--registry", "registry.yaml"], folder);
  expect(listed.code).toBe(1);
  const [heads = "", first = "", second = "", third = ""] = listed.out.trimEnd().split("\n");
  expect(heads).toMatch(/^SERVER +URL +STATUS +IN FLIGHT +SDK +NODE +VERSION +ABOUT$/);
  expect(first).toMatch(/^main +http:\S+ +serving +0 of 100 +nodejs \S+ +work +1\.2\.0 +Works$/);
  expect(second).toMatch(/^ +other +not on this server: deploy it, or correct the registry$/);
  expect(third).toMatch(/^gone +http:\/\/127\.0\.0\.1:1 +down +lost +.*ECONNREFUSED/);
  const one = await onceflow(["nodes", "--url", http, "--json"], folder);
  expect([one.code, JSON.parse(one.out)]).toMatchObject([0, [{ status: "serving", nodes: [{ operationId: "work" }] }]]);
  expect(await onceflow(["nodes"], folder)).toMatchObject({ code: 2, err: expect.stringContaining("either --registry or --url") });

  expect(await onceflow(["validate", ".", "--registry", "good.yaml"], folder)).toMatchObject({
    code: 0,
    out: "2 files, 0 errors, 0 warnings\n",
  });
  const homeless = await onceflow(["validate", ".", "--registry", "empty.yaml"], folder);
  expect(homeless.out).toMatch(/FLOW_UNSUPPORTED .*the registry does not have node "work"; add it to the registry/);
  const typo = await onceflow(["validate", ".", "--registry", "typo.yaml"], folder);
  expect([typo.code, typo.out]).toEqual([
    0,
    expect.stringMatching(/FLOW_UNKNOWN_FIELD .*no document has node "tkae"; did you mean "take"/),
  ]);
  const wrong = await onceflow(["validate", ".", "--registry", "wrong.yaml"], folder);
  expect([wrong.code, wrong.out]).toEqual([
    1,
    expect.stringMatching(/wrong\.yaml:1:\d+ +error +FLOW_UNKNOWN_FIELD .*did you mean "concurrency"/),
  ]);

  const store = ["--store", "sqlite:flows.db"];
  const ran = await onceflow(["run", ".", "--registry", "good.yaml", ...store, "--trigger", '{"id":"1"}', "--wait", "--json"], folder);
  expect([ran.code, ran.out]).toEqual([0, expect.stringContaining('"type":"ended"')]);
  expect(await onceflow(["run", ".", ...store], folder)).toMatchObject({ code: 2, err: expect.stringContaining("missing nodes: work") });
  // The registry of the settings is used by every command that has --registry.
  writeFileSync(join(folder, ".flowdslrc"), "paths: [flow.flowdsl.yaml]\nregistry: good.yaml\n");
  expect(await onceflow(["nodes"], folder)).toMatchObject({ code: 0, out: expect.stringContaining(http) });
  expect(await onceflow(["nodes", "--no-config"], folder)).toMatchObject({ code: 2 });
  expect(await onceflow(["validate"], folder)).toMatchObject({ code: 0, out: "2 files, 0 errors, 0 warnings\n" });
  const again = await onceflow(["run", ...store, "--trigger", '{"id":"3"}', "--wait", "--json"], folder);
  expect([again.code, again.out, again.err]).toEqual([
    0,
    expect.stringContaining('"status":"completed"'),
    expect.not.stringContaining("no effect"),
  ]);
  const triggered = await onceflow(["trigger", "flow", '{"id":"2"}', "--file", ".", "--registry", "good.yaml", ...store], folder);
  expect([triggered.code, triggered.out]).toEqual([0, expect.stringMatching(/^started/)]);
});
