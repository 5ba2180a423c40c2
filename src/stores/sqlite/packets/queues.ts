import type { QueueId } from "../../../core/packets/rules/table.js";
import type { Prepared } from "../connection/prepared.js";
import { text } from "../runs/row.js";

const namesMax = 10_000;
const selectNumber = "SELECT no FROM onceflow_queues WHERE flow = ? AND queue = ?";
const selectName = "SELECT flow, queue FROM onceflow_queues WHERE no = ?";
const insert = "INSERT INTO onceflow_queues (flow, queue) VALUES (?, ?)";

/**
 * The numbers of queues. A name is never removed, so a number that was read from the file stays valid. A number that was assigned in
 * a transaction is not valid after its rollback, and another queue may get it later: so a rollback has to call `forget`.
 */
export class QueueNumbers {
  readonly #sql: Prepared;
  /** By flow, then by queue: a combined name would have to be built and hashed for every packet. */
  readonly #numbers = new Map<string, Map<string, number>>();
  readonly #names = new Map<number, QueueId>();

  constructor(sql: Prepared) {
    this.#sql = sql;
  }

  find({ flow, queue }: QueueId): number | undefined {
    const known = this.#numbers.get(flow)?.get(queue);
    if (known !== undefined) return known;
    const row = this.#sql(selectNumber).get(text(flow), text(queue)) as { no: number } | undefined;
    if (row !== undefined) this.#remember(row.no, { flow, queue });
    return row?.no;
  }

  /** Inside a write transaction: returns the queue's number, and assigns one if it has none. */
  give({ flow, queue }: QueueId): number {
    const known = this.#numbers.get(flow)?.get(queue) ?? this.find({ flow, queue });
    if (known !== undefined) return known;
    const no = Number(this.#sql(insert).run(flow, queue).lastInsertRowid);
    this.#remember(no, { flow, queue });
    return no;
  }

  name(no: number): QueueId {
    const known = this.#names.get(no);
    if (known !== undefined) return known;
    const { flow, queue } = this.#sql(selectName).get(no) as QueueId;
    this.#remember(no, { flow, queue });
    return { flow, queue };
  }

  forget(): void {
    this.#numbers.clear();
    this.#names.clear();
  }

  #remember(no: number, { flow, queue }: QueueId): void {
    if (this.#names.size >= namesMax) this.forget();
    this.#names.set(no, { flow, queue });
    const ofFlow = this.#numbers.get(flow) ?? new Map<string, number>();
    this.#numbers.set(flow, ofFlow.set(queue, no));
  }
}
