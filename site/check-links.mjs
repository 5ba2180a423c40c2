import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** Checks that every link of the built site leads to one of its pages, and to an id on that page. Links to other sites are not followed. */
const dist = join(import.meta.dirname, ".vitepress/dist");
const files = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".html"));
const pages = new Map(files.map((file) => [join(dist, file), readFileSync(join(dist, file), "utf8")]));
const ids = new Map([...pages].map(([file, html]) => [file, new Set([...html.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id))]));

function isValid(from, href) {
  const [path, anchor] = decodeURI(href.replaceAll("&amp;", "&")).split("#");
  const target = path === "" ? from : path.startsWith("/") ? join(dist, path) : resolve(from, "..", path);
  const file = [target, join(target, "index.html"), `${target}.html`].find((name) => pages.has(name));
  if (file === undefined) return path !== "" && !path.endsWith(".html") && existsSync(target);
  return !anchor || ids.get(file).has(anchor);
}

let broken = 0;
for (const [file, html] of pages) {
  const hrefs = new Set([...html.matchAll(/<a\s[^>]*?href="([^"]*)"/g)].map(([, href]) => href));
  for (const href of hrefs) {
    if (/^[a-z]+:/.test(href) || isValid(file, href)) continue;
    console.error(`${file.slice(dist.length + 1)}: broken link ${href}`);
    broken++;
  }
}
console.log(`${pages.size} pages, ${broken} broken links`);
if (broken > 0) process.exitCode = 1;
