import type { DeadLetter } from "../../../../core/packets/operation.js";
import type { PacketKey } from "../../../../core/packets/packet.js";
import { rowOf } from "../../../../core/packets/rules/row.js";
import type { PacketRow, QueueId } from "../../../../core/packets/rules/table.js";
import { text } from "../../runs/row.js";
import { workerOf } from "./bundle.js";

/** A row of `onceflow_bundles`. */
export interface BundleColumns {
  readonly no: number;
  readonly last: number;
  readonly created_at: number;
  /** For each edge: what all its packets have in common. */
  readonly edges: string;
  /**
   * For each packet: its number, the index of its edge in `edges`, its execution, the length of its payload; on an edge with a
   * key also the lengths of key and fingerprint. Numbers of packets and executions count from `no`.
   */
  readonly packets: string;
  /** Payloads, keys and fingerprints, concatenated. Not JSON, which would have to escape every quote in them. */
  readonly payloads: string;
}

type Edge = readonly [queue: number, letter: DeadLetter | null, keyed: Keyed | null];
type Keyed = Pick<PacketKey, "scope" | "retentionMs" | "onMismatch">;

export function toColumns(rows: readonly PacketRow[], queues: readonly number[]): BundleColumns {
  let first = Number.POSITIVE_INFINITY;
  let last = 0;
  for (const { no } of rows) {
    if (no < first) first = no;
    if (no > last) last = no;
  }
  const edges: Edge[] = [];
  const packets: (number | null)[] = [];
  let payloads = "";
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i] as PacketRow;
    const { no, execution, key, payload } = row;
    packets.push(no - first, edgeOf(edges, queues[i] as number, row), execution === null ? null : execution - first, payload.length);
    payloads += payload;
    if (key === null) continue;
    packets.push(key.key.length, key.fingerprint?.length ?? null);
    payloads += key.key + (key.fingerprint ?? "");
  }
  const created_at = rows[0]?.createdAt ?? 0;
  return { no: first, last, created_at, edges: JSON.stringify(edges), packets: JSON.stringify(packets), payloads: text(payloads) };
}

/** The index of the row's edge, which is added if it is missing. All packets of an edge share one `letter` object. */
function edgeOf(edges: Edge[], queue: number, { letter, key }: PacketRow): number {
  for (let i = 0; i < edges.length; i++) {
    const edge = edges[i] as Edge;
    if (edge[0] === queue && edge[1] === letter && isKeyedAs(edge[2], key)) return i;
  }
  const keyed = key && { scope: key.scope, retentionMs: key.retentionMs, onMismatch: key.onMismatch };
  return edges.push([queue, letter, keyed]) - 1;
}

function isKeyedAs(keyed: Keyed | null, key: PacketKey | null): boolean {
  if (keyed === null || key === null) return keyed === key;
  return keyed.scope === key.scope && keyed.retentionMs === key.retentionMs && keyed.onMismatch === key.onMismatch;
}

/** What is the same for all bundled packets: see `canBeBundled`. */
const plain = { lane: null, join: null, delayMs: 0, claim: true } as const;

/** All packets of the bundle, by index, including those that are gone. */
export function toRows(columns: BundleColumns, nameOf: (queue: number) => QueueId): PacketRow[] {
  const { no: first, created_at: createdAt } = columns;
  const edges = (JSON.parse(columns.edges) as Edge[]).map(([queue, letter, keyed]) => ({ ...nameOf(queue), letter, keyed }));
  const reader = new Reader(columns);
  const rows: PacketRow[] = [];
  while (!reader.isDone) {
    const no = first + reader.number();
    const { flow, queue, letter, keyed } = edges[reader.number()] as (typeof edges)[number];
    const execution = reader.numberOrNull();
    const payload = reader.text() ?? "";
    const key = keyed && { ...keyed, key: reader.text() ?? "", fingerprint: reader.text() };
    const sent = { no, flow, queue, execution: execution === null ? null : first + execution, payload, key, letter };
    rows.push(rowOf({ ...sent, ...plain }, createdAt, workerOf(no)));
  }
  return rows;
}

/** Reads the numbers of a bundle one after the other, and the texts whose lengths are among them. */
class Reader {
  readonly #numbers: readonly (number | null)[];
  readonly #texts: string;
  #at = 0;
  #textAt = 0;

  constructor({ packets, payloads }: BundleColumns) {
    this.#numbers = JSON.parse(packets) as (number | null)[];
    this.#texts = payloads;
  }

  get isDone(): boolean {
    return this.#at >= this.#numbers.length;
  }

  numberOrNull(): number | null {
    const number = this.#numbers[this.#at] ?? null;
    this.#at += 1;
    return number;
  }

  number(): number {
    return this.numberOrNull() ?? 0;
  }

  text(): string | null {
    const length = this.numberOrNull();
    if (length === null) return null;
    const from = this.#textAt;
    this.#textAt += length;
    return this.#texts.slice(from, this.#textAt);
  }
}
