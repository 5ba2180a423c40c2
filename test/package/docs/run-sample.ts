import { formatWithOptions } from "node:util";

/** What a sample printed, line by line, and the error that ended it. */
export interface Ran {
  readonly lines: readonly string[];
  readonly error?: string;
}

/** Program: imports the given module, and sends the printed lines to its parent. */
const [entry = ""] = process.argv.slice(2);
const lines: string[] = [];
console.log = (...values: unknown[]) => {
  lines.push(...formatWithOptions({ breakLength: Number.POSITIVE_INFINITY, compact: 100 }, ...(values as [unknown])).split("\n"));
};
// A sample whose `await` never settles leaves an empty event loop: the process exits without a message, and the parent reports it.
const error = await import(entry).then(
  () => undefined,
  (thrown: unknown) => String(thrown instanceof Error ? thrown.stack : thrown),
);
process.send?.({ lines, ...(error === undefined ? {} : { error }) } satisfies Ran, () => process.exit());
