import assert from "node:assert/strict";
import type {
  NewExecution,
  NewPacket,
  NewPart,
  PacketAnswer,
  PacketClaimQuery,
  PacketClaims,
  PacketOperation,
  PacketOutcome,
  Placed,
  SendPackets,
  SettlePacket,
} from "../../../core/packets/operation.js";
import { type ExecutionRecord, numbersPerWorker, type PacketKey, type PacketRecord } from "../../../core/packets/packet.js";
import type { Store } from "../../../core/store/store.js";
import { dayMs } from "../ledger/operations.js";

/** The flow and the queue of a packet, unless a case sets others. */
export const flow = "flow";
export const queue = "edge";
/** A lease that is longer than every case. */
const longMs = 60_000;

/** A registered worker on a store handle. It numbers the packets that it sends. */
export class Hand {
  readonly store: Store;
  readonly no: number;
  #count = 0;

  constructor(store: Store, no: number) {
    this.store = store;
    this.no = no;
  }

  static async on(store: Store, leaseMs = longMs): Promise<Hand> {
    return new Hand(store, await store.packets.join({ leaseMs }));
  }

  number(): number {
    this.#count += 1;
    return this.no * numbersPerWorker + this.#count;
  }

  packet(fields: Partial<NewPacket> = {}): NewPacket {
    return {
      no: this.number(),
      flow,
      queue,
      execution: null,
      payload: '"payload"',
      key: null,
      lane: null,
      join: null,
      letter,
      delayMs: 0,
      claim: false,
      ...fields,
    };
  }

  execution(fields: Partial<NewExecution> = {}): NewExecution {
    return { no: this.number(), flow, entry: "entry", input: '"input"', key: null, retentionMs: dayMs, ...fields };
  }

  sendOf(packets: readonly NewPacket[], execution: NewExecution | null = null): SendPackets {
    return { verb: "sendPackets", worker: this.no, execution, packets };
  }

  /** Sends new packets and returns where the store placed each one. */
  async send(...packets: readonly NewPacket[]): Promise<readonly Placed[]> {
    return expectAnswer(await submit(this.store, this.sendOf(packets)), "packetsSent").placed;
  }

  /** Sends one packet and claims it in the same commit. */
  async sendAndClaim(fields: Partial<NewPacket> = {}): Promise<PacketRecord> {
    const [placed] = await this.send(this.packet({ ...fields, claim: true }));
    assert.equal(placed?.kind, "claimed", `placed ${JSON.stringify(placed)}`);
    return (placed as Extract<Placed, { kind: "claimed" }>).packet;
  }

  /** Starts an execution with these packets and returns its number. */
  async trigger(...packets: readonly Partial<NewPacket>[]): Promise<number> {
    const execution = this.execution();
    await this.begin(execution, ...packets);
    return execution.no;
  }

  async begin(execution: NewExecution, ...packets: readonly Partial<NewPacket>[]): Promise<PacketAnswer & { kind: "packetsSent" }> {
    const made = packets.map((fields) => this.packet({ execution: execution.no, ...fields }));
    return expectAnswer(await submit(this.store, this.sendOf(made, execution)), "packetsSent");
  }

  claim(fields: Partial<PacketClaimQuery> = {}): Promise<PacketClaims> {
    return this.store.packets.claim({ worker: this.no, queues: [{ flow, queue, limit: 1000 }], limit: 1000, ...fields });
  }

  /** Claims from these queues of the default flow. */
  claimFrom(...queues: readonly string[]): Promise<PacketClaims> {
    return this.claim({ queues: queues.map((name) => ({ flow, queue: name, limit: 1000 })) });
  }

  /** Claims the one packet that is due; fails if there are none or several. */
  async take(...queues: readonly string[]): Promise<PacketRecord> {
    const { claimed } = await this.claimFrom(...(queues.length === 0 ? [queue] : queues));
    assert.equal(claimed.length, 1, `claimed ${JSON.stringify(claimed)}`);
    return claimed[0] as PacketRecord;
  }

  settleOf(
    { no, attempt }: PacketRecord,
    to: PacketOutcome,
    packets: readonly NewPacket[] = [],
    outputs: readonly string[] = [],
  ): SettlePacket {
    return { verb: "settlePacket", no, worker: this.no, attempt, to, packets, outputs };
  }

