import { type LedgerRecord, type RecordId, rowOf } from "../../../core/ledger/record.js";
import type { Census, ExecutionRow, PacketRow, QueueId } from "../../../core/packets/rules/table.js";
import { ClaimTable } from "../../shared/claim-table.js";
import type { PacketChanges } from "../../shared/loaded-packet-table.js";
import { type Lane, laneName } from "../../shared/packet-wishes.js";

/**
 * What the rules have looked at and not necessarily changed. A transaction of MongoDB conflicts only with transactions that write the
 * same documents, so each of these gets a write (`write.ts`): otherwise a packet could wait for a key in the moment in which another
 * transaction completes that key and finds no packet that waits.
 */
export interface Depends {
  readonly lanes: ReadonlyMap<string, Lane>;
  readonly executions: ReadonlySet<number>;
  /** Keys that an attempt has: a packet may have been held because of it. */
  readonly keys: ReadonlyMap<string, RecordId>;
}

/** The rows that a transaction has read, which remembers what the rules have looked at. */
export class DependentTable extends ClaimTable {
  readonly #lanes = new Map<string, Lane>();
  readonly #executions = new Set<number>();
  readonly #keys = new Map<string, RecordId>();

  override lastPlace(queue: QueueId, lane: string): number | null {
    this.#lane(queue, lane);
    return super.lastPlace(queue, lane);
  }

  override head(queue: QueueId, lane: string): PacketRow | undefined {
    this.#lane(queue, lane);
    return super.head(queue, lane);
  }

  override parts(execution: number, node?: string): PacketRow[] {
    this.#executions.add(execution);
    return super.parts(execution, node);
  }

  override census(execution: number): Census {
    this.#executions.add(execution);
    return super.census(execution);
  }

  override execution(no: number): ExecutionRow | undefined {
    this.#executions.add(no);
    return super.execution(no);
  }

  override record(id: RecordId): LedgerRecord | undefined {
    const record = super.record(id);
    if (record?.state === "running" || record?.state === "unknown") this.#keys.set(rowOf(id), id);
    return record;
  }

  /** Lanes that have no packet any more. */
  emptyLanes(): Set<string> {
    return new Set([...this.#lanes].filter(([, lane]) => super.head(lane, lane.lane) === undefined).map(([name]) => name));
  }

  depends(): Depends {
    return { lanes: this.#lanes, executions: this.#executions, keys: this.#keys };
  }

  /** Executions that existed when the transaction read them. */
  existing({ begun }: PacketChanges, no: number): boolean {
    return this.executions.has(no) && !begun.some((row) => row.no === no);
  }

  #lane({ flow, queue }: QueueId, lane: string): void {
    this.#lanes.set(laneName({ flow, queue, lane }), { flow, queue, lane });
  }
}
