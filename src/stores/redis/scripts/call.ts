import { assert } from "../../../core/errors/errors.js";
import type { Connection } from "../connection/connection.js";
import type { RedisLink } from "../connection/link.js";
import { headOf } from "../layout.js";
import type { Script } from "./script.js";

/** One key and its arguments for a Lua script. */
export interface Item {
  readonly key: string;
  readonly args: readonly string[];
  /**
   * All other keys that the script may touch for this item. While a Cluster moves a slot, it runs a script only if all declared
   * keys are on one side. An undeclared key could be written on the wrong side, and would then exist twice.
   */
  readonly also?: readonly string[];
  /** Items of different groups go into different calls. */
  readonly group?: string;
}

/** A script's reply for one item, and the server's time. */
export interface ScriptResult {
  readonly now: number;
  readonly reply: unknown;
}

interface Call {
  readonly items: Item[];
  /** Index of each item in the list of all items. */
  readonly indexes: number[];
  characters: number;
}

/** Maximum size of one call, so that the server does not have to buffer everything at once. */
const charactersMax = 1024 * 1024;

export interface ScriptOptions {
  /** Names the action in error messages: `a flush`. */
  readonly what: string;
}

/**
 * Calls a Lua script for any number of items: one call on a single server, one call per shard on a Cluster, all in one
 * round trip. A call that fails fails only its own items. If a slot is being moved and the keys of a call are on both sides, the items are
 * sent again one by one: a renewal, which needs only its record, must not lose its lease because its neighbours have to wait.
 */
export async function callScript(
  connection: Connection,
  link: RedisLink,
  script: Script,
  items: readonly Item[],
  { what }: ScriptOptions,
): Promise<(ScriptResult | Error)[]> {
  const results: (ScriptResult | Error)[] = new Array(items.length);
  const run = async (call: Call): Promise<void> => {
    try {
      const replies = (await connection.answer(link, what, evaluate(link, script, call.items))) as unknown[];
      assert(Array.isArray(replies) && replies.length === call.items.length + 1, "a script answers every item");
      const now = Number(replies[0]);
      for (const [i, index] of call.indexes.entries()) results[index] = { now, reply: replies[i + 1] };
    } catch (error) {
      if (call.items.length > 1 && isOnBothSides(error)) await Promise.all(singles(call).map(run));
      else for (const index of call.indexes) results[index] = error as Error;
    }
  };
  await Promise.all(callsOf(script, items, link.cluster).map(run));
  return results;
}

/** Whether the declared keys are on both sides of a slot that is being moved. */
export function isOnBothSides(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error && error.cause.message.startsWith("TRYAGAIN ");
}

function singles({ items, indexes }: Call): Call[] {
  return items.map((item, i) => ({ items: [item], indexes: [indexes[i] as number], characters: 0 }));
}

/** For reads: returns all replies, or throws the first error. */
export async function askScript(
  connection: Connection,
  script: Script,
  items: readonly Item[],
  options: ScriptOptions,
): Promise<ScriptResult[]> {
  if (items.length === 0) return [];
  const results = await callScript(connection, await connection.link(), script, items, options);
  return results.map((one) => {
    if (one instanceof Error) throw one;
    return one;
  });
}

function callsOf({ itemsMax }: Script, items: readonly Item[], cluster: boolean): Call[] {
  const calls: Call[] = [];
  const open = new Map<string, Call>();
  for (const [index, item] of items.entries()) {
    const of = `${cluster ? headOf(item.key) : ""}${item.group ?? ""}`;
    let call = open.get(of);
    if (call === undefined || call.items.length >= itemsMax || call.characters >= charactersMax) {
      call = { items: [], indexes: [], characters: 0 };
      open.set(of, call);
      calls.push(call);
    }
    call.items.push(item);
    call.indexes.push(index);
    for (const arg of item.args) call.characters += arg.length;
  }
  return calls;
}

/** Calls the script by its hash. If the server does not have it, sends the text, which the server then caches. */
async function evaluate(link: RedisLink, { sha, text }: Script, items: readonly Item[]): Promise<unknown> {
  const keys = items.map(({ key }) => key);
  // Only a Cluster needs to know the other keys.
  if (link.cluster) keys.push(...new Set(items.flatMap(({ also = [] }) => also)));
  const rest = [String(keys.length), ...keys, String(items.length), ...items.flatMap(({ args }) => args)];
  const key = keys[0] as string;
  try {
    return await link.send(["EVALSHA", sha, ...rest], key);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return await link.send(["EVAL", text, ...rest], key);
  }
}
