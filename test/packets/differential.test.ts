import { Random } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import type { LedgerRecord } from "../../src/core/ledger/record.js";
import type { Alert, NewPacket, PacketBackend, PacketOperation, PacketOutcome, SettlePacket } from "../../src/core/packets/operation.js";
import type { PacketRecord } from "../../src/core/packets/packet.js";
import { numbersPerWorker } from "../../src/core/packets/packet.js";
import { createMemoryLedger, memoryBackend } from "../../src/stores/memory/backend.js";
import { prepareOnce } from "../../src/stores/sqlite/connection/prepared.js";
import { chooseDriver, openDatabase } from "../../src/stores/sqlite/driver.js";
import { RecordStatements } from "../../src/stores/sqlite/ledger/record-statements.js";
import { clockSql } from "../../src/stores/sqlite/ledger/row.js";
import { migrate } from "../../src/stores/sqlite/migrations/migrate.js";
import { createPackets } from "../../src/stores/sqlite/packets/packets.js";
import { OwnTransactions } from "../../src/stores/sqlite/transactions/own-transactions.js";
import { beginOf, completed } from "../../src/testing/contract/ledger/operations.js";
import { executionMembers, packetMembers } from "../../src/testing/contract/packets/packet-operations.js";
import { effort } from "../kit/effort.js";

const histories = effort({ quick: 40, full: 120 });
const stepsPerHistory = 70;
const stepsPerComparison = 7;
const keys = ["k1", "k2"];
const queues = ["x", "y"];

/** The memory store and SQLite on one clock. SQLite has two handles that do not know each other. */
class Pair {
  now = Date.UTC(2030, 0, 1);
  #last = "";
  readonly #memory = createMemoryLedger(() => this.now);
  readonly #database = openDatabase(":memory:", chooseDriver());
  readonly #records: RecordStatements;
  readonly #memoryPackets: PacketBackend;
  readonly #handles: readonly PacketBackend[];
  #asked = 0;
  readonly numbers = new Set<number>();
  readonly executions = new Set<number>();