  async settle(packet: PacketRecord, to: PacketOutcome, ...sent: readonly NewPacket[]): Promise<PacketAnswer & { kind: "packetSettled" }> {
    return expectAnswer(await submit(this.store, this.settleOf(packet, to, sent)), "packetSettled");
  }

  done(packet: PacketRecord, ...sent: readonly NewPacket[]): Promise<PacketAnswer & { kind: "packetSettled" }> {
    return this.settle(packet, done, ...sent);
  }
}

export const letter = { name: "dead letters", retentionMs: dayMs } as const;
export const done: PacketOutcome = { kind: "done", keep: false, note: null };
export const kept: PacketOutcome = { kind: "done", keep: true, note: null };
export const dead = { kind: "dead", history: '["failed"]' } as const satisfies PacketOutcome;
export const release: PacketOutcome = { kind: "release" };

export function retry(delayMs = 0, history: string | null = null): PacketOutcome {
  return { kind: "retry", delayMs, history };
}

export function keyOf(key: string, fields: Partial<PacketKey> = {}): PacketKey {
  return { scope: "packets", key, fingerprint: null, retentionMs: dayMs, onMismatch: "acknowledge", ...fields };
}

/** A join of the ports a and b of a node, with a timeout that is longer than every case. */
export function partOf(port: string, fields: Partial<NewPart> = {}): NewPart {
  return { node: "join", port, ports: ["a", "b"], waitMs: longMs, ...fields };
}

export function submit(store: Store, operation: PacketOperation): Promise<PacketAnswer> {
  return store.commit({ packet: operation });
}

export function expectAnswer<K extends PacketAnswer["kind"]>(answer: PacketAnswer, kind: K): Extract<PacketAnswer, { readonly kind: K }> {
  assert.equal(answer.kind, kind, `answered ${JSON.stringify(answer)}`);
  return answer as Extract<PacketAnswer, { readonly kind: K }>;
}

export function numbersOf(packets: readonly { readonly no: number }[]): number[] {
  return packets.map(({ no }) => no);
}

export function kindsOf(placed: readonly Placed[]): string[] {
  return placed.map(({ kind }) => kind);
}

export async function packetOf(store: Store, no: number): Promise<PacketRecord> {
  const packet = await store.packets.packet(no);
  assert.ok(packet, `there is a packet ${no}`);
  return packetMembers(packet);
}

export async function executionOf(store: Store, no: number): Promise<ExecutionRecord> {
  const execution = await store.packets.execution(no);
  assert.ok(execution, `there is an execution ${no}`);
  return executionMembers(execution);
}

/** The counters of an execution (open, duplicates, dead), and whether it has ended. */
export async function countersOf(store: Store, no: number): Promise<readonly [number, number, number, boolean]> {
  const { open, duplicates, dead: died, endedAt } = await executionOf(store, no);
  return [open, duplicates, died, endedAt !== null];
}

export async function notesOf(store: Store, execution: number): Promise<string[]> {
  return (await store.packets.notes(execution, 1000)).map(({ kind }) => kind);
}

const members: Readonly<Record<keyof PacketRecord, true>> = {
  no: true,
  flow: true,
  queue: true,
  state: true,
  owner: true,
  attempt: true,
  since: true,
  crashes: true,
  dueAt: true,
  execution: true,
  key: true,
  lane: true,
  payload: true,
  parts: true,
  history: true,
  note: true,
  createdAt: true,
  dead: true,
};

const executionMember: Readonly<Record<keyof ExecutionRecord, true>> = {
  no: true,
  flow: true,
  entry: true,
  input: true,
  key: true,
  open: true,
  duplicates: true,
  dead: true,
  createdAt: true,
  endedAt: true,
  outputs: true,
  scope: true,
  attributes: true,
};

/** The record without additional fields of a store. */
export function packetMembers(packet: PacketRecord): PacketRecord {
  return pick(packet, members);
}

export function executionMembers(execution: ExecutionRecord): ExecutionRecord {
  return pick(execution, executionMember);
}

/** Copies through JSON, because encrypted fields are decrypted only when they are read. */
function pick<T extends object>(of: T, names: Readonly<Record<keyof T, true>>): T {
  const entries = (Object.keys(names) as (keyof T)[]).map((name) => [name, of[name]]);
  return JSON.parse(JSON.stringify(Object.fromEntries(entries))) as T;
}
