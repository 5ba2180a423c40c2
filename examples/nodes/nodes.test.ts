import { NodeError } from "onceflow/graph";
import { deliver, EffectLedger, mockNodeInput } from "onceflow/testing";
import { expect, test } from "vitest";
import { CreateTicketNode, type Ticket } from "./create-ticket.js";
import { SmsAlertNode, type SmsProvider } from "./sms-alert.js";

const alert = { messageId: "msg-001", phoneNumber: "+15550100300", message: "Production alert: database unreachable" };

function smsProvider() {
  const effects = new EffectLedger({ honoursKeys: true });
  const send: SmsProvider["send"] = async ({ idempotencyKey = "none" }) =>
    effects.call(idempotencyKey, { result: { sid: `SM${effects.keys().length}`, status: "queued" } });
  return { effects, send };
}

test("an SMS is sent once, however often its packet is delivered", async () => {
  const provider = smsProvider();
  const node = new SmsAlertNode(provider);
  const input = mockNodeInput("in", alert, { idempotencyKey: "msg-001-sms" });
  const first = await deliver(node, input);
  expect([first.status, first.output.sent]).toEqual(["processed", [{ port: "out", data: { sid: "SM0", status: "queued" } }]]);
  expect(provider.effects.rawCalls("msg-001-sms")).toBe(1);
  expect((await deliver(node, input)).status).toBe("acknowledged");
  expect(provider.effects.rawCalls("msg-001-sms")).toBe(1);
});

test("two deliveries at once: one waits until the other has ended", async () => {
  const provider = smsProvider();
  const node = new SmsAlertNode(provider);
  const input = mockNodeInput("in", alert, { idempotencyKey: "msg-001-sms" });
  const both = await Promise.all([deliver(node, input), deliver(node, input)]);
  expect(both.map(({ status }) => status).sort()).toEqual(["acknowledged", "processed"]);
  expect(provider.effects.rawCalls("msg-001-sms")).toBe(1);
});

test("if the provider refuses, the key is free, and the error says whether to retry", async () => {
  const provider = smsProvider();
  let busy = true;
  const node = new SmsAlertNode({
    send: async (sms) => {
      if (busy) throw Object.assign(new Error("slow down"), { status: 429 });
      return await provider.send(sms);
    },
  });
  const input = mockNodeInput("in", alert, { idempotencyKey: "msg-001-sms" });
  const refused = await deliver(node, input).catch((error: unknown) => error);
  expect(NodeError.is(refused) && [refused.code, refused.retryable]).toEqual(["RATE_LIMITED", true]);
  busy = false;
  expect((await deliver(node, input)).status).toBe("processed");
});

test("a ticket is opened once, even if the edge has no key and the ticket system knows no keys", async () => {
  const opened: string[] = [];
  const table = new Map<string, Ticket>();
  const node = new CreateTicketNode(
    { create: async ({ subject }) => ({ id: `T-${opened.push(subject)}`, subject }) },
    { byKey: async (key) => table.get(key), keep: async (key, ticket) => void table.set(key, ticket) },
  );
  const data = { email: { messageId: "m-1", subject: "Help", body: "it is down" }, classification: "urgent" };
  const ids = [];
  for (const idempotencyKey of ["m-1-ticket", "m-1-ticket", undefined, undefined]) {
    const input = mockNodeInput("in", data, idempotencyKey === undefined ? {} : { idempotencyKey });
    ids.push((await deliver(node, input)).output.sent[0]?.data["id"]);
  }
  // The results: opened under its key; acknowledged without a call; opened under the message id; found in our table.
  expect(ids).toEqual(["T-1", undefined, "T-2", "T-2"]);
  expect(opened).toEqual(["Help", "Help"]);
});

test("the same key with another packet is acknowledged, and warned about", async () => {
  const node = new SmsAlertNode(smsProvider());
  await deliver(node, mockNodeInput("in", alert, { idempotencyKey: "order-1" }));
  const other = await deliver(node, mockNodeInput("in", { ...alert, message: "another one" }, { idempotencyKey: "order-1" }));
  expect(other).toMatchObject({ status: "acknowledged", warning: expect.stringContaining("too general") });
});
