import { expect, test } from "vitest";
import { ConfigurationError, NotKnownError, StoreRefusedError, UnreachableError } from "../../core/errors/errors.js";
import { explain } from "./errors.js";

/** An error as the SDK creates it from an answer. */
const answer = (name: string, httpStatusCode: number, attempts = 1): Error =>
  Object.assign(new Error(`${name} injected`), { name, $metadata: { httpStatusCode, attempts } });

test.for([
  ["ValidationException", 400, 1, StoreRefusedError],
  ["ItemCollectionSizeLimitExceededException", 400, 1, StoreRefusedError],
  ["ResourceNotFoundException", 400, 1, ConfigurationError],
  ["AccessDeniedException", 400, 1, ConfigurationError],
  ["UnrecognizedClientException", 400, 1, ConfigurationError],
  ["ProvisionedThroughputExceededException", 400, 1, UnreachableError],
  ["ProvisionedThroughputExceededException", 400, 3, NotKnownError],
  ["ThrottlingException", 400, 1, UnreachableError],
  ["TransactionConflictException", 400, 1, UnreachableError],
  ["InternalServerError", 500, 1, NotKnownError],
  ["SomethingNewException", 400, 1, UnreachableError],
  // An answer that was cut off in the middle: the write was applied.
  ["SyntaxError", 200, 1, NotKnownError],
] as const)("%s with status %i at try %i means %o", ([name, status, attempts, meaning]) => {
  const meant = explain(answer(name, status, attempts), "a settle", "write");
  expect(meant).toBeInstanceOf(meaning);
  if (name !== "ResourceNotFoundException") expect(String(meant)).toContain(`${name} injected`);
  if (meant instanceof UnreachableError || meant instanceof NotKnownError) expect(meant.answered).toBe(true);
});

test("a lost connection is not an answer, and a bug is returned unchanged", () => {
  const lost = Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
  expect(explain(lost, "a settle", "write")).toMatchObject({ code: "NOT_KNOWN", answered: false });
  const bug = new TypeError("Cannot read properties of undefined");
  expect(explain(bug, "a settle", "write")).toBe(bug);
});
