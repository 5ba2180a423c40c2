import { request } from "node:http";
import { open, type Store } from "onceflow";
import { createRuntime, NodeError, NodeOutput, type Runtime } from "onceflow/graph";
import { type Served, type ServeOptions, serve } from "onceflow/server";
import { EffectLedger } from "onceflow/testing";
import { onTestFinished } from "vitest";
import { ordersDocument } from "../graph/orders-document.js";
import type { Scene as Place } from "../kit/scene.js";

/** Two flows: a durable one that charges by key, and one that stores nothing. */
const documents = [
  { text: ordersDocument },
  {
    text: `
flowdsl: "1.0.0"
info: { title: Pings, version: "1.0.0" }
flows:
  pings:
    entrypoints:
      - message: { schema: { type: object, required: [to], properties: { to: { type: string }, times: { type: integer } } } }
        filter: message.payload.to != 'nobody'
    nodes:
      ping: { operationId: ping, kind: action }
      pong: { operationId: pong, kind: terminal }
    edges:
      - { from: ping, to: pong, delivery: { mode: direct } }
`,
  },
];

export interface Scene {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly server: Served;
  readonly effects: EffectLedger;
  /** The charge of this order waits until the test releases it. */
  readonly hold: (orderId: string) => () => void;
  readonly declined: Set<string>;
  readonly call: (path: string, init?: RequestInit) => Promise<Response>;
  readonly trigger: (body: unknown, key?: string, flow?: string) => Promise<Response>;
}

/** Uses the given database, which is dropped at the end, or memory. */
export async function scene({ place, ...options }: ServeOptions & { readonly place?: Place } = {}): Promise<Scene> {
  const store = await (place?.open() ?? open("memory:"));
  const effects = new EffectLedger({ honoursKeys: true });
  const declined = new Set<string>();
  const held = new Map<string, Promise<void>>();
  const runtime = await createRuntime({
    history: "full",
    store,
    documents,
    nodes: {
      charge: async (input) => {
        const order = input.packet("in");
        const orderId = order.getString("orderId");
        await held.get(orderId);
        if (declined.has(orderId)) throw new NodeError("PERMANENT", "the card was declined");
        effects.call(input.context.idempotencyKey ?? "", { result: orderId });
        return new NodeOutput().send("out", { orderId, paid: order.getNumber("amount") });
      },
      ping: (input) => {
        const [port = ""] = input.ports;
        if (input.packet(port).getString("to") === "broken") throw new NodeError("TEMPORARY", "secret: db.internal:5432 said no");
      },
    },
  });
  const server = await serve(runtime, { port: 0, ...options });
  const end = async () => {
    await server.close();
    await store.close();
  };
  if (place) place.onEnd(end);
  else onTestFinished(end);
  const call = (path: string, init: RequestInit = {}): Promise<Response> => fetch(`${server.url}${path}`, init);
  return {
    store,
    runtime,
    server,
    effects,
    declined,
    call,
    hold: (orderId) => {
      let go = (): void => {};
      held.set(
        orderId,
        new Promise<void>((resolve) => {
          go = resolve;
        }),
      );
      return () => go();
    },
    trigger: (body, key, flow = "orders") =>
      call(`/flows/${flow}/trigger`, {
        method: "POST",
        headers: { "content-type": "application/json", ...(key === undefined ? {} : { "idempotency-key": key }) },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
  };
}

/** Sends any header: fetch refuses or changes some. */
export function raw(
  { port }: Served,
  path: string,
  { method = "GET", headers = {} }: { readonly method?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: "127.0.0.1", port, path, method, headers, agent: false }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        body += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    asked.on("error", reject).end();
  });
}

/** The problem details: the type without its prefix, and the whole body. */
export async function problem(
  response: Response,
): Promise<{ readonly status: number; readonly name: string; readonly body: Record<string, unknown> }> {
  const body = (await response.json()) as Record<string, unknown>;
  if (response.headers.get("content-type") !== "application/problem+json") throw new Error(`no problem: ${JSON.stringify(body)}`);
  return { status: response.status, name: String(body["type"]).replace(/^urn:onceflow:/, ""), body };
}
