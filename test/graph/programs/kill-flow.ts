import { NotKnownError, open, type Store, UnreachableError } from "onceflow";

/** Four nodes with durable edges; the three nodes with an effect have keys. */
export const document = {
  text: `
flowdsl: "1.0"
info: { title: killed, version: "1.0.0" }
nodes:
  Take: { operationId: take, kind: source }
  Charge: { operationId: charge, kind: action }
  Ship: { operationId: ship, kind: action }
  Tell: { operationId: tell, kind: action }
edges:
  - { from: Take, to: Charge, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-charge" } }
  - { from: Charge, to: Ship, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-ship" } }
  - { from: Ship, to: Tell, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-tell" } }
`,
  file: "killed.flowdsl.yaml",
};

export const flow = "killed";
export const leaseMs = 2000;

/** Opens the store as soon as its server is up: the test kills the server too. */
export async function openWhenUp(url: string): Promise<Store> {
  return await untilUp(() => open(url));
}

export async function untilUp<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof UnreachableError || error instanceof NotKnownError)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
