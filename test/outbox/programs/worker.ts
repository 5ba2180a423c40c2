import { open, type Store } from "onceflow";
import { createOutbox, type OutboxMessage, type PublishContext } from "onceflow/outbox";
import type { PacketBackend } from "../../../src/core/packets/operation.js";

/** Adds to an outbox, relays, redrives or discards, and kills itself with SIGKILL at the given point. */
export interface OutboxDoom {
  readonly url: string;
  /** The URL of serveEffects, which accepts messages by their id. */
  readonly brokerUrl: string;
  readonly act: "add" | "addInTransaction" | "relay" | "redrive" | "discard";
  readonly dieAt?: string;
  /** How the broker answers. Default: it accepts everything. */
  readonly broker?: "refuses";
  readonly attemptsMax?: number | "unlimited";
}

export const outboxOptions = { name: "killed", backoffMs: 1, attemptsMax: 2 } as const;
export const messageId = "m-1";

/** Sends a message to the broker over HTTP. */
export function publisherTo(brokerUrl: string) {
  return async ({ id }: OutboxMessage, { attempt }: PublishContext): Promise<void> => {
    const reply = await fetch(brokerUrl, { method: "POST", headers: { "idempotency-key": id, "x-attempt": String(attempt) } });
    await reply.arrayBuffer();
  };
}

/** The same store, with a crash point before and after each write of packets. */
function mortal(store: Store, at: (point: string) => void): Store {
  const around = async <T>(verb: string, write: () => Promise<T>): Promise<T> => {
    at(`before ${verb}`);
    const answer = await write();
    at(`after ${verb}`);
    return answer;
  };
  const own = store.packets;
  const packets: Partial<PacketBackend> = {
    claim: (query) => {
      return own.claim(query).then((claims) => {
        if (claims.claimed.length > 0) at("after claim");
        return claims;
      });
    },
    reinject: (no) => around("redrive", () => own.reinject(no)),
    discard: (no) => around("discard", () => own.discard(no)),
  };
  const commit = (batch: Parameters<Store["commit"]>[0]) => {
    const verb = "packet" in batch ? (batch as { packet: { verb: string } }).packet.verb : "other";
    return around(verb === "sendPackets" ? "send" : "settle", () => store.commit(batch as never));
  };
  return Object.create(store, {
    commit: { value: commit },
    packets: { value: Object.create(own, Object.fromEntries(Object.entries(packets).map(([name, value]) => [name, { value }]))) },
  }) as Store;
}

async function main({ url, brokerUrl, act, dieAt, broker, attemptsMax = 2 }: OutboxDoom): Promise<void> {
  const at = (point: string) => {
    if (point === dieAt) process.kill(process.pid, "SIGKILL");
  };
  const store = await open(url, { stallMsMax: 0 });
  const outbox = createOutbox(mortal(store, at), { ...outboxOptions, attemptsMax });
  const message = { id: messageId, key: "k", payload: { id: messageId } };
  if (act === "add") await outbox.add(undefined, message);
  if (act === "addInTransaction") {
    await store.transact(async (tx) => {
      at("before add");
      await outbox.add(tx, message);
      at("after add");
    });
    at("after commit");
  }
  if (act === "redrive") await outbox.retry(messageId);
  if (act === "discard") await outbox.discard(messageId);
  if (act === "relay") {
    const publish = publisherTo(brokerUrl);
    outbox.relay(
      async (given, context) => {
        at("before publish");
        if (broker === "refuses") throw new Error("refused");
        await publish(given, context);
        at("after publish");
        // Short, because the relay dies and the next one waits until its lease has expired.
      },
      { leaseMs: 400, pollMs: 50 },
    );
    return;
  }
  await store.close();
}

if (process.argv[2] !== undefined && import.meta.url === `file://${process.argv[1]}`) await main(JSON.parse(process.argv[2]) as OutboxDoom);
