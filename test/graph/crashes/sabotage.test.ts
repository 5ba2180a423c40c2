import { type GraphSimulationOptions, PromiseBroken, SimulationFailure, simulateGraphs } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import { muteWarnings } from "../../kit/warnings.js";

muteWarnings("ONCEFLOW_NOT_SAVED");

// Stores and runtimes that each break one promise. The simulation must find every one of them.
type Packets = Parameters<NonNullable<GraphSimulationOptions["packets"]>>[0];
type Table = Parameters<NonNullable<GraphSimulationOptions["packets"]>>[1];
type Operation = Parameters<Packets["flush"]>[0][number];
type Send = Extract<Operation, { readonly verb: "sendPackets" }>;
type Settle = Extract<Operation, { readonly verb: "settlePacket" }>;
type NewPacket = Operation["packets"][number];
type Answer = Awaited<ReturnType<Packets["flush"]>>[number];

/** A store that receives changed operations. */
const hears = (change: (operation: Operation, table: Table) => Operation): GraphSimulationOptions => ({
  packets: (faithful, table) => ({ ...faithful, flush: (operations) => faithful.flush(operations.map((one) => change(one, table))) }),
});

const sends = (change: (packet: NewPacket) => NewPacket) =>
  hears((operation) => ({ ...operation, packets: operation.packets.map(change) }) as Operation);

const settles = (change: (settle: Settle, table: Table) => Settle) =>
  hears((operation, table) => (operation.verb === "settlePacket" ? change(operation, table) : operation));

/** A store that does one more thing than it should, after each write. */
const meddles = (meddle: (operation: Operation, table: Table) => void): GraphSimulationOptions => ({
  packets: (faithful, table) => ({
    ...faithful,
    async flush(operations) {
      const before = new Map(operations.map((one) => [one, one.verb === "settlePacket" ? table.packet(one.no) : undefined]));
      const answers = await faithful.flush(operations);
      for (const operation of operations) {
        const row = before.get(operation);
        if (operation.verb === "sendPackets" || (row?.owner === operation.worker && row.attempt === operation.attempt))
          meddle(operation, table);
      }
      return answers;
    },
  }),
});

const claims = (claim: (faithful: Packets, table: Table) => Packets["claim"]): GraphSimulationOptions => ({
  packets: (faithful, table) => ({ ...faithful, claim: claim(faithful, table) }),
});

const answers = (change: (answer: Answer, operation: Operation) => Answer): GraphSimulationOptions => ({
  engine: (packets) => ({
    ...packets,
    flush: async (operations) => (await packets.flush(operations)).map((answer, i) => change(answer, operations[i] as Operation)),
  }),
});

const stores: Record<string, GraphSimulationOptions> = {
  "accepts a settle from any worker": settles((settle, table) => {
    const row = table.packet(settle.no);
    return row?.owner ? { ...settle, worker: row.owner, attempt: row.attempt } : settle;
  }),
  "loses a packet that a node sent": settles((settle) => ({ ...settle, packets: settle.packets.slice(1) })),
  "lets packets of a lane overtake each other": sends((packet) => ({ ...packet, lane: null })),
  "ignores keys": sends((packet) => ({ ...packet, key: null })),
  "does not wait for the other ports": sends((packet) => ({ ...packet, join: null })),
  "treats every port as optional": sends(({ join, ...packet }) => ({ ...packet, join: join && { ...join, optional: join.ports } })),
  "treats every port as required": sends(({ join, ...packet }) => ({ ...packet, join: join && { ...join, optional: [] } })),
  "does not know which packets may fill a port": sends((packet) => ({ ...packet, ...(packet.reach && { reach: [] }) })),
  "decides joins only when the execution ends": sends(({ reach: _, ...packet }) => packet),
  "releases a join although a dead letter may fill it": {
    packets: (faithful, table) => {
      const census = table.census.bind(table);
      table.census = (execution) => {
        const rows = [...table.packets.values()].filter((row) => row.execution === execution && row.state !== "dead");
        return { ...census(execution), ports: new Set(rows.flatMap(({ reach }) => reach ?? [])) };
      };
      return faithful;
    },
  },
  "keeps no dead letters": sends((packet) => ({ ...packet, letter: null })),
  "accepts a trigger twice": hears((operation) =>
    operation.verb === "sendPackets" && operation.execution
      ? { ...operation, execution: { ...operation.execution, key: null } }
      : operation,
  ),
  "frees a completed key": meddles((operation, table) => {
    if (operation.verb !== "settlePacket" || operation.to.kind !== "done") return;
    for (const row of table.packets.values()) {
      const record = row.key && table.record(row.key);
      if (record?.state === "completed") table.putRecord({ ...record, state: "free" }, undefined);
    }
  }),
  "counts one open packet too few": meddles(({ verb, ...operation }, table) => {
    const { execution } = operation as Send;
    const row = verb === "sendPackets" && execution ? table.execution(execution.no) : undefined;
    if (row && row.open > 0) table.changeExecution(row, { ...row, open: row.open - 1 });
  }),
  "lets a worker claim a packet that another live worker owns": claims((faithful, table) => async (query) => {
    for (const worker of table.workers.keys()) if (worker !== query.worker) table.workers.set(worker, 0);
    return await faithful.claim(query);
  }),
  "lets a worker claim packets of a paused flow": claims((faithful, table) => async (query) => {
    const before = new Map(table.flows);
    for (const flow of before.keys()) table.flows.set(flow, "active");
    const found = await faithful.claim(query);
    for (const [flow, state] of before) table.flows.set(flow, state);
    return found;
  }),
  "does not count attempts": claims((faithful, table) => async (query) => {
    const found = await faithful.claim(query);
    const claimed = found.claimed.map((packet) => ({ ...packet, attempt: Math.max(1, packet.attempt - 1) }));
    for (const { no, attempt } of claimed) table.change(table.packet(no) as NonNullable<ReturnType<Table["packet"]>>, { attempt });
    return { ...found, claimed };
  }),
  "does not count worker deaths": claims((faithful, table) => async (query) => {
    const found = await faithful.claim(query);
    const claimed = found.claimed.map((packet) => ({ ...packet, crashes: 0 }));
    for (const { no } of claimed) table.change(table.packet(no) as NonNullable<ReturnType<Table["packet"]>>, { crashes: 0 });
    return { ...found, claimed };
  }),
  "confirms the lease of workers whose lease expired": {
    packets: (faithful) => ({ ...faithful, renew: async (worker, leaseMs) => (await faithful.renew(worker, leaseMs)) || true }),
  },
  "gives the same number to two workers": {
    packets: (faithful) => ({ ...faithful, join: async (query) => Math.max(1, (await faithful.join(query)) - 1) }),
  },
  "retries a dead letter without counting it as open": {
    packets: (faithful, table) => ({
      ...faithful,
      async reinject(no) {
        const execution = table.execution(table.packet(no)?.execution ?? 0);
        const done = await faithful.reinject(no);
        const now = execution && (table.execution(execution.no) ?? execution);
        if (done && now) table.changeExecution(now, { ...now, open: execution.open });
        return done;
      },
    }),
  },
};

