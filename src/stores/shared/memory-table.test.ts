import { expect, test } from "vitest";
import type { NewPacket } from "../../core/packets/operation.js";
import { rowOf } from "../../core/packets/rules/row.js";
import { MemoryTable } from "./memory-table.js";

const packet: NewPacket = {
  no: 3,
  flow: "f",
  queue: "q",
  execution: null,
  payload: "{}",
  key: null,
  lane: null,
  join: null,
  letter: null,
  delayMs: 0,
  claim: true,
};

test("a packet that reuses a number is not owned by the worker of the former packet", () => {
  const table = new MemoryTable(() => 0, { get: () => undefined, put: () => {} });
  table.insert(rowOf(packet, 0, 1));
  expect(table.ownedBy(1)).toHaveLength(1);
  table.insert(rowOf(packet, 0));
  expect(table.ownedBy(1)).toEqual([]);
});
