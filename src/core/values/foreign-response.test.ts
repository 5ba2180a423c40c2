import { afterEach, expect, test } from "vitest";
import { decode, encodeLater } from "./codec.js";

const native = globalThis.Response;
afterEach(() => {
  globalThis.Response = native;
});

test("a response of fetch can be stored even if a server framework has replaced the global Response", async () => {
  const fetched = await fetch("data:text/plain,hello");
  // As @hono/node-server does: its class extends the native one, and native responses are not instances of it.
  class Own {}
  Object.setPrototypeOf(Own, native);
  Object.setPrototypeOf(Own.prototype, native.prototype);
  globalThis.Response = Own as unknown as typeof Response;
  expect(fetched instanceof globalThis.Response).toBe(false);
  const text = await encodeLater({ fetched });
  globalThis.Response = native;
  expect(await (decode(text) as { fetched: Response }).fetched.text()).toBe("hello");
});
