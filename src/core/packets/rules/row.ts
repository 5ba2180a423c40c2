import type { NewPacket } from "../operation.js";
import type { PacketRow } from "./table.js";

/** The row of a new packet. With an owner, the packet is claimed and in its first attempt. */
export function rowOf(
  { no, flow, queue, execution, payload, key, lane, join: part, letter, delayMs, reach }: NewPacket,
  now: number,
  owner: number | null = null,
): PacketRow {
  return {
    no,
    flow,
    queue,
    state: "due",
    owner,
    attempt: owner === null ? 0 : 1,
    since: 0,
    crashes: 0,
    dueAt: now + delayMs,
    execution,
    key,
    lane: lane?.name ?? null,
    payload,
    parts: null,
    history: null,
    note: null,
    createdAt: now,
    dead: null,
    hold: null,
    place: null,
    deadBlocks: lane?.deadBlocks ?? false,
    part,
    letter,
    reach: reach ?? null,
  };
}
