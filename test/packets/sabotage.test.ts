import { memoryTarget, packetContract } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import { firstBroken } from "../contract/first-broken.js";

/** Each sabotage breaks one promise about packets, on the same memory. The contract must find all of them. */
type Sabotage = NonNullable<Parameters<typeof memoryTarget>[0]["packets"]>;
type Packets = Parameters<Sabotage>[0];
type Memory = Parameters<Sabotage>[1];
type Table = Memory["table"];
type Row = NonNullable<ReturnType<Table["packet"]>>;
type Operation = Parameters<Packets["flush"]>[0][number];
type Settle = Extract<Operation, { readonly verb: "settlePacket" }>;

/** Changes the table of packets. */
const rows =
  (bend: (table: Table) => void): Sabotage =>
  (faithful, { table }) => {
    bend(table);
    return faithful;
  };

const lies = (members: Partial<Table>): Sabotage => rows((table) => void Object.assign(table, members));

/** Changes rows as they are inserted. */
const inserts = (bend: (row: Row) => Partial<Row>): Sabotage =>
  rows((table) => {
    const insert = table.insert.bind(table);
    table.insert = (row) => insert({ ...row, ...bend(row) });
  });

const changes = (bend: (to: Partial<Row>, row: Row) => Partial<Row>): Sabotage =>
  rows((table) => {
    const change = table.change.bind(table);
    table.change = (row, to) => change(row, bend(to, row));
  });

const settles = (bend: (settle: Settle, memory: Memory) => Settle): Sabotage => {
  return (faithful, memory) => ({
    ...faithful,
    flush: (operations) => faithful.flush(operations.map((one) => (one.verb === "settlePacket" ? bend(one, memory) : one))),
  });
};

const verbs =
  (bend: (faithful: Packets, memory: Memory) => Partial<Packets>): Sabotage =>
  (faithful, memory) => ({ ...faithful, ...bend(faithful, memory) });

const records = (drops: (state: string, owner: string) => boolean): Sabotage =>
  rows((table) => {
    const put = table.putRecord.bind(table);
    table.putRecord = (next, past) => (drops(next.state, next.owner) ? undefined : put(next, past));
  });

function edit({ table }: Memory, wanted: (row: Row) => boolean, to: Partial<Row>): void {
  for (const row of [...table.packets.values()]) if (wanted(row)) table.change(row, to);
}

