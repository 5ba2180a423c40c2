import assert from "node:assert/strict";
import { NotKnownError, open, type Store, UnreachableError } from "onceflow";
import { type CuttingProxy, cuttingProxy } from "onceflow/testing";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { NewPacket, PacketAnswer, PacketOperation } from "../../src/core/packets/operation.js";
import { done, Hand, keyOf } from "../../src/testing/contract/packets/packet-operations.js";
import { type FreshDatabase, freshDatabase } from "../servers/postgres/databases.js";
import { lostThings } from "../stores/lost-messages.js";

const server = inject("postgres");

/** Loses every round trip of a flush and of a claim once: its request or its reply. */
describe.skipIf(!server.ok)("packets on a PostgreSQL connection that breaks", () => {
  let database: FreshDatabase;
  let proxy: CuttingProxy;
  let direct: pg.Client;
  let store: Store;
  let hand: Hand;

  beforeAll(async () => {
    database = await freshDatabase(server.ok ? server.url : "");
    const url = new URL(database.url);
    direct = new pg.Client(database.url);
    await direct.connect();
    proxy = await cuttingProxy({ host: url.hostname, port: Number(url.port) });
    url.port = String(proxy.port);
    store = await open(url.href);
    hand = await Hand.on(store, 600_000);
  });
  afterAll(async () => {
    await store.close();
    await proxy.close();
    await direct.end();
    await database.drop();
  });

  /** Sends an operation again, unchanged, while its outcome is unknown, like the runtime. */
  async function insist(operation: PacketOperation): Promise<PacketAnswer> {
    for (;;) {
      try {
        return await store.commit({ packet: operation });
      } catch (error) {
        if (!(error instanceof NotKnownError || error instanceof UnreachableError)) throw error;
      }
    }
  }

  const rows = async (flow: string) =>
    (await direct.query("SELECT no::int8, owner::int8, attempt FROM onceflow.packets WHERE flow = $1 ORDER BY no", [flow])).rows;

  const kinds: readonly [string, trips: number, fieldsOf: (name: string) => Partial<NewPacket>][] = [
    ["a hop", 1, () => ({})],
    ["a hop with key and lane", 5, (key) => ({ key: keyOf(key), lane: { name: "lane", deadBlocks: false } })],
  ];
  for (const [name, trips, fieldsOf] of kinds) {
    for (const what of lostThings) {
      test(`${name}, any ${what} lost: the packet is settled once, and its outputs exist once and belong to the sender`, async () => {
        let cut = 0;
        for (let n = 0; ; n++) {
          const flow = `${name} ${what} ${n}`;
          const execution = hand.execution({ flow });
          const first = hand.packet({ flow, execution: execution.no, claim: true, ...fieldsOf(`${flow} 1`) });
          const began = await insist(hand.sendOf([first], execution));
          assert.ok(began.kind === "packetsSent" && began.placed[0]?.kind === "claimed");
          const output = hand.packet({ flow, queue: "next", execution: execution.no, claim: true, ...fieldsOf(`${flow} 2`) });
          const before = proxy.cuts;
          proxy.cutNext(what, n);
          const answer = await insist(hand.settleOf(began.placed[0].packet, done, [output]));
          proxy.cutNext(what, Number.MAX_SAFE_INTEGER);
          assert.ok(answer.kind === "packetSettled" && answer.placed[0]?.kind === "claimed", JSON.stringify(answer));
          expect(answer.placed[0].packet).toMatchObject({ no: output.no, owner: hand.no, attempt: 1, payload: output.payload });
          expect(await rows(flow)).toEqual([{ no: String(output.no), owner: String(hand.no), attempt: 1 }]);
          expect(await store.packets.execution(execution.no)).toMatchObject({ open: 1, endedAt: null });
          if (proxy.cuts === before) break;
          cut += 1;
          await hand.done(answer.placed[0].packet);
          expect(await store.packets.execution(execution.no)).toMatchObject({ open: 0 });
        }
        expect(cut).toBeGreaterThanOrEqual(trips);
      });
    }
  }

  for (const what of lostThings) {
    test(`a claim whose ${what} is lost: the next claim returns its packets, and the lost one does not count as an attempt`, async () => {
      const flow = `claim ${what}`;
      const worker = await Hand.on(store, 600_000);
      const queues = [{ flow, queue: "edge", limit: 10 }];
      await worker.claim({ queues });
      await worker.send(worker.packet({ flow }), worker.packet({ flow }));
      proxy.cutNext(what);
      await expect(worker.claim({ queues })).rejects.toThrow(NotKnownError);
      const { claimed } = await worker.claim({ queues });
      expect(claimed.map(({ attempt, since }) => attempt - since)).toEqual([1, 1]);
      expect(claimed.map(({ attempt }) => attempt)).toEqual(what === "reply" ? [2, 2] : [1, 1]);
      for (const packet of claimed) await worker.done(packet);
      expect(await rows(flow)).toEqual([]);
    });
  }
});
