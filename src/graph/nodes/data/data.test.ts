import { expect, test } from "vitest";
import { mockNodeInput } from "../../../testing/node-delivery.js";
import { BaseNode, type FlowNode, handle, type NodeInput } from "../../node/node.js";
import type { NodeType } from "../../node/node-type.js";
import { delay } from "./delay.js";
import { filter } from "./filter.js";
import { split } from "./split.js";
import { transform } from "./transform.js";

async function sent(type: NodeType, settings: Record<string, unknown>, input: NodeInput) {
  const node: FlowNode = type.node(settings);
  if (node instanceof BaseNode) await node.init(settings);
  return (await handle(node, input)).sent.map(({ port, data }) => ({ port, ...data }));
}

const order = mockNodeInput("in", { id: "o-1", net: 10, tax: 2, lines: [{ sku: "a" }, { sku: "b" }] }, { idempotencyKey: "o-1-split" });

test("transform sends the values of its expressions, and keeps the other fields only on request", async () => {
  const fields = { orderId: "payload.id", total: "payload.net + payload.tax" };
  expect(await sent(transform(), { fields }, order)).toEqual([{ port: "out", orderId: "o-1", total: 12 }]);
  expect(await sent(transform(), { fields, keep: true }, order)).toEqual([
    { port: "out", ...order.packet("in").data, orderId: "o-1", total: 12 },
  ]);
  const counted = { n: "size(payload.lines)", second: "payload.lines[1].sku", any: "payload.lines.exists(line, line.sku == 'b')" };
  expect(await sent(transform(), { fields: counted }, order)).toEqual([{ port: "out", n: 2, second: "b", any: true }]);
  await expect(sent(transform(), { fields: { x: "payload.missing" } }, order)).rejects.toMatchObject({
    code: "VALIDATION",
    message: expect.stringContaining("settings.fields.x"),
  });
});

test("filter passes or drops a packet, and refuses one that its condition cannot judge", async () => {
  expect(await sent(filter(), { condition: "payload.net >= 10" }, order)).toHaveLength(1);
  expect(await sent(filter(), { condition: "payload.net > 10" }, order)).toEqual([]);
  await expect(sent(filter(), { condition: "payload.gross > 10" }, order)).rejects.toMatchObject({ code: "VALIDATION" });
  await expect(sent(filter(), { condition: "payload.net" }, order)).rejects.toThrow(/neither true nor false/);
});

test("split sends one packet per item, with ids that a second delivery repeats", async () => {
  const settings = { items: "payload.lines", keep: ["id"] };
  const first = await sent(split(), settings, order);
  expect(first).toEqual([
    { port: "out", id: "o-1", item: { sku: "a" }, split: { id: "o-1-split/0", group: "o-1-split", index: 0, count: 2 } },
    { port: "out", id: "o-1", item: { sku: "b" }, split: { id: "o-1-split/1", group: "o-1-split", index: 1, count: 2 } },
  ]);
  expect(await sent(split(), settings, order)).toEqual(first);
});

test("split refuses what is not a list, lists that are too long and fields that are missing", async () => {
  await expect(sent(split(), { items: "payload.id" }, order)).rejects.toThrow(/not a list/);
  await expect(sent(split(), { items: "payload.lines", itemsMax: 1 }, order)).rejects.toThrow(/itemsMax allows 1/);
  await expect(sent(split(), { items: "payload.lines", keep: ["nope"] }, order)).rejects.toThrow(/no "nope"/);
  const empty = mockNodeInput("in", { lines: [] });
  expect(await sent(split(), { items: "payload.lines" }, empty)).toEqual([]);
  expect(await sent(split(), { items: "payload.lines", emptyPort: "none" }, empty)).toEqual([{ port: "none", lines: [] }]);
});

test("delay asks for the packet again until its time has come", async () => {
  const at = (sentAt: number, storeNow: number, payload = {}) => mockNodeInput("in", payload, { context: { sentAt, storeNow } as object });
  await expect(sent(delay(), { for: "PT1M" }, at(1000, 1500))).rejects.toMatchObject({ delayMs: 59_500 });
  expect(await sent(delay(), { for: "PT1M" }, at(1000, 61_000))).toHaveLength(1);
  const until = { until: "payload.at" };
  await expect(sent(delay(), until, at(0, 1000, { at: "1970-01-01T00:00:03Z" }))).rejects.toMatchObject({ delayMs: 2000 });
  expect(await sent(delay(), until, at(0, 1000, { at: 1000 }))).toHaveLength(1);
  for (const wrong of ["1970-01-01", "tomorrow", null, {}])
    await expect(sent(delay(), until, at(0, 0, { at: wrong }))).rejects.toMatchObject({ code: "VALIDATION" });
  await expect(sent(delay(), until, at(0, 0, { at: 1e12 }))).rejects.toThrow(/more than a year/);
});

test.each([
  [transform(), { feilds: {} }, /settings\.feilds is not a setting; did you mean "fields"\?/],
  [transform(), {}, /fields/],
  [transform(), { fields: { a: "payload." } }, /settings\.fields\.a/],
  [transform(), { fields: { a: "process.exit()" } }, /settings\.fields\.a.*not allowed/],
  [filter(), { condition: 1 }, /settings\.condition must be string/],
  [split(), { items: "payload.lines", itemsMax: 0 }, /settings\.itemsMax must be at least 1/],
  [delay(), {}, /either `for` .* or `until`/],
  [delay(), { for: "10m" }, /ISO 8601/],
  [delay(), { for: "PT1M", until: "payload.at" }, /either/],
])("settings are checked when the node is made: %#", (type, settings, message) => {
  expect(() => type.node(settings)).toThrow(message);
  expect(() => type.node(settings)).toThrow(expect.objectContaining({ code: "NODE_SETTINGS" }));
});
