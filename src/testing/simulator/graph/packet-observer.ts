import type {
  NewPacket,
  PacketAnswer,
  PacketBackend,
  PacketClaimQuery,
  PacketClaims,
  PacketOperation,
  SendPackets,
  SettlePacket,
  Woken,
} from "../../../core/packets/operation.js";
import type { FlowPlan } from "../../../graph/plan/plan.js";
import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import { PromiseBroken } from "../observer.js";
import { Witness } from "../witness.js";
import { compareWithTable } from "./compare.js";
import { HistoryWatch } from "./history-watch.js";
import { JoinWatch } from "./join-watch.js";
import { type KnownPacket, PacketBook } from "./packet-book.js";
import { describeClaims, describeOperation } from "./packet-trace.js";

/**
 * Watches every call at the store and checks at once: a packet has one owner at a time and is claimed again only after the lease has
 * expired, attempts have no gaps, lanes keep their order, completed keys are not delivered again, and the rows match the observer's model.
 */
export class PacketObserver extends Witness {
  readonly book = new PacketBook();
  readonly history = new HistoryWatch();
  /** When the lease of each worker expires. */
  readonly workers = new Map<number, number>();
  /** The execution that each trigger key has started. */
  readonly triggers = new Map<string, number>();
  readonly executions = new Set<number>();
  /** The name of the packet that completed each key. */
  readonly completedKeys = new Map<string, string>();
  readonly #settled = new Set<string>();
  readonly #table: MemoryTable;
  #last: Promise<void> = Promise.resolve();

  readonly #joins: JoinWatch;

  constructor(table: MemoryTable, flow: FlowPlan) {
    super(() => table.now());
    this.#table = table;
    this.#joins = new JoinWatch(flow, this.book, table);
  }

