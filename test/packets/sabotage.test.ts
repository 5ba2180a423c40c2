import { memoryTarget, packetContract } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import { firstBroken } from "../contract/first-broken.js";

/** A store that breaks one promise about packets, on the same memory: the contract must find each of them. */
type Sabotage = NonNullable<Parameters<typeof memoryTarget>[0]["packets"]>;
type Packets = Parameters<Sabotage>[0];
type Memory = Parameters<Sabotage>[1];
type Table = Memory["table"];
type Row = NonNullable<ReturnType<Table["packet"]>>;
type Operation = Parameters<Packets["flush"]>[0][number];
type Settle = Extract<Operation, { readonly verb: "settlePacket" }>;

/** Changes the table that holds the rows. */
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
    "delivers a packet before its delay is over",
    "send",
    inserts(({ dueAt, createdAt }) => (dueAt > createdAt ? { dueAt: createdAt } : {})),
  ],
  ["gives a sender what it wants, known or not", "send", lies({ worker: () => Number.MAX_SAFE_INTEGER })],
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
  ["leaves the key of a trigger open", "send", records((_, owner) => owner.startsWith("execution:"))],
  ["sends to a flow that is archived", "send", lies({ flowState: () => "active" })],
  [
    "has the last one first",
    "claim",
    rows((table) => {
      const due = table.due.bind(table);
      table.due = (queue, now, limit) => due(queue, now, 1000).reverse().slice(0, limit);
    }),
  ],
  ["gives more than was asked for", "claim", verbs(({ claim }) => ({ claim: (query) => claim({ ...query, limit: 1000 }) }))],
  [
    "claims what others have",
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
    "takes attempts back",
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
  ["keeps the key of what has failed", "key", records((state) => state === "free")],
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
  ["forgets whom a key held", "key", lies({ heldBy: () => [] })],
  [
    "wakes all packets that a failed key held",
    "key",
    rows((table) => {
      const heldBy = table.heldBy.bind(table);
      table.heldBy = (key) => heldBy(key, 1000);
    }),
  ],
  ["knows no payload from another", "key", inserts(({ key }) => ({ key: key && { ...key, fingerprint: null } }))],
  ["asks for a key in doubt in circles", "key", changes((to, { dueAt }) => (to.hold === "key" ? { ...to, dueAt } : to))],
  ["has no order in a lane", "lane", lies({ lastPlace: () => null })],
  ["lets a dead letter go that is to block", "lane", inserts(() => ({ deadBlocks: false }))],
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
  ["waits for ports without end", "join", inserts(({ state }) => (state === "part" ? { dueAt: Number.MAX_SAFE_INTEGER } : {}))],
  [
    "keeps parts that wait in vain",
    "join",
    rows((table) => {
      const parts = table.parts.bind(table);
      table.parts = (execution, node) => (node === undefined ? [] : parts(execution, node));
    }),
  ],
  ["keeps what was to be kept until the end", "execution", lies({ removeKept: () => {} })],
  [
    "never ends",
    "execution",
    rows((table) => {
      const change = table.changeExecution.bind(table);
      table.changeExecution = (row, to) => change(row, { ...to, endedAt: null });
    }),
  ],
  [
    "counts no dead letters",
    "execution",
    rows((table) => {
      const change = table.changeExecution.bind(table);
      table.changeExecution = (row, to) => change(row, { ...to, dead: row.dead });
    }),
  ],
  [
    "keeps all outputs",
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
    "keeps every note",
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
    "does not say why a part is discarded",
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
    "does not report a dead letter that it makes by itself",
    "alert",
    rows((table) => {
      const insert = table.insert.bind(table);
      table.insert = (row) => (row.queue === "alerts" ? undefined : insert(row));
    }),
  ],
  [
    "does not say why it made a dead letter",
    "alert",
    changes((to, { queue }) => (queue === "alerts" && to.note !== undefined ? { ...to, note: null } : to)),
  ],
  ["keeps the alert of a death that is over", "alert", verbs(({ reinject }) => ({ reinject: (no) => reinject(no) }))],
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
  ["keeps what a worker has that leaves", "worker", verbs((_, { table }) => ({ leave: async (worker) => table.removeWorker(worker) }))],
  ["takes from who renews in time", "worker", verbs(() => ({ renew: async () => true }))],
  ["claims of flows that rest", "flow", lies({ flowState: () => "active" })],
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
