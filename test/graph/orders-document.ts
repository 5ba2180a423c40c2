/** A durable flow that charges once for each order and does not retry a charge. */
export const ordersDocument = `
flowdsl: "1.0"
info: { title: Orders, version: "1.0.0" }
nodes:
  TakeOrder: { operationId: take_order, kind: source, outputs: { out: { packet: Order } } }
  Charge: { operationId: charge, kind: action, inputs: { in: { packet: Order } } }
edges:
  - from: TakeOrder
    to: Charge
    delivery: { mode: durable, packet: Order, idempotencyKey: "{{payload.orderId}}-charge", retryPolicy: { maxAttempts: 1 }, deadLetterQueue: unpaid }
components:
  packets:
    Order: { type: object, required: [orderId, amount], properties: { orderId: { type: string }, amount: { type: number } } }
`;