  /** Runs one call at a time, and checks its effects before the next call. */
  observe(packets: PacketBackend): PacketBackend {
    return {
      ...packets,
      flush: (operations) =>
        this.#turn(
          () => packets.flush(operations),
          (answers) => {
            const named = operations.map((operation, i) => [operation, answers[i] as PacketAnswer | "again"] as const);
            for (const [operation, answer] of named) this.note(() => describeOperation(this.book, operation, answer));
            for (const [operation, answer] of named) if (answer !== "again") this.#written(operation, answer);
          },
        ),
      claim: (query) =>
        this.#turn(
          () => packets.claim(query),
          (claims) => {
            if (claims.claimed.length + claims.closed.length === 0) return;
            this.note(() => describeClaims(this.book, query, claims));
            this.#claimed(query, claims);
          },
        ),
      join: (query) =>
        this.#turn(
          () => packets.join(query),
          (worker) => {
            this.note(() => `w${worker} joins`);
            if (this.workers.has(worker)) throw new PromiseBroken(`two workers got the number ${worker}`);
            this.workers.set(worker, this.#table.now() + query.leaseMs);
          },
        ),
      renew: (worker, leaseMs) =>
        this.#turn(
          () => packets.renew(worker, leaseMs),
          (known) => {
            this.note(() => `w${worker} renews${known ? "" : ", and is not registered any more"}`);
            if (!known && this.isLive(worker)) throw new PromiseBroken(`w${worker}: not registered any more, although its lease is live`);
            if (known) this.workers.set(worker, this.#table.now() + leaseMs);
          },
        ),
      leave: (worker) => {
        let had = new Set<number>();
        const leave = () => {
          had = new Set(this.#table.ownedBy(worker).map(({ no }) => no));
          return packets.leave(worker);
        };
        return this.#turn(leave, () => {
          this.note(() => `w${worker} leaves`);
          this.workers.delete(worker);
          for (const [no, packet] of this.book.packets) {
            if (packet.owner !== worker) continue;
            packet.owner = null;
            // The store had already returned this packet to the queue because the lease had expired: that counts as a crash.
            if (!had.has(no)) packet.crashes += 1;
          }
        });
      },
      reinject: (no, alert) =>
        this.#turn(
          () => packets.reinject(no, alert),
          (wasDead) => {
            if (!wasDead) return;
            this.note(() => `${this.book.of(no).name} is retried`);
            this.#reinjected(no);
          },
        ),
      discard: (no) =>
        this.#turn(
          () => packets.discard(no),
          (wasDead) => {
            if (!wasDead) return;
            this.note(() => `${this.book.of(no).name} is discarded`);
            this.book.end(this.book.of(no), "discarded");
            this.#joins.changedByOperator();
          },
        ),
      setFlowState: (flow, state) =>
        this.#turn(
          () => packets.setFlowState(flow, state),
          () => this.note(() => `${flow} is ${state}`),
        ),
    };
  }

  #turn<T>(call: () => Promise<T>, look: (answer: T) => void): Promise<T> {
    const turn = this.#last.then(call);
    this.#last = turn.then(
      (answer) => {
        this.operations += 1;
        this.guard(() => look(answer));
        this.guard(() => compareWithTable(this.book, this.#table));
        this.guard(() => this.#joins.nothingWaitsInVain());
      },
      () => {},
    );
    return this.#last.then(() => turn);
  }

  isLive(worker: number): boolean {
    return (this.workers.get(worker) ?? Number.NEGATIVE_INFINITY) > this.#table.now();
  }

  #written(operation: PacketOperation, answer: PacketAnswer): void {
    if (operation.verb === "sendPackets") this.#sent(operation, answer);
    else this.#settledBy(operation, answer);
  }

  #sent(send: SendPackets, answer: PacketAnswer): void {
    const { execution, worker } = send;
    if (answer.kind === "triggered") {
      const known = this.triggers.get(execution?.key?.key ?? "");
      if (known !== answer.execution)
        throw new PromiseBroken(`a trigger was answered with execution ${answer.execution} instead of ${known}`);
    }
    if (answer.kind !== "packetsSent" || execution === null || this.executions.has(execution.no)) return;
    this.executions.add(execution.no);
    const key = execution.key?.key;
    if (key !== undefined && this.triggers.has(key))
      throw new PromiseBroken(`${key}: two triggers with the same key started two executions`);
    if (key !== undefined) this.triggers.set(key, execution.no);
    this.#add(send.packets, answer, worker);
  }

  #settledBy(settle: SettlePacket, answer: PacketAnswer): void {
    const { no, worker, attempt, to, packets } = settle;
    const packet = this.book.of(no);
    const isOwner = packet.owner === worker && packet.attempt === attempt && packet.fate === undefined;
    const name = `${no} ${worker} ${attempt}`;
    if (answer.kind === "packetStale") {
      if (isOwner && this.workers.has(worker) && this.isLive(worker))
        throw new PromiseBroken(`${packet.name}: settle was rejected although the lease is live`);
      return;
    }
    if (answer.kind !== "packetSettled") throw new PromiseBroken(`${packet.name}: settle was answered with ${answer.kind}`);
    if (!isOwner) {
      // A repetition after a lost reply is answered as settled. For an attempt that never settled the packet this answer is wrong.
      if (!this.#settled.has(name))
        throw new PromiseBroken(`${packet.name}: attempt ${attempt} was answered as settled, but it did not settle the packet`);
      return;
    }
    // A trial does not end the delivery: the packet stays with its worker.
    if (to.kind === "trial") return;
    this.#settled.add(name);
    if (to.kind === "done" && packet.key !== null) this.#complete(packet, packet.key);
    this.history.settled(settle, packet);
    this.book.settle(packet, to);
    this.#add(packets, answer, worker);
    // After the new packets were added: one of them may be a part whose join was just closed.
    this.#woken(answer.woken);
  }

  #complete(packet: KnownPacket, key: string): void {
    const by = this.completedKeys.get(key);
    if (by !== undefined) throw new PromiseBroken(`${key}: completed by ${by} and again by ${packet.name}`);
    this.completedKeys.set(key, packet.name);
  }

  #add(packets: SendPackets["packets"], answer: Extract<PacketAnswer, { readonly placed: unknown }>, worker: number): void {
    for (const [i, sent] of packets.entries()) {
      const placed = answer.placed[i];
      if (placed === undefined) throw new PromiseBroken(`${sent.queue}: the answer does not mention packet ${sent.no}`);
      const row = placed.kind === "claimed" ? placed.packet : this.#table.packet(sent.no);
      this.book.add(sent, placed, worker, (row?.key ?? sent.key)?.key ?? null);
      if (sent.join !== null && placed.kind !== "part") this.#joined(sent, "woken" in answer ? answer.woken : []);
      if (placed.kind === "claimed") this.#mustBeDeliverable(this.book.of(sent.no), worker);
    }
  }

  /** Marks the parts that were joined with this packet: parts of the same node and execution whose rows are gone and that were not closed. */
  #joined({ execution, join }: NewPacket, woken: readonly Woken[]): void {
    for (const [no, other] of this.book.packets) {
      if (other.fate !== undefined || !other.part || other.sent.execution !== execution || other.sent.join?.node !== join?.node) continue;
      if (this.#table.packet(no) === undefined && !woken.some((each) => each.no === no)) this.book.end(other, "joined");
    }
  }

  #claimed({ worker }: PacketClaimQuery, { claimed, closed }: PacketClaims): void {
    this.#woken(closed);
    for (const { no, attempt, crashes } of claimed) {
      const packet = this.book.of(no);
      if (packet.fate !== undefined) throw new PromiseBroken(`${packet.name}: claimed, although it was ${packet.fate}`);
      if (packet.owner !== null) {
        if (this.isLive(packet.owner)) throw new PromiseBroken(`${packet.name}: claimed while w${packet.owner} held a live lease`);
        packet.crashes += 1;
      }
      if (attempt !== packet.attempt + 1) throw new PromiseBroken(`${packet.name}: attempt ${attempt} follows attempt ${packet.attempt}`);
      if (crashes !== packet.crashes)
        throw new PromiseBroken(`${packet.name}: the claim counts ${crashes} crashes, expected ${packet.crashes}`);
      packet.attempt = attempt;
      packet.owner = worker;
      packet.key = this.#table.packet(no)?.key?.key ?? null;
      this.#mustBeDeliverable(packet, worker);
    }
  }

  /** What must be true whenever a worker gets a packet, by a claim or together with a send. */
  #mustBeDeliverable(packet: KnownPacket, worker: number): void {
    const { name, key, sent } = packet;
    if (!this.workers.has(worker)) throw new PromiseBroken(`${name}: given to w${worker}, which is not registered`);
    if (this.#table.flowState(sent.flow) !== "active") throw new PromiseBroken(`${name}: delivered while its flow is not active`);
    const by = key === null ? undefined : this.completedKeys.get(key);
    if (by !== undefined) throw new PromiseBroken(`${name}: delivered although ${key} was completed by ${by}`);
    const before = this.book.before(packet);
    if (before) throw new PromiseBroken(`${name}: delivered before ${before.name}, which is ahead of it in its lane`);
    for (const other of this.book.packets.values()) {
      if (key === null || other === packet || other.key !== key || other.owner === null || other.fate !== undefined) continue;
      if (this.isLive(other.owner)) throw new PromiseBroken(`${name}: delivered while ${other.name} holds ${key}`);
    }
  }

  #woken(woken: readonly Woken[]): void {
    for (const each of woken) {
      const packet = this.book.of(each.no);
      if (packet.part && each.to === "due") this.#joins.released(each.no, packet);
      else if (packet.part && each.to === "closed") this.#joins.skipped(packet);
      else this.book.wake(each);
    }
  }

  #reinjected(number: number): void {
    const row = this.#table.packet(number);
    const packet = this.book.of(number);
    const wasPart = packet.part;
    this.book.reinject(packet, wasPart);
    // It fills the last port, or waits; or its join is decided at once.
    const others = packet.sent.join?.ports.filter((port) => port !== packet.sent.join?.port) ?? [];
    if (wasPart && row !== undefined && row.state !== "part" && others.every((port) => row.parts?.[port] !== undefined)) {
      packet.part = false;
      this.#joined(packet.sent, []);
    }
    this.#joins.changedByOperator();
  }
}
