import type { Alert, NewExecution, NewPacket, PacketClaimQuery, PacketOperation, PacketOutcome } from "../../src/core/packets/operation.js";
import type { FlowState, PacketKey, PacketRecord } from "../../src/core/packets/packet.js";
import { fc } from "../kit/properties.js";

/** The next step of a random history. A number chooses the target among those that exist. */
export type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;
type Asked = typeof asked extends fc.Arbitrary<infer A> ? A : never;
type Made = typeof made extends fc.Arbitrary<infer M> ? M : never;

/** Keys of a flow: on MongoDB they have a collection of their own. */
export const keyScope = "f.idempotency_keys";

const often = <T, U>(usual: T, arbitrary: fc.Arbitrary<U>) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(usual) }, { weight: 2, arbitrary }) as fc.Arbitrary<T | U>;
const which = fc.nat(1000);
const durationMs = fc.constantFrom(0, 5, 1000);
const text = fc.constantFrom('"a"', '{"\\u0000 \\"\\\\ ü😀":"{}"}', "NULL", "{1,2}");

const made = fc.record({
  flow: often("f", fc.constant("g")),
  queue: often("q", fc.constant('r"\\,{}')),
  execution: often(null, which),
  payload: text,
  key: often(null, fc.constantFrom("k1", 'k"2')),
  fingerprint: fc.constantFrom(null, "x", "y"),
  keyRetentionMs: fc.constantFrom(null, 0, 1000),
  onMismatch: fc.constantFrom("acknowledge", "deadLetter"),
  lane: often(null, fc.record({ name: fc.constantFrom("l1", "l\u00fc"), deadBlocks: fc.boolean() })),
  join: often(
    null,
    fc.record({
      node: fc.constantFrom("n", "m"),
      port: fc.constantFrom("a", "b"),
      optional: fc.constantFrom([], ["a"], ["b"], ["a", "b"]),
      waitMs: durationMs,
    }),
  ),
  reach: often([], fc.subarray(["n.a", "n.b", "m.a", "m.b"])),
  letter: often({ name: "dead", retentionMs: null }, fc.constantFrom(null, { name: "other", retentionMs: 5 })),
  alerts: fc.boolean(),
  delayMs: often(0, durationMs),
  failed: fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: text }),
  claim: fc.boolean(),
});

const outcome: fc.Arbitrary<PacketOutcome> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant("done"), keep: often(false, fc.constant(true)), note: often(null, fc.constant("skipped")) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("retry"), delayMs: durationMs, history: fc.option(text) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("dead"), history: fc.option(text) }) },
  { weight: 1, arbitrary: fc.constant({ kind: "release" }) },
) as fc.Arbitrary<PacketOutcome>;

const asked = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      send: fc.record({
        worker: which,
        begins: fc.option(
          fc.record({
            flow: fc.constantFrom("f", "g"),
            key: often(null, fc.constantFrom("t1", "t2")),
            retentionMs: fc.constantFrom(null, 5),
          }),
        ),
        packets: fc.array(made, { minLength: 1, maxLength: 3 }),
      }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      settle: which,
      to: outcome,
      packets: often([], fc.array(made, { minLength: 1, maxLength: 2 })),
      outputs: often([], fc.array(text, { minLength: 1, maxLength: 2 })),
      stale: often(false, fc.constantFrom("attempt", "worker")),
      // The history of an execution has room for two entries, or for all.
      entriesMax: often(undefined, fc.constantFrom(2, 1000)),
    }),
  },
  { weight: 1, arbitrary: fc.record({ again: which }) },
);

const step = fc.oneof(
  { weight: 12, arbitrary: fc.record({ flush: fc.array(asked, { minLength: 1, maxLength: 4 }) }) },
  {
    weight: 5,
    arbitrary: fc.record({ claim: fc.record({ worker: which, queues: fc.constantFrom("one", "all"), limit: fc.constantFrom(1, 2, 100) }) }),
  },
  { weight: 2, arbitrary: fc.record({ pass: fc.constantFrom(5, 1000, 20_000) }) },
  { weight: 2, arbitrary: fc.record({ renew: which }) },
  { weight: 1, arbitrary: fc.record({ leave: which }) },
  { weight: 1, arbitrary: fc.record({ join: fc.constantFrom(10, 30_000) }) },
  { weight: 2, arbitrary: fc.record({ reinject: which }) },
  { weight: 1, arbitrary: fc.record({ discard: which }) },
  { weight: 1, arbitrary: fc.record({ purge: fc.constant(1000) }) },
  { weight: 1, arbitrary: fc.record({ ledger: fc.constantFrom("begin", "settle", "free"), key: fc.constantFrom("k1", 'k"2') }) },
  {
    weight: 1,
    arbitrary: fc.record({ flow: fc.constantFrom("f", "g"), state: fc.constantFrom<FlowState>("active", "active", "paused", "archived") }),
  },
);
export const history = fc.array(step, { minLength: 20, maxLength: 60, size: "max" });

