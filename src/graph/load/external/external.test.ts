import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type LoadOptions, loadFlows } from "../load-flows.js";

const shop = {
  components: {
    messages: { Placed: { payload: { $ref: "#/components/schemas/Order" } } },
    schemas: { Order: { type: "object", required: ["id"], properties: { next: { $ref: "#/components/schemas/Order" } } } },
  },
};

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "onceflow-graph-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const flowText = (docs: string, ref: string) => `flowdsl: "1.0"
info: { title: T, version: "1" }
externalDocs: ${docs}
nodes: { A: { operationId: a, kind: source, outputs: { out: { packet: ${JSON.stringify(ref)} } } } }
`;

async function load(docs: string, ref: string, files: Readonly<Record<string, string>> = {}, options: LoadOptions = {}) {
  const folder = folderWith({ ...files, "t.flowdsl.yaml": flowText(docs, ref) });
  const { ok, flows, findings } = await loadFlows(join(folder, "t.flowdsl.yaml"), options);
  return { ok, findings, packet: flows[0]?.nodes.get("A")?.outputs[0]?.packet };
}

test.each([
  ["{ asyncapi: ./shop.json }", "asyncapi#/components/messages/Placed"],
  ["{ asyncapi: { default: ./shop.json } }", "asyncapi#/components/messages/Placed"],
  ["{ asyncapi: { shop: ./shop.json } }", "asyncapi:shop#/components/messages/Placed"],
  ["{ openapi: ./shop.json }", "openapi#/components/schemas/Order"],
  ["{ openapi: { billing: shop.json } }", "openapi:billing#/components/schemas/Order"],
])("%s and %s", async (docs, ref) => {
  const { findings, packet } = await load(docs, ref, { "shop.json": JSON.stringify(shop) });
  expect(findings).toEqual([]);
  expect(packet?.check({ id: 1 })).toEqual([]);
  expect(packet?.check({ id: 1, next: {} })).toMatchObject([{ pointer: "/next" }]);
});

test("does not open documents that are not referred to", async () => {
  const { ok, findings } = await load("{ asyncapi: ./not-there.json, openapi: https://127.0.0.1:1/x }", "P");
  expect(ok).toBe(false);
  expect(findings.map(({ code }) => code)).toEqual(["FLOW_UNKNOWN_PACKET"]);
});

test("a missing target, a path that is not a file, and an error in the other document", async () => {
  const nowhere = await load("{ asyncapi: ./shop.json }", "asyncapi#/components/messages/Plcd", { "shop.json": JSON.stringify(shop) });
  expect(nowhere.findings).toMatchObject([{ code: "FLOW_BAD_REF", pointer: "/nodes/A/outputs/out/packet" }]);
  const folder = await load("{ asyncapi: . }", "asyncapi#/a");
  expect(folder.findings).toMatchObject([
    { code: "FLOW_UNREADABLE", pointer: "/externalDocs/asyncapi", message: expect.stringContaining("not a file") as string },
  ]);
  const device = await load("{ asyncapi: /dev/zero }", "asyncapi#/a");
  expect(device.findings).toMatchObject([{ code: "FLOW_UNREADABLE" }]);
  const broken = await load("{ asyncapi: ./shop.yaml }", "asyncapi#/a", { "shop.yaml": "a: 1\nb: [\n" });
  expect(broken.findings[0]).toMatchObject({ code: "FLOW_SYNTAX", line: 3 });
  // Relative to the working directory, not to the document.
  expect(existsSync(broken.findings[0]?.file ?? "")).toBe(true);
  const large = await load(
    "{ asyncapi: ./shop.yaml }",
    "asyncapi#/a",
    { "shop.yaml": `a: ${"b".repeat(2000)}` },
    { limits: { bytesMax: 1000 } },
  );
  expect(large.findings).toMatchObject([{ code: "FLOW_TOO_LARGE", message: expect.stringContaining("the maximum is 1000") as string }]);
});

async function serve(
  answer: (path: string) => { readonly status?: number; readonly body?: string; readonly location?: string } | "never",
): Promise<{ url: string; asked: () => number }> {
  let count = 0;
  const server = createServer((request, response) => {
    count += 1;
    const said = answer(request.url ?? "");
    if (said === "never") return;
    response.writeHead(said.status ?? 200, said.location === undefined ? {} : { location: said.location });
    response.end(said.body ?? "");
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked: () => count };
}

test("requests a remote document only if that is allowed", async () => {
  const { url, asked } = await serve(() => ({ body: JSON.stringify(shop) }));
  const refused = await load(`{ asyncapi: "${url}/shop" }`, "asyncapi#/components/messages/Placed");
  expect(refused).toMatchObject({ ok: true, packet: undefined, findings: [{ code: "FLOW_REMOTE_NOT_LOADED" }] });
  expect(asked()).toBe(0);
  const allowed = await load(`{ asyncapi: "${url}/shop" }`, "asyncapi#/components/messages/Placed", {}, { allowRemote: true });
  expect(allowed.findings).toEqual([]);
  expect(allowed.packet?.check({})).toHaveLength(1);
  expect(asked()).toBe(1);
});

test.each([
  ["responds with an error", "/500", "FLOW_UNREADABLE", "the server responded with 500"],
  ["is too large", "/large", "FLOW_TOO_LARGE", "it has more than 1000 bytes"],
  ["redirects", "/moved", "FLOW_UNREADABLE", "the server responded with 302; redirects are not followed"],
  ["never responds", "/never", "FLOW_UNREADABLE", "no response within 50 ms"],
])("a server that %s is a finding", async (_, path, code, problem) => {
  const { url } = await serve((asked) => {
    if (asked === "/500") return { status: 500 };
    if (asked === "/moved") return { status: 302, location: "/500" };
    return asked === "/large" ? { body: "a".repeat(2000) } : "never";
  });
  // Large enough for the flow itself.
  const limits = { bytesMax: 1000, fetchMsMax: path === "/never" ? 50 : 5000 };
  const { findings } = await load(`{ asyncapi: "${url}${path}" }`, "asyncapi#/a", {}, { allowRemote: true, limits });
  expect(findings).toMatchObject([{ code, message: `asyncapi cannot be read: ${problem}` }]);
});

test("does not send or print secrets of an address", async () => {
  const { url, asked } = await serve(() => ({ body: "a: [\n" }));
  const secret = url.replace("//", "//user:hunter2@");
  const refused = await load(`{ asyncapi: "${secret}/shop" }`, "asyncapi#/a", {}, { allowRemote: true });
  expect(refused.findings).toMatchObject([
    { code: "FLOW_UNREADABLE", message: "asyncapi cannot be read: its address must not contain a user name or password" },
  ]);
  expect(asked()).toBe(0);
  const broken = await load(`{ asyncapi: "${url}/shop?token=hunter2#hunter2" }`, "asyncapi#/a", {}, { allowRemote: true });
  expect(broken.findings[0]).toMatchObject({ code: "FLOW_SYNTAX", file: `${url}/shop` });
  expect(JSON.stringify([refused, broken])).not.toContain("hunter2");
});

test("does not propose --allow-remote for an unsupported protocol", async () => {
  const { ok, findings } = await load('{ asyncapi: "registry://shop" }', "asyncapi#/a");
  expect(ok).toBe(true);
  expect(findings).toMatchObject([{ code: "FLOW_REMOTE_NOT_LOADED", fix: "use a local copy (--reference)" }]);
});

test("supports only http and https", async () => {
  const { findings } = await load('{ asyncapi: "file:///etc/hostname" }', "asyncapi#/a", {}, { allowRemote: true });
  expect(findings).toMatchObject([
    { code: "FLOW_UNREADABLE", message: "asyncapi cannot be read: only http and https addresses are supported" },
  ]);
});

test.each([
  ["asyncapi#/components/messages/Empty", "is a message without a payload", "add a payload, or refer to a schema"],
  ["asyncapi#/channels/orders/messages/empty", "is a message without a payload", "add a payload, or refer to a schema"],
  ["asyncapi#/channels/orders/publish/message", "is a message without a payload", "add a payload, or refer to a schema"],
  ["asyncapi#/components/responses/Empty", "has no JSON content with a schema", "refer to a schema"],
  ["asyncapi#", "is a whole document", "refer to a message or a schema in it: …#/components/…"],
])("%s would allow every packet: an error", async (ref, problem, fix) => {
  const empty = { title: "Empty", headers: { type: "object" } };
  const components = { messages: { Empty: empty }, responses: { Empty: { description: "no content" } } };
  const channels = { orders: { messages: { empty: { $ref: "#/components/messages/Empty" } }, publish: { message: empty } } };
  const files = { "api.json": JSON.stringify({ asyncapi: "3.0.0", components, channels }) };
  const { ok, findings } = await load("{ asyncapi: ./api.json }", ref, files);
  expect([ok, findings]).toMatchObject([false, [{ code: "FLOW_BAD_REF", message: `"${ref}" ${problem}`, fix }]]);
});

test("a schema property named message is a schema", async () => {
  const schema = { type: "object", properties: { message: { minLength: 1 } } };
  const files = { "api.json": JSON.stringify({ components: { schemas: { Order: schema } } }) };
  const { findings, packet } = await load("{ asyncapi: ./api.json }", "asyncapi#/components/schemas/Order/properties/message", files);
  expect([findings, packet?.check("")]).toMatchObject([[], [{ pointer: "" }]]);
});

test("an empty file", async () => {
  const { findings } = await load("{ asyncapi: ./api.yaml }", "asyncapi#/a", { "api.yaml": " \n" });
  expect(findings).toMatchObject([{ code: "FLOW_UNREADABLE", pointer: "/externalDocs/asyncapi", message: "asyncapi is empty" }]);
});

test("nullable of OpenAPI 3.0: null is allowed beside a type, and elsewhere a warning says that it is not", async () => {
  const properties = {
    note: { type: "string", nullable: true },
    size: { type: "string", enum: ["s", null], nullable: true },
    kind: { type: "string", enum: ["a"], nullable: true },
    other: { allOf: [{ type: "object" }], nullable: true },
    off: { type: "string", nullable: false },
    any: { nullable: true },
    next: { $ref: "#/components/schemas/Order", nullable: true, maxProperties: 1, description: "d" },
  };
  const files = { "api.json": JSON.stringify({ openapi: "3.0.3", components: { schemas: { Order: { properties, type: "object" } } } }) };
  const { findings, packet } = await load("{ openapi: ./api.json }", "openapi#/components/schemas/Order", files);
  expect(findings.map(({ code, pointer }) => [code, pointer.split("/").at(-2)])).toEqual([
    ["FLOW_IGNORED_KEYWORD", "kind"],
    ["FLOW_IGNORED_KEYWORD", "other"],
    ["FLOW_IGNORED_KEYWORD", "next"],
    ["FLOW_IGNORED_KEYWORD", "next"],
  ]);
  const refused = Object.keys(properties).filter((name) => packet?.check({ [name]: null }).length !== 0);
  expect(refused).toEqual(["kind", "other", "off", "next"]);
  expect(packet?.check({ next: { a: 1, b: 2 } })).toEqual([]);
});

test("a misspelt keyword of a schema is an unknown field, other names are not", async () => {
  const schema = {
    tpye: "object",
    reqired: ["id"],
    properties: { type: { minLenght: 1 } },
    note: "n",
    size: 1,
    "x-type": 1,
    id: "order",
    example: {},
  };
  const files = { "api.json": JSON.stringify({ components: { schemas: { Order: schema } } }) };
  const { findings } = await load("{ openapi: ./api.json }", "openapi#/components/schemas/Order", files);
  expect(findings.map(({ code, message, fix }) => [code, message, fix])).toEqual([
    ["FLOW_UNKNOWN_FIELD", 'unknown keyword "tpye"', 'did you mean "type"?'],
    ["FLOW_UNKNOWN_FIELD", 'unknown keyword "reqired"', 'did you mean "required"?'],
    ["FLOW_UNKNOWN_FIELD", 'unknown keyword "minLenght"', 'did you mean "minLength"?'],
  ]);
});
