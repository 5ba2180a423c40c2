import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { whole } from "../core/ledger/key-ref.js";
import { type HistoryEntry, historyOf, thrown } from "../core/packets/history.js";
import type { PageCursor } from "../core/packets/operation.js";
import { type OperatorOptions, type OperatorResult, performOnPackets } from "../core/packets/operator.js";
import type { PacketRecord } from "../core/packets/packet.js";
import { sha256 } from "../core/values/canonical.js";
import { messageOf, type OutboxMessage } from "./message.js";
import type { Policy } from "./options.js";

/** A message that failed for good: it is not retried automatically. */
export interface OutboxDeadLetter<Payload = unknown> {
  /** The message's id. */
  readonly id: string;
  /** The message's key. With `deadBlocks`, later messages of this key wait. */
  readonly key: string | undefined;
  /** Undefined if it cannot be read here; `unreadable` gives the reason. */
  readonly message: OutboxMessage<Payload> | undefined;
  readonly unreadable: string | undefined;
  readonly attempts: number;
  readonly createdAt: Date;
  readonly diedAt: Date;
  /** The errors of its attempts, oldest first. An attempt whose process died has no entry. */
  readonly history: readonly HistoryEntry[];
}

/** Options of `outbox.deadLetters`. */
export interface OutboxDeadLettersOptions {
  /** Default 100, at most 1,000. */
  readonly limit?: number;
  /** Continue after this message id, the last one of the previous page. */
  readonly before?: string;
}

const listNames: OptionNames<OutboxDeadLettersOptions> = { limit: true, before: true };

/** Newest first. */
export async function listDeadLetters(policy: Policy, options: OutboxDeadLettersOptions): Promise<OutboxDeadLetter<never>[]> {
  knownOptions("outbox.deadLetters", options, listNames);
  const { limit = 100, before } = options;
  whole("limit", limit, 1, 1000);
  const { store, flow } = policy;
  const cursor = before === undefined ? {} : { before: await cursorOf(policy, before) };
  return (await store.packets.deadLetters({ flow, limit, ...cursor })).map(deadLetterOf);
}

async function cursorOf(policy: Policy, id: string): Promise<PageCursor> {
  const [last] = await named(policy, id);
  if (last?.dead) return { at: last.dead.at, no: last.no };
  throw new InvalidInputError("before", `"${String(id)}" is not a dead letter (any more); start again with the first page`);
}

/** All dead letters with this message id, oldest first: an id that was added twice may have failed twice. */
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

/** Makes a dead letter due again, at its old position in its key if it kept that. False: not found. */
export async function retryDeadLetter(policy: Policy, id: string, operator?: OperatorOptions): Promise<boolean | OperatorResult> {
  if (operator !== undefined) return await act(policy, "retry", id, operator);
  const done = [];
  for (const { no } of await named(policy, id)) done.push(await policy.store.packets.reinject(no));
  return done.includes(true);
}

/**
 * Retries all current dead letters, oldest first, so that those that move to the end of their key keep their order. Lists them
 * before the first retry: letters that die meanwhile are not retried.
 */
export async function retryAllDeadLetters({ store, flow }: Policy, operator?: OperatorOptions): Promise<number> {
  if (operator !== undefined && operator?.reason === undefined)
    throw new InvalidInputError("reason", "is missing: this acts on many dead letters; say why, for the operator log");
  const found: PacketRecord[] = [];
  for (let before: { before?: PageCursor } = {}; ; ) {
    const page = await store.packets.deadLetters({ flow, limit: pageMax, ...before });
    found.push(...page);
    const last = page.at(-1);
    if (last?.dead == null) break;
    before = { before: { at: last.dead.at, no: last.no } };
  }
  let count = 0;
  for (const { no, dead } of found.reverse()) {
    const done =
      operator === undefined
        ? await store.packets.reinject(no)
        : await performOnPackets({
            store,
            action: "retryDeadLetter",
            subject: `${flow}/${dead?.name}`,
            options: ofOne(operator, no),
            decide: async () => ({ kind: "retry", letters: [{ no }] }),
          });
    if (done !== false) count += 1;
  }
  return count;
}

/** Each letter has an id of its own, which derives from the given one: a repetition retries no letter a second time. */
function ofOne(operator: OperatorOptions, no: number): OperatorOptions {
  const { actionId } = operator;
  return typeof actionId === "string" && actionId !== "" ? { ...operator, actionId: sha256(`${actionId}\0${no}`) } : operator;
}

const pageMax = 100;

/** Removes a dead letter permanently; messages that it blocked become due. False: not found. */
export async function discard(policy: Policy, id: string, operator?: OperatorOptions): Promise<boolean | OperatorResult> {
  if (operator !== undefined) return await act(policy, "discard", id, operator);
  const done = [];
  for (const { no } of await named(policy, id)) done.push(await policy.store.packets.discard(no));
  return done.includes(true);
}

const actions = { retry: "retryDeadLetter", discard: "discardDeadLetter" } as const;

/** Acts on all dead letters with this message id in one commit, with one entry in the operator log. */
async function act(policy: Policy, kind: keyof typeof actions, id: string, options: OperatorOptions): Promise<OperatorResult | false> {
  const { store, flow } = policy;
  const decide = async () => {
    const letters = (await named(policy, id)).map(({ no }) => ({ no }));
    return letters.length === 0 ? undefined : { kind, letters };
  };
  return await performOnPackets({ store, action: actions[kind], subject: `${flow}/${id}`, options, decide });
}
