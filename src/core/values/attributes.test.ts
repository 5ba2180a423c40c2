import { expect, test } from "vitest";
import { attributeOf, attributeText, checkAttributes } from "./attributes.js";

test.each([
  [["a"], "must be an object"],
  [null, "must be an object"],
  [Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`a${i}`, i])), "has 17 attributes; 16 are allowed"],
  [{ "": 1 }, 'has the name ""'],
  [{ "1a": 1 }, 'has the name "1a"'],
  [{ ["a".repeat(65)]: 1 }, "up to 64"],
  [{ a: null }, "must be a string, a finite number, true or false"],
  [{ a: Number.NaN }, "must be a string, a finite number, true or false"],
  [{ a: "x\0" }, "NUL"],
  [{ a: "é".repeat(129) }, "longer than the 256 bytes"],
])("refuses %j", (attributes, message) => {
  expect(() => checkAttributes("attributes", attributes)).toThrow(message);
});

test("accepts an attribute that is called like a member of every object", () => {
  expect(() => checkAttributes("attributes", JSON.parse('{"constructor": "x"}'))).not.toThrow();
});

test.each(["c-17", "", "1", 1, -1.5, true, false])("%j is read as it was written", (value) => {
  expect(attributeOf(attributeText(value))).toBe(value);
});

test("a number and its text are different values, and there is one zero", () => {
  expect(attributeText(1)).not.toBe(attributeText("1"));
  expect(attributeText(-0)).toBe(attributeText(0));
});
