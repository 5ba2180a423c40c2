import { expect, test } from "vitest";
import type { Delivery } from "../journal/event.js";
import { Arrivals } from "./arrivals.js";

const done = (id: string): Delivery => ({ type: "done", id, at: 0, attempt: 1, value: "null", how: undefined, by: undefined });

test("what arrives while a run is being released is not given to the code, which has not got what was recorded for the release", () => {
  const [recorded, given]: [string[], string[]] = [[], []];
  const give = ({ id }: Delivery) => given.push(id) > 0;
  const arrivals = new Arrivals({
    draft: { recordDelivery: ({ event }) => void recorded.push(event.id) },
    answers: { give } as never,
    mailbox: { consume() {} },
    pausing: { isPaused: false },
    ending: { over: false, recorded: false, waitsFor: () => false },
    touch() {},
  });
  arrivals.add(done("first"));
  expect(arrivals.giveNext()).toBe(true);
  arrivals.add(done("second"));
  arrivals.recordAll();
  arrivals.add(done("third"));
  expect(arrivals.giveNext()).toBe(false);
  expect(recorded).toEqual(["first", "second"]);
  expect(given).toEqual(["first"]);
});
