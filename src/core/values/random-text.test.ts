import { expect, it } from "vitest";
import { randomText } from "./random-text.js";

it("gives other bytes at every call, also when the pool is filled again", () => {
  const texts = Array.from({ length: 2000 }, () => randomText(12));
  expect(new Set(texts).size).toBe(2000);
  for (const text of texts) expect(text).toMatch(/^[A-Za-z0-9_-]{16}$/);
});
