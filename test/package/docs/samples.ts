/**
 * Finds the samples of a page. Every fence tagged `ts` is a complete module: it declares or imports every name that it uses.
 *
 * A fence whose first line is a file name (`// orders.ts`) is a file of an app. Such fences in a row form one sample: they are written
 * into one folder, and the last one is the program's entry file. A fence without a file name is a sample by itself, in `app.ts`.
 *
 * `ts no-run` is type-checked and not run.
 */
export interface Sample {
  readonly page: string;
  /** Line of the first file's code. */
  readonly line: number;
  readonly name: string;
  readonly files: readonly SampleFile[];
  readonly runs: boolean;
  /** Lines that the sample must print: `console.log(result.status); // → executed` */
  readonly printed: readonly string[];
}

interface SampleFile {
  readonly name: string;
  readonly line: number;
  readonly code: string;
}

export interface Fence {
  readonly tag: string;
  readonly line: number;
  readonly code: string;
}

export function fencesIn(markdown: string): Fence[] {
  const fences: Fence[] = [];
  let open: { tag: string; line: number; lines: string[] } | undefined;
  for (const [i, text] of markdown.split("\n").entries()) {
    const fence = /^\s*```(.*)$/.exec(text);
    if (fence === null) open?.lines.push(text);
    else if (open === undefined) open = { tag: (fence[1] ?? "").trim(), line: i + 2, lines: [] };
    else {
      fences.push({ tag: open.tag, line: open.line, code: open.lines.join("\n") });
      open = undefined;
    }
  }
  return fences;
}

export function samplesIn(page: string, markdown: string): Sample[] {
  const groups: { tag: string; files: SampleFile[]; named: boolean }[] = [];
  for (const { tag, line, code } of fencesIn(markdown)) {
    if (tag !== "ts" && tag !== "ts no-run") continue;
    const fileName = /^\/\/ ([\w.-]+\.ts)$/.exec(code.split("\n")[0] ?? "")?.[1];
    const file = { name: fileName ?? "app.ts", line, code };
    const last = groups.at(-1);
    const joins = fileName !== undefined && last?.named && last.tag === tag && last.files.every(({ name }) => name !== fileName);
    if (joins) last.files.push(file);
    else groups.push({ tag, files: [file], named: fileName !== undefined });
  }
  return groups.map(({ tag, files }) => {
    const line = files[0]?.line ?? 0;
    const code = files.map((file) => file.code).join("\n");
    return {
      page,
      line,
      name: `${page.replace(/\.md$/, "").replaceAll("/", "-")}-${line}`,
      files,
      runs: tag === "ts",
      printed: [...code.matchAll(/\/\/ → (.*)$/gm)].map(([, text = ""]) => text.trimEnd()),
    };
  });
}
