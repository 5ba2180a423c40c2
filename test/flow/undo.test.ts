import { create, createIdempotencyStore, type FlowPlugin } from "onceflow/flow";
import { describe, expect, test, vi } from "vitest";
import { fail } from "./failing-step.js";

describe("compensation", () => {
  const travel = (undone: string[], last: () => unknown) =>
    create("travel")
      .step("hotel", () => {}, { compensate: () => void undone.push("hotel") })
      .step("insurance", () => {})
      .parallel("transport", [
        { name: "flight", fn: () => {}, options: { compensate: () => void undone.push("flight") } },
        { name: "car", fn: fail("no car"), options: { compensate: () => void undone.push("car") } },
      ])
      .step("pay", last, { compensate: () => void undone.push("pay") });

  test("undoes completed steps in reverse order, but not failed ones, and not those without a compensation", async () => {
    const undone: string[] = [];
    const result = await travel(undone, fail("declined")).run(undefined);
    expect(undone).toEqual(["flight", "hotel"]);
    expect(result).toMatchObject({
      status: "failed",
      error: { message: "declined" },
      compensations: [
        { name: "flight", status: "completed" },
        { name: "hotel", status: "completed" },
      ],
    });
  });

  test("does not run if all steps succeed", async () => {
    const undone: string[] = [];
    expect(await travel(undone, () => {}).run(undefined)).toMatchObject({ status: "completed" });
    expect(undone).toEqual([]);
  });

  test("that fails does not hide the first error, and does not stop the other compensations", async () => {
    const undone: string[] = [];
    const result = await create("travel")
      .step("hotel", () => {}, { compensate: () => void undone.push("hotel") })
      .step("flight", () => {}, { compensate: fail("airline closed") })
      .step("pay", fail("declined"))
      .run(undefined);
    expect(undone).toEqual(["hotel"]);
    expect(result).toMatchObject({
      error: { message: "declined" },
      compensations: [
        { name: "flight", status: "failed", error: { message: "airline closed" } },
        { name: "hotel", status: "completed" },
      ],
    });
  });

  test("gets the values that the steps have set", async () => {
    const seen: unknown[] = [];
    await create<string>("travel")
      .step("hotel", (ctx) => ctx.set("booking", "b-1"), { compensate: (ctx) => void seen.push(ctx.get("booking"), ctx.input) })
      .step("pay", fail("declined"))
      .run("trip");
    expect(seen).toEqual(["b-1", "trip"]);
  });
});

describe("cancelling", () => {
  test("before the first step: nothing runs", async () => {
    const body = vi.fn();
    const reason = new Error("enough");
    const result = await create("order")
      .step("charge", body)
      .run(undefined, { signal: AbortSignal.abort(reason) });
    expect(result).toMatchObject({ status: "cancelled", steps: [] });
    expect(result.error).toBe(reason);
    expect(body).not.toHaveBeenCalled();
  });

  test("between two steps: the next one does not run, and completed steps are compensated with a signal that is not aborted", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    let aborted: boolean | undefined;
    const ship = vi.fn();
    const result = await create("order")
      .step("charge", () => controller.abort(reason), {
        compensate: (ctx) => {
          aborted = ctx.signal.aborted;
        },
      })
      .step("ship", ship)
      .run(undefined, { signal: controller.signal });
    expect(result).toMatchObject({ status: "cancelled", compensations: [{ name: "charge", status: "completed" }] });
    expect(result.error).toBe(reason);
    expect(ship).not.toHaveBeenCalled();
    expect(aborted).toBe(false);
  });

  test("in a retry delay ends it at once", async () => {
    const controller = new AbortController();
    const plugin: FlowPlugin = {
      name: "cancel",
      onEvent: ({ type }) => void (type === "stepRetry" && setImmediate(() => controller.abort("enough"))),
    };
    const result = await create("order", { plugins: [plugin] })
      .step("charge", fail("later"), { retries: 3, retryDelayMs: 3_600_000 })
      .run(undefined, { signal: controller.signal });
    expect(result).toMatchObject({ status: "cancelled", error: "enough", steps: [{ status: "cancelled", attempts: 1 }] });
  });

  test("inside a step aborts its signal", async () => {
    const controller = new AbortController();
    const result = await create("order")
      .step("charge", (ctx) => {
        setImmediate(() => controller.abort(new Error("enough")));
        return new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)));
      })
      .run(undefined, { signal: controller.signal });
    expect(result).toMatchObject({ status: "cancelled", error: { message: "enough" }, steps: [{ status: "cancelled" }] });
  });

  test.each(["alone", "in a group"])("during the last step, %s: completed steps are compensated, and the key is free", async (where) => {
    const controller = new AbortController();
    const events: string[] = [];
    const plugin: FlowPlugin = { name: "all", onEvent: ({ type }) => void events.push(type) };
    let charges = 0;
    const charge = () => {
      charges += 1;
      if (charges === 1) controller.abort(new Error("enough"));
    };
    const options = {
      compensate: () => {
        charges -= 1;
      },
    };
    const flow = create("order", { plugins: [plugin], idempotency: createIdempotencyStore() });
    if (where === "alone") flow.step("charge", charge, options);
    else flow.parallel("both", [{ name: "charge", fn: charge, options }]);
    const result = await flow.run(undefined, { key: "k", signal: controller.signal });
    expect(result).toMatchObject({
      status: "cancelled",
      error: { message: "enough" },
      steps: [{ name: "charge", status: "completed" }],
      compensations: [{ name: "charge", status: "completed" }],
    });
    expect(events).toEqual(["flowStart", "stepStart", "stepComplete", "compensate", "compensateComplete", "flowFail"]);
    expect(charges).toBe(0);
    charges = 1;
    expect((await flow.run(undefined, { key: "k" })).status).toBe("completed");
  });
});
