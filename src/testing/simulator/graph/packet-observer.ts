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
import type { MemoryTable } from "../../../stores/shared/memory-table.js";
import { PromiseBroken } from "../observer.js";
import { Witness } from "../witness.js";
import { compareWithTable } from "./compare.js";
import { type KnownPacket, PacketBook } from "./packet-book.js";
import { describeClaims, describeOperation } from "./packet-trace.js";

/**
 * Watches every call at the store's side, and checks on the spot: one owner at a time and nobody before the lease is over,
 * attempts without gaps, lanes in order, completed keys at rest, and that the store's rows are what the observer knows.
 */
export class PacketObserver extends Witness {
  readonly book = new PacketBook();
  /** Ends of leases, by worker. */
  readonly workers = new Map<number, number>();
  /** Keys of triggers: the execution that each has begun. */
  readonly triggers = new Map<string, number>();
  readonly executions = new Set<number>();
  readonly completedKeys = new Map<string, string>();
  readonly #settled = new Set<string>();
  readonly #table: MemoryTable;
  #last: Promise<void> = Promise.resolve();

  constructor(table: MemoryTable) {
    super(() => table.now());
    this.#table = table;
  }

  /** One call at a time, and what it did is looked at before the next one. */
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
            if (this.workers.has(worker)) throw new PromiseBroken(`number ${worker} was given to two workers`);
            this.workers.set(worker, this.#table.now() + query.leaseMs);
          },
        ),
      renew: (worker, leaseMs) =>
        this.#turn(
          () => packets.renew(worker, leaseMs),
          (known) => {
            this.note(() => `w${worker} renews${known ? "" : ", and is not known any more"}`);
            if (!known && this.isLive(worker)) throw new PromiseBroken(`w${worker}: not known any more, and its lease lives`);
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
            // What had been taken from it before was a crash.
            if (!had.has(no)) packet.crashes += 1;
          }
        });
      },
      reinject: (no, alert) =>
        this.#turn(
          () => packets.reinject(no, alert),
          (is) => {
            if (!is) return;
            this.note(() => `${this.book.of(no).name} is re-injected`);
            this.#reinjected(no);
          },
        ),
      discard: (no) =>
        this.#turn(
          () => packets.discard(no),
          (is) => {
            if (!is) return;
            this.note(() => `${this.book.of(no).name} is discarded`);
            this.book.end(this.book.of(no), "discarded");
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
      if (known !== answer.execution) throw new PromiseBroken(`a trigger was told of execution ${answer.execution}, and it is ${known}`);
    }
    if (answer.kind !== "packetsSent" || execution === null || this.executions.has(execution.no)) return;
    this.executions.add(execution.no);
    const key = execution.key?.key;
    if (key !== undefined && this.triggers.has(key)) throw new PromiseBroken(`${key}: two triggers with one key were both taken`);
    if (key !== undefined) this.triggers.set(key, execution.no);
    this.#place(send.packets, answer, worker);
  }

  #settledBy({ no, worker, attempt, to, packets }: SettlePacket, answer: PacketAnswer): void {
    const packet = this.book.of(no);
    const has = packet.owner === worker && packet.attempt === attempt && packet.fate === undefined;
    const name = `${no} ${worker} ${attempt}`;
    if (answer.kind === "packetStale") {
      if (has && this.workers.has(worker) && this.isLive(worker)) throw new PromiseBroken(`${packet.name}: refused, and its lease lives`);
      return;
    }
    if (answer.kind !== "packetSettled") throw new PromiseBroken(`${packet.name}: a settle was answered with ${answer.kind}`);
    if (!has) {
      // Sent again after its reply was lost. Whoever is told so, and did not settle it, would believe a lie.
      if (!this.#settled.has(name))
        throw new PromiseBroken(`${packet.name}: attempt ${attempt} was told that it is settled, and it is not`);
      return;
    }
    // It stays with its worker, and is settled later.
    if (to.kind === "trial") return;
    this.#settled.add(name);
    if (to.kind === "done" && packet.key !== null) this.#complete(packet, packet.key);
    this.book.settle(packet, to);
    this.#place(packets, answer, worker);
    // Also of what has just come: a part that nobody can join any more.
    this.#woken(answer.woken);
  }

  #complete(packet: KnownPacket, key: string): void {
    const by = this.completedKeys.get(key);
    if (by !== undefined) throw new PromiseBroken(`${key}: completed by ${by}, and again by ${packet.name}`);
    this.completedKeys.set(key, packet.name);
  }

  #place(packets: SendPackets["packets"], answer: Extract<PacketAnswer, { readonly placed: unknown }>, worker: number): void {
    for (const [i, sent] of packets.entries()) {
      const here = answer.placed[i];
      if (here === undefined) throw new PromiseBroken(`${sent.queue}: nobody was told where packet ${sent.no} went`);
      const row = here.kind === "claimed" ? here.packet : this.#table.packet(sent.no);
      this.book.place(sent, here, worker, (row?.key ?? sent.key)?.key ?? null);
      if (sent.join !== null && here.kind !== "part") this.#joined(sent, "woken" in answer ? answer.woken : []);
      if (here.kind === "claimed") this.#begun(this.book.of(sent.no), worker);
    }
  }

  /** The parts that went with it: those of its node that are not there any more, and were not closed. */
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
      if (packet.fate !== undefined) throw new PromiseBroken(`${packet.name}: claimed, and it was ${packet.fate}`);
      if (packet.owner !== null) {
        if (this.isLive(packet.owner)) throw new PromiseBroken(`${packet.name}: claimed while w${packet.owner} held a live lease`);
        packet.crashes += 1;
      }
      if (attempt !== packet.attempt + 1) throw new PromiseBroken(`${packet.name}: attempt ${attempt} follows attempt ${packet.attempt}`);
      if (crashes !== packet.crashes) throw new PromiseBroken(`${packet.name}: ${crashes} crashes, and there were ${packet.crashes}`);
      packet.attempt = attempt;
      packet.owner = worker;
      packet.key = this.#table.packet(no)?.key?.key ?? null;
      this.#begun(packet, worker);
    }
  }

  /** What must be true of whoever gets a packet, by whatever way. */
  #begun(packet: KnownPacket, worker: number): void {
    const { name, key, sent } = packet;
    if (!this.workers.has(worker)) throw new PromiseBroken(`${name}: given to w${worker}, who is not known`);
    if (this.#table.flowState(sent.flow) !== "active") throw new PromiseBroken(`${name}: given out while its flow rests`);
    const by = key === null ? undefined : this.completedKeys.get(key);
    if (by !== undefined) throw new PromiseBroken(`${name}: given out, and ${key} was completed by ${by}`);
    const before = this.book.before(packet);
    if (before) throw new PromiseBroken(`${name}: given out before ${before.name}, which is ahead of it in its lane`);
    for (const other of this.book.packets.values()) {
      if (key === null || other === packet || other.key !== key || other.owner === null || other.fate !== undefined) continue;
      if (this.isLive(other.owner)) throw new PromiseBroken(`${name}: given out while ${other.name} holds ${key}`);
    }
  }

  #woken(woken: readonly Woken[]): void {
    for (const each of woken) this.book.wake(each);
  }

  #reinjected(no: number): void {
    const row = this.#table.packet(no);
    const packet = this.book.of(no);
    this.book.reinject(packet, row?.state === "part");
    if (packet.sent.join !== null && row?.state !== "part") this.#joined(packet.sent, []);
    // With nothing under way in its execution, a part is closed at once.
    if (row?.state === "dead") packet.fate = "dead";
    if (row === undefined) packet.fate = "closed";
  }
}