const runtimes: Record<string, GraphSimulationOptions> = {
  "does not renew its lease": { engine: (packets) => ({ ...packets, renew: async () => true }) },
  "delivers packets that it has not claimed": answers((answer, operation) => {
    if (answer === "again" || answer.kind !== "packetsSent") return answer;
    const placed = answer.placed.map((one, i) => {
      const { no = 0, payload = "", execution = null, flow = "", queue = "", key = null } = operation.packets[i] ?? {};
      if (one.kind !== "due") return one;
      const row = { no, payload, execution, flow, queue, key, owner: operation.worker, attempt: 1, state: "due", since: 0, crashes: 0 };
      return { kind: "claimed", packet: { ...row, parts: null, history: null, lane: null } } as unknown as (typeof answer.placed)[number];
    });
    return { ...answer, placed };
  }),
  "treats a settle as saved when its reply was lost": {
    engine: (packets) => ({
      ...packets,
      flush: (operations) =>
        packets.flush(operations).catch((error: unknown) => {
          if (operations.some(({ verb }) => verb === "sendPackets")) throw error;
          return operations.map(() => ({ kind: "packetSettled", now: 0, placed: [], woken: [], ended: [] }) as const);
        }),
    }),
  },
  "settles with its current worker number instead of the one that claimed": {
    engine(packets) {
      let newest = 0;
      const join: Packets["join"] = async (query) => {
        newest = await packets.join(query);
        return newest;
      };
      const flush: Packets["flush"] = (operations) => packets.flush(operations.map((one) => ({ ...one, worker: newest || one.worker })));
      return { ...packets, join, flush };
    },
  },
  "forgets the packets that it received when it has to wait": answers((answer) => {
    if (answer === "again" || !("placed" in answer)) return answer;
    return { ...answer, placed: answer.placed.map((one) => (one.kind === "claimed" ? { kind: "held" } : one)) };
  }),
};

const seedsMax = 1000;

async function firstSeedThatFails(options: GraphSimulationOptions): Promise<SimulationFailure | undefined> {
  for (let seed = 1; seed <= seedsMax; seed++) {
    try {
      await simulateGraphs(seed, options);
    } catch (error) {
      if (error instanceof SimulationFailure) return error;
      throw error;
    }
  }
  return undefined;
}

describe.each([
  ["a store that", stores],
  ["a runtime that", runtimes],
] as const)("%s", (_, faults) => {
  test.each(Object.entries(faults))("%s", async (_name, options) => {
    const failure = await firstSeedThatFails(options);
    expect(failure?.cause, `no failure in ${seedsMax} seeds`).toBeInstanceOf(PromiseBroken);
  });
});
