import { readdirSync } from "node:fs";
import { expect, onTestFinished, test, vi } from "vitest";
import { tellError } from "./tell-error.js";

function said(): string[] {
  const texts: string[] = [];
  const stderr = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    texts.push(String(text));
    return true;
  });
  onTestFinished(() => stderr.mockRestore());
  return texts;
}

test("what a call of the system said is one line", () => {
  const texts = said();
  const error = (() => {
    try {
      return readdirSync("not/there");
    } catch (caught) {
      return caught;
    }
  })();
  expect([tellError(error), texts]).toEqual([1, [expect.stringMatching(/^ENOENT: .*'not\/there'\n$/)]]);
});

test("a mistake of ours is shown whole", () => {
  const ours = new TypeError("undefined is not a function");
  expect(() => tellError(ours)).toThrow(ours);
});
