import type { Hono } from "hono";
import type { FlowInfo, FlowPlan, Runtime } from "../exports/graph.js";
import { ServerProblemError } from "./problem.js";

/** Lists and shows flows; pauses, resumes and archives them. */
export function addFlowRoutes(app: Hono, runtime: Runtime): void {
  app.get("/flows", async (c) => c.json({ flows: (await runtime.flows()).map(summaryOf) }));

  app.get("/flows/:flow", async (c) => {
    const { id } = planOf(runtime, c.req.param("flow"));
    const info = (await runtime.flows()).find((one) => one.id === id) as FlowInfo;
    const queues = (await runtime.counts()).filter(({ flow }) => flow === id);
    return c.json({ ...summaryOf(info), ...graphOf(info.plan), queues });
  });

  for (const verb of ["pause", "resume", "archive"] as const) {
    app.post(`/flows/:flow/${verb}`, async (c) => {
      const { id } = planOf(runtime, c.req.param("flow"));
      await runtime[verb](id);
      return c.json({ id, state: { pause: "paused", resume: "active", archive: "archived" }[verb] });
    });
  }
}

export function planOf(runtime: Runtime, id: string): FlowPlan {
  const plan = runtime.plan(id);
  if (plan === undefined) throw new ServerProblemError("flow-unknown");
  return plan;
}

function summaryOf({ id, state, plan: { document, summary, entries } }: FlowInfo) {
  const { title, version } = document;
  return { id, state, title, version, summary, entries: entries.map(({ node, packet }) => ({ node, packet: packet?.name })) };
}

function graphOf({ nodes, edges }: FlowPlan) {
  return {
    nodes: [...nodes.values()].map(({ id, operationId, kind, summary }) => ({ id, operationId, kind, summary })),
    edges: edges.map(({ id, from, to, packet, delivery: { mode, key, deadLetters } }) => {
      return { id, from, to, packet: packet?.name, mode, key: key?.text, deadLetters };
    }),
  };
}
