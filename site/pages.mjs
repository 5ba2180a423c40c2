import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, extname, join, relative, resolve } from "node:path";

/**
 * Decides which files of the repository are pages of the site, and their addresses. They are copied to `pages/`, which VitePress
 * reads. Other files that a page links to (a source file, an example, a folder) get a generated page in `pages/files/`, so that the
 * link works on the site and in the repository.
 */
export const root = resolve(import.meta.dirname, "..");
const staged = join(import.meta.dirname, "pages");

/** Path in the repository → path in the site, both with the extension .md. The first matching rule applies. */
const rules = [
  [/^README\.md$/, () => "index.md"],
  [/^([A-Z]+)\.md$/, (name) => `${name.toLowerCase()}.md`],
  [/^docs\/(.*\.md)$/, (path) => (path === "README.md" ? "docs.md" : withIndex(path))],
  [/^(bench\/results\/[^/]+\.md|test\/README\.md|examples\/[^/]+\/README\.md)$/, withIndex],
];

/** README.md of a folder is its index. */
function withIndex(path) {
  return path.replace(/(^|\/)README\.md$/, "$1index.md");
}

/** The path in the site of a Markdown file, or undefined for a file that is not a page. */
export function pageOf(path) {
  for (const [pattern, name] of rules) {
    const match = pattern.exec(path);
    if (match) return name(match[1]);
  }
  return undefined;
}

/** Every Markdown file of the repository that is a page. */
function repositoryPages() {
  const below = (folder) => readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => join(folder, file));
  const all = [...readdirSync(root), ...["docs", "bench/results", "examples"].flatMap(below), "test/README.md"];
  return all.filter((path) => !path.includes("node_modules") && pageOf(path) !== undefined);
}

/** The file of the repository that a link of a page leads to, or undefined for other links. */
function targetOf(page, href) {
  if (/^([a-z]+:|#|\/)/.test(href)) return undefined;
  const [path, anchor] = href.split("#");
  return { path: relative(root, resolve(root, dirname(page), decodeURI(path))), anchor };
}

/** The address in the site of a link that is written for the repository. Throws for a file that does not exist. */
export function addressOf(page, href) {
  const target = targetOf(page, href);
  if (target === undefined) return href;
  const absolute = join(root, target.path);
  if (!existsSync(absolute)) throw new Error(`${page} links to ${href}, which does not exist`);
  const isFolder = statSync(absolute).isDirectory();
  const readme = join(target.path, "README.md");
  const own = isFolder && existsSync(join(root, readme)) ? pageOf(readme) : pageOf(target.path);
  const address = own ?? fileAddressOf(target.path, isFolder);
  return `/${address}${target.anchor === undefined ? "" : `#${target.anchor}`}`;
}

function fileAddressOf(path, isFolder) {
  return `files/${isFolder ? `${path}/index` : path.replace(/\.md$/, "")}.md`;
}

/** Fills `pages/` from the repository. Returns a map from each page to its source file. */
export function stagePages() {
  const sources = new Map();
  for (const page of repositoryPages()) {
    sources.set(copy(page, pageOf(page)), page);
    const text = readFileSync(join(root, page), "utf8").replace(/^(```+)[\s\S]*?^\1/gm, "");
    for (const [, image, href] of text.matchAll(/(!?)\[[^\]]*\]\(([^)\s]+)\)/g)) {
      if (image !== "") copy(join(dirname(page), href), join(dirname(pageOf(page)), href));
      else if (addressOf(page, href).startsWith("/files/")) writeFilePage(targetOf(page, href).path);
    }
  }
  return sources;
}

/** Copies a file of the repository to `pages/`, and returns the new path. */
function copy(path, to) {
  const target = join(staged, to);
  mkdirSync(dirname(target), { recursive: true });
  copyFileSync(join(root, path), target);
  return target;
}

const frontMatter = "---\noutline: false\nprev: false\nnext: false\n---\n";

/** Writes a page that shows a file, or that lists a folder, with pages for all its files. */
function writeFilePage(path) {
  const absolute = join(root, path);
  const isFolder = statSync(absolute).isDirectory();
  const page = join(staged, fileAddressOf(path, isFolder));
  if (existsSync(page)) return;
  mkdirSync(dirname(page), { recursive: true });
  writeFileSync(page, `${frontMatter}# \`${path}\`\n\n`);
  if (!isFolder) {
    const language = extname(path) === ".svg" ? "xml" : extname(path).slice(1);
    writeFileSync(page, `\`\`\`\`\`${language}\n${readFileSync(absolute, "utf8")}\`\`\`\`\`\n`, { flag: "a" });
    return;
  }
  for (const entry of readdirSync(absolute, { withFileTypes: true })) {
    if (entry.name === "node_modules" || entry.name.startsWith(".")) continue;
    const name = entry.isDirectory() ? `${entry.name}/` : entry.name;
    const address = addressOf(`${path}/index.md`, name);
    if (address.startsWith("/files/")) writeFilePage(join(path, entry.name));
    writeFileSync(page, `- [${name}](${address})\n`, { flag: "a" });
  }
}

/** The groups of a README that lists pages in tables: a group per heading, in the order of the README. */
export function groupsOf(readme) {
  const groups = [];
  for (const line of readFileSync(join(root, readme), "utf8").split("\n")) {
    const heading = /^## (?:Guide: )?([^:]*)/.exec(line);
    if (heading) groups.push({ text: heading[1][0].toUpperCase() + heading[1].slice(1), items: [] });
    const row = /^\| \[([^\]]+)\]\(([^)]+\.md)\)/.exec(line);
    if (row) groups.at(-1)?.items.push({ text: row[1].replaceAll("`", ""), link: addressOf(readme, row[2]) });
  }
  return groups.filter(({ items }) => items.length > 0);
}
