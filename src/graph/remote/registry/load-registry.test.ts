import { expect, test } from "vitest";
import type { FindingCode } from "../../findings/finding-codes.js";
import { loadRegistry } from "./load-registry.js";

const good = `servers:
  payments:
    url: http://127.0.0.1:4100
    tokenEnv: PAYMENTS_TOKEN
    concurrency: 20
    timeoutMs: 5000
  secure: { url: "grpcs://nodes.example.org:443", tlsCa: ca.pem, tlsCert: me.pem, tlsKey: me.key, streaming: true }
nodes:
  charge_payment: payments
  refund_payment: { server: payments, timeoutMs: 500 }
  classify: { server: secure }
  send_sms: { url: https://sms.example.org/nodes, queueMax: 0 }
x-owner: team-payments
`;

test("servers, nodes, and what differs from the server's defaults", async () => {
  const { ok, registry, findings } = await loadRegistry({ text: good, file: "node-registry.yaml" });
  expect([ok, findings]).toEqual([true, []]);
  expect(registry.servers.map(({ name }) => name)).toEqual(["payments", "secure", "send_sms"]);
  const nodes = [...registry.nodes.values()].map(({ operationId, server, timeoutMs }) => [
    operationId,
    server.url,
    timeoutMs ?? server.timeoutMs,
  ]);
  expect(nodes).toEqual([
    ["charge_payment", "http://127.0.0.1:4100", 5000],
    ["refund_payment", "http://127.0.0.1:4100", 500],
    ["classify", "grpcs://nodes.example.org:443", undefined],
    ["send_sms", "https://sms.example.org/nodes", undefined],
  ]);
  const json = JSON.stringify({ nodes: { a: { url: "http://[::1]:1" } } });
  expect(await loadRegistry({ text: json, file: "nodes.json" })).toMatchObject({ ok: true });
});

/** « marks the expected position of the finding. */
const cases: readonly (readonly [FindingCode, string, string, RegExp])[] = [
  ["FLOW_UNKNOWN_FIELD", "    concurrency: 20", "    «concurency: 20", /did you mean "concurrency"/],
  ["FLOW_UNKNOWN_FIELD", "x-owner:", "«owner:", /unknown field "owner"/],
  ["FLOW_UNKNOWN_SERVER", "charge_payment: payments", "charge_payment: «payment", /servers: payments, secure/],
  ["FLOW_UNKNOWN_SERVER", "{ server: secure }", "{ server: «secured }", /server "secured" not found/],
  ["FLOW_MISSING_FIELD", "{ server: secure }", "«{ streaming: true }", /"url" is missing/],
  ["FLOW_BAD_VALUE", "url: http://127.0.0.1:4100", "url: «http://user:secret@127.0.0.1:4100", /user name or password/],
  ["FLOW_BAD_VALUE", "url: http://127.0.0.1:4100", "url: «ftp://127.0.0.1", /http:\/\/127/],
  ["FLOW_BAD_VALUE", "url: http://127.0.0.1:4100", "url: «grpc://127.0.0.1", /must have a port/],
  ["FLOW_BAD_VALUE", "tokenEnv: PAYMENTS_TOKEN", "tokenEnv: «abc-def-token", /not the token itself/],
  ["FLOW_BAD_VALUE", "concurrency: 20", "concurrency: «0", /between 1/],
  ["FLOW_BAD_VALUE", '"grpcs://nodes.example.org:443"', '«"grpc://nodes.example.org:443"', /use https:\/\/ or grpcs:\/\//],
  ["FLOW_MISSING_FIELD", ", tlsKey: me.key", "«", /"tlsKey" is missing/],
  ["FLOW_BAD_TYPE", "charge_payment: payments", "charge_payment: «[payments]", /must be a map/],
  ["FLOW_SYNTAX", good, "«", /empty/],
];

test.each(cases)("%s: %s → %s", async (code, old, changed, about) => {
  expect(good).toContain(old);
  const marked = good.replace(old, () => changed);
  const { ok, registry, findings } = await loadRegistry({ text: marked.replace("«", ""), file: "r.yaml" });
  const found = findings.filter((finding) => finding.code === code);
  expect([ok, registry.nodes.size, found[0]?.severity]).toEqual([false, 0, "error"]);
  expect(found.map(({ message, fix }) => `${message} ${fix}`).join()).toMatch(about);
  expect(JSON.stringify(findings)).not.toContain("secret@");
  if (changed.endsWith("«")) return;
  const lines = (marked.split("«")[0] ?? "").split("\n");
  expect(found.map(({ line, column }) => `${line}:${column}`)).toContain(`${lines.length}:${(lines.at(-1) ?? "").length + 1}`);
});

test("a file that cannot be read is a finding", async () => {
  expect(await loadRegistry("not-there.yaml")).toMatchObject({ ok: false, findings: [{ code: "FLOW_UNREADABLE" }] });
});
