import type { Store } from "onceflow";
import { getWritable } from "onceflow/workflow";
import { getRun } from "onceflow/workflow/api";

export async function all<T>(readable: ReadableStream<T>): Promise<T[]> {
  const chunks: T[] = [];
  for await (const chunk of readable) chunks.push(chunk);
  return chunks;
}

/** Writes the chunks and releases the lock, so that another step can write after it. */
export async function say(...chunks: unknown[]): Promise<void> {
  const writer = getWritable().getWriter();
  for (const chunk of chunks) await writer.write(chunk);
  writer.releaseLock();
}

export const reading = (store: Store, id: string) => all(getRun(id, { store }).readable);
