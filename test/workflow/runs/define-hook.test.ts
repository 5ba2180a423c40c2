import { InvalidInputError } from "onceflow";
import { defineHook, workflow } from "onceflow/workflow";
import { resumeHook, start } from "onceflow/workflow/api";
import { expect, test as plain } from "vitest";
import { onStores } from "../../kit/scene.js";
import { untilStatus } from "../scene.js";

/** As a schema library would make it: accepts a number of cents and converts it to an integer. */
const cents = {
  "~standard": {
    version: 1 as const,
    vendor: "test",
    validate: (value: unknown) => {
      const amount = Number((value as { amount?: unknown } | null)?.amount);
      return Number.isFinite(amount)
        ? { value: { amount: Math.round(amount) } }
        : { issues: [{ message: "not a number", path: ["amount"] }] };
    },
  },
};

onStores("defineHook", ["memory"], (test) => {
  test("a payload is sent as the schema returns it; a payload that the schema rejects is not sent", async ({ scene }) => {
    const paid = defineHook<{ amount: number }>({ schema: cents });
    const order = workflow(scene.name("order"), async () => {
      using hook = paid.create({ token: "paid" });
      return (await hook).amount;
    });
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    await untilStatus(store, run.id, "running");
    const refused = paid.resume("paid", { amount: "x" } as never, { store });
    await expect(refused).rejects.toThrow("payload: does not match the hook's schema: payload.amount: not a number");
    await expect(refused).rejects.toBeInstanceOf(InvalidInputError);
    expect(await paid.resume("paid", { amount: 4.6 }, { store })).toEqual({ token: "paid", runId: run.id });
    expect(await run.returnValue).toBe(5);
    await expect(paid.resume("paid", { amount: 1 }, { store })).rejects.toMatchObject({ code: "HOOK_NOT_FOUND" });
  });

  test("without a schema it is a typed hook", async ({ scene }) => {
    const said = defineHook<string>();
    const order = workflow(scene.name("order"), async () => (await said.create({ token: "said" })).length);
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    await untilStatus(store, run.id, "running");
    await resumeHook("said", "abc", { store });
    expect(await run.returnValue).toBe(3);
  });
});

plain("an invalid schema is refused when the hook is defined", () => {
  expect(() => defineHook({ schema: {} as never })).toThrow(/schema: must be a Standard Schema/);
});
