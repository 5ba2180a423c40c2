import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitepress";
import { mermaidFences, noInterpolation, slug } from "../markdown.mjs";
import { addressOf, groupsOf, pageOf, root, stagePages } from "../pages.mjs";

const sources = stagePages();
const api = JSON.parse(readFileSync(join(root, "site/pages/api/typedoc-sidebar.json"), "utf8"));

/** Modules of the API in one flat list. A module lists its exports only on its own pages: 500 pages stay small. */
const modules = modulesIn(api);
const apiSidebar = (open) => [
  { text: "API", link: "/api/", items: modules.map((module) => (module === open ? module : { text: module.text, link: module.link })) },
];

function modulesIn(items) {
  return items
    .filter(({ link }) => link?.endsWith("/") && !link.includes("/namespaces/"))
    .flatMap(({ link, items: inner = [] }) => {
      const exports = inner.filter((item) => item.link === undefined);
      return [{ text: link.slice("/api/".length, -1), link, collapsed: false, items: exports }, ...modulesIn(inner)];
    });
}

/** The pages of a folder, by the first heading of each. */
function pagesIn(folder) {
  const names = existsSync(join(root, folder))
    ? readdirSync(join(root, folder)).filter((name) => name.endsWith(".md") && name !== "README.md")
    : [];
  return names.map((name) => {
    const [, title = name] = /^# (.*)$/m.exec(readFileSync(join(root, folder, name), "utf8")) ?? [];
    return { text: title.replaceAll("`", ""), link: `/${pageOf(`${folder}/${name}`)}` };
  });
}

const docs = [
  {
    items: [
      { text: "Onceflow", link: "/" },
      { text: "All pages", link: "/docs" },
    ],
  },
  ...groupsOf("docs/README.md"),
  {
    text: "Inside",
    items: [
      { text: "Architecture", link: "/architecture" },
      { text: "Internals", link: "/internals/", collapsed: true, items: pagesIn("docs/internals") },
      { text: "Decision records", link: "/adr/", collapsed: true, items: pagesIn("docs/adr") },
      { text: "Measurements", collapsed: true, items: pagesIn("bench/results") },
      { text: "Tests", link: "/test/" },
    ],
  },
  {
    text: "Project",
    items: ["Changelog", "Contributing", "Security"]
      .filter((name) => existsSync(join(root, `${name.toUpperCase()}.md`)))
      .map((name) => ({ text: name, link: `/${name.toLowerCase()}` })),
  },
];

export default defineConfig({
  title: "Onceflow",
  description: "Effectively-once operations for TypeScript",
  srcDir: "pages",
  head: [["link", { rel: "icon", href: "data:," }]],
  lastUpdated: false,
  metaChunk: true, // the sidebars are one file, not a part of each page
  ignoreDeadLinks: "localhostLinks",
  markdown: {
    anchor: { slugify: slug },
    config(md) {
      md.use(mermaidFences);
      md.use(noInterpolation);
      md.core.ruler.push("repository-links", ({ tokens, env }) => {
        const page = sources.get(env.path);
        if (page === undefined) return; // a generated page: its links are those of the site
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          if (token.type === "link_open") token.attrSet("href", addressOf(page, token.attrGet("href")));
        }
      });
    },
  },
  vite: { build: { chunkSizeWarningLimit: 3_000 } }, // the search index
  themeConfig: {
    nav: [
      { text: "Docs", link: "/docs", activeMatch: "^/(?!api/)" },
      { text: "API", link: "/api/", activeMatch: "^/api/" },
    ],
    sidebar: {
      ...Object.fromEntries(modules.map((module) => [module.link, apiSidebar(module)])),
      "/api/": apiSidebar(),
      "/": docs,
    },
    outline: [2, 3],
    search: {
      provider: "local",
      options: {
        // Source files are not searched. Of equal hits, pages that explain come before API pages and decision records.
        _render: (text, env, md) => (env.relativePath.startsWith("files/") ? "" : md.render(text, env)),
        miniSearch: { searchOptions: { boostDocument: (id) => (/^\/(api|adr)\//.test(id) ? 0.3 : 1) } },
      },
    },
  },
});
