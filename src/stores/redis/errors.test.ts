import { expect, test } from "vitest";
import { ConfigurationError, NotKnownError, StoreRefusedError, UnreachableError } from "../../core/errors/errors.js";
import { breaksLink, explain } from "./errors.js";

test.for([
  ["WRONGTYPE Operation against a key holding the wrong kind of value", StoreRefusedError],
  ["ERR string exceeds maximum allowed size (proto-max-bulk-len)", StoreRefusedError],
  ["NOPERM this user has no permissions to run the 'evalsha' command", ConfigurationError],
  ["NOAUTH Authentication required.", ConfigurationError],
  ["ERR unknown command 'EVALSHA', with args beginning with:", ConfigurationError],
  ["READONLY You can't write against a read only replica.", UnreachableError],
  ["OOM command not allowed when used memory > 'maxmemory'.", UnreachableError],
  ["LOADING Redis is loading the dataset in memory", UnreachableError],
  ["ERR something that no list has", NotKnownError],
  ["NEWCODE of a later version", NotKnownError],
] as const)("a reply %j means %o", ([message, meaning]) => {
  const meant = explain(new Error(message), "a flush");
  expect(meant).toBeInstanceOf(meaning);
  expect(String(meant)).toContain(message);
  if (meant instanceof UnreachableError || meant instanceof NotKnownError) expect(meant.answered).toBe(true);
});

test("a lost connection is not an answer, and a bug is returned unchanged", () => {
  expect(explain(new Error("Socket closed unexpectedly"), "a flush")).toMatchObject({ code: "NOT_KNOWN", answered: false });
  const bug = new TypeError("Cannot read properties of undefined");
  expect(explain(bug, "a flush")).toBe(bug);
});

test("an error that is caused neither by the state of the server nor by a value needs a new connection", () => {
  expect(breaksLink(new Error("READONLY You can't write against a read only replica."))).toBe(true);
  expect(breaksLink(new Error("NEWCODE of a later version"))).toBe(true);
  expect(breaksLink(new Error("OOM command not allowed when used memory > 'maxmemory'."))).toBe(false);
});
