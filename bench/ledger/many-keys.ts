import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { FromChild, MemorySample } from "./many-keys-child.js";
import type { StoreName, Subject } from "./subject.js";

/** The memory of a process and the size of a store after this many distinct keys. */
export interface ManyKeys {
  readonly store: StoreName;
  readonly keys: number;
  readonly perSecond: number;
  readonly samples: readonly MemorySample[];
  /** Growth from the first sample (nothing executed yet) to the last. */
  readonly heapGrowthBytes: number;
  readonly rssGrowthBytes: number;
  /** Growth from a tenth of the keys to all of them: the part that depends on the number of keys, without the warm-up. */
  readonly laterHeapGrowthBytes: number;
  readonly laterRssGrowthBytes: number;
  readonly storedBytes: number | undefined;
}

export async function measureManyKeys(subject: Subject, keys: number, onShare: () => void): Promise<ManyKeys> {
  const url = await subject.emptyUrl();
  const { samples, perSecond } = await inChild(url, keys, onShare);
  const [first, tenth, last] = [samples[0], samples.find((s) => s.keys >= keys / 10), samples.at(-1)];
  if (first === undefined || tenth === undefined || last === undefined) throw new Error("the child measured nothing");
  return {
    store: subject.name,
    keys,
    perSecond,
    samples,
    heapGrowthBytes: last.heapBytes - first.heapBytes,
    rssGrowthBytes: last.rssBytes - first.rssBytes,
    laterHeapGrowthBytes: last.heapBytes - tenth.heapBytes,
    laterRssGrowthBytes: last.rssBytes - tenth.rssBytes,
    storedBytes: await subject.storedBytes?.(url),
  };
}

type Measured = Extract<FromChild, { readonly samples: unknown }>;

function inChild(url: string, keys: number, onShare: () => void): Promise<Measured> {
  const program = fileURLToPath(new URL("./many-keys-child.js", import.meta.url));
  const child = fork(program, [url, String(keys)], { execArgv: ["--expose-gc"] });
  return new Promise((resolve, reject) => {
    let measured: Measured | undefined;
    child.on("message", (message: FromChild) => {
      if ("samples" in message) measured = message;
      else onShare();
    });
    child.on("error", reject);
    child.on("exit", (code) => {
      if (measured) resolve(measured);
      else reject(new Error(`the process that executes ${keys} keys ended with code ${code}`));
    });
  });
}
