// Builds the documentation site into .vitepress/dist: `npm run docs`. With --serve it then serves the site.
// The site's packages are installed here at the first use, and again when package-lock.json has changed.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const site = import.meta.dirname;
const lock = readFileSync(join(site, "package-lock.json"), "utf8");
const installed = join(site, "node_modules/.installed-lock.json");

if (!existsSync(installed) || readFileSync(installed, "utf8") !== lock) {
  run("npm", "ci", "--no-audit", "--no-fund");
  writeFileSync(installed, lock);
}
rmSync(join(site, "pages"), { recursive: true, force: true });
run("npx", "typedoc", "--logLevel", "Warn");
run("npx", "vitepress", "build");
run("node", "check-links.mjs");
if (process.argv.includes("--serve")) run("npx", "vitepress", "preview");

function run(command, ...args) {
  const { status } = spawnSync(command, args, { cwd: site, stdio: "inherit" });
  if (status !== 0) process.exit(1);
}
