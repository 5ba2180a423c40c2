import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { open } from "onceflow";
import { chainOf } from "./flows.js";

/** Concurrent triggers while a queue is filled. */
const fillers = 512;

export interface Drained {
  readonly packets: number;
  readonly perSecond: number;
}

/** Fills the entry of a flow while no worker runs, then lets one process drain it. */
export async function drain(folder: string, packets: number, onProgress: (done: number) => void): Promise<Drained> {
  const path = join(folder, `backlog-${packets}.db`);
  const store = await open(`sqlite:${path}`);
  try {
    const filler = await chainOf(store, "durable", { edges: 1, work: false });
    let put = 0;
    let filled = 0;
    const fill = async () => {
      while (put < packets) {
        put += 1;
        await filler.put(`b-${put}`);
        filled += 1;
        if (filled % 1000 === 0) onProgress(500);
      }
    };
    await Promise.all(Array.from({ length: fillers }, fill));
    await filler.runtime.stop();
    const startedAt = performance.now();
    const worker = await chainOf(store, "durable", { edges: 1 });
    await worker.runtime.idle();
    const tookMs = performance.now() - startedAt;
    onProgress(packets / 2);
    await worker.runtime.stop();
    return { packets, perSecond: (packets / tookMs) * 1000 };
  } finally {
    await store.close();
    for (const end of ["", "-wal", "-shm"]) await rm(path + end, { force: true });
  }
}

export interface Flat {
  readonly packets: number;
  readonly heapMb: readonly number[];
  readonly rssMb: readonly number[];
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Sends packets through a flow, a few hundred at a time, and reads the memory usage ten times. */
export async function memoryOver(folder: string, packets: number, onProgress: (done: number) => void): Promise<Flat> {
  const path = join(folder, "memory.db");
  const store = await open(`sqlite:${path}`);
  try {
    const { send, runtime } = await chainOf(store, "durable", { edges: 1 });
    const heapMb: number[] = [];
    const rssMb: number[] = [];
    let sent = 0;
    for (let tenth = 1; tenth <= 10; tenth++) {
      const until = (packets / 10) * tenth;
      const sender = async () => {
        while (sent < until) await send(`m-${sent++}`);
      };
      await Promise.all(Array.from({ length: 200 }, sender));
      collect();
      const { heapUsed, rss } = process.memoryUsage();
      heapMb.push(heapUsed / 2 ** 20);
      rssMb.push(rss / 2 ** 20);
      onProgress(packets / 10);
    }
    await runtime.stop();
    return { packets, heapMb, rssMb };
  } finally {
    await store.close();
    for (const end of ["", "-wal", "-shm"]) await rm(path + end, { force: true });
  }
}
