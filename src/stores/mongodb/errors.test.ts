import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { again } from "./connection/ask.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a request that is answered in time is sent once", async () => {
  let sent = 0;
  const answered = again(async () => {
    sent += 1;
    return "first";
  });
  expect(await answered).toBe("first");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(sent).toBe(1);
});

test("a request that is not answered is sent again, once, and that answer counts", async () => {
  let sent = 0;
  const answered = again(() => {
    sent += 1;
    return sent === 1 ? new Promise<string>(() => {}) : Promise.resolve("second");
  });
  await vi.advanceTimersByTimeAsync(2900);
  expect(sent).toBe(1);
  await vi.advanceTimersByTimeAsync(200);
  expect(await answered).toBe("second");
  expect(sent).toBe(2);
});

test("an error is thrown at once, and the request is not sent again", async () => {
  let sent = 0;
  const refused = again(() => {
    sent += 1;
    return Promise.reject(new Error("refused"));
  });
  await expect(refused).rejects.toThrow("refused");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(sent).toBe(1);
});
