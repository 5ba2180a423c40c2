import { describe, expect, test } from "vitest";
import { ConfigurationError, NotKnownError, StoreRefusedError, UnreachableError } from "../../errors/errors.js";
import { decide } from "../../ledger/decide.js";
import type { Begin, Operation, Settle } from "../../ledger/operation.js";
import type { LedgerRecord } from "../../ledger/record.js";
import type { SettlePacket } from "../../packets/operation.js";
import { systemClock } from "../../work/clock.js";
import type { Backend } from "../store.js";
import { GroupCommit } from "./group-commit.js";

const begin = (key: string, owner: string): Begin => ({
  verb: "begin",
  scope: "",
  key,
  owner,
  fingerprint: null,
  effect: "idempotent",
  leaseMs: 1000,
  retentionMs: null,
  horizonMs: 0,
  reconcileAfterMs: 0,
  over: null,
  progress: null,
});

const settle = (key: string, owner: string): Settle => {
  return { verb: "settle", scope: "", key, owner, attempt: 1, to: { state: "completed", outcome: "1" }, note: null };
};

/** A backend that records the operations of each flush, and can be made to fail. */
function recordingBackend(fail: (operations: readonly Operation[]) => unknown = () => undefined) {
  const flushes: string[][] = [];
  const records = new Map<string, LedgerRecord>();
  const backend: Pick<Backend, "name" | "flush"> = {
    name: "recording",
    async flush(operations) {
      flushes.push(operations.map(({ verb, key }) => `${verb} ${key}`));
      const failure = fail(operations);
      if (failure !== undefined) throw failure;
      return operations.map((operation) => {
        const record = records.get(operation.key);
        const { answer, next } = decide(record, operation, 0);
        if (next) records.set(operation.key, next);
        return { answer, record: next ?? record, now: 0 };
      });
    },
  };
  return { flushes, backend };
}

function recording(fail?: (operations: readonly Operation[]) => unknown) {
  const { flushes, backend } = recordingBackend(fail);
  return { flushes, group: new GroupCommit({ backend, clock: systemClock, onAnswers: () => {} }) };
}

