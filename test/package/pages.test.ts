import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join, posix, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import dompurify from "dompurify";
import mermaid from "mermaid";
import { afterAll, describe, expect, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";

const root = resolve(import.meta.dirname, "../..");
const textOf = (page: string) => readFileSync(join(root, page), "utf8");

interface Diagram {
  readonly page: string;
  /** The line number of its first line. */
  readonly line: number;
  readonly text: string;
}

function diagramsOf(page: string): Diagram[] {
  const text = textOf(page);
  return [...text.matchAll(/^```mermaid\n([\s\S]*?)^```/gm)].map((found) => ({
    page,
    line: text.slice(0, found.index).split("\n").length + 1,
    text: found[1] ?? "",
  }));
}

const docs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".md"));
const diagrams = ["README.md", "ARCHITECTURE.md", ...docs.map((file) => `docs/${file}`)].flatMap(diagramsOf);

// The parser cleans labels with DOMPurify, which has no methods outside of a browser. The labels of our pages need no cleaning.
Object.assign(dompurify, { addHook: () => {}, sanitize: (text: string) => text });

describe("the diagrams", () => {
  test("show the parts, once, a run and a packet", () => {
    expect(diagrams.filter(({ page }) => page === "ARCHITECTURE.md")).toHaveLength(4);
  });

  test.for(diagrams)("parse: $page, line $line", async ({ text }) => {
    expect(await mermaid.parse(text)).toMatchObject({ diagramType: expect.any(String) });
  });

  test("with a mistake do not parse", async () => {
    await expect(mermaid.parse("flowchart LR\n  a[key --> b")).rejects.toThrow("Parse error");
  });

  test("are drawn by a browser", { timeout: 180_000 }, async ({ skip }) => {
    const browser = findBrowser();
    if (browser === undefined) return skip("no Chromium that starts: neither in PATH nor in CHROME_PATH");
    expect(draw(browser, diagrams)).toEqual(diagrams.map(({ page, line }) => `${page}:${line} drawn`));
  });
});

const folder = temporaryFolder(afterAll);

function findBrowser(): string | undefined {
  const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const found = folders.flatMap((path) => names.map((name) => join(path, name)));
  // Some systems have a program of that name that only prints how to install the browser.
  return [process.env["CHROME_PATH"], ...found].find((path) => path && spawnSync(path, ["--version"]).status === 0);
}

/** One line for each diagram: whether the browser drew it, or its error. */
function draw(browser: string, wanted: readonly Diagram[]): string[] {
  const page = join(folder, "diagrams.html");
  const library = pathToFileURL(join(root, "node_modules/mermaid/dist/mermaid.min.js")).href;
  const given = JSON.stringify(wanted).replaceAll("<", "\\u003c");
  writeFileSync(
    page,
    `<!doctype html><meta charset="utf-8"><pre id="report">not ended</pre><script src="${library}"></script><script type="module">
      mermaid.initialize({ startOnLoad: false });
      const report = [];
      for (const [i, { page, line, text }] of ${given}.entries()) {
        const drawn = await mermaid.render("diagram" + i, text).then(
          ({ svg }) => (svg.includes("<svg") ? "drawn" : "not drawn"),
          (error) => "failed: " + error.message,
        );
        report.push(page + ":" + line + " " + drawn);
      }
      document.getElementById("report").textContent = report.join("\\n");
    </script>`,
  );
  const options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--virtual-time-budget=60000"];
  const args = [...options, `--user-data-dir=${join(folder, "profile")}`, "--dump-dom", pathToFileURL(page).href];
  const dom = execFileSync(browser, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], timeout: 150_000, maxBuffer: 1 << 26 });
  return (/<pre id="report">([\s\S]*?)<\/pre>/.exec(dom)?.[1] ?? "no report").split("\n");
}

test("docs/README.md links every page of the guide, the reference and the internals", () => {
  const linked = new Set(["docs/README.md", "docs/internals/README.md"].flatMap(linksOf));
  const pages = docs.map((file) => `docs/${file}`).filter((page) => /^docs\/(guide|reference|internals)\//.test(page));
  expect(pages.length).toBeGreaterThan(40);
  expect(pages.filter((page) => !linked.has(page))).toEqual([]);
});

function linksOf(page: string): string[] {
  const targets = [...textOf(page).matchAll(/\]\((?!https?:)([^)#\s]+)/g)].map(([, target = ""]) => target);
  return targets.map((target) => posix.join(posix.dirname(page), target));
}

describe("the length of", () => {
  test("the README is 400 to 500 words, without code", () => {
    const prose = textOf("README.md")
      .replaceAll(/```[\s\S]*?```/g, "")
      .replaceAll(/!\[[^\]]*\]\([^)]*\)/g, "")
      .replaceAll(/\]\([^)]*\)/g, "]");
    const words = prose.split(/[\s|]+/).filter((word) => /\w/.test(word));
    expect(words.length).toBeGreaterThanOrEqual(400);
    expect(words.length).toBeLessThanOrEqual(500);
  });

  test("the architecture is at most 250 lines", () => {
    expect(textOf("ARCHITECTURE.md").trimEnd().split("\n").length).toBeLessThanOrEqual(250);
  });
});
