import { expect, test } from "vitest";
import { PagedMap } from "./paged-map.js";

/** A small random generator with a fixed seed. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state % sides;
  };
}

test.each([0, 63, 2 ** 31 * 7 + 60, 2 ** 53 - 2000])("behaves like a Map for numbers from %d on", (first) => {
  const found = new PagedMap<string>();
  const expected = new Map<number, string>();
  const roll = dice(first % 1000);
  for (let i = 0; i < 5000; i++) {
    const no = first + roll(300);
    if (roll(2) === 0) {
      found.set(no, `${no} ${i}`);
      expected.set(no, `${no} ${i}`);
    } else expect(found.delete(no)).toBe(expected.delete(no));
    const other = first + roll(300);
    expect(found.get(other)).toBe(expected.get(other));
    expect(found.size).toBe(expected.size);
  }
  expect([...found.values()].sort()).toEqual([...expected.values()].sort());
  found.clear();
  expect([found.size, [...found.values()], found.get(first)]).toEqual([0, [], undefined]);
});

test("removing entries during iteration neither skips nor repeats others", () => {
  const all = new PagedMap<number>();
  for (let no = 0; no < 200; no++) all.set(no, no);
  const seen: number[] = [];
  for (const no of all.values()) {
    seen.push(no);
    all.delete(no);
  }
  expect(seen).toEqual(Array.from({ length: 200 }, (_, no) => no));
  expect(all.size).toBe(0);
});
