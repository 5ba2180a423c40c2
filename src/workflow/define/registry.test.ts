import { expect, onTestFinished, test } from "vitest";
import { decode, encode } from "../../core/values/codec.js";
import { fingerprint } from "../journal/identity.js";
import { inputOf } from "../steps/step-input.js";
import { AmbiguousNameError } from "./errors.js";
import { addFormerName, presentName, register, underFormerNames } from "./registry.js";

const fn = () => async () => {};

test("a function is found by its name and by its former names", () => {
  const call = register("step", "new", fn(), ["older", "oldest"]);
  expect(["new", "older", "oldest", "unknown"].map((name) => presentName("step", name))).toEqual(["new", "new", "new", "unknown"]);
  const text = encode({ call });
  expect(decode(text)).toEqual({ call });
  expect(decode(text.replace("new", "oldest"))).toEqual({ call });
  expect(underFormerNames(() => encode({ call }))).toEqual(["older", "oldest"].map((name) => text.replace("new", name)));
  const { isFormerPrint } = inputOf([call]);
  const prints = ["new", "older", "oldest", "other"].map((name) => fingerprint(encode([call]).replace("new", name)));
  expect(prints.map(isFormerPrint)).toEqual([false, true, true, false]);
  expect(encode({ call })).toBe(text);
});

test("looking up a former name that several functions share throws, until one of them is registered under it", () => {
  register("workflow", "a", fn(), ["shared"]);
  addFormerName("workflow", "shared", "b");
  const text = encode(register("workflow", "c", fn())).replace('"c"', '"shared"');
  expect(() => decode(text)).toThrow(AmbiguousNameError);
  expect(() => presentName("workflow", "shared")).toThrow('which "a" and "b" shared');
  const chosen = register("workflow", "shared", fn());
  expect(decode(text)).toBe(chosen);
  expect(presentName("workflow", "shared")).toBe("shared");
});

test("two files with the same id cause a warning; a file that is loaded again does not", () => {
  const warnings: unknown[] = [];
  const emitWarning = process.emitWarning;
  process.emitWarning = ((text: string, { code }: { code: string }) => void warnings.push(code, text)) as never;
  onTestFinished(() => {
    process.emitWarning = emitWarning;
  });
  register("step", "step//app//a.ts//f", fn(), ["step//one/a.ts//f"]);
  register("step", "step//app//a.ts//f", fn(), ["step//one/a.ts//f"]);
  expect(warnings).toEqual([]);
  register("step", "step//app//a.ts//f", fn(), ["step//two/a.ts//f"]);
  register("step", "step//app//a.ts//f", fn(), ["step//one/a.ts//f"]);
  expect(warnings).toEqual(["ONCEFLOW_DUPLICATE_ID", expect.stringContaining('two files define the step "step//app//a.ts//f"')]);
});
