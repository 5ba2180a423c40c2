import { assert } from "../../../core/errors/errors.js";
import type { Connection } from "../connection/connection.js";
import type { RedisLink } from "../connection/link.js";
import { headOf } from "../layout.js";
import type { Script } from "./script.js";

/** One key, and what the script is told about it. */
export interface Item {
  readonly key: string;
  readonly args: readonly string[];
  /**
   * All other keys that the script may touch for it. A Cluster that moves a slot runs the script only where all of its
   * keys are. A key that it does not know of could be written on the side where it is not, and exist twice from then on.
   */
  readonly also?: readonly string[];
  /** Items of different groups are not in one call. */
  readonly group?: string;
}

/** What a script said about one item, and the server's time. */
export interface Said {
  readonly now: number;
  readonly reply: unknown;
}

interface Call {
  readonly items: Item[];
  readonly places: number[];
  characters: number;
}

/** Beyond it another call is begun: a server should not have to hold everything at once. */
const charactersMax = 1024 * 1024;

export interface RunOptions {
  /** For messages: what it is that may fail. */
  readonly what: string;
}

/**
 * Runs a script over any number of items: in one call on one server, in one for each shard on a Cluster, all in one
 * round trip. A call that fails fails its own items only. A call whose keys are on both sides of a slot on the move goes
 * again item by item: a renewal needs its record only, and must not lose its lease to what its neighbours wait for.
 */
export async function runScript(
  connection: Connection,
  link: RedisLink,
  script: Script,
  items: readonly Item[],
  { what }: RunOptions,
): Promise<(Said | Error)[]> {
  const said: (Said | Error)[] = new Array(items.length);
  const run = async (call: Call): Promise<void> => {
    try {
      const replies = (await connection.answer(link, what, evaluate(link, script, call.items))) as unknown[];
      assert(Array.isArray(replies) && replies.length === call.items.length + 1, "a script answers every item");
      const now = Number(replies[0]);
      for (const [i, place] of call.places.entries()) said[place] = { now, reply: replies[i + 1] };
    } catch (error) {
      if (call.items.length > 1 && isOnBothSides(error)) await Promise.all(singles(call).map(run));
      else for (const place of call.places) said[place] = error as Error;
    }
  };
  await Promise.all(callsOf(script, items, link.cluster).map(run));
  return said;
}

/** Some of the keys that were named are not on this side of a slot on the move. */
export function isOnBothSides(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error && error.cause.message.startsWith("TRYAGAIN ");
}

function singles({ items, places }: Call): Call[] {
  return items.map((item, i) => ({ items: [item], places: [places[i] as number], characters: 0 }));
}

/** For reads: all of it, or an error. */
export async function askScript(connection: Connection, script: Script, items: readonly Item[], options: RunOptions): Promise<Said[]> {
  if (items.length === 0) return [];
  const said = await runScript(connection, await connection.link(), script, items, options);
  return said.map((one) => {
    if (one instanceof Error) throw one;
    return one;
  });
}

function callsOf({ itemsMax }: Script, items: readonly Item[], cluster: boolean): Call[] {
  const calls: Call[] = [];
  const open = new Map<string, Call>();
  for (const [place, item] of items.entries()) {
    const of = `${cluster ? headOf(item.key) : ""}${item.group ?? ""}`;
    let call = open.get(of);
    if (call === undefined || call.items.length >= itemsMax || call.characters >= charactersMax) {
      call = { items: [], places: [], characters: 0 };
      open.set(of, call);
      calls.push(call);
    }
    call.items.push(item);
    call.places.push(place);
    for (const arg of item.args) call.characters += arg.length;
  }
  return calls;
}

/** By its hash; a server that does not know it yet is told the text, and keeps it. */
async function evaluate(link: RedisLink, { sha, text }: Script, items: readonly Item[]): Promise<unknown> {
  const keys = items.map(({ key }) => key);
  // One server has everything, and does not ask.
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
