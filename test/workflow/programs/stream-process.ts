import { open, type Store } from "onceflow";
import { getStepMetadata, getWritable, step, work, workflow } from "onceflow/workflow";
import { getRun, start } from "onceflow/workflow/api";

/** A separate process that works on a run with streams and dies while it does, or reads the stream. */
export interface StreamPart {
  readonly url: string;
  readonly id: string;
  readonly does: "work" | "read";
  /** Around the second write of chunks, or around the entry with the result of the first step. */
  readonly dies?: StreamDeath;
}

export const streamDeaths = ["before write", "after write", "before done", "after done", "before end", "after end"] as const;
export type StreamDeath = (typeof streamDeaths)[number];

/** Messages of the reader: a chunk, or the end of the stream. */
export type StreamSaid = { readonly got: unknown } | { readonly over: true };

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

async function say(text: string): Promise<void> {
  const writer = getWritable<string>().getWriter();
  await writer.write(text);
  writer.releaseLock();
}

/** Writes five chunks at its first attempt and three later: chunks that a dead first attempt left must not be visible in the end. */
const talk = step("talk", async () => {
  const { attempt } = getStepMetadata();
  for (let i = 0; i < (attempt === 1 ? 5 : 3); i++) {
    await say(`talk ${attempt}:${i}`);
    await turn();
  }
  return attempt;
});

const close = step("close", async () => {
  const writer = getWritable<string>().getWriter();
  await writer.write("bye");
  await writer.close();
});

export const streamed = workflow("process streamed", async () => {
  await say("hello");
  const attempt = await talk();
  await say("between");
  await close();
  return attempt;
});

/** The same store; the process dies at one point. */
export function dyingAt(store: Store, point: StreamDeath, die: () => void): Store {
  let writes = 0;
  const what = (operation: { verb: string; entry?: { events: string | null } }): string => {
    if (operation.verb === "write") {
      writes += 1;
      return writes === 2 ? "write" : "";
    }
    const events = operation.entry?.events ?? "";
    if (events.includes('["done","talk#0"')) return "done";
    return events.includes('["done","close#0"') ? "end" : "";
  };
  const commit = async (batch: { run?: never }) => {
    const here = batch.run === undefined ? "" : what(batch.run);
    if (point === `before ${here}`) die();
    const answer = await store.commit(batch as never);
    if (point === `after ${here}`) die();
    return answer;
  };
  return Object.create(store, { commit: { value: commit } }) as Store;
}

async function main({ url, id, does, dies }: StreamPart): Promise<void> {
  const own = await open(url, { stallMsMax: 0 });
  if (does === "read") {
    for await (const got of getRun(id, { store: own }).readable) process.send?.({ got } satisfies StreamSaid);
    process.send?.({ over: true } satisfies StreamSaid);
    return await own.close();
  }
  const store = dies === undefined ? own : dyingAt(own, dies, () => process.kill(process.pid, "SIGKILL"));
  await work(store, { workflows: [streamed] as never, leaseMs: 300 });
  await start(streamed, [], { id, store });
  await getRun(id, { store }).returnValue;
  await store.close();
}

if (process.argv[2] !== undefined && process.send !== undefined && process.argv[1]?.includes("stream-process"))
  await main(JSON.parse(process.argv[2]) as StreamPart);
