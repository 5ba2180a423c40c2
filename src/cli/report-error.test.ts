import { readdirSync } from "node:fs";
import { expect, onTestFinished, test, vi } from "vitest";
import { reportError } from "./report-error.js";

function captureStderr(): string[] {
  const texts: string[] = [];
  const stderr = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    texts.push(String(text));
    return true;
  });
  onTestFinished(() => stderr.mockRestore());
  return texts;
}

test("prints the error of a system call in one line", () => {
  const texts = captureStderr();
  const error = (() => {
    try {
      return readdirSync("not/there");
    } catch (caught) {
      return caught;
    }
  })();
  expect([reportError(error), texts]).toEqual([1, [expect.stringMatching(/^ENOENT: .*'not\/there'\n$/)]]);
});

test("rethrows an unexpected error, so that its stack is shown", () => {
  const bug = new TypeError("undefined is not a function");
  expect(() => reportError(bug)).toThrow(bug);
});
