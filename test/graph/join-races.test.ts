import { NodeError, type NodeInput, NodeOutput, type Runtime } from "onceflow/graph";
import { expect } from "vitest";
import { effort } from "../kit/effort.js";
import { onStores } from "../kit/scene.js";
import { flow } from "./documents.js";
import { running } from "./runtimes.js";

/** Two branches, and a second join behind the first. `r` says what becomes of the right branch, `l` of the left one. */
const document = flow({
  nodes: `In: { operationId: take, kind: source }
Left: { operationId: left, kind: transform }
Right: { operationId: right, kind: transform }
Join: { operationId: join, kind: transform, inputs: { a: {}, b: { required: false } } }
Last: { operationId: last, kind: action, inputs: { x: { required: false }, y: { required: false } } }`,
  edges: `- { from: In, to: Left, delivery: { mode: durable, retryPolicy: { maxAttempts: 1 } } }
- { from: In, to: Right, delivery: { mode: durable, idempotencyKey: "{{payload.right}}", retryPolicy: { maxAttempts: 1 } } }
- { from: Left, to: Join.a, when: "payload.l == 'sends'", delivery: { mode: durable } }
- { from: Right, to: Join.b, when: "payload.r == 'sends'", delivery: { mode: durable } }
- { from: Join, to: Last.x, delivery: { mode: durable } }
- { from: Right, to: Last.y, delivery: { mode: durable } }`,
});

const lefts = ["sends", "none"] as const;
const rights = ["sends", "none", "dies", "duplicate"] as const;

/** Opens when both sides of an execution are in their nodes, so that both are settled at the same moment. */
class Meeting {
  readonly #waiting = new Map<string, () => void>();
  both(id: string): Promise<void> {
    const other = this.#waiting.get(id);
    if (other === undefined) return new Promise((resolve) => this.#waiting.set(id, resolve));
    other();
    return Promise.resolve();
  }
}

interface Call {
  readonly node: string;
  readonly ports: string;
  readonly at: number;
}

function nodesOf(runtime: number, calls: Map<string, Call[]>, meeting: Meeting) {
  const id = (input: NodeInput) => String(input.packet(input.ports[0] ?? "").get("id"));
  const call = (node: string, input: NodeInput) => {
    const list = calls.get(id(input)) ?? [];
    calls.set(id(input), list);
    list.push({ node, ports: [...input.ports].sort().join("+"), at: runtime });
  };
  const side = (name: string) => async (input: NodeInput) => {
    const { data } = input.packet("in");
    call(name, input);
    if (data["r"] !== "duplicate") await meeting.both(String(data["id"]));
    if (name === "right" && data["r"] === "dies") throw new NodeError("PERMANENT", "dies");
    return new NodeOutput().send("out", data);
  };
  const passing = (name: string) => (input: NodeInput) => {
    call(name, input);
    return new NodeOutput().send("out", input.packet(input.ports[0] ?? "").data);
  };
  return { left: side("left"), right: side("right"), join: passing("join"), last: passing("last") };
}

/** What must be called behind the branches. */
const expected: Readonly<Record<string, readonly string[]>> = {
  "sends sends": ["join a+b", "last x+y"],
  "sends none": ["join a", "last x+y"],
  "sends dies": [],
  "sends duplicate": ["join a", "last x"],
  "none sends": ["last y"],
  "none none": ["last y"],
  "none dies": [],
  "none duplicate": [],
};

onStores("joins with two runtimes on one database", ["sqlite", "postgres"], (test) => {
  test("both branches settle at the same moment: each join is decided once, and none waits for its timeout", async ({ scene }) => {
    const calls = new Map<string, Call[]>();
    const meeting = new Meeting();
    const runtimes: Runtime[] = [];
    // With one slot each, the two branches, which wait for each other, run in two runtimes.
    for (const n of [0, 1]) runtimes.push(await running(scene, document, nodesOf(n, calls, meeting), { concurrency: 1, pollMs: 20 }));
    const rounds = effort({ quick: 1, full: 10 });
    let apart = 0;
    await runtimes[0]?.trigger("flow", "In", { id: "first", l: "none", r: "duplicate", right: "taken" });
    await runtimes[0]?.idle();
    for (let round = 0; round < rounds; round += 1) {
      const cases = lefts.flatMap((l) =>
        rights.map((r) => ({ l, r, id: `${round} ${l} ${r}`, right: r === "duplicate" ? "taken" : `${round} ${l} ${r}` })),
      );
      for (const [i, payload] of cases.entries()) {
        const runtime = runtimes[(i + round) % 2] as Runtime;
        const { executionId = "" } = await runtime.trigger("flow", "In", payload);
        const ended = await runtime.wait(executionId, { timeoutMs: 30_000 });
        const seen = calls.get(payload.id) ?? [];
        const behind = seen.filter(({ node }) => node === "join" || node === "last").map(({ node, ports }) => `${node} ${ports}`);
        expect({ id: payload.id, status: ended.status, behind, open: ended.open }).toEqual({
          id: payload.id,
          status: payload.r === "dies" ? "dead" : "completed",
          behind: expected[`${payload.l} ${payload.r}`],
          open: 0,
        });
        const [left, right] = ["left", "right"].map((name) => seen.find(({ node }) => node === name)?.at);
        if (left !== undefined && right !== undefined && left !== right) apart += 1;
      }
    }
    expect(apart).toBe(rounds * 6);
    for (const runtime of runtimes) await runtime.idle();
    const counts = await (runtimes[0] as Runtime).counts();
    expect(counts.filter(({ parts, due, held, owned }) => parts + due + held + owned > 0)).toEqual([]);
  });
});
