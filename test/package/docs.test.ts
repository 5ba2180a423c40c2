import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { compile } from "./docs/compile.js";
import { fencesOf, pages, root, samples, textOf } from "./docs/pages.js";
import { run } from "./docs/run.js";
import { addressesOf, started } from "./docs/servers.js";

/**
 * Every sample of the docs (test/package/docs/samples.ts) is type-checked as printed, and run in its own process and an empty folder.
 * The lines that it prints are compared with its comments:
 *
 *   console.log(result.status); // → executed
 *
 * A sample that prints nothing is rejected. A sample that needs a server (docs/servers.ts) gets a new database there, or is skipped with
 * the reason. A sample tagged `ts no-run` is only type-checked, and needs a reason here, by page and first line of code.
 */
const notRun: Readonly<Record<string, string>> = {
  "docs/guide/directives.md // next.config.ts": "Next.js reads it; examples/nextjs-stripe is built by npm run test:examples",
  "docs/guide/testing-your-code.md // vitest.config.ts": "Vitest reads it; test/workflow/compat/vitest.test.ts tests the plugin",
};

describe("the samples of", () => {
  let errors = new Map<string, string[]>();
  beforeAll(() => {
    errors = compile();
  }, 120_000);

  describe.each(pages.filter((page) => samples.some((sample) => sample.page === page)))("%s", (page) => {
    const own = samples.filter((sample) => sample.page === page);
    const stops: (() => Promise<void>)[] = [];
    beforeAll(async () => {
      const needed = new Map(own.filter(({ runs }) => runs).flatMap(addressesOf));
      for (const address of needed.values()) stops.push(await started(address));
    }, 180_000);
    afterAll(async () => {
      for (const stop of stops) await stop();
    });

    test.for(own)("line $line", async (sample, { skip }) => {
      expect(errors.get(sample.name) ?? []).toEqual([]);
      if (!sample.runs) return;
      const env: NodeJS.ProcessEnv = {};
      for (const [name, { server, fresh }] of addressesOf(sample)) {
        if (!server.ok) return skip(server.reason);
        const { url, drop, env: more = {} } = await fresh(server.url);
        onTestFinished(drop);
        Object.assign(env, more, { [name]: url });
      }
      const result = await run(sample, temporaryFolder(onTestFinished), env);
      expect(result, "the sample did not run to its end").toBeDefined();
      expect(result?.error).toBeUndefined();
      expect(result?.lines).toEqual(sample.printed);
    });
  });
});

describe("the pages", () => {
  test("have samples, each of which prints something", () => {
    expect(samples.length).toBeGreaterThan(20);
    const silent = samples.filter(({ runs, printed }) => runs && printed.length === 0);
    expect(silent.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
  });

  test("have no code that is neither checked nor run, except with a reason", () => {
    const skipped = samples.filter(({ runs }) => !runs).map(({ page, files }) => `${page} ${files[0]?.code.split("\n")[0]}`);
    expect(skipped.toSorted()).toEqual(Object.keys(notRun).toSorted());
    const unchecked = pages.flatMap((page) =>
      fencesOf(page)
        .filter(({ tag, code }) => isCode(tag, code))
        // Programs of other systems, whose packages are not installed here.
        .filter(({ tag }) => !(tag === "ts peer" && page.startsWith("docs/guide/coming-from/")))
        // Run by commonjs.test.ts.
        .filter(({ tag, code }) => !(tag === "js" && code.startsWith("// jest.config.js\n")))
        .map(({ tag, line }) => `${page}:${line} ${tag}`),
    );
    expect(unchecked).toEqual([]);
  });

  test("have no broken links", () => {
    const dead = [...pages, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "test/README.md", "sdk/python/README.md"].flatMap((page) =>
      [...textOf(page).matchAll(/\]\((?!https?:)([^)\s]*)\)/g)]
        .map(([, target = ""]) => target)
        .filter((target) => !isValidLink(page, target))
        .map((target) => `${page} → ${target}`),
    );
    expect(dead).toEqual([]);
  });

  test("of the architecture name files that exist", () => {
    const files = ["src", "test"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => `/${folder}/${file}`),
    );
    const architecture = pages.filter((page) => page === "ARCHITECTURE.md" || page.startsWith("docs/internals/"));
    const missing = architecture.flatMap((page) =>
      [...textOf(page).matchAll(/(?<![<>*/\w.-])[\w./-]+\.ts\b/g)]
        .map(([path]) => path)
        // The rule of entry points, with letters in place of names.
        .filter((path) => path !== "src/exports/a/b.ts" && !files.some((file) => file.endsWith(`/${path}`)))
        .map((path) => `${page} names ${path}`),
    );
    expect(missing).toEqual([]);
  });

  test("do not promise exactly-once effects outside of the database", () => {
    const page = "docs/guide/transactions.md";
    const promising = pages.filter((one) => one.startsWith("docs/") && one !== page && /exactly[ -]once/i.test(textOf(one)));
    expect(promising).toEqual([]);
    expect(textOf(page).match(/exactly[ -]once(?! in that database)/gi) ?? []).toEqual([]);
  });
});

/** Whether a fence has JavaScript or TypeScript, tagged or not, that is not part of a sample. */
function isCode(tag: string, code: string): boolean {
  if (tag === "ts" || tag === "ts no-run") return false;
  return /^(js|javascript|mjs|typescript|tsx|mts|ts .*)$/.test(tag) || (tag === "" && /^(import .* from|export |const )/m.test(code));
}

function isValidLink(page: string, target: string): boolean {
  const [path = "", anchor] = target.split("#");
  const file = path === "" ? join(root, page) : resolve(root, dirname(page), path);
  if (!existsSync(file)) return false;
  if (anchor === undefined) return true;
  const headings = readFileSync(file, "utf8").matchAll(/^#+ (.*)$/gm);
  return [...headings].some(([, heading = ""]) => slug(heading) === anchor);
}

/** The anchor of a heading, in GitHub's form. */
function slug(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}
