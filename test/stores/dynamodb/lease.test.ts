import { randomUUID } from "node:crypto";
import * as sdk from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { Answer, Begin, Operation } from "../../../src/core/ledger/operation.js";
import { stateAt } from "../../../src/core/ledger/record.js";
import { Gate } from "../../../src/core/work/gate.js";
import { prepareTable } from "../../../src/stores/dynamodb/layout.js";
import { flush, type Ledger } from "../../../src/stores/dynamodb/ledger/flush.js";
import { listRecords } from "../../../src/stores/dynamodb/ledger/list.js";
import { Observations, type Time } from "../../../src/stores/dynamodb/ledger/observed.js";
import { readRecord } from "../../../src/stores/dynamodb/ledger/read.js";
import { beginOf as contractBegin } from "../../../src/testing/contract/ledger/operations.js";
import { clientOf } from "../../servers/dynamodb/tables.js";

const server = inject("dynamodb");
const dayMs = 24 * 3600 * 1000;

/** Stands for a process: it has its own clocks, which move when the test moves them. */
class Host implements Time {
  readonly ledger: Ledger;
  #monotonic: number;
  #wall: number;

  constructor(table: Ledger["table"], { monotonic, wall }: { monotonic: number; wall: number }) {
    this.#monotonic = monotonic;
    this.#wall = wall;
    this.ledger = { table, seen: new Observations(this), gate: new Gate(8) };
  }

  monotonic = () => this.#monotonic;
  wall = () => this.#wall;

  pass(ms: number): void {
    this.#monotonic += ms;
    this.#wall += ms;
  }

  /** Sets the machine's clock forward or back. */
  setClock(byMs: number): void {
    this.#wall += byMs;
  }

  async send(operation: Operation): Promise<Answer> {
    const [verdict] = await flush(this.ledger, [operation]);
    if (verdict === undefined || verdict === "again" || verdict instanceof Error) throw new Error(`no answer: ${String(verdict)}`);
    return verdict.answer;
  }
}

