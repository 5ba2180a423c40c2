import type { RunAnswer, RunOperation } from "../operation.js";
import { act } from "./act.js";
import { appendEntry } from "./append.js";
import { appendLate } from "./late.js";
import { sendMail } from "./send.js";
import { startRun } from "./start.js";
import type { RunTable } from "./table.js";
import { writeChunks } from "./write.js";

/** Applies an operation to the rows of a table and returns its answer. The caller commits the changes or rolls them back. */
export function applyRun(table: RunTable, operation: RunOperation): RunAnswer {
  switch (operation.verb) {
    case "start":
      return startRun(table, operation);
    case "append":
      return appendEntry(table, operation);
    case "appendLate":
      return appendLate(table, operation);
    case "send":
      return sendMail(table, operation);
    case "write":
      return writeChunks(table, operation);
    case "act":
      return act(table, operation);
  }
}