describe("group commit", () => {
  test("waiting operations share a flush, and each has its own answer", async () => {
    const { group, flushes } = recording();
    const answers = await Promise.all(["c", "a", "b"].map((key) => group.submitRecord(begin(key, `owner of ${key}`))));
    expect(answers.map(({ kind }) => kind)).toEqual(["started", "started", "started"]);
    // Sorted, whatever the order of the callers: two processes cannot deadlock on the same rows.
    expect(flushes).toEqual([["begin a", "begin b", "begin c"]]);
  });

  test("waiting records, runs and packets are passed to the backend without an await in between, and no kind waits for another", async () => {
    const calls: string[] = [];
    const answers = new Map<string, () => void>();
    const flushing = (kind: string) => async (): Promise<never[]> => {
      calls.push(kind);
      if (calls.length === 1) queueMicrotask(() => calls.push("a microtask later"));
      await new Promise<void>((go) => answers.set(kind, go));
      return [];
    };
    const backend = { name: "three", flush: flushing("record"), runs: { flush: flushing("run") }, packets: { flush: flushing("packet") } };
    const group = new GroupCommit({ backend: backend as unknown as Backend, clock: systemClock, onAnswers: () => {} });
    void group.submitPacket({} as SettlePacket);
    void group.submitRun({ verb: "write", id: "r", creator: "c", epoch: 1, chunks: [] });
    void group.submitRecord(begin("a", "me"));
    await expect.poll(() => calls).toEqual(["record", "run", "packet", "a microtask later"]);
    // An empty answer means "again": the packet is sent again while the others are in progress.
    answers.get("packet")?.();
    await expect.poll(() => calls.slice(4)).toEqual(["packet"]);
    expect(group.flushes).toBe(4);
  });

  test("with an empty queue a commit is sent in the same turn, without a timer", async () => {
    const { group, flushes } = recording();
    const order: string[] = [];
    setImmediate(() => setImmediate(() => order.push("two turns later")));
    await group.submitRecord(begin("a", "me")).then(() => order.push("answered"));
    expect(order).toEqual(["answered"]);
    expect(flushes).toHaveLength(1);
  });

  test("a flush has one operation per record, and none overtakes another on its record", async () => {
    const { group, flushes } = recording();
    const answers = await Promise.all([
      group.submitRecord(begin("a", "me")),
      group.submitRecord(settle("a", "me")),
      group.submitRecord(begin("a", "another")),
      group.submitRecord(begin("b", "me")),
    ]);
    expect(answers.map(({ kind }) => kind)).toEqual(["started", "settled", "replay", "started"]);
    expect(flushes).toEqual([["begin a", "begin b"], ["settle a"], ["begin a"]]);
  });

  test("ten thousand begins of one key cost one row", async () => {
    const { group, flushes } = recording();
    const answers = await Promise.all(Array.from({ length: 10_000 }, (_, i) => group.submitRecord(begin("a", `owner-${i}`))));
    expect(answers.filter(({ kind }) => kind === "started")).toHaveLength(1);
    expect(answers.filter(({ kind }) => kind === "running")).toHaveLength(9999);
    expect(flushes).toEqual([["begin a"]]);
  });

  test("the size of a flush is limited, and the rest is in the next one", async () => {
    const { group, flushes } = recording();
    await Promise.all(Array.from({ length: 1300 }, (_, i) => group.submitRecord(begin(`k${i}`, "me"))));
    expect(flushes.map(({ length }) => length)).toEqual([512, 512, 276]);
  });

  test("an operation that causes an error fails alone", async () => {
    const poison = (operations: readonly Operation[]) =>
      operations.some(({ key }) => key === "poison") ? new StoreRefusedError("value out of range") : undefined;
    const { group } = recording(poison);
    const answers = await Promise.allSettled(["a", "poison", "b"].map((key) => group.submitRecord(begin(key, "me"))));
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    const [, refused] = answers;
    expect(refused).toMatchObject({ reason: { code: "STORE_REFUSED", message: expect.stringContaining("value out of range") } });
    expect((refused as PromiseRejectedResult).reason).toBeInstanceOf(StoreRefusedError);
  });

  test.each([
    ["an answer of the server", new UnreachableError("57014", undefined, { answered: true })],
    ["an interruption by the server", new NotKnownError("57P01", undefined, { answered: true })],
    ["a wrong set-up", new ConfigurationError("42501", { code: "STORE_NOT_USABLE" })],
    ["an error of our own code", new TypeError("ours")],
  ])(
    "a flush of several that gets %s is sent again one by one, renewals first, and only one member fails, with that error",
    async (_, error) => {
      const { group, flushes } = recording((operations) => (operations.some(({ key }) => key === "bad") ? error : undefined));
      const renew = { verb: "renew", scope: "", key: "z", owner: "me", attempt: 1, leaseMs: 1000 } as const;
      const operations = [begin("a", "me"), begin("bad", "me"), begin("c", "me"), renew];
      const answers = await Promise.allSettled(operations.map((operation) => group.submitRecord(operation)));
      expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
      expect(answers[1]).toEqual({ status: "rejected", reason: error });
      expect(flushes).toEqual([["begin a", "begin bad", "begin c", "renew z"], ["renew z"], ["begin a"], ["begin bad"], ["begin c"]]);
    },
  );

  test("an operation that has failed alone is sent alone again, alternating with the others", async () => {
    const error = new UnreachableError("57014", undefined, { answered: true });
    const { group, flushes } = recording((operations) => (operations.some(({ key }) => key === "bad") ? error : undefined));
    const bad = begin("bad", "me");
    await expect(group.submitRecord(bad)).rejects.toBe(error);
    const answers = await Promise.allSettled([group.submitRecord(bad), ...["a", "b"].map((key) => group.submitRecord(begin(key, "me")))]);
    expect(answers.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(flushes.slice(1).sort()).toEqual([["begin a", "begin b"], ["begin bad"]]);
  });

  test("a later operation does not overtake a member that goes alone on the same record", async () => {
    let failures = 1;
    const error = new UnreachableError("57014", undefined, { answered: true });
    const { group, flushes } = recording((operations) => (operations.length > 1 && failures-- > 0 ? error : undefined));
    const answers = await Promise.all([
      group.submitRecord(begin("a", "me")),
      group.submitRecord(begin("b", "me")),
      group.submitRecord(settle("a", "me")),
      group.submitRecord(begin("c", "me")),
    ]);
    expect(answers.map(({ kind }) => kind)).toEqual(["started", "started", "settled", "started"]);
    const order = flushes.slice(1).flat();
    expect(order.indexOf("begin a")).toBeLessThan(order.indexOf("settle a"));
  });

  test("if the connection is lost while members are sent one by one, the rest fail at once", async () => {
    const [answer, lost] = [new UnreachableError("57014", undefined, { answered: true }), new UnreachableError("no connection")];
    const { group, flushes } = recording((operations) => (operations.length > 1 ? answer : lost));
    const answers = await Promise.allSettled(["a", "b", "c"].map((key) => group.submitRecord(begin(key, "me"))));
    for (const each of answers) expect(each).toEqual({ status: "rejected", reason: lost });
    expect(flushes).toEqual([["begin a", "begin b", "begin c"], ["begin a"]]);
  });

  test("a server that refuses everything is not called for each member alone, and when it has recovered they are sent together", async () => {
    let readOnly = true;
    const error = new UnreachableError("25006", undefined, { answered: true });
    const { group, flushes } = recording(() => (readOnly ? error : undefined));
    const begins = Array.from({ length: 100 }, (_, i) => begin(`k${i}`, "me"));
    for (let round = 0; round < 3; round++) {
      for (const each of await Promise.allSettled(begins.map((one) => group.submitRecord(one))))
        expect(each).toEqual({ status: "rejected", reason: error });
    }
    expect(flushes.length).toBeLessThan(100);
    readOnly = false;
    const before = flushes.length;
    await Promise.all(begins.map((one) => group.submitRecord(one)));
    expect(flushes).toHaveLength(before + 1);
  });

  test("after one error, a server that has recovered gets the members of that flush in growing groups", async () => {
    let failures = 1;
    const error = new UnreachableError("25006", undefined, { answered: true });
    const { group, flushes } = recording(() => (failures-- > 0 ? error : undefined));
    const answers = await Promise.all(Array.from({ length: 300 }, (_, i) => group.submitRecord(begin(`k${i}`, "me"))));
    expect(answers.every(({ kind }) => kind === "started")).toBe(true);
    expect(flushes.length).toBeLessThan(30);
  });

  test("one member that always fails is found among many, and the others are answered", async () => {
    const error = new UnreachableError("57014", undefined, { answered: true });
    const { group, flushes } = recording((operations) => (operations.some(({ key }) => key === "k150") ? error : undefined));
    const begins = Array.from({ length: 300 }, (_, i) => begin(`k${i}`, "me"));
    const answers = await Promise.allSettled(begins.map((one) => group.submitRecord(one)));
    expect(answers.flatMap(({ status }, i) => (status === "rejected" ? [i] : []))).toEqual([150]);
    expect(flushes.length).toBeLessThan(150);
  });

  test("many members that always fail do not stop the others, which are sent again", async () => {
    const error = new UnreachableError("57014", undefined, { answered: true });
    const { group } = recording((operations) => (operations.some(({ key }) => key.startsWith("bad")) ? error : undefined));
    let stopped = false;
    const untilAnswered = async (one: Operation) => {
      for (;;) {
        const answer = await group.submitRecord(one).catch(() => undefined);
        if (answer !== undefined || stopped) return answer;
        await new Promise((later) => setImmediate(later));
      }
    };
    const bad = Array.from({ length: 60 }, (_, i) => untilAnswered(begin(`bad${i}`, "me")));
    const good = Array.from({ length: 20 }, (_, i) => untilAnswered(begin(`good${i}`, "me")));
    for (const answer of await Promise.all(good)) expect(answer).toMatchObject({ kind: "started" });
    stopped = true;
    await Promise.all(bad);
  });

  test("a lost reply fails all operations of its flush, and they are not sent again by group commit", async () => {
    let failures = 1;
    const { group, flushes } = recording(() => (failures-- > 0 ? new NotKnownError("lost") : undefined));
    const answers = await Promise.allSettled(["a", "b"].map((key) => group.submitRecord(begin(key, "me"))));
    expect(answers.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(flushes).toHaveLength(1);
    // Sent again by its caller, with the same owner, it is answered.
    expect(await group.submitRecord(begin("a", "me"))).toMatchObject({ kind: "started", attempt: 1 });
  });

  test("operations submitted before close are written, later ones are refused", async () => {
    const { group, flushes } = recording();
    const answer = group.submitRecord(begin("a", "me"));
    await group.close();
    expect(await answer).toMatchObject({ kind: "started" });
    await expect(group.submitRecord(begin("b", "me"))).rejects.toThrow(/closed/);
    expect(flushes).toHaveLength(1);
  });

  test("an Error in place of a result fails its own operation only", async () => {
    const [poison, lost] = [new StoreRefusedError("too large"), new NotKnownError("lost")];
    const backend: Pick<Backend, "name" | "flush"> = {
      name: "one by one",
      flush: async (operations) =>
        operations.map((operation) => {
          if (operation.key === "poison") return poison;
          if (operation.key === "lost") return lost;
          const { answer, next } = decide(undefined, operation, 0);
          return { answer, record: next, now: 0 };
        }),
    };
    const group = new GroupCommit({ backend, clock: systemClock, onAnswers: () => {} });
    const asked = ["poison", "fine", "lost", "lost"].map((key, i) => group.submitRecord(begin(key, `owner ${i}`)));
    const [refused, answered, ...unknown] = await Promise.allSettled(asked);
    expect(refused).toMatchObject({ status: "rejected", reason: expect.any(StoreRefusedError) });
    expect(answered).toMatchObject({ status: "fulfilled", value: { kind: "started" } });
    for (const one of unknown) expect(one).toEqual({ status: "rejected", reason: lost });
    expect(group.flushes).toBe(1);
  });

  test("if a backend accepts several flushes at once, a slow record delays only its own operations", async () => {
    const { backend } = recordingBackend();
    let release = () => {};
    const slow = new Promise<void>((go) => {
      release = go;
    });
    const flights: string[][] = [];
    const several: Pick<Backend, "name" | "flush" | "flushesAtOnce"> = {
      name: "several",
      flushesAtOnce: 3,
      async flush(operations) {
        flights.push(operations.map(({ verb, key }) => `${verb} ${key}`));
        if (operations[0]?.key === "slow" && flights.length === 1) await slow;
        return await backend.flush(operations);
      },
    };
    const group = new GroupCommit({ backend: several, clock: systemClock, onAnswers: () => {} });
    const order: string[] = [];
    const slowly = group.submitRecord(begin("slow", "me")).then(() => order.push("begun slow"));
    await new Promise((turn) => setImmediate(turn));
    const settled = group.submitRecord(settle("slow", "me")).then(() => order.push("settled slow"));
    await group.submitRecord(begin("quick", "me")).then(() => order.push("begun quick"));
    expect(order).toEqual(["begun quick"]);
    release();
    await group.close();
    await Promise.all([slowly, settled]);
    expect(order).toEqual(["begun quick", "begun slow", "settled slow"]);
    expect(flights).toEqual([["begin slow"], ["begin quick"], ["settle slow"]]);
  });
});
