import { assert } from "../../core/errors.js";
import type { Connection } from "./connection.js";
import { headOf } from "./layout.js";
import type { RedisLink } from "./link.js";
import type { Script } from "./scripts.js";

/** One key, and what the script is told about it. */
export interface Item {
  readonly key: string;
  readonly args: readonly string[];
}

/** What a script said about one item, and the server's time. */
export interface Said {
  readonly now: number;
  readonly reply: unknown;
}

interface Call {
  readonly keys: string[];
  readonly args: string[];
  readonly places: number[];
  characters: number;
}

/** Beyond it another call is begun: a server should not have to hold everything at once. */
const charactersMax = 1024 * 1024;

export interface RunOptions {
  /** For messages: what it is that may fail. */
  readonly what: string;
  /** Where a Cluster moves a slot, the script may only run where the shard's index is as well. */
  readonly withNames?: boolean;
}

/**
 * Runs a script over any number of items: in one call on one server, in one for each shard on a Cluster, all in one
 * round trip. A call that fails fails its own items only.
 */
export async function runScript(
  connection: Connection,
  link: RedisLink,
  script: Script,
  items: readonly Item[],
  { what, withNames = false }: RunOptions,
): Promise<(Said | Error)[]> {
  const said: (Said | Error)[] = new Array(items.length);
  await Promise.all(
    callsOf(script, items, link.cluster).map(async (call) => {
      try {
        const extra = withNames && link.cluster ? [`${headOf(call.keys[0] as string)}names`] : [];
        const replies = (await connection.answer(link, what, evaluate(link, script, [...call.keys, ...extra], call))) as unknown[];
        assert(Array.isArray(replies) && replies.length === call.keys.length + 1, "a script answers every item");
        const now = Number(replies[0]);
        for (const [i, place] of call.places.entries()) said[place] = { now, reply: replies[i + 1] };
      } catch (error) {
        for (const place of call.places) said[place] = error as Error;
      }
    }),
  );
  return said;
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
  for (const [place, { key, args }] of items.entries()) {
    const of = cluster ? headOf(key) : "";
    let call = open.get(of);
    if (call === undefined || call.keys.length >= itemsMax || call.characters >= charactersMax) {
      call = { keys: [], args: [], places: [], characters: 0 };
      open.set(of, call);
      calls.push(call);
    }
    call.keys.push(key);
    call.places.push(place);
    for (const arg of args) {
      call.args.push(arg);
      call.characters += arg.length;
    }
  }
  return calls;
}

/** By its hash; a server that does not know it yet is told the text, and keeps it. */
async function evaluate(link: RedisLink, { sha, text }: Script, keys: readonly string[], { args, places }: Call): Promise<unknown> {
  const rest = [String(keys.length), ...keys, String(places.length), ...args];
  const key = keys[0] as string;
  try {
    return await link.send(["EVALSHA", sha, ...rest], key);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return await link.send(["EVAL", text, ...rest], key);
  }
}