describe.skipIf(!server.ok)("leases without a shared clock", () => {
  const client = clientOf(server.ok ? server.url : "dynamodb://none/");
  const table = { sdk, client: client.client, name: `onceflow_lease_${randomUUID()}`, partitionKey: "id", ttlAttribute: "ttl" };
  const leaseMs = 10_000;
  const now = Date.now();
  let keys = 0;
  let key = "";

  beforeAll(() => prepareTable(table, true));
  afterAll(async () => {
    await client.client.send(new sdk.DeleteTableCommand({ TableName: table.name }));
    client.close();
  });

  /** The holder, and two hosts whose wall clocks are a day off. Each monotonic clock starts at another value. */
  function hosts() {
    keys += 1;
    key = `lease ${keys}`;
    return {
      holder: new Host(table, { monotonic: 5_000_000, wall: now }),
      ahead: new Host(table, { monotonic: 17, wall: now + dayMs }),
      behind: new Host(table, { monotonic: 900_000, wall: now - dayMs }),
    };
  }

  const begin = (owner: string, fields: Partial<Begin> = {}) => contractBegin({ key, owner, effect: "keyed", leaseMs, ...fields });

  test("a process that sees an attempt for the first time waits for a whole lease before a takeover, with any clock skew", async () => {
    const { holder, ahead, behind } = hosts();
    expect(await holder.send(begin("holder"))).toMatchObject({ kind: "started", attempt: 1 });
    for (const other of [ahead, behind]) {
      expect(await other.send(begin("other"))).toEqual({ kind: "running", attempt: 1, forMs: leaseMs });
      other.pass(leaseMs - 1);
      expect(await other.send(begin("other"))).toEqual({ kind: "running", attempt: 1, forMs: 1 });
    }
    behind.pass(1);
    expect(await behind.send(begin("taker"))).toMatchObject({ kind: "started", attempt: 2 });
    // Its wait ends now, too, but the attempt that it watched has been replaced.
    ahead.pass(1);
    expect(await ahead.send(begin("late"))).toEqual({ kind: "running", attempt: 2, forMs: leaseMs });
    expect(await holder.send({ verb: "renew", scope: "", key, owner: "holder", attempt: 1, leaseMs })).toMatchObject({ kind: "stale" });
  });

  test("a read that became stale because of another caller of the process is not used for the answer", async () => {
    const { holder } = hosts();
    let hold: { readonly wasRead: () => void; readonly arrives: Promise<void> } | undefined;
    const slowly = async (command: unknown) => {
      const held = hold;
      hold = undefined;
      const result = await client.client.send(command as never);
      held?.wasRead();
      await held?.arrives;
      return result;
    };
    const taker = new Host({ ...table, client: { send: slowly } as unknown as typeof table.client }, { monotonic: 17, wall: now });
    await holder.send(begin("holder"));
    await taker.send(begin("watcher"));
    taker.pass(leaseMs);
    let arrive = () => {};
    const arrives = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    let late: Promise<Answer> | undefined;
    await new Promise<void>((wasRead) => {
      hold = { wasRead, arrives };
      late = taker.send(begin("late"));
    });
    expect(await taker.send(begin("winner"))).toMatchObject({ kind: "started", attempt: 2 });
    arrive();
    expect(await late).toMatchObject({ kind: "running", attempt: 2 });
  });

  test("a renewal restarts the wait of the other processes, also if it makes the lease longer", async () => {
    const { holder, ahead } = hosts();
    await holder.send(begin("holder"));
    await ahead.send(begin("other"));
    for (let i = 0; i < 4; i++) {
      holder.pass(leaseMs / 3);
      expect(await holder.send({ verb: "renew", scope: "", key, owner: "holder", attempt: 1, leaseMs })).toMatchObject({ kind: "renewed" });
      ahead.pass(leaseMs - 1);
      expect(await ahead.send(begin("other"))).toMatchObject({ kind: "running", forMs: i === 0 ? leaseMs : expect.any(Number) });
    }
    await holder.send({ verb: "renew", scope: "", key, owner: "holder", attempt: 1, leaseMs: 3 * leaseMs });
    expect(await ahead.send(begin("other"))).toEqual({ kind: "running", attempt: 1, forMs: 3 * leaseMs });
    ahead.pass(3 * leaseMs);
    expect(await ahead.send(begin("taker"))).toMatchObject({ kind: "started", attempt: 2 });
  });

  test("setting a machine's clock forward or back neither ends nor extends a lease", async () => {
    for (const byMs of [dayMs, -dayMs]) {
      const { holder, ahead } = hosts();
      await holder.send(begin("holder"));
      await ahead.send(begin("other"));
      ahead.setClock(byMs);
      holder.setClock(byMs);
      expect(await ahead.send(begin("other"))).toEqual({ kind: "running", attempt: 1, forMs: leaseMs });
      expect(await holder.send(begin("in its own process"))).toEqual({ kind: "running", attempt: 1, forMs: leaseMs });
      ahead.pass(leaseMs - 1);
      expect(await ahead.send(begin("other"))).toMatchObject({ kind: "running", forMs: 1 });
      ahead.pass(1);
      expect(await ahead.send(begin("taker"))).toMatchObject({ kind: "started", attempt: 2 });
    }
  });

  test("an atMostOnce attempt is running for a process that sees it first, and unknown after a lease: in begin, read, list and resolve", async () => {
    const { holder, ahead, behind } = hosts();
    const strict = { effect: "atMostOnce" } as const;
    await holder.send(begin("holder", strict));
    const resolve = {
      verb: "resolve",
      scope: "",
      key,
      owner: "person",
      attempt: 1,
      to: { state: "completed", outcome: "1" },
      note: null,
    } as const;
    const seenBy = async ({ ledger }: Host) => {
      const reading = await readRecord(ledger, { scope: "", key });
      const listed = async (state: "running" | "unknown") =>
        (await listRecords(ledger, { state, prefix: key, limit: 10 })).map(({ record }) => record.key);
      return [reading && stateAt(reading.record, reading.now), await listed("running"), await listed("unknown")];
    };
    expect(await seenBy(ahead)).toEqual(["running", [key], []]);
    expect(await ahead.send(resolve)).toMatchObject({ kind: "stale" });
    ahead.pass(leaseMs);
    expect(await ahead.send(begin("other", strict))).toMatchObject({ kind: "unknown", attempt: 1 });
    expect(await seenBy(ahead)).toEqual(["unknown", [], [key]]);
    // Another process has not waited for a lease yet.
    expect(await seenBy(behind)).toEqual(["running", [key], []]);
    expect(await behind.send({ ...resolve, owner: "hasty" })).toMatchObject({ kind: "stale" });
    expect(await ahead.send(resolve)).toEqual({ kind: "settled" });
    expect(
      await holder.send({
        verb: "settle",
        scope: "",
        key,
        owner: "holder",
        attempt: 1,
        to: { state: "completed", outcome: "2" },
        note: null,
      }),
    ).toMatchObject({ kind: "stale" });
  });

  test("a record that was removed and created again between two requests is not mistaken for the old one", async () => {
    const { holder, behind } = hosts();
    await holder.send(begin("holder"));
    // The versions of the new record start at 1 again: only the owner differs from the old record.
    const swapping = {
      send: async (command: never, ...rest: never[]) => {
        const { input } = command as { input: sdk.PutItemCommandInput };
        if (input.ExpressionAttributeValues?.[":seenRev"] !== undefined) {
          await client.client.send(new sdk.DeleteItemCommand({ TableName: table.name, Key: { id: { S: `0::${key}` } } }));
          expect(await behind.send(begin("another"))).toMatchObject({ kind: "started", attempt: 1 });
        }
        return await client.client.send(command, ...rest);
      },
    } as unknown as Ledger["table"]["client"];
    const taker = new Host({ ...table, client: swapping }, { monotonic: 0, wall: now });
    await taker.send(begin("taker"));
    taker.pass(leaseMs);
    expect(await taker.send(begin("taker"))).toEqual({ kind: "running", attempt: 1, forMs: leaseMs });
    expect((await readRecord(behind.ledger, { scope: "", key }))?.record.owner).toBe("another");
  });

  test("retention uses the clocks of the settling and the asking process: clock skew changes it by the same amount", async () => {
    const { holder, ahead, behind } = hosts();
    await holder.send(begin("holder", { retentionMs: dayMs / 2, horizonMs: 0 }));
    await holder.send({
      verb: "settle",
      scope: "",
      key,
      owner: "holder",
      attempt: 1,
      to: { state: "completed", outcome: "1" },
      note: null,
    });
    expect(await behind.send(begin("other"))).toMatchObject({ kind: "replay" });
    expect(await holder.send(begin("other"))).toMatchObject({ kind: "replay" });
    expect(await ahead.send(begin("other"))).toMatchObject({ kind: "started", attempt: 2 });
  });
});
