import { expect, test } from "vitest";
import { ConfigurationError, StoreRefusedError, UnreachableError } from "../../core/errors/errors.js";
import { explain } from "./errors.js";

const answer = (errcode: number): Error => Object.assign(new Error("injected"), { errcode, code: "ERR_SQLITE_ERROR" });

test.for([
  [18, "TOOBIG", StoreRefusedError],
  [19, "CONSTRAINT", StoreRefusedError],
  [2067, "CONSTRAINT_UNIQUE", StoreRefusedError],
  [20, "MISMATCH", StoreRefusedError],
  [1, "ERROR: no such table", ConfigurationError],
  [11, "CORRUPT", ConfigurationError],
  [26, "NOTADB", ConfigurationError],
  [1032, "READONLY_DBMOVED: the file was deleted or moved", ConfigurationError],
  [7, "NOMEM", UnreachableError],
  [8, "READONLY", UnreachableError],
  [9, "INTERRUPT", UnreachableError],
  [10, "IOERR", UnreachableError],
  [13, "FULL", UnreachableError],
  [14, "CANTOPEN", UnreachableError],
  [15, "PROTOCOL", UnreachableError],
  [17, "SCHEMA", UnreachableError],
] as const)("result code %i (%s) means %o", ([errcode, , meaning]) => {
  const meant = explain(answer(errcode), "/data/store.db");
  expect(meant).toBeInstanceOf(meaning);
  expect(String(meant)).toContain(`${errcode}: injected`);
});

test("errors that are not SQLite's, and bugs, are returned unchanged", () => {
  for (const error of [new TypeError("ours"), answer(21), answer(25)]) expect(explain(error, "/data/store.db")).toBe(error);
});
