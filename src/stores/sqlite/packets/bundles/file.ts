import { numbersPerWorker } from "../../../../core/packets/packet.js";
import type { PacketRow } from "../../../../core/packets/rules/table.js";
import type { Prepared } from "../../connection/prepared.js";
import type { QueueNumbers } from "../queues.js";
import type { Bundle } from "./bundle.js";
import { type BundleColumns, toColumns, toRows } from "./columns.js";

const withGone = "FROM onceflow_bundles b LEFT JOIN onceflow_bundles_gone g ON g.bundle = b.no";
const selectAll = `SELECT b.no, b.last, b.created_at, b.edges, b.packets, b.payloads, g.gone ${withGone}`;
const selectBundle = `${selectAll} WHERE b.no = ?`;
const selectGone = `SELECT g.gone ${withGone} WHERE b.no = ? AND b.packets = ?`;
const selectSpans = "SELECT no, last FROM onceflow_bundles WHERE no BETWEEN ? AND ?";
const insert = "INSERT INTO onceflow_bundles (no, last, created_at, edges, packets, payloads) VALUES (?, ?, ?, ?, ?, ?)";
const remove = "DELETE FROM onceflow_bundles WHERE no = ?";
const putGone = "INSERT INTO onceflow_bundles_gone (bundle, gone) VALUES (?, ?) ON CONFLICT (bundle) DO UPDATE SET gone = excluded.gone";
const removeGone = "DELETE FROM onceflow_bundles_gone WHERE bundle = ?";

type Found = BundleColumns & { readonly gone: string | null };
export type Span = Pick<BundleColumns, "no" | "last">;

/** The bundles of a worker: the lowest and the highest number in each. */
export function readSpans(sql: Prepared, worker: number): Span[] {
  const first = worker * numbersPerWorker;
  return sql(selectSpans).all(first, first + numbersPerWorker - 1) as Span[];
}

/** A bundle with all packets that it was written with, by index, including those that are gone. */
export function readBundle(sql: Prepared, queues: QueueNumbers, no: number): { bundle: Bundle; rows: PacketRow[] } {
  const found = sql(selectBundle).get(no) as Found;
  const rows = toRows(found, (queue) => queues.name(queue));
  const gone = goneOf(found);
  return { bundle: { no, packets: found.packets, goneText: found.gone, gone, left: rows.length - gone.length }, rows };
}

/** The remaining packets of all bundles: at most as many as all workers own. */
export function readBundled(sql: Prepared, queues: QueueNumbers): PacketRow[] {
  return (sql(selectAll).all() as Found[]).flatMap((found) => {
    const gone = new Set(goneOf(found));
    return toRows(found, (queue) => queues.name(queue)).filter((_, at) => !gone.has(at));
  });
}

function goneOf({ gone }: Found): number[] {
  return gone === null ? [] : (JSON.parse(gone) as number[]);
}

/**
 * Whether the file still has the bundle as it is in the cache. Another connection may have settled packets of the bundle, or moved
 * them to rows because their worker's lease expired. Or all of its packets are gone and were sent again, perhaps together
 * with others, as a new bundle with the same number. Without this comparison a packet could be settled twice.
 */
export function isInFile(sql: Prepared, { no, packets, goneText }: Bundle): boolean {
  const found = sql(selectGone).get(no, packets) as Pick<Found, "gone"> | undefined;
  return found !== undefined && found.gone === goneText;
}

export function writeBundle(sql: Prepared, bundle: Bundle, rows: readonly PacketRow[], queues: readonly number[]): void {
  const { no, last, created_at, edges, packets, payloads } = toColumns(rows, queues);
  sql(insert).run(no, last, created_at, edges, packets, payloads);
  bundle.no = no;
  bundle.packets = packets;
}

/** Writes which packets of the bundle are gone; deletes the bundle if none is left. */
export function writeGone(sql: Prepared, bundle: Bundle): void {
  if (bundle.left > 0) {
    bundle.goneText = JSON.stringify(bundle.gone);
    sql(putGone).run(bundle.no, bundle.goneText);
    return;
  }
  sql(remove).run(bundle.no);
  if (bundle.goneText !== null) sql(removeGone).run(bundle.no);
}