  constructor() {
    migrate(this.#database, ":memory:");
    const prepared = prepareOnce(this.#database);
    const clock = { ...prepared(`SELECT ${clockSql} AS now`), get: () => ({ now: this.now }) };
    const sql = (text: string) => (text === `SELECT ${clockSql} AS now` ? (clock as ReturnType<typeof prepared>) : prepared(text));
    this.#records = new RecordStatements(this.#database);
    const inTurn = async <T>(work: () => T) => work();
    const watching = { watch: () => () => {}, notify: () => {}, close: () => {} };
    const transactions = new OwnTransactions(this.#database);
    const parts = { sql, records: this.#records, transactions, watching, flushing: inTurn, writing: inTurn, reading: inTurn };
    this.#handles = [createPackets(parts), createPackets(parts)];
    this.#memoryPackets = memoryBackend(this.#memory).packets as PacketBackend;
  }

  /** Mostly the same handle, whose cache grows. */
  #handle(): PacketBackend {
    this.#asked += 1;
    return this.#handles[this.#asked % 3 === 0 ? 1 : 0] as PacketBackend;
  }

  /** Asserts that both stores give the same answer. */
  async both<T>(what: string, ask: (packets: PacketBackend) => Promise<T>): Promise<T> {
    const both = [this.#memoryPackets, this.#handle()];
    const [memory, sqlite] = await Promise.all(both.map(async (packets) => comparable(await ask(packets).catch(String))));
    expect(sqlite, what).toEqual(memory);
    this.#last = what;
    return memory as T;
  }

  /** Asserts that both stores have the same contents. */
  async compare(): Promise<void> {
    const [memory, sqlite] = await Promise.all([this.#contents(0), this.#contents(1)]);
    expect(sqlite, `after ${this.#last}`).toEqual(memory);
  }

  /** A caller other than packets begins or settles a key. */
  interfere(key: string, how: "begin" | "settle" | "free"): void {
    const id = { scope: "packets", key };
    const record = this.#records.read(id);
    const { owner = "another caller", attempt = 1 } = record ?? {};
    const to = how === "settle" ? completed(1) : ({ state: "free" } as const);
    const operation =
      how === "begin"
        ? beginOf({ ...id, leaseMs: 700, owner: "another caller" })
        : ({ verb: "settle", ...id, owner, attempt, to, note: null } as const);
    void memoryBackend(this.#memory).flush([operation]);
    this.#records.apply(operation, this.now);
  }

  record(key: string): (LedgerRecord | undefined)[] {
    const inMemory = this.#memory.records.get(`packets\0${key}`);
    const inFile = this.#records.read({ scope: "packets", key });
    return [inMemory, inFile && { ...inFile }];
  }

  close(): void {
    this.#database.close();
  }

  async #contents(which: 0 | 1): Promise<unknown> {
    const packets = which === 0 ? this.#memoryPackets : this.#handle();
    const rows = await Promise.all([...this.numbers].map((no) => packets.packet(no)));
    const executions = await Promise.all([...this.executions].map((no) => packets.execution(no)));
    const notes = await Promise.all([...this.executions].map((no) => packets.notes(no, 1000)));
    const of = await Promise.all(
      [...this.executions].map(async (no) => (await packets.packetsOf(no, 1000)).map((packet) => packet.no).sort((a, b) => a - b)),
    );
    const counts = (await packets.counts()).filter(({ due, held, parts, owned, dead }) => due + held + parts + owned + dead > 0);
    return {
      rows: rows.map((row) => row && packetMembers(row)),
      executions: executions.map((row) => row && executionMembers(row)),
      notes,
      of,
      counts: counts.sort((a, b) => (a.queue < b.queue ? -1 : 1)),
      listed: (await packets.executions({ limit: 1000 })).map(({ no }) => no),
      running: (await packets.executions({ status: "running", limit: 1000 })).map(({ no }) => no),
      dead: (await packets.executions({ status: "dead", limit: 1000 })).map(({ no }) => no),
      letters: (await packets.deadLetters({ limit: 1000 })).map(({ no }) => no),
      records: keys.concat("t1").map((key) => this.record(key)[which]),
    };
  }
}

/** Without the details that only one store keeps with a record. */
function comparable(answer: unknown): unknown {
  return JSON.parse(
    JSON.stringify(answer ?? null, (_, value) => (value && typeof value === "object" && "crashes" in value ? packetMembers(value) : value)),
  );
}

interface Held {
  readonly packet: PacketRecord;
  readonly worker: number;
}

/** Everything that senders, workers, operators and other users of the ledger may do, including late and repeated operations. */
class History {
  readonly #random: Random;
  readonly #pair: Pair;
  readonly #workers: number[] = [];
  readonly #owned: Held[] = [];
  readonly #executions: number[] = [];
  readonly #sent: PacketOperation[] = [];
  #count = 0;

  constructor(seed: number, pair: Pair) {
    this.#random = new Random(seed);
    this.#pair = pair;
  }

  async step(): Promise<void> {
    const random = this.#random;
    const pair = this.#pair;
    if (this.#workers.length < 2) return await this.#join();
    const worker = random.pick(this.#workers);
    const dice = random.between(0, 99);
    if (dice < 20) await this.#send(worker);
    else if (dice < 48) await this.#claim(worker);
    else if (dice < 76 && this.#owned.length > 0) await this.#settle();
    else if (dice < 80 && this.#sent.length > 0) await this.#again();
    else if (dice < 84) pair.now += random.pick([1, 100, 600, 3000]);
    else if (dice < 86) await pair.both("renew", (packets) => packets.renew(worker, random.pick([500, 500])));
    else if (dice < 87) await pair.both("leave", (packets) => packets.leave(worker));
    else if (dice < 88) await this.#join();
    else if (dice < 94) await this.#operate();
    else if (dice < 96) await this.#setFlowState();
    else if (dice < 98) pair.interfere(random.pick(keys), random.pick(["begin", "settle", "free"]));
    else await pair.both("purge", (packets) => packets.purge(1000));
  }

  async #join(): Promise<void> {
    const leaseMs = this.#random.pick([500, 5000]);
    this.#workers.push(await this.#pair.both("join", (packets) => packets.join({ leaseMs })));
    if (this.#workers.length > 4) this.#workers.shift();
  }

  async #send(worker: number): Promise<void> {
    const random = this.#random;
    const begins = random.chance(0.6);
    const key = random.chance(0.3) ? { scope: "packets", key: "t1", fingerprint: random.pick([null, "a"]), retentionMs: 800 } : null;
    const no = this.#number(worker);
    const retentionMs = random.pick([null, 900]);
    const execution = begins ? { no, flow: "flow", entry: "entry", input: "1", key, retentionMs } : null;
    const of = begins ? no : random.chance(0.7) && this.#executions.length > 0 ? random.pick(this.#executions) : null;
    const plain = random.chance(0.4);
    const length = random.between(begins ? 0 : 1, plain ? 8 : 3);
    const packets = Array.from({ length }, () => this.#packet(worker, of, plain));
    const sent = await this.#flush({ verb: "sendPackets", worker, execution, packets });
    if (!begins || !sent) return;
    this.#executions.push(no);
    this.#pair.executions.add(no);
  }

  /** A trigger that was refused before may succeed now. */
  async #again(): Promise<void> {
    const operation = this.#random.pick(this.#sent);
    if (!(await this.#flush(operation)) || operation.verb !== "sendPackets" || operation.execution === null) return;
    this.#executions.push(operation.execution.no);
    this.#pair.executions.add(operation.execution.no);
  }

  async #settle(): Promise<void> {
    const often = this.#random.chance(0.5) ? 1 : this.#random.between(2, 6);
    const settles = Array.from({ length: often }, () => this.#settleOne()).filter((one) => one !== undefined);
    await this.#flush(...settles);
  }

  #settleOne(): SettlePacket | undefined {
    const random = this.#random;
    if (this.#owned.length === 0) return undefined;
    const at = random.between(0, this.#owned.length - 1);
    const { packet, worker } = this.#owned[at] as Held;
    if (random.chance(0.9)) this.#owned.splice(at, 1);
    const to: PacketOutcome = random.pick([
      { kind: "done", keep: random.chance(0.3), note: random.pick([null, "skipped"]) },
      { kind: "done", keep: false, note: null },
      { kind: "done", keep: false, note: null },
      { kind: "retry", delayMs: random.pick([0, 300]), history: "[1]" },
      { kind: "dead", history: random.pick([null, "[2]"]) },
      { kind: "release" },
    ]);
    const sends = to.kind === "done" ? random.between(0, 2) : 0;
    const plain = random.chance(0.5);
    const packets = Array.from({ length: sends }, () => this.#packet(worker, packet.execution, plain));
    const outputs = to.kind === "done" && random.chance(0.3) ? ["1", "2"] : [];
    return { verb: "settlePacket", no: packet.no, worker, attempt: packet.attempt, to, packets, outputs };
  }

  /** Returns whether an operation succeeded, now or before. */
  async #flush(...operations: readonly PacketOperation[]): Promise<boolean> {
    this.#sent.push(...operations);
    this.#sent.splice(0, this.#sent.length - 5);
    const answers = await this.#pair.both(JSON.stringify(operations), (packets) => packets.flush(operations));
    let isDone = false;
    for (const [i, answer] of (Array.isArray(answers) ? answers : []).entries()) {
      if (answer === "again" || !("placed" in answer)) continue;
      const { worker } = operations[i] as PacketOperation;
      for (const each of answer.placed) if (each.kind === "claimed") this.#owned.push({ packet: each.packet, worker });
      isDone = true;
    }
    return isDone;
  }

  async #claim(worker: number): Promise<void> {
    const random = this.#random;
    const all = queues.map((queue) => ({ flow: "flow", queue, limit: random.between(0, 3) }));
    const query = { worker, queues: random.chance(0.5) ? all : all.reverse(), limit: random.between(1, 4) };
    const { claimed } = await this.#pair.both(JSON.stringify(query), (packets) => packets.claim(query));
    for (const packet of claimed) this.#owned.push({ packet, worker });
  }

  async #operate(): Promise<void> {
    const [letter] = [...this.#pair.numbers].length === 0 ? [] : [this.#random.pick([...this.#pair.numbers])];
    const no = letter ?? 1;
    const verb = this.#random.pick(["reinject", "reinject", "discard"] as const);
    // Most packets are not dead letters, so one of the latest dead letters is chosen, if there is one.
    const letters = await this.#pair.both("letters", async (packets) => (await packets.deadLetters({ limit: 3 })).map((each) => each.no));
    const chosen = letters.length > 0 && this.#random.chance(0.9) ? this.#random.pick([...letters]) : no;
    const alert = this.#random.chance(0.5) ? this.#alert(this.#random.pick(this.#workers)) : undefined;
    if (this.#random.chance(0.5)) return await this.#act(verb, chosen, alert);
    await this.#pair.both(`${verb} ${chosen}`, (packets) =>
      verb === "reinject" ? packets.reinject(chosen, alert) : packets.discard(chosen),
    );
  }

  /** As an operator, with an id that may have been used before: then nothing happens, and the answer is the first one. */
  async #act(verb: "reinject" | "discard", no: number, alert: Alert | undefined): Promise<void> {
    const id = `a-${this.#random.between(1, 12)}`;
    const log = { id, actor: "ann", action: verb, subject: String(no), reason: null, detail: null };
    const retried = { kind: "retry", letters: [{ no, ...(alert && { alert }) }] } as const;
    const change = verb === "reinject" ? retried : ({ kind: "discard", letters: [{ no }, { no: no + 1 }] } as const);
    await this.#pair.both(`${id}: ${verb} ${no}`, (packets) => packets.act({ log, change }));
  }

  async #setFlowState(): Promise<void> {
    const state = this.#random.pick(["active", "active", "paused", "archived"] as const);
    await this.#pair.both(`the flow is ${state}`, (packets) => packets.setFlowState("flow", state));
  }

  /** Plain packets are those that a store may store together. */
  #packet(worker: number, execution: number | null, plain: boolean): NewPacket {
    const random = this.#random;
    const fingerprint = random.pick([null, "a", "b"]);
    const onMismatch = random.pick(["acknowledge", "deadLetter"] as const);
    const key = { scope: "packets", key: random.pick(keys), fingerprint, retentionMs: random.pick([null, 1000]), onMismatch };
    const node = random.pick(["join", "last"]);
    const port = random.pick(["a", "b"]);
    const optional = random.pick([{}, { optional: ["b"] }, { optional: ["a", "b"] }]);
    const join = { node, port, ports: ["a", "b"], ...optional, waitMs: random.pick([400, 60_000]) };
    const isJoined = !plain && execution !== null && random.chance(0.3);
    const letter = { name: random.pick(["d1", "d2"]), retentionMs: random.pick([null, 1000]) };
    const alerting = plain || random.chance(0.5) ? letter : { ...letter, alert: this.#alert(worker) };
    return {
      no: this.#number(worker),
      flow: "flow",
      queue: random.pick(queues),
      execution,
      payload: JSON.stringify(`payload ${this.#count}`),
      key: !plain && random.chance(0.4) ? key : null,
      lane: !plain && random.chance(0.3) ? { name: random.pick(["l1", "l2"]), deadBlocks: random.chance(0.5) } : null,
      join: isJoined ? join : null,
      ...this.#reach(execution, isJoined ? `${node}.${port}` : undefined),
      letter: random.chance(0.8) ? alerting : null,
      delayMs: plain ? 0 : random.pick([0, 0, 0, 200]),
      claim: plain || random.chance(0.5),
    };
  }

  /** Most executions know the reach of all their packets, because their joins are decided only then. */
  #reach(execution: number | null, own: string | undefined): Pick<NewPacket, "reach"> {
    const random = this.#random;
    if (execution === null || execution % 3 === 0 || random.chance(0.02)) return {};
    const reach = ["join.a", "join.b", "last.a", "last.b"].filter((port) => port === own || random.chance(0.15));
    return { reach };
  }

  #alert(worker: number): Alert {
    const no = this.#number(worker);
    return { no, queue: this.#random.pick(queues), payload: JSON.stringify(`alert ${no}`) };
  }

  #number(worker: number): number {
    this.#count += 1;
    const no = worker * numbersPerWorker + this.#count;
    this.#pair.numbers.add(no);
    return no;
  }
}

describe("packets in memory and in SQLite give the same answers and contents", () => {
  const seeds = Array.from({ length: histories }, (_, i) => i + 1);
  for (let from = 0; from < histories; from += 20) {
    test(`seeds ${from + 1} to ${from + 20}`, async () => {
      for (const seed of seeds.slice(from, from + 20)) {
        const pair = new Pair();
        const history = new History(seed, pair);
        try {
          for (let step = 1; step <= stepsPerHistory; step++) {
            await history.step();
            if (step % stepsPerComparison === 0) await pair.compare();
          }
        } catch (error) {
          throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
        } finally {
          pair.close();
        }
      }
    });
  }
});