/** The broken promise, the verb under which the contract must find it, and the sabotage. */
const sabotages: readonly (readonly [does: string, verb: string, Sabotage])[] = [
  [
    "does an action again",
    "action",
    verbs(({ act }) => {
      let count = 0;
      return { act: ({ log, change }) => act({ log: { ...log, id: `${log.id} ${++count}` }, change }) };
    }),
  ],
  [
    "answers a repeated action alike, but sets the state of the flow again",
    "action",
    verbs(({ act, setFlowState }) => ({
      async act(action) {
        if (action.change.kind === "flow") await setFlowState(action.change.flow, action.change.state);
        return await act(action);
      },
    })),
  ],
  [
    "delivers a packet before its delay is over",
    "send",
    inserts(({ dueAt, createdAt }) => (dueAt > createdAt ? { dueAt: createdAt } : {})),
  ],
  ["lets a sender claim although it is not registered", "send", lies({ worker: () => Number.MAX_SAFE_INTEGER })],
  [
    "forgets that the packet was sent before",
    "send",
    verbs(({ flush }, { table }) => ({
      async flush(all) {
        for (const row of all.flatMap(({ verb, packets }) => (verb === "sendPackets" ? packets : [])).map(({ no }) => table.packet(no)))
          if (row) table.remove(row);
        return await flush(all);
      },
    })),
  ],
  ["does not store the key of a trigger", "send", records((_, owner) => owner.startsWith("execution:"))],
  ["sends to a flow that is archived", "send", lies({ flowState: () => "active" })],
  [
    "claims the newest packet first",
    "claim",
    rows((table) => {
      const due = table.due.bind(table);
      table.due = (queue, now, limit) => due(queue, now, 1000).reverse().slice(0, limit);
    }),
  ],
  ["claims more packets than the limit", "claim", verbs(({ claim }) => ({ claim: (query) => claim({ ...query, limit: 1000 }) }))],
  [
    "claims packets of live workers",
    "claim",
    verbs(({ claim }, memory) => ({
      claim: async (query) => {
        edit(memory, ({ owner }) => owner !== null && owner !== query.worker, { owner: null });
        return await claim(query);
      },
    })),
  ],
  [
    "does not return the time of the next poll",
    "claim",
    verbs(({ claim }) => ({ claim: async (query) => ({ ...(await claim(query)), nextAt: null }) })),
  ],
  [
    "decreases the attempt number",
    "settle",
    changes((to, { attempt }) => ("since" in to && to.owner === null ? { ...to, attempt: attempt - 1 } : to)),
  ],
  ["forgets the history", "settle", changes(({ history: _, ...to }) => to)],
  [
    "drops dead letters",
    "settle",
    settles((settle) => (settle.to.kind === "dead" ? { ...settle, to: { kind: "done", keep: false, note: null } } : settle)),
  ],
  ["does not complete the key", "key", records((state) => state === "completed")],
  ["does not free the key of a dead letter", "key", records((state) => state === "free")],
  [
    "frees the key of a packet that waits for its retry",
    "key",
    verbs(({ flush }, { table }) => ({
      async flush(all) {
        const answers = await flush(all);
        for (const { key, owner, attempt, state } of [...table.packets.values()]) {
          const record = key && table.record(key);
          if (record && owner === null && attempt > 0 && state === "due") table.putRecord({ ...record, state: "free" }, undefined);
        }
        return answers;
      },
    })),
  ],
  ["forgets the packets that a key holds", "key", lies({ heldBy: () => [] })],
  [
    "wakes all packets that a failed key held",
    "key",
    rows((table) => {
      const heldBy = table.heldBy.bind(table);
      table.heldBy = (key) => heldBy(key, 1000);
    }),
  ],
  ["does not distinguish payloads with the same key", "key", inserts(({ key }) => ({ key: key && { ...key, fingerprint: null } }))],
  ["checks an unknown key again without a delay", "key", changes((to, { dueAt }) => (to.hold === "key" ? { ...to, dueAt } : to))],
  ["does not keep the order of a lane", "lane", lies({ lastPlace: () => null })],
  ["does not let a dead letter block its lane", "lane", inserts(() => ({ deadBlocks: false }))],
  [
    "puts re-injected packets at the head of their lane",
    "lane",
    changes((to) => (to.dead === null ? { ...to, state: "due", hold: null, dueAt: 0 } : to)),
  ],
  [
    "joins the last packet of a port first",
    "join",
    rows((table) => {
      const parts = table.parts.bind(table);
      table.parts = (execution, node) => parts(execution, node).reverse();
    }),
  ],
  [
    "joins parts of any execution",
    "join",
    rows((table) => {
      table.parts = (_, node) =>
        [...table.packets.values()].filter(({ state, part }) => state === "part" && part?.node === (node ?? part?.node));
    }),
  ],
  ["waits for missing parts without end", "join", inserts(({ state }) => (state === "part" ? { dueAt: Number.MAX_SAFE_INTEGER } : {}))],
  [
    "keeps parts whose execution has ended",
    "join",
    rows((table) => {
      const parts = table.parts.bind(table);
      table.parts = (execution, node) => (node === undefined ? [] : parts(execution, node));
    }),
  ],
  ["keeps packets beyond the end of their execution", "execution", lies({ removeKept: () => {} })],
  [
    "never ends an execution",
    "execution",
    rows((table) => {
      const change = table.changeExecution.bind(table);
      table.changeExecution = (row, to) => change(row, { ...to, endedAt: null });
    }),
  ],
  [
    "does not count dead letters",
    "execution",
    rows((table) => {
      const change = table.changeExecution.bind(table);
      table.changeExecution = (row, to) => change(row, { ...to, dead: row.dead });
    }),
  ],
  [
    "does not limit the outputs",
    "execution",
    rows((table) => {
      const change = table.changeExecution.bind(table);
      const all = new Map<number, readonly string[]>();
      table.changeExecution = (row, to) => {
        all.set(row.no, [...(all.get(row.no) ?? []), ...(to.outputs?.slice(row.outputs.length) ?? [])]);
        change(row, { ...to, outputs: [...(all.get(row.no) ?? []), "one more"] });
      };
    }),
  ],
  [
    "does not limit the notes",
    "execution",
    rows((table) => {
      const note = table.note.bind(table);
      table.note = (execution, one) => {
        const before = table.notes.get(execution)?.length ?? 0;
        note(execution, one);
        if (before > 0 && table.notes.get(execution)?.length === before) table.notes.get(execution)?.push(one);
      };
    }),
  ],
  [
    "does not report why a part was discarded",
    "join",
    verbs(({ claim }) => ({
      claim: async (query) => {
        const claims = await claim(query);
        return { ...claims, closed: claims.closed.map((each) => ({ ...each, note: null })) };
      },
    })),
  ],
  [
    "removes dead letters that are kept without end",
    "dead letter",
    verbs(({ purge }, memory) => ({
      async purge(limit) {
        for (const row of [...memory.table.packets.values()])
          if (row.dead?.expiresAt === null) memory.table.change(row, { dead: { ...row.dead, expiresAt: 0 } });
        return await purge(limit);
      },
    })),
  ],
  [
    "pages by time alone",
    "dead letter",
    verbs(({ deadLetters }) => ({
      async deadLetters({ before, ...query }) {
        const all = await deadLetters({ ...query, limit: 10_000 });
        return all.filter(({ dead }) => before === undefined || (dead?.at ?? 0) < before.at).slice(0, query.limit);
      },
    })),
  ],
  [
    "re-injects any packet",
    "dead letter",
    verbs(({ reinject }, memory) => ({
      async reinject(no) {
        const row = memory.table.packet(no);
        return row === undefined ? false : (await reinject(no)) || true;
      },
    })),
  ],
  [
    "sends no alert for a dead letter that the store makes",
    "alert",
    rows((table) => {
      const insert = table.insert.bind(table);
      table.insert = (row) => (row.queue === "alerts" ? undefined : insert(row));
    }),
  ],
  [
    "does not report why it made a dead letter",
    "alert",
    changes((to, { queue }) => (queue === "alerts" && to.note !== undefined ? { ...to, note: null } : to)),
  ],
  ["ignores the new alert of a dead letter that is retried", "alert", verbs(({ reinject }) => ({ reinject: (no) => reinject(no) }))],
  [
    "lets a late worker settle",
    "worker",
    settles((settle, { table }) => {
      const row = table.packet(settle.no);
      return row?.owner ? { ...settle, worker: row.owner, attempt: row.attempt } : settle;
    }),
  ],
  ["does not count deaths", "worker", changes(({ crashes: _, ...to }) => to)],
  [
    "returns packets of other workers to a silent worker",
    "worker",
    verbs(({ renew }, { table }) => ({
      async renew(worker, leaseMs) {
        if (!table.workers.has(worker)) table.workers.set(worker, 0);
        return await renew(worker, leaseMs);
      },
    })),
  ],
  [
    "keeps the packets of a worker that leaves",
    "worker",
    verbs((_, { table }) => ({ leave: async (worker) => table.removeWorker(worker) })),
  ],
  ["takes packets from a worker that renews in time", "worker", verbs(() => ({ renew: async () => true }))],
  ["claims packets of paused flows", "flow", lies({ flowState: () => "active" })],
  [
    "gives one packet to two workers that claim at the same time",
    "race",
    verbs(({ claim }, { table }) => ({
      async claim(query) {
        const seen = [...table.packets.values()].filter(({ owner, state }) => owner === null && state === "due").slice(0, 10);
        await new Promise<void>((resolve) => setImmediate(resolve));
        for (const { no } of seen) {
          const row = table.packet(no);
          if (row) table.change(row, { owner: null });
        }
        return await claim(query);
      },
    })),
  ],
  [
    "keeps notifying a watcher that has stopped",
    "race",
    verbs(({ watch }) => ({
      watch(changed) {
        watch(changed);
        return () => {};
      },
    })),
  ],
];

const broken = (verb: string, packets: Sabotage) =>
  firstBroken(packetContract, verb, memoryTarget({ time: "virtual", packets }), memoryTarget({ time: "virtual" }));

describe("the packet contract finds a store that", () => {
  for (const [does, verb, sabotage] of sabotages) test(does, async () => expect(await broken(verb, sabotage)).toBeTypeOf("string"));
});

describe("the packet contract accepts a store that", () => {
  /** Answers every second operation of a flush with "again", as if another process had been faster. */
  const contended: Sabotage = (faithful) => ({
    ...faithful,
    async flush(operations) {
      const taken = operations.filter((_, i) => operations.length === 1 || i % 2 === 0);
      const answers = await faithful.flush(taken);
      return operations.map((operation) => answers[taken.indexOf(operation)] ?? "again");
    },
  });
  for (const { verb } of packetContract) test(`loses races: ${verb}`, async () => expect(await broken(verb, contended)).toBeUndefined());
});
