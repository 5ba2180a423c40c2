import { afterEach, expect, test } from "vitest";
import { decode, encodeLater } from "./codec.js";

const native = globalThis.Response;
afterEach(() => {
  globalThis.Response = native;
});

test("a server's own Response in the place of the global one: what fetch answers with is kept all the same", async () => {
  const fetched = await fetch("data:text/plain,hello");
  // As @hono/node-server does it: its class inherits from the native one, and native responses are none of its.
  class Own {}
  Object.setPrototypeOf(Own, native);
  Object.setPrototypeOf(Own.prototype, native.prototype);
  globalThis.Response = Own as unknown as typeof Response;
  expect(fetched instanceof globalThis.Response).toBe(false);
  const text = await encodeLater({ fetched });
  globalThis.Response = native;
  expect(await (decode(text) as { fetched: Response }).fetched.text()).toBe("hello");
});
