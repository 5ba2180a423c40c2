import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { NodeOutput } from "onceflow/graph";
import { expect, onTestFinished } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { flow } from "./documents.js";
import { recorder, still, triggered } from "./runtimes.js";

const nodes = "In: { operationId: take, kind: source }\nWork: { operationId: work, kind: action }";
const edge = (rest: string) => flow({ nodes, edges: `- { from: In, to: Work, ${rest} }` });

still("an expression without a value makes a VALIDATION dead letter, and the node is not called", async ({ time }) => {
  for (const [document, reason] of [
    [edge('when: "payload.total / payload.count > 1", delivery: { mode: durable }'), /when: division by zero/],
    [edge("when: \"payload.name.startsWith('a')\", delivery: { mode: durable }"), /when: types do not match: number.startsWith\(string\)/],
    [edge("delivery: { mode: durable, idempotencyKey: \"'work-' + payload.items[0].id\" }"), /the list has no item 0/],
    [edge('delivery: { mode: durable, idempotencyKey: "{{payload.none.lower()}}-work" }'), /the field "none" is missing/],
  ] as const) {
    const seen = recorder();
    const runtime = await time.runtime(document, { work: seen.node });
    const ended = await triggered(runtime, { total: 1, count: 0, name: 5, items: [] });
    const [letter] = await runtime.deadLetters();
    expect([ended.status, letter?.error.code, letter?.error.message]).toEqual(["dead", "VALIDATION", expect.stringMatching(reason)]);
    expect(letter?.error.message).not.toContain("undefined");
    expect(seen.seen).toEqual([]);
  }
});

still("conditions with functions choose the edge; keys with functions make one delivery of two spellings", async ({ time }) => {
  const document = flow({
    nodes: `${nodes}\nOther: { operationId: other, kind: action }`,
    edges: `- { from: In, to: Work, when: "payload.lines.exists(x, x.quantity > 1) && payload.email.contains('@')", delivery: { mode: durable, idempotencyKey: "{{payload.email.trim().lower()}}-work" } }
- { from: In, to: Other, when: "payload.lines.all(x, x.quantity <= 1)", delivery: { mode: durable } }`,
  });
  const [work, other] = [recorder(), recorder()];
  const runtime = await time.runtime(document, { work: work.node, other: other.node });
  await triggered(runtime, { email: "Ann@example.com", lines: [{ quantity: 2 }] });
  await triggered(runtime, { email: " ann@EXAMPLE.com ", lines: [{ quantity: 3 }] });
  await triggered(runtime, { email: "bob@example.com", lines: [{ quantity: 1 }] });
  expect([work.seen.length, other.seen.length]).toEqual([1, 1]);
});

still("a subworkflow runs a flow of another file, which the runtime loads", async ({ time }) => {
  const folder = temporaryFolder(onTestFinished);
  const child = flow({ nodes, edges: "- { from: In, to: Work, delivery: { mode: durable } }" }).text.replace("title: Flow", "title: Child");
  writeFileSync(join(folder, "child.flowdsl.yaml"), child);
  const parent = flow({
    nodes:
      "In: { operationId: start, kind: source }\nRun: { operationId: run, kind: subworkflow, settings: { workflowRef: ./child.flowdsl.yaml } }",
    edges: "- { from: In, to: Run, delivery: { mode: durable } }",
  });
  const work = (input: { packet(port: string): { getNumber(path: string): number } }) =>
    new NodeOutput().send("out", { n: input.packet("in").getNumber("n") + 1 });
  const runtime = await time.runtime({ ...parent, file: join(folder, "parent.flowdsl.yaml") }, { work });
  const ended = await triggered(runtime, { n: 41 });
  expect([ended.status, ended.outputs.map(({ data }) => data)]).toEqual(["completed", [{ n: 42 }]]);
  expect((await runtime.flows()).map(({ id }) => id)).toEqual(["flow", "child"]);
});
