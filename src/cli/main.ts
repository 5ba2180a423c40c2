#!/usr/bin/env node
import { exitFound } from "./exit-codes.js";
import { note } from "./output.js";
import { runProgram } from "./program.js";

// The reader of a pipe may close it early (`onceflow validate flows | head`), and the disk may be full: neither is a crash.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  note(`cannot write to standard output: ${error.message}`);
  process.exit(exitFound);
});
process.stderr.on("error", () => {});

await runProgram(process.argv.slice(2));
