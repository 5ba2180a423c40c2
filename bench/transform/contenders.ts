import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { open, type Store } from "onceflow";
import { transform } from "onceflow/transform";
import { step, type Worker, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { parseSync } from "oxc-parser";
import type { Contender } from "../measure.js";
import { filesPerMb, inVain, untouched, withDirectives } from "./corpus.js";

export const names = {
  transform: "onceflow: parse, survey, edit, map",
  parse: "oxc: parse, and the tree made for JavaScript",
  untouched: "untouched file",
  inVain: "file that only mentions a clock",
  directive: "by directives",
  explicit: "by workflow() and step()",
} as const;

const options = { file: "/project/src/orders.ts", root: "/project" };
const texts = (make: (n: number) => string) => Array.from({ length: filesPerMb }, (_, n) => make(n));

export interface Corpus {
  readonly contenders: Contender[];
  readonly bytes: number;
}

/** Contenders that transform one MB of files with directives in one call, beside the minimum for any tool with a parser: parsing. */
export function mbContenders(): Corpus {
  const files = texts(withDirectives);
  const transformAll = async () => {
    for (const code of files) if (transform(code, options) === undefined) throw new Error("a file was not transformed");
  };
  const parseAll = async () => {
    for (const code of files) if (parseSync(options.file, code).program.body.length === 0) throw new Error("a file was not parsed");
  };
  return {
    bytes: files.reduce((sum, code) => sum + Buffer.byteLength(code), 0),
    contenders: [
      { name: names.transform, work: transformAll },
      { name: names.parse, work: parseAll },
    ],
  };
}

export function untouchedContenders(): Contender[] {
  const contender = (name: string, make: (n: number) => string): Contender => {
    const files = texts(make);
    return {
      name,
      work: async () => {
        for (const code of files) if (transform(code, options) !== undefined) throw new Error("a file was changed");
      },
    };
  };
  return [contender(names.untouched, untouched), contender(names.inVain, inVain)];
}

const code = `
export async function add(n) { "use step"; return n + 1; }
export async function sum() { "use workflow"; let n = 0; for (let i = 0; i < 10; i++) n = await add(n); return n; }
`;
export const stepsPerRun = 10;

export interface RunTime {
  readonly contenders: Contender[];
  close(): Promise<void>;
}

/** The same workflow in both forms: ten steps that do nothing, in memory, so that the difference is the cost of the form. */
export async function runTimeContenders(folder: string): Promise<RunTime> {
  const file = join(folder, "sum.mjs");
  const text = transform(code, { file, root: folder })?.code ?? "";
  await mkdir(folder, { recursive: true });
  await writeFile(file, text);
  const { sum: byDirectives } = (await import(pathToFileURL(file).href)) as { sum: () => Promise<number> };
  const add = step("step//sum.mjs//explicit", async (n: number) => n + 1);
  const explicit = workflow("workflow//sum.mjs//explicit", async () => {
    let n = 0;
    for (let i = 0; i < stepsPerRun; i++) n = await add(n);
    return n;
  });
  const store: Store = await open("memory:");
  const worker: Worker = await work(store, { replayCheck: false });
  const run = (fn: () => Promise<number>) => async () => {
    if ((await (await start(fn, [], { store, retentionMs: 0 })).returnValue) !== stepsPerRun)
      throw new Error("the workflow returned a wrong count");
  };
  return {
    contenders: [
      { name: names.directive, work: run(byDirectives) },
      { name: names.explicit, work: run(explicit) },
    ],
    async close() {
      await worker.stop();
      await store.close();
    },
  };
}
