import { ledger } from "./ledger/run.js";

/** `npm run bench -- <name> [flags]`. Each benchmark measures ours and what it is held against in one run. */
const benches: Readonly<Record<string, (args: string[]) => Promise<void>>> = { ledger };

const [name = "", ...args] = process.argv.slice(2);
const bench = Object.hasOwn(benches, name) ? benches[name] : undefined;
if (bench === undefined) {
  console.error(
    `usage: npm run bench -- <${Object.keys(benches).join(" | ")}> [--quick] [--store NAME] [--no-memory] [--keys N] [--out FOLDER]`,
  );
  process.exitCode = 2;
} else {
  await bench(args);
}
