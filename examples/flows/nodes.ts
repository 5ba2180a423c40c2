import { NodeError, type NodeFunction, type NodeInput, NodeOutput, type Packet } from "onceflow/graph";
import { Provider } from "./provider.js";

const provider = new Provider();

/** The packet of a node with one port, and the key of its edge, which is passed to providers. */
function only(input: NodeInput): Packet {
  return input.packet(input.ports[0] ?? "in");
}
const keyOf = ({ context }: NodeInput): string => context.idempotencyKey ?? context.packetId;
const pass: NodeFunction = (input) => new NodeOutput().send("out", only(input).data);

// ——— order fulfilment

const validateOrder: NodeFunction = (input) => {
  const order = only(input);
  const orderId = order.getString("orderId");
  if (!order.has("address.country")) return new NodeOutput().send("Rejected", { orderId, reason: "it does not say where to" });
  return new NodeOutput().send("Accepted", { orderId, total: order.getNumber("total"), address: order.get("address") });
};

const chargePayment: NodeFunction = (input) => {
  const order = only(input);
  const { id: charge } = provider.call("charge", keyOf(input));
  return new NodeOutput().send("Paid", { orderId: order.getString("orderId"), charge, address: order.get("address") });
};

const shipParcel: NodeFunction = (input) => {
  const order = only(input);
  if (order.getString("address.country") === "xx") throw new NodeError("PERMANENT", "no carrier goes there");
  const { id: parcel } = provider.call("ship", keyOf(input));
  return new NodeOutput().send("out", { orderId: order.getString("orderId"), parcel });
};

/** A packet that no edge takes is an output of the execution. */
const announceShipping: NodeFunction = (input) => {
  const { data } = only(input);
  return new NodeOutput().send("announced", { ...data, charges: provider.effects(`${String(data["orderId"])}:charge`) });
};

// ——— email triage

const classifyEmail: NodeFunction = (input) => {
  const email = only(input);
  const subject = email.getString("subject");
  const kind = /lottery|prize/i.test(subject) ? "spam" : /down|urgent/i.test(subject) ? "urgent" : "normal";
  const priority = { spam: 0, normal: 4, urgent: 9 }[kind];
  return new NodeOutput().send("out", { messageId: email.getString("messageId"), class: kind, priority, message: subject });
};

// ——— document summary

const splitDocument: NodeFunction = (input) => {
  const document = only(input);
  const output = new NodeOutput();
  for (const [number, text] of document
    .getString("text")
    .split(/\n\s*\n/)
    .entries())
    output.send("out", { documentId: document.getString("documentId"), number, text });
  return output;
};

const summarisePiece: NodeFunction = (input) => {
  const { text = "", ...piece } = only(input).data as { readonly text?: string };
  return new NodeOutput().send("out", { ...piece, summary: text.split(/\s+/).slice(0, 8).join(" ") });
};

const asks =
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
  send_sms_alert: asks("sms"),
  create_ticket: asks("ticket"),
  archive_spam: () => {},
  take_document: pass,
  split_document: splitDocument,
  summarise_piece: summarisePiece,
  keep_summary: asks("keep"),
};
