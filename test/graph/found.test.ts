import { InvalidInputError } from "onceflow";
import type { Runtime } from "onceflow/graph";
import { expect } from "vitest";
import { onStores } from "../kit/scene.js";
import { flow, oneEdge } from "./documents.js";
import { packetStores, running, still } from "./runtimes.js";

async function idsOf(runtime: Runtime, query: Parameters<Runtime["executions"]>[0]): Promise<string[]> {
  return (await runtime.executions(query)).map(({ id }) => id);
}

onStores("executions with a scope and attributes", packetStores, (test) => {
  test("are listed by them, and have them in their details", async ({ scene }) => {
    const runtime = await running(scene, oneEdge(), { work: () => {} });
    const trigger = async (n: number, options: Parameters<Runtime["trigger"]>[3]) =>
      (await runtime.trigger("flow", "In", { n }, options)).executionId ?? "";
    const first = await trigger(1, { scope: "acme", attributes: { customer: "c-1", priority: 2 } });
    const second = await trigger(2, { scope: "acme", attributes: { customer: "c-2" } });
    const other = await trigger(3, { scope: "other", attributes: { customer: "c-1" } });
    const plain = await trigger(4, {});
    for (const id of [first, second, other, plain]) await runtime.wait(id);
    expect(await idsOf(runtime, { scope: "acme" })).toEqual([second, first]);
    expect(await idsOf(runtime, { scope: "acme", limit: 1, before: second })).toEqual([first]);
    expect(await idsOf(runtime, { attribute: { name: "customer", value: "c-1" } })).toEqual([other, first]);
    expect(await idsOf(runtime, { scope: "acme", attribute: { name: "customer", value: "c-1" }, status: "completed" })).toEqual([first]);
    expect(await idsOf(runtime, { attribute: { name: "priority", value: 2 }, flow: "flow" })).toEqual([first]);
    expect(await idsOf(runtime, { attribute: { name: "priority", value: "2" } })).toEqual([]);
    expect(await idsOf(runtime, { scope: "" })).toEqual([plain]);
    expect(await runtime.execution(first)).toMatchObject({ scope: "acme", attributes: { customer: "c-1", priority: 2 } });
    expect(await runtime.execution(plain)).toMatchObject({ scope: "", attributes: {} });
  });

  test("a second trigger with the same key is the first execution, with its scope", async ({ scene }) => {
    const runtime = await running(scene, oneEdge(), { work: () => {} });
    const { executionId = "" } = await runtime.trigger("flow", "In", {}, { key: "k", scope: "acme" });
    expect(await runtime.trigger("flow", "In", {}, { key: "k", scope: "other" })).toMatchObject({ status: "duplicate", executionId });
    expect(await runtime.wait(executionId)).toMatchObject({ scope: "acme" });
  });
});

still("scope and attributes are checked before anything is written", async ({ time }) => {
  const runtime = await time.runtime(oneEdge(), { work: () => {} });
  for (const options of [
    { scope: "a\u0000b" },
    { scope: 7 },
    { attributes: { "1a": 1 } },
    { attributes: { a: null } },
    { attributes: [] },
    { attributes: { a: "x".repeat(257) } },
    { attribute: { a: 1 } },
  ])
    await expect(runtime.trigger("flow", "In", {}, options as never)).rejects.toThrow(InvalidInputError);
  expect(await runtime.executions()).toEqual([]);
  for (const query of [{ scope: 7 }, { attribute: { name: "a" } }, { attribute: { name: "a", value: 1, is: 1 } }, { attributes: {} }])
    await expect(runtime.executions(query as never)).rejects.toThrow(InvalidInputError);
});

still("a direct entry point stores no execution, so it takes neither", async ({ time }) => {
  const direct = flow({
    nodes: "In: { operationId: take, kind: source }\nWork: { operationId: work, kind: action }",
    edges: "- { from: In, to: Work, delivery: { mode: direct } }",
  });
  const runtime = await time.runtime(direct, { work: () => {} });
  await expect(runtime.trigger("flow", "In", {}, { scope: "acme" })).rejects.toThrow(/scope: is not possible here/);
  await expect(runtime.trigger("flow", "In", {}, { attributes: { a: 1 } })).rejects.toThrow(/attributes: is not possible here/);
});

still("the execution of a subworkflow has the scope of its parent", async ({ time }) => {
  const parent = `flowdsl: "1.0"
info: { title: Parent, version: "1.0.0" }
nodes:
  In: { operationId: take, kind: source }
  Child: { operationId: child, kind: subworkflow, settings: { flow: flow } }
edges:
  - { from: In, to: Child, delivery: { mode: durable } }
`;
  const store = await time.open();
  const { createRuntime } = await import("onceflow/graph");
  const runtime = await createRuntime({ store, documents: [{ text: parent, file: "parent.yaml" }, oneEdge()], nodes: { work: () => {} } });
  await runtime.trigger("parent", "In", {}, { scope: "acme", attributes: { a: 1 } });
  for (const ms of [0, 1000, 1000, 1000]) await time.pass(ms);
  const found = await runtime.executions({ scope: "acme" });
  expect(found.map(({ flow: of, status, attributes }) => [of, status, attributes])).toEqual([
    ["flow", "completed", {}],
    ["parent", "completed", { a: 1 }],
  ]);
  const stopped = runtime.stop({ graceMs: 0 });
  await time.pass(1000);
  await stopped;
});
