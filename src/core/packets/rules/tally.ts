import type { Ended, Woken } from "../operation.js";
import { type ExecutionNote, outputsMax, statusOf } from "../packet.js";
import { toDead } from "./dead.js";
import { releaseJoins } from "./release.js";
import type { PacketRow, PacketTable } from "./table.js";

interface Change {
  readonly execution: number;
  began: boolean;
  open: number;
  duplicates: number;
  dead: number;
  outputs: readonly string[];
  narrowed: boolean;
}

/**
 * Sums up the changes of one operation to executions. A packet that is removed and a packet that is sent cancel out, so a chain of
 * nodes writes its execution only at its end.
 */
export class Tally {
  readonly table: PacketTable;
  readonly now: number;
  #woken: Woken[] | undefined;
  #ended: Ended[] | undefined;
  /** The first execution that the operation changes; nearly always the only one. */
  #first: Change | undefined;
  #others: Map<number, Change> | undefined;

  constructor(table: PacketTable) {
    this.table = table;
    this.now = table.now();
  }

  get woken(): readonly Woken[] {
    return this.#woken ?? none;
  }

  /** Executions that the operation has ended. */
  get ended(): readonly Ended[] {
    return this.#ended ?? none;
  }

  add({ execution }: Pick<PacketRow, "execution">, change: Partial<Pick<Change, "open" | "duplicates" | "dead">>): void {
    if (execution === null) return;
    const sum = this.#of(execution);
    sum.open += change.open ?? 0;
    sum.duplicates += change.duplicates ?? 0;
    sum.dead += change.dead ?? 0;
  }

  /** Records that this packet can no longer fill ports of joins, so that joins which wait for these ports may be decided. */
  narrow({ execution, reach }: Pick<PacketRow, "execution" | "reach">): void {
    if (execution !== null && reach !== null && reach.length > 0) this.#of(execution).narrowed = true;
  }

  /** Records that the operation begins this execution. If it has no open packet afterwards, it ends at once. */
  began(execution: number): void {
    this.#of(execution).began = true;
  }

  output({ execution }: Pick<PacketRow, "execution">, outputs: readonly string[]): void {
    if (execution === null || outputs.length === 0) return;
    const sum = this.#of(execution);
    sum.outputs = [...sum.outputs, ...outputs];
  }

  note(
    { execution, queue, no }: Pick<PacketRow, "execution" | "queue" | "no">,
    kind: ExecutionNote["kind"],
    about: string | null = null,
  ): void {
    if (execution !== null) this.table.note(execution, { at: this.now, kind, queue, packet: no, about });
  }

  wake({ no, queue, flow, execution }: PacketRow, to: Woken["to"], note: Woken["note"] = null): void {
    this.#woken ??= [];
    this.#woken.push({ no, queue, flow, execution, to, note });
  }

  /**
   * Writes the sums, and decides joins that wait for ports which no packet can fill any more. An execution without open packets has
   * ended, and its waiting parts are closed: the packets that could fill the other ports are dead letters. A part that is retried by hand after the end is not closed: it waits for other parts that are
   * retried.
   */
  finish(): void {
    if (this.#first !== undefined) this.#write(this.#first);
    for (const change of this.#others?.values() ?? none) this.#write(change);
  }

  #write(change: Change): void {
    const { execution: no, narrowed } = change;
    const isCounted = change.began || change.open !== 0 || change.duplicates !== 0 || change.dead !== 0 || change.outputs.length > 0;
    if (!isCounted && !narrowed) return;
    const execution = this.table.execution(no);
    if (execution === undefined) return;
    const sum = {
      open: execution.open + change.open,
      duplicates: execution.duplicates + change.duplicates,
      dead: execution.dead + change.dead,
    };
    const hasEnded = sum.open === 0 && (change.began || change.open < 0);
    if (narrowed || hasEnded) releaseJoins(this, no, sum);
    if (sum.open === 0 && hasEnded) this.#closeParts(no, sum);
    if (!isCounted && sum.open === execution.open) return;
    const endedAt = sum.open > 0 ? null : (execution.endedAt ?? this.now);
    const outputs = change.outputs.length === 0 ? execution.outputs : [...execution.outputs, ...change.outputs].slice(0, outputsMax);
    this.table.changeExecution(execution, { open: sum.open, duplicates: sum.duplicates, dead: sum.dead, endedAt, outputs });
    if (endedAt === null || execution.endedAt !== null) return;
    this.table.removeKept(no);
    this.#ended ??= [];
    this.#ended.push({ no, flow: execution.flow, status: statusOf(sum) });
  }

  /**
   * Closes parts whose other ports will not be filled unless a dead letter is retried, or whose reach is not known. If packets of the execution were acknowledged as duplicates and none
   * is a dead letter, the parts count as duplicates; else they become dead letters.
   */
  #closeParts(execution: number, sum: { duplicates: number; dead: number }): void {
    const duplicated = sum.duplicates > 0 && sum.dead === 0;
    for (const part of this.table.parts(execution)) {
      this.note(part, "joinClosed", duplicated ? "duplicate" : null);
      this.wake(part, duplicated ? "closed" : "dead", duplicated ? null : "joinClosed");
      if (duplicated) {
        this.table.remove(part);
        sum.duplicates += 1;
      } else if (toDead(this, part, { note: "joinClosed" })) sum.dead += 1;
    }
  }

  #of(execution: number): Change {
    if (this.#first?.execution === execution) return this.#first;
    const known = this.#others?.get(execution);
    if (known !== undefined) return known;
    const change: Change = { execution, began: false, open: 0, duplicates: 0, dead: 0, outputs: none, narrowed: false };
    this.#others ??= this.#first && new Map();
    if (this.#others === undefined) this.#first = change;
    else this.#others.set(execution, change);
    return change;
  }
}

const none: readonly never[] = [];
