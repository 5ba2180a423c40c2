import { NodeError, type NodeFunction, type NodeInput, NodeOutput, type Packet } from "onceflow/graph";
import { Provider } from "./provider.js";

const provider = new Provider();

/** The packet of a node with one input port. */
function packetOf(input: NodeInput): Packet {
  return input.packet(input.ports[0] ?? "in");
}
const keyOf = ({ context }: NodeInput): string => context.idempotencyKey ?? context.packetId;
const pass: NodeFunction = (input) => new NodeOutput().send("out", packetOf(input).data);

// ——— order fulfilment

const validateOrder: NodeFunction = (input) => {
  const order = packetOf(input);
  const orderId = order.getString("orderId");
  if (!order.has("address.country")) return new NodeOutput().send("Rejected", { orderId, reason: "the order has no delivery country" });
  return new NodeOutput().send("Accepted", { orderId, total: order.getNumber("total"), address: order.get("address") });
};

const chargePayment: NodeFunction = (input) => {
  const order = packetOf(input);
  const { id: charge } = provider.call("charge", keyOf(input));
  return new NodeOutput().send("Paid", { orderId: order.getString("orderId"), charge, address: order.get("address") });
};

const shipParcel: NodeFunction = (input) => {
  const order = packetOf(input);
  if (order.getString("address.country") === "xx") throw new NodeError("PERMANENT", "no carrier delivers to this country");
  const { id: parcel } = provider.call("ship", keyOf(input));
  return new NodeOutput().send("out", { orderId: order.getString("orderId"), parcel });
};

/** A packet that no edge takes is an output of the execution. */
const announceShipping: NodeFunction = (input) => {
  const { data } = packetOf(input);
  return new NodeOutput().send("announced", { ...data, charges: provider.effects(`${String(data["orderId"])}:charge`) });
};

// ——— email triage

const classifyEmail: NodeFunction = (input) => {
  const email = packetOf(input);
  const subject = email.getString("subject");
  const kind = /lottery|prize/i.test(subject) ? "spam" : /down|urgent/i.test(subject) ? "urgent" : "normal";
  const priority = { spam: 0, normal: 4, urgent: 9 }[kind];
  return new NodeOutput().send("out", { messageId: email.getString("messageId"), class: kind, priority, message: subject });
};

// ——— document summary

const splitDocument: NodeFunction = (input) => {
  const document = packetOf(input);
  const output = new NodeOutput();
  for (const [number, text] of document
    .getString("text")
    .split(/\n\s*\n/)
    .entries())
    output.send("out", { documentId: document.getString("documentId"), number, text });
  return output;
};

const summarisePiece: NodeFunction = (input) => {
  const { text = "", ...piece } = packetOf(input).data as { readonly text?: string };
  return new NodeOutput().send("out", { ...piece, summary: text.split(/\s+/).slice(0, 8).join(" ") });
};

const callProvider =
  (what: string): NodeFunction =>
  (input) =>
    new NodeOutput().send("out", provider.call(what, keyOf(input)));

export const nodes: Readonly<Record<string, NodeFunction>> = {
  validate_order: validateOrder,
  charge_payment: chargePayment,
  ship_parcel: shipParcel,
  announce_shipping: announceShipping,
  reject_order: () => {},
  fetch_email: pass,
  classify_email: classifyEmail,
  send_sms_alert: callProvider("sms"),
  create_ticket: callProvider("ticket"),
  archive_spam: () => {},
  take_document: pass,
  split_document: splitDocument,
  summarise_piece: summarisePiece,
  keep_summary: callProvider("keep"),
};
