import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type LoadOptions, loadFlows } from "../load-flows.js";

function folderWith(files: Readonly<Record<string, unknown>>): string {
  const folder = mkdtempSync(join(tmpdir(), "onceflow-files-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
  }
  return folder;
}

async function load(
  ref: string,
  files: Readonly<Record<string, unknown>>,
  { options = {}, docs = {} }: { options?: LoadOptions; docs?: object } = {},
) {
  const flow = {
    flowdsl: "1.0",
    info: { title: "T", version: "1" },
    ...(Object.keys(docs).length > 0 && { externalDocs: docs }),
    nodes: { A: { operationId: "a", kind: "source", outputs: { out: { packet: { $ref: ref } } } } },
  };
  const folder = folderWith({ ...files, "flows/t.flowdsl.json": flow });
  const { findings, flows } = await loadFlows(join(folder, "flows/t.flowdsl.json"), options);
  const packet = flows[0]?.nodes.get("A")?.outputs[0]?.packet;
  return { folder, findings, valid: (value: unknown) => packet?.check(value).length === 0, packet };
}

const order = { type: "object", required: ["id"], properties: { id: { type: "string" } } };

describe("references to files", () => {
  test("from the flow document, from file to file, and back", async () => {
    const { findings, valid } = await load("../schemas/order.yaml#/Order", {
      "schemas/order.yaml": "Order: { type: object, required: [lines], properties: { lines: { items: { $ref: './parts/line.json' } } } }",
      "schemas/parts/line.json": {
        type: "object",
        properties: { of: { $ref: "../order.yaml#/Order" }, price: { $ref: "#/$defs/Price" } },
        $defs: { Price: { type: "number" } },
      },
    });
    expect(findings).toEqual([]);
    expect([
      valid({ lines: [{ price: 1, of: { lines: [] } }] }),
      valid({ lines: [{ price: "1" }] }),
      valid({ lines: [{ of: {} }] }),
    ]).toEqual([true, false, false]);
  });

  test.each([
    ["a missing file", "../schemas/order.yaml#/Order", {}, "FLOW_UNREADABLE", '"../schemas/order.yaml" cannot be read: no such file'],
    [
      "a missing part",
      "../o.json#/Ordr",
      { "o.json": { Order: order } },
      "FLOW_BAD_REF",
      '"../o.json#/Ordr" was not found in that document',
    ],
    ["an anchor", "../o.json#Order", { "o.json": { Order: order } }, "FLOW_BAD_REF", '"../o.json#Order" is not a JSON pointer'],
    [
      "the network",
      "https://example.org/o.json#/Order",
      {},
      "FLOW_BAD_REF",
      '"https://example.org/o.json" is on the network, and was not loaded',
    ],
  ])("%s", async (_, ref, files, code, message) => {
    const { findings } = await load(ref, files);
    expect(findings).toMatchObject([{ code, message, pointer: "/nodes/A/outputs/out/packet/$ref" }]);
    if (ref.endsWith("Ordr")) expect(findings[0]?.fix).toBe('did you mean "/Order"?');
  });

  test("an error in another file has its position there", async () => {
    const { findings } = await load("../o.yaml#/Order", { "o.yaml": "Order:\n  type: objekt\n  properties:\n    a: { $ref: '#/Nope' }\n" });
    expect(findings).toMatchObject([
      { code: "FLOW_BAD_SCHEMA", pointer: "/Order/type", line: 2, file: expect.stringMatching(/o\.yaml$/) as string },
      { code: "FLOW_BAD_REF", pointer: "/Order/properties/a/$ref", line: 4 },
    ]);
  });

  test("a `$ref` in an enum or an example is data: no file is needed", async () => {
    const { findings, valid } = await load("../o.json#/Order", {
      "o.json": { Order: { enum: [{ $ref: "./nothing.json" }], examples: [{ $ref: "./n.json" }] } },
    });
    expect(findings).toEqual([]);
    expect(valid({ $ref: "./nothing.json" })).toBe(true);
  });

  test("another document cannot lead out of its folder, by a path or by a link", async () => {
    const files = {
      "api/o.json": { Order: { $ref: "../secret.json#/S" }, Linked: { $ref: "./link.json#/S" } },
      "secret.json": { S: order },
    };
    const { findings, folder } = await load("../api/o.json#/Order", files);
    expect(findings).toMatchObject([
      {
        code: "FLOW_BAD_REF",
        message: expect.stringMatching(/"\.\.\/secret\.json" is outside of the folder/) as string,
        pointer: "/Order/$ref",
      },
    ]);
    symlinkSync(join(folder, "secret.json"), join(folder, "api/link.json"));
    const flow = {
      flowdsl: "1.0",
      info: { title: "T", version: "1" },
      nodes: { A: { operationId: "a", kind: "source", outputs: { out: { packet: "./api/o.json#/Linked" } } } },
    };
    const linked = await loadFlows({ text: JSON.stringify(flow), file: join(folder, "t.json") });
    expect(linked.findings).toMatchObject([
      { code: "FLOW_BAD_REF", message: expect.stringContaining("is outside of the folder") as string },
    ]);
    const allowed = await load("../api/o.json#/Order", files, {
      options: { references: { "../secret.json": join(folder, "secret.json") } },
    });
    expect(allowed.findings).toEqual([]);
  });

  test("a document on the network can refer only to its own server", async () => {
    const server = createServer((request, response) =>
      response.end(
        request.url === "/o.json"
          ? JSON.stringify({ A: { $ref: "/more.json#/B" }, F: { $ref: "file:///etc/hostname" }, L: { $ref: "http://127.0.0.1:1/x#/y" } })
          : JSON.stringify({ B: order }),
      ),
    );
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/o.json`;
    const options = { allowRemote: true };
    const good = await load(`${url}#/A`, {}, { options });
    expect([good.findings, good.valid({ id: "x" }), good.valid({})]).toEqual([[], true, false]);
    for (const name of ["F", "L"])
      expect((await load(`${url}#/${name}`, {}, { options })).findings).toMatchObject([
        { code: "FLOW_BAD_REF", message: expect.stringContaining("is not on the server") as string },
      ]);
  });

  test("the number of documents is limited", async () => {
    const chain = Object.fromEntries(
      Array.from({ length: 30 }, (_, i) => [`c/${i}.json`, { properties: { next: { $ref: `./${i + 1}.json` } } }]),
    );
    const { findings } = await load("../c/0.json", chain);
    expect(findings).toMatchObject([{ code: "FLOW_TOO_LARGE", message: "refers to more than 20 other documents" }]);
  });
});

describe("references that are replaced", () => {
  const docs = { asyncapi: "/asyncapi.json", openapi: "https://api.example.com/openapi.json" };
  const files = { "asyncapi.json": { asyncapi: "3.0.0", components: { messages: { Placed: { payload: order } } } } };

  test("an absolute path names a local copy", async () => {
    const missing = await load("asyncapi#/components/messages/Placed", files, { docs });
    expect(missing.findings).toMatchObject([
      { code: "FLOW_UNREADABLE", fix: expect.stringContaining("--reference /asyncapi.json=./file") as string },
    ]);
    const options = { references: { "/asyncapi.json": join(missing.folder, "asyncapi.json") } };
    const { findings, valid } = await load("asyncapi#/components/messages/Placed", files, { docs, options });
    expect([findings, valid({ id: "a" }), valid({})]).toEqual([[], true, false]);
  });

  test("a URL names a local copy, and is not requested", async () => {
    const folder = folderWith({ "openapi.json": { openapi: "3.1.0", components: { schemas: { Order: order } } } });
    const options = { references: { "https://api.example.com/openapi.json": join(folder, "openapi.json") } };
    const { findings, valid } = await load("openapi#/components/schemas/Order", {}, { docs, options });
    expect([findings, valid({})]).toEqual([[], false]);
  });

  test.each([{ "": "x" }, { "/a": "" }, { "/a": 1 }, [], "x"])("rejects %j", async (references) => {
    await expect(loadFlows({ text: "" }, { references } as LoadOptions)).rejects.toThrow(/references/);
  });

  test("rejects a misspelt option", async () => {
    await expect(loadFlows({ text: "" }, { reference: {} } as LoadOptions)).rejects.toThrow('did you mean "references"?');
  });
});

describe("messages of AsyncAPI", () => {
  const messages = { Placed: { payload: order }, Again: { $ref: "#/components/messages/Placed" } };
  test.each<[string, object, string]>([
    [
      "2: a message of a channel",
      { asyncapi: "2.6.0", channels: { placed: { publish: { message: { $ref: "#/components/messages/Again" } } } } },
      "/channels/placed/publish/message",
    ],
    [
      "3: a message of a channel",
      { asyncapi: "3.0.0", channels: { placed: { messages: { placed: { $ref: "#/components/messages/Placed" } } } } },
      "/channels/placed/messages/placed",
    ],
    [
      "3: a payload with its format",
      { asyncapi: "3.0.0", m: { payload: { schemaFormat: "application/schema+json;version=draft-07", schema: order } } },
      "/m",
    ],
    [
      "2: a format beside the payload",
      { asyncapi: "2.6.0", m: { schemaFormat: "application/vnd.aai.asyncapi+json;version=2.6.0", payload: order } },
      "/m",
    ],
    ["a message in another file", { asyncapi: "3.0.0", m: { $ref: "./messages.yaml#/Placed" } }, "/m"],
  ])("%s", async (_, document, pointer) => {
    const files = {
      "flows/a.json": { ...document, components: { messages } },
      "flows/messages.yaml": `Placed: { payload: ${JSON.stringify(order)} }`,
    };
    const { findings, valid } = await load(`asyncapi#${pointer}`, files, { docs: { asyncapi: "./a.json" } });
    expect([findings, valid({ id: "a" }), valid({ id: 1 })]).toEqual([[], true, false]);
  });

  test.each<[string, object, string, string]>([
    ["Avro", { schemaFormat: "application/vnd.apache.avro;version=1.9.0", payload: {} }, "/m", "has the schema format"],
    ["several messages", { message: { oneOf: [{ payload: order }] } }, "/m/message", "is a choice of several messages"],
    ["a circle", { $ref: "#/m" }, "/m", "is circular"],
  ])("rejects %s", async (_, m, pointer, problem) => {
    const { findings } = await load(
      `asyncapi#${pointer}`,
      { "flows/a.json": { asyncapi: "2.6.0", m } },
      { docs: { asyncapi: "./a.json" } },
    );
    expect(findings).toMatchObject([
      { code: "FLOW_BAD_REF", message: expect.stringContaining(problem) as string, fix: expect.stringMatching(/\w/) as string },
    ]);
  });
});

describe("schemas of OpenAPI", () => {
  const openapi = (version: string, Order: object, rest: object = {}) => ({
    "flows/o.json": { openapi: version, components: { schemas: { Order, Id: { type: "string" } }, ...rest } },
  });
  const docs = { openapi: "./o.json" };

  test.each<[string, string, object, unknown, unknown]>([
    ["3.0 nullable", "3.0.3", { type: "string", nullable: true }, null, 1],
    ["3.0 exclusive bound", "3.0.3", { minimum: 1, exclusiveMinimum: true }, 2, 1],
    ["3.1 list of types", "3.1.0", { type: ["string", "null"] }, null, 1],
    ["3.1 exclusive bound", "3.1.0", { exclusiveMinimum: 1 }, 2, 1],
    ["3.1 const", "3.1.0", { const: "a" }, "a", "b"],
    ["3.1 prefixItems", "3.1.0", { prefixItems: [{ type: "string" }], items: { type: "number" } }, ["a", 1], ["a", "b"]],
    ["3.1 dependentRequired", "3.1.0", { dependentRequired: { a: ["b"] } }, { a: 1, b: 1 }, { a: 1 }],
    [
      "3.1 dependentSchemas",
      "3.1.0",
      { dependentSchemas: { a: { required: ["c"] } }, dependentRequired: { a: ["b"] } },
      { a: 1, b: 1, c: 1 },
      { a: 1, b: 1 },
    ],
    ["3.1 keywords beside $ref", "3.1.0", { $ref: "#/components/schemas/Id", minLength: 2 }, "ab", "a"],
    ["3.1 $defs", "3.1.0", { $defs: { A: { type: "string" } }, items: { $ref: "#/components/schemas/Order/$defs/A" } }, ["a"], [1]],
  ])("%s", async (_, version, schema, good, bad) => {
    const { findings, valid } = await load("openapi#/components/schemas/Order", openapi(version, schema), { docs });
    expect([findings, valid(good), valid(bad)]).toEqual([[], true, false]);
  });

  test("a request body and a response", async () => {
    const content = { "text/plain": {}, "application/json; charset=utf-8": { schema: { $ref: "#/components/schemas/Order" } } };
    const rest = {
      requestBodies: { Place: { content } },
      responses: { Placed: { $ref: "#/components/requestBodies/Place" }, Text: { content: { "text/plain": {} } } },
    };
    for (const name of ["requestBodies/Place", "responses/Placed"])
      expect((await load(`openapi#/components/${name}`, openapi("3.1.0", order, rest), { docs })).valid({})).toBe(false);
    const { findings } = await load("openapi#/components/responses/Text", openapi("3.1.0", order, rest), { docs });
    expect(findings).toMatchObject([{ code: "FLOW_BAD_REF", message: expect.stringContaining("has no JSON content") as string }]);
  });

  test("a keyword that cannot be checked is a warning", async () => {
    const { findings } = await load("openapi#/components/schemas/Order", openapi("3.1.0", { ...order, unevaluatedProperties: false }), {
      docs,
    });
    expect(findings).toMatchObject([{ code: "FLOW_IGNORED_KEYWORD", pointer: "/components/schemas/Order/unevaluatedProperties" }]);
  });
});