/** Turns a step into operations on existing packets, executions and workers. */
export class Operations {
  #count: number;
  readonly sent: PacketOperation[] = [];

  constructor(from = 0) {
    this.#count = from;
  }

  next(): number {
    this.#count += 1;
    return this.#count;
  }

  operation(
    asking: Asked,
    existing: { owned: readonly PacketRecord[]; executions: readonly number[]; workers: readonly number[] },
  ): PacketOperation | undefined {
    const operation = this.#operation(asking, existing);
    if (operation !== undefined) this.sent.push(operation);
    return operation;
  }

  #operation(asking: Asked, { owned, executions, workers }: Parameters<Operations["operation"]>[1]): PacketOperation | undefined {
    if ("again" in asking) return nth(this.sent, asking.again);
    if ("send" in asking) {
      const { begins, packets, worker } = asking.send;
      const id = begins?.key ? { scope: "triggers", key: begins.key, fingerprint: null, retentionMs: 1000 } : null;
      const execution: NewExecution | null = begins && {
        no: this.next(),
        flow: begins.flow,
        entry: "e",
        input: "1",
        key: id,
        retentionMs: begins.retentionMs,
      };
      const sender = nth(workers, worker);
      if (sender === undefined) return undefined;
      return {
        verb: "sendPackets",
        worker: sender,
        execution,
        packets: packets.map((packet) => this.packet(packet, execution ? [execution.no] : executions)),
      };
    }
    const packet = nth(owned, asking.settle);
    if (packet?.owner == null) return undefined;
    const { payload } = packet;
    const { to, packets, outputs, stale, entriesMax } = asking;
    // A node sends into its own execution.
    const own = packet.execution === null ? executions : [packet.execution];
    return {
      verb: "settlePacket",
      no: packet.no,
      worker: stale === "worker" ? packet.owner + 1 : packet.owner,
      attempt: stale === "attempt" ? packet.attempt + 1 : packet.attempt,
      to,
      packets: to.kind === "done" ? (packets as readonly Made[]).map((each) => this.packet(each, own)) : [],
      outputs,
      ...(entriesMax !== undefined && {
        entry: { node: "n", startedAt: packet.no, ms: 1, code: to.kind === "done" ? null : "C", joined: [], details: payload, entriesMax },
      }),
    };
  }

  /** An alert for a queue that no worker claims from: it is not defined whether a claim returns a packet that becomes due during the claim. */
  alert(): Alert {
    const no = this.next();
    return { no, queue: "alerts", payload: `"alert ${no}"` };
  }

  packet(
    { key, fingerprint, keyRetentionMs, onMismatch, join, reach, execution, letter, alerts, ...rest }: Made,
    executions: readonly number[],
  ): NewPacket {
    const of = execution === null ? null : (nth(executions, execution) ?? null);
    const own = join === null ? [] : [`${join.node}.${join.port}`];
    // The joins of the other executions wait for their end, because the reach of their packets is not known.
    const isReachKnown = of !== null && of % 4 !== 0;
    const id: PacketKey | null =
      key === null
        ? null
        : { scope: keyScope, key, fingerprint, retentionMs: keyRetentionMs, onMismatch: onMismatch as PacketKey["onMismatch"] };
    return {
      ...rest,
      no: this.next(),
      execution: of,
      key: id,
      letter: letter && alerts ? { ...letter, alert: this.alert() } : letter,
      join: of === null || join === null ? null : { ...join, ports: ["a", "b"] },
      ...(isReachKnown && { reach: [...new Set([...own, ...reach])] }),
    } as NewPacket;
  }
}

export function nth<T>(list: readonly T[], n: number): T | undefined {
  return list[n % Math.max(1, list.length)];
}

/** One queue has the given limit. For all queues the limit is so high that their order has no effect. */
export function queryOf(worker: number, { queues, limit }: { queues: string; limit: number }): PacketClaimQuery {
  const names =
    queues === "one"
      ? [["f", "q"]]
      : [
          ["f", "q"],
          ["f", 'r"\\,{}'],
          ["g", "q"],
          ["g", 'r"\\,{}'],
        ];
  const each = queues === "one" ? limit : 1000;
  return { worker, queues: names.map(([flow = "", queue = ""]) => ({ flow, queue, limit: each })), limit: each };
}
