import type { Store } from "onceflow";
import { createRuntime, NodeOutput, type Runtime } from "onceflow/graph";
import { flow } from "../../graph/documents.js";
import { effect } from "../counted-effects.js";
import { answerWith } from "./faults.js";

const document = flow({
  nodes: `In: { operationId: take, kind: source }
Work: { operationId: work, kind: action }
After: { operationId: after, kind: action }`,
  edges: "- { from: In, to: Work, delivery: { mode: durable } }\n- { from: Work, to: After, delivery: { mode: durable } }",
});

interface Data {
  readonly name: string;
  /** If set, the commit that settles the packet of Work fails with this code from then on. */
  readonly code?: string;
}

/** A flow of two nodes, each with a counted effect. */
export function runtimeOf(store: Store): Promise<Runtime> {
  return createRuntime({
    store,
    documents: [document],
    nodes: {
      work(input) {
        const { name, code } = input.packet("in").data as unknown as Data;
        if (code !== undefined) answerWith(`${name} sent on`, code);
        effect(name);
        return new NodeOutput().send("out", { name: `${name} sent on` });
      },
      after: (input) => void effect((input.packet("in").data as unknown as Data).name),
    },
  });
}
