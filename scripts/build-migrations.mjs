// Writes migrations/index.ts of every store with a schema from the .sql files in the same folder, so that bundlers and plain tsc
// need modules only. With --check it writes nothing, and fails if a module differs from its .sql files.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const stores = join(import.meta.dirname, "../src/stores");
const check = process.argv.includes("--check");
const stale = [];

for (const store of readdirSync(stores)) {
  const folder = join(stores, store, "migrations");
  if (!existsSync(folder)) continue;
  const path = join(folder, "index.ts");
  const text = moduleOf(folder);
  if (existsSync(path) && readFileSync(path, "utf8") === text) continue;
  if (check) stale.push(`src/stores/${store}/migrations/index.ts`);
  else writeFileSync(path, text);
}

if (stale.length > 0) {
  console.error(`${stale.join(", ")}: differs from the .sql files in the same folder. Run: npm run build`);
  process.exitCode = 1;
}

/** The module of a folder with 001-name.sql, 002-name.sql, … */
function moduleOf(folder) {
  const files = readdirSync(folder)
    .filter((file) => /^\d{3}-[a-z-]+\.sql$/.test(file))
    .sort();
  for (const [i, file] of files.entries())
    if (Number(file.slice(0, 3)) !== i + 1) throw new Error(`${folder}: ${file} should have the number ${i + 1}`);
  const entries = files.map((file) => `  // ${file}\n  \`\n${escaped(readFileSync(join(folder, file), "utf8"))}\`,\n`);
  return `// Generated from the .sql files in this folder by scripts/build-migrations.mjs (npm run build). Edit those.\n\n/** The migrations in their order: the first one is version 1 of the schema. */\nexport const migrations: readonly string[] = [\n${entries.join("")}];\n`;
}

function escaped(sql) {
  return sql.replace(/[\\`]|\$\{/g, "\\$&");
}
