import { InvalidInputError } from "../core/errors/errors.js";
import { whole } from "../core/ledger/key-ref.js";
import { type HistoryEntry, historyOf, thrown } from "../core/packets/history.js";
import type { PageCursor } from "../core/packets/operation.js";
import type { PacketRecord } from "../core/packets/packet.js";
import { messageOf, type OutboxMessage } from "./message.js";
import type { Policy } from "./options.js";

/** A message that is not tried again by itself. */
export interface OutboxDeadLetter<Payload = unknown> {
  /** Of the message. */
  readonly id: string;
  /** What it blocks, where dead letters block. */
  readonly key: string | undefined;
  /** Undefined: it can't be read here, and `unreadable` says why. */
  readonly message: OutboxMessage<Payload> | undefined;
  readonly unreadable: string | undefined;
  readonly attempts: number;
  readonly createdAt: Date;
  readonly diedAt: Date;
  /** What its attempts failed with, oldest first. Those that fell silent have left no word. */
  readonly history: readonly HistoryEntry[];
}

export interface OutboxDeadLettersOptions {
  /** Default 100, at most 1,000. */
  readonly limit?: number;
  /** The id of the last one of the page before. */
  readonly before?: string;
}

/** Newest first. */
export async function listDeadLetters(
  policy: Policy,
  { limit = 100, before }: OutboxDeadLettersOptions,
): Promise<OutboxDeadLetter<never>[]> {
  whole("limit", limit, 1, 1000);
  const { store, flow } = policy;
  const cursor = before === undefined ? {} : { before: await cursorOf(policy, before) };
  return (await store.packets.deadLetters({ flow, limit, ...cursor })).map(deadLetterOf);
}

async function cursorOf(policy: Policy, id: string): Promise<PageCursor> {
  const [last] = await named(policy, id);
  if (last?.dead) return { at: last.dead.at, no: last.no };
  throw new InvalidInputError("before", `"${String(id)}" is no dead letter (any more); ask for the first page again`);
}

/** A message whose id was given twice may have died twice. Oldest first. */
async function named({ store, flow }: Policy, id: unknown): Promise<readonly PacketRecord[]> {
  if (typeof id !== "string" || id === "") throw new InvalidInputError("id", "must be the id of a message");
  return [...(await store.packets.deadLetters({ flow, name: id, limit: 1000 }))].reverse();
}

function deadLetterOf(packet: PacketRecord): OutboxDeadLetter<never> {
  const { dead, lane, attempt, createdAt } = packet;
  const about = {
    id: dead?.name ?? "",
    key: lane ?? undefined,
    attempts: attempt,
    createdAt: new Date(createdAt),
    diedAt: new Date(dead?.at ?? 0),
  };
  try {
    return { ...about, message: messageOf(packet) as OutboxMessage<never>, unreadable: undefined, history: historyOf(packet.history) };
  } catch (error) {
    return { ...about, message: undefined, unreadable: thrown(error).message, history: [] };
  }
}

/** Tried again, at its old place if it has kept it. False: there is no such dead letter. */
export async function redrive(policy: Policy, id: string): Promise<boolean> {
  const done = [];
  for (const { no } of await named(policy, id)) done.push(await policy.store.packets.reinject(no));
  return done.includes(true);
}

/** Oldest first, so that what goes to the end of its key keeps its order. Those that die meanwhile are not tried again. */
export async function redriveAll({ store, flow }: Policy): Promise<number> {
  const found: number[] = [];
  for (let before: { before?: PageCursor } = {}; ; ) {
    const page = await store.packets.deadLetters({ flow, limit: pageMax, ...before });
    found.push(...page.map(({ no }) => no));
    const last = page.at(-1);
    if (last?.dead == null) break;
    before = { before: { at: last.dead.at, no: last.no } };
  }
  let count = 0;
  for (const no of found.reverse()) if (await store.packets.reinject(no)) count += 1;
  return count;
}

const pageMax = 100;

/** Removed for good: what it blocked goes on. False: there is no such dead letter. */
export async function discard(policy: Policy, id: string): Promise<boolean> {
  const done = [];
  for (const { no } of await named(policy, id)) done.push(await policy.store.packets.discard(no));
  return done.includes(true);
}
