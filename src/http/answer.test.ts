import { open } from "onceflow";
import { expect, onTestFinished, test } from "vitest";
import { MismatchError } from "../core/errors/errors.js";
import { answer } from "./answer.js";
import type { IncomingRequest } from "./incoming-request.js";
import { checkOptions } from "./options.js";

test("runs a handler that throws MismatchError once, even if the body has a second fingerprint", async () => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const incoming: IncomingRequest<object> = {
    from: {},
    method: "POST",
    path: "/orders",
    query: "",
    header: (name) => (name.toLowerCase() === "idempotency-key" ? "order-1" : null),
    body: async () => ({ bytes: new TextEncoder().encode("{}"), unseen: { bytes: new Uint8Array() } }),
  };
  const mismatch = new MismatchError({ key: "of another operation" });
  let runs = 0;
  const answered = answer(checkOptions<object>({ store, scope: "" }), incoming, async () => {
    runs += 1;
    throw mismatch;
  });
  await expect(answered).rejects.toBe(mismatch);
  expect(runs).toBe(1);
});
