import canonicalize from "canonicalize";
import { expect, test } from "vitest";
import { fc } from "../../../test/kit/properties.js";
import { canonicalJson } from "./canonical.js";

test("any JSON value has the text that the library canonicalize gives it", () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      expect(canonicalJson(value, "value")).toBe(canonicalize(value));
    }),
    { numRuns: 500 },
  );
});

test("the examples of RFC 8785", () => {
  const written = {
    numbers: [Number("333333333.33333329"), 1e30, 4.5, 2e-3, 0.000000000000000000000000001, -0],
    string: "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
    literals: [null, true, false],
  };
  expect(canonicalJson(written, "value")).toBe(
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27,0],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
  );
  const sorted = { "\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\u{1f600}": 5, "\u0080": 6, "\u00f6": 7 };
  expect(Object.values(JSON.parse(canonicalJson(sorted, "value")))).toEqual([4, 2, 6, 7, 1, 5, 3]);
});
