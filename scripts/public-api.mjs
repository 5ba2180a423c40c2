// Writes the public types of the package as text: the exports of each subpath, and every declaration that they refer to, without
// comments. A change of a public type changes api/onceflow.api.md, so that a reviewer sees it.
//
//   node scripts/public-api.mjs                 writes api/onceflow.api.md from dist
//   node scripts/public-api.mjs --check         fails if the file differs from dist
//   node scripts/public-api.mjs --undocumented  prints the exports without a doc comment, as JSON
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { parseSync } from "oxc-parser";

const root = join(import.meta.dirname, "..");
const report = join(root, "api/onceflow.api.md");
const modules = new Map();

/** Subpath → its exports by name, each with its declaration. */
const subpaths = new Map(
  Object.entries(JSON.parse(readFileSync(join(root, "package.json"), "utf8")).exports)
    .filter(([, target]) => target.types !== undefined)
    .map(([subpath, { types }]) => [`onceflow${subpath.slice(1)}`, exportsOf(join(root, types))]),
);

if (process.argv.includes("--undocumented")) {
  const missing = [...subpaths].flatMap(([subpath, exports]) =>
    [...exports].filter(([, { documented }]) => !documented).map(([name]) => `${subpath}: ${name}`),
  );
  console.log(JSON.stringify(missing, null, 2));
} else {
  const text = reportText();
  if (!process.argv.includes("--check")) writeFileSync(report, text);
  else if (readFileSync(report, "utf8") !== text) {
    console.error("api/onceflow.api.md is out of date: the public types have changed. Run npm run api:update and review the difference.");
    process.exitCode = 1;
  }
}

/** The parts of a declaration file: top-level declarations, imports and exports. */
function moduleOf(file) {
  const known = modules.get(file);
  if (known) return known;
  const text = readFileSync(file, "utf8");
  const { program, comments, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`);
  const module = { file, text, comments, declarations: new Map(), imports: new Map(), exports: new Map(), stars: [] };
  modules.set(file, module);
  for (const node of program.body) {
    if (node.type === "ImportDeclaration") {
      for (const one of node.specifiers) module.imports.set(one.local.name, { from: node.source.value, name: one.imported?.name ?? "*" });
    } else if (node.type === "ExportAllDeclaration") module.stars.push(node.source.value);
    else if (node.type === "ExportNamedDeclaration" && node.declaration === null) {
      for (const { local, exported } of node.specifiers) module.exports.set(exported.name, { from: node.source?.value, name: local.name });
    } else declare(module, node);
  }
  return module;
}

function declare(module, node) {
  const declaration = node.declaration ?? node;
  const names = declaration.declarations?.map(({ id }) => id.name) ?? [declaration.id.name];
  for (const name of names) {
    const known = module.declarations.get(name);
    if (known) known.nodes.push(node);
    else module.declarations.set(name, { module, name, nodes: [node] });
    if (node !== declaration) module.exports.set(name, { name });
  }
}

function exportsOf(file) {
  const module = moduleOf(file);
  const found = new Map();
  for (const from of module.stars) for (const [name, it] of exportsOf(pathOf(module, from))) found.set(name, it);
  for (const [name, { from, name: local }] of module.exports) {
    const declaration = from === undefined ? declarationIn(module, local) : exportsOf(pathOf(module, from)).get(local);
    if (declaration === undefined) throw new Error(`${relative(root, file)} exports ${name}, which is not declared`);
    declaration.documented ??= declaration.nodes.some((node) => docOf(declaration.module, node));
    found.set(name, declaration);
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The declaration of a name in a module, followed through imports; undefined for a global or for a name of another package. */
function declarationIn(module, name) {
  const own = module.declarations.get(name);
  if (own) return own;
  const imported = module.imports.get(name);
  if (!imported?.from.startsWith(".")) return undefined;
  return exportsOf(pathOf(module, imported.from)).get(imported.name);
}

function pathOf({ file }, specifier) {
  return resolve(dirname(file), specifier.replace(/\.js$/, ".d.ts"));
}

/** Whether a doc comment stands directly before the declaration. */
function docOf({ text, comments }, node) {
  const before = comments.filter(({ end }) => end <= node.start).at(-1);
  return before?.type === "Block" && before.value.startsWith("*") && text.slice(before.end, node.start).trim() === "";
}

function reportText() {
  const lines = ["# Public types", "", "Made by `npm run api:update`; do not edit. Comments are left out.", "", "## Exports", ""];
  const queue = [];
  for (const [subpath, exports] of subpaths) {
    lines.push(`### ${subpath}`, "");
    for (const [name, declaration] of exports) {
      queue.push(declaration);
      lines.push(name === declaration.name ? `- ${name}` : `- ${name} = ${declaration.name}`);
    }
    if (exports.size > 0) lines.push("");
  }
  const all = new Set();
  for (const declaration of queue) {
    if (all.has(declaration)) continue;
    all.add(declaration);
    queue.push(...referencesOf(declaration));
  }
  lines.push("## Declarations", "", "```ts");
  const place = ({ name, module }) => `${name} ${relative(root, module.file)}`;
  for (const declaration of [...all].sort((a, b) => (place(a) < place(b) ? -1 : 1))) lines.push(textOf(declaration), "");
  lines[lines.length - 1] = "```";
  return `${lines.join("\n")}\n`;
}

function referencesOf({ module, nodes }) {
  const found = new Set();
  const memberNames = new Set();
  walk(nodes, (node) => {
    if (isPrivate(node) || memberNames.has(node)) return false;
    if (node.key && !node.computed) memberNames.add(node.key);
    if (node.type === "Identifier") found.add(declarationIn(module, node.name));
    return true;
  });
  found.delete(undefined);
  return found;
}

/** The text of a declaration without comments, private members and empty lines. String literals with more than three words, which are texts for people, are shortened. */
function textOf({ module, nodes }) {
  return nodes
    .map((node) => {
      const gaps = module.comments.filter(({ start, end }) => start >= node.start && end <= node.end);
      walk(node, (inner) => {
        if (!isPrivate(inner)) return true;
        gaps.push(inner);
        return false;
      });
      let text = "";
      let at = node.start;
      for (const { start, end } of gaps.sort((a, b) => a.start - b.start)) {
        text += module.text.slice(at, start);
        at = end;
      }
      text += module.text.slice(at, node.end);
      return text
        .split("\n")
        .filter((line) => line.trim() !== "")
        .map((line) =>
          line
            .trimEnd()
            .replace(/^export /, "")
            .replace(/"(?:[^"\\]|\\.)*"/g, (text) => (text.split(" ").length > 3 ? '"…"' : text)),
        )
        .join("\n");
    })
    .join("\n");
}

function isPrivate({ accessibility }) {
  return accessibility === "private";
}

/** Visits a node and its children, as long as `visit` returns true. */
function walk(node, visit) {
  if (node === null || typeof node !== "object") return;
  if (Array.isArray(node)) for (const one of node) walk(one, visit);
  else if (node.type === undefined || visit(node)) for (const child of Object.values(node)) walk(child, visit);
}
