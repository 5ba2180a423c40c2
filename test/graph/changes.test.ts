import type { Runtime } from "onceflow/graph";
import { createApp } from "onceflow/server";
import { expect } from "vitest";
import { onStoresInTurn } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { captureWarnings } from "../kit/warnings.js";
import { problem } from "../server/scene.js";
import { flow, oneEdge } from "./documents.js";
import { packetStores, recorder, running, triggered } from "./runtimes.js";

const fails = () => {
  throw new Error("no");
};

/** The edge from In to Work is removed: packets go to Other. */
const without = flow({
  nodes: "In: { operationId: take, kind: source }\nOther: { operationId: other, kind: action }",
  edges: "- { from: In, to: Other, delivery: { mode: durable } }",
});

async function letterOf(runtime: Runtime): Promise<string> {
  const [letter] = await runtime.deadLetters();
  return letter?.id ?? "";
}

// In turn: the warnings of the process are counted.
onStoresInTurn("a document whose edge was removed", packetStores, (test) => {
  test("leaves waiting packets in the store with a warning, and they are delivered when the edge is back", async ({ scene }) => {
    const before = await running(scene, oneEdge("{ mode: durable, retryPolicy: { initialDelay: PT0.1S } }"), { work: fails });
    const { executionId = "" } = await before.trigger("flow", "In", {});
    await until("the packet waits for its retry", () => before.metrics.retried > 0);
    await before.stop();
    const warnings = captureWarnings("ONCEFLOW_STRANDED", (end) => scene.onEnd(end));
    const meanwhile = await running(scene, without, { other: recorder().node });
    await until("the warning is emitted", () => warnings.length > 0);
    expect(warnings[0]?.message).toContain('1 packet of edge In->Work.in of flow "flow"');
    await meanwhile.idle();
    expect((await meanwhile.execution(executionId))?.status).toBe("running");
    await meanwhile.stop();
    const work = recorder();
    const after = await running(scene, oneEdge(), { work: work.node });
    expect([(await after.wait(executionId)).status, work.seen, warnings.length]).toEqual(["completed", [{}], 1]);
  });

  test("refuses to retry a dead letter of that edge, which stays a dead letter", async ({ scene }) => {
    const before = await running(scene, oneEdge("{ mode: durable, retryPolicy: { maxAttempts: 1 } }"), { work: fails });
    await triggered(before, {});
    await before.stop();
    for (const document of [without, oneEdge("{ mode: direct }")]) {
      const runtime = await running(scene, document, { other: recorder().node, work: recorder().node });
      const id = await letterOf(runtime);
      await expect(runtime.retry(id)).rejects.toMatchObject({ code: "EDGE_GONE" });
      const refused = await createApp(runtime).request(`http://localhost/flows/flow/dead-letters/${id}/retry`, { method: "POST" });
      expect(await problem(refused)).toMatchObject({ status: 409, name: "server:edge-gone" });
      expect(await letterOf(runtime)).toBe(id);
      await runtime.stop();
    }
  });
});

onStoresInTurn("a dead letter of an ephemeral edge", packetStores, (test) => {
  test("has the history of all its attempts, and is delivered when it is retried", async ({ scene }) => {
    const delivery = "{ mode: ephemeral, idempotencyKey: '{{payload.id}}-x', retryPolicy: { maxAttempts: 2, initialDelay: PT0.01S } }";
    const keys: (string | undefined)[] = [];
    const runtime = await running(scene, oneEdge(delivery), {
      work: ({ context }) => {
        keys.push(context.idempotencyKey);
        if (keys.length < 3) throw new Error(`no, ${keys.length}`);
      },
    });
    await runtime.trigger("flow", "In", { id: 1 });
    await until("it is dead", async () => (await runtime.deadLetters()).length === 1);
    const letter = await runtime.deadLetter(await letterOf(runtime));
    expect(letter).toMatchObject({ attempts: 2, key: "1-x", payload: { id: 1 } });
    expect(letter?.history.map(({ attempt, message }) => [attempt, message])).toEqual([
      [1, "no, 1"],
      [2, "no, 2"],
    ]);
    expect(await runtime.retry(letter?.id ?? "")).toBe(true);
    await until("it is delivered", () => keys.length === 3);
    await runtime.idle();
    expect([keys, await runtime.counts()]).toEqual([["1-x", "1-x", "1-x"], []]);
  });
});
