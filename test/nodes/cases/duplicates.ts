import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../../kit/until.js";
import { type Provider, startProvider } from "../provider.js";
import type { Served } from "../served.js";
import type { NodeProtocol } from "../server-program.js";

/** Every row of the promise table that needs no restart. Calls are counted at the provider. */
export function duplicateCases(protocol: NodeProtocol, served: () => Served): void {
  const shared: { provider?: Provider } = {};
  beforeAll(async () => {
    shared.provider = await startProvider();
  });
  afterAll(() => shared.provider?.close());
  const effectOf = (idempotencyKey: string | undefined, more: object = {}) => {
    const provider = shared.provider as Provider;
    const invoke = (given: object = {}) =>
      served().wire.invoke("effect", { idempotencyKey, inputs: { in: { url: provider.url } }, ...more, ...given });
    return { provider, invoke };
  };

  test("a repeated invocation gets the kept answer, also with another attempt, execution and packet", async () => {
    const { provider, invoke } = effectOf("again");
    const first = await invoke();
    expect(first).toMatchObject({ outputs: [{ port: "out", data: { answer: { id: "effect-again" } } }], replayed: false });
    const again = { attempt: 2, executionId: "x-2", packetId: "p-2", traceHeaders: { traceparent: "00-1-2-01" } };
    expect(await invoke(again)).toMatchObject({ outputs: first.outputs, replayed: true });
    expect(provider.calls("again")).toBe(1);
  });

  test("the key counts per flow and node; without a key every invocation calls the node", async () => {
    const { provider, invoke } = effectOf("shared");
    for (const other of [{}, { flowId: "other" }, { nodeId: "Other" }, { flowId: "other", nodeId: "Other" }])
      expect(await invoke(other)).toMatchObject({ replayed: false });
    expect(provider.calls("shared")).toBe(4);
    const { invoke: unkeyed } = effectOf(undefined);
    for (let i = 0; i < 2; i += 1) expect(await unkeyed()).toMatchObject({ replayed: false });
    expect(provider.calls("")).toBe(2);
  });

  test("the same key with other inputs is VALIDATION, and the node is not called", async () => {
    const { provider, invoke } = effectOf("mismatch");
    await invoke();
    const inputs = { in: { url: provider.url, amount: 2 } };
    const answer = await invoke({ inputs });
    expect(answer).toMatchObject({ code: "VALIDATION" });
    if (protocol === "http") expect(answer.status).toBe(422);
    expect(provider.calls("mismatch")).toBe(1);
    // The order of members is no difference.
    const reordered = effectOf("order", { inputs: { in: { url: provider.url, b: { c: 1, d: 2 } } } });
    await reordered.invoke();
    expect(await reordered.invoke({ inputs: { in: { b: { d: 2, c: 1 }, url: provider.url } } })).toMatchObject({ replayed: true });
  });

  test("a failure is not kept", async () => {
    const { provider, invoke } = effectOf("fails");
    provider.answerNext(500);
    expect(await invoke()).toMatchObject({ code: "TEMPORARY" });
    expect(await invoke()).toMatchObject({ replayed: false, outputs: [{ data: { answer: { id: "effect-fails" } } }] });
    expect(provider.calls("fails")).toBe(2);
  });

  test("invocations that arrive while the first one runs wait for its answer", async () => {
    const { provider, invoke } = effectOf("running");
    provider.hold();
    const answers = [invoke(), invoke({ attempt: 2 }), invoke({ attempt: 3 })];
    await until("one runs and two wait", async () => provider.pending === 1 && (await served().wire.health()).inFlight === 3);
    provider.release();
    const given = await Promise.all(answers);
    for (const { outputs } of given) expect(outputs).toEqual([{ port: "out", data: { answer: { id: "effect-running" } } }]);
    expect(given.filter(({ replayed }) => !replayed).length).toBe(1);
    expect(provider.calls("running")).toBe(1);
  });

  test("at the deadline the answer is TIMEOUT; the node goes on and keeps its key", async () => {
    const { provider, invoke } = effectOf("late");
    provider.hold();
    const late = await invoke({ deadlineMs: 200 });
    expect(late).toMatchObject({ code: "TIMEOUT" });
    if (protocol === "http") expect(late.status).toBe(504);
    expect(await invoke({ deadlineMs: 200, attempt: 2 })).toMatchObject({ code: "TIMEOUT" });
    const next = invoke({ attempt: 3 });
    await until("the next invocation waits", async () => (await served().wire.health()).inFlight >= 1);
    provider.release();
    expect(await next).toMatchObject({ outputs: [{ data: { answer: { id: "effect-late" } } }] });
    expect([provider.calls("late"), provider.overlapMax]).toEqual([1, 1]);
  });

  test("fifty invocations with one key at the same time call the node once", async () => {
    const { provider, invoke } = effectOf("burst");
    const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => invoke({ attempt: i + 1 })));
    expect(new Set(answers.map(({ outputs }) => JSON.stringify(outputs))).size).toBe(1);
    expect([answers.filter(({ replayed }) => !replayed).length, provider.calls("burst")]).toEqual([1, 1]);
  });
}
