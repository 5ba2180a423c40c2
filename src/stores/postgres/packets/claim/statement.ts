import { notesMax } from "../../../../core/packets/packet.js";
import { untilWoken } from "../../../../core/packets/rules/lane.js";
import type { QueueId } from "../../../../core/packets/rules/table.js";
import { serverNow } from "../../ledger/read.js";
import { notify } from "../notify.js";
import { type PacketJson, withoutPayload } from "../row.js";

/** The condition of the index of due packets, without packets that wait for another packet (`untilWoken`). */
const claimable = `p.owner IS NULL AND p.state IN ('due', 'held', 'part') AND p.due_at < ${untilWoken}`;

/** All owners of packets: a jump from each owner to the next through the index, not a scan. */
const owners = `owners AS (
  (SELECT p.owner FROM $schema.packets p WHERE p.owner IS NOT NULL ORDER BY p.owner LIMIT 1)
  UNION ALL
  SELECT (SELECT p.owner FROM $schema.packets p WHERE p.owner > o.owner ORDER BY p.owner LIMIT 1) FROM owners o WHERE o.owner IS NOT NULL
)`;

/** The answer of the claim statement. */
export interface Picked {
  readonly now: number;
  readonly known: boolean;
  readonly silent: boolean;
  readonly resting: readonly string[] | null;
  readonly picked: readonly PacketJson[] | null;
  readonly taken: readonly PacketJson[] | null;
  readonly upcoming: readonly (QueueId & { readonly at: number })[] | null;
  readonly nextLapse: number | null;
}

/**
 * Claims due packets.
 *
 *   asked   the queues, in the order of their priority, and whether their flow is active
 *   silent  other workers whose lease has expired, and owners that the store no longer knows as workers. While there are any, the
 *           statement picks nothing, so that `reapStatement` frees their packets first
 *   picked  the first packets of each queue, locked. A packet that another transaction has locked is left out
 *   taken   all picked packets, if none of them needs a decision first: none has a key, none is a part that has waited too long
 *
 * Parameters:
 *
 *   $1  flows of the queues      $2  names of the queues      $3  packets wanted of each queue
 *   $4  the worker's number      $5  packets wanted in all    $6  the number of this claim, written into the packets (`Doubts`)
 *   $7  take what is picked; false: only pick and lock, and decide in the same transaction
 *   $8  for each queue: whether the time of its next due packet is wanted
 *   $9  pick although there are silent workers: this claim has already reaped as often as it may
 *
 * When nothing is due, the statement probes an index for each queue and each owner, and writes and locks nothing.
 */
export const claimStatement = {
  name: "claim",
  text: `WITH RECURSIVE clock AS MATERIALIZED (SELECT ${serverNow} AS now), ${owners},
silent AS MATERIALIZED (
  SELECT o.owner FROM owners o, clock WHERE o.owner <> $4::bigint AND NOT EXISTS (
    SELECT FROM $schema.workers w WHERE w.no = o.owner AND w.lease_until > now)
  UNION
  SELECT w.no FROM $schema.workers w, clock WHERE w.no <> $4::bigint AND w.lease_until <= now
), asked AS MATERIALIZED (
  SELECT a.*, coalesce((SELECT f.state FROM $schema.flows f WHERE f.flow = a.flow), 'active') AS state
  FROM unnest($1::text[], $2::text[], $3::int[], $8::boolean[]) WITH ORDINALITY AS a(flow, queue, count, wanted, ord)
), me AS MATERIALIZED (SELECT w.no FROM $schema.workers w WHERE w.no = $4::bigint AND ($9::boolean OR NOT EXISTS (SELECT FROM silent))
), picked AS MATERIALIZED (
  SELECT x.* FROM me, clock, asked a, LATERAL (
    SELECT ${withoutPayload.join(", ")}, a.ord FROM $schema.packets p WHERE p.flow = a.flow AND p.queue = a.queue AND ${claimable} AND p.due_at <= now
    ORDER BY p.due_at, p.no LIMIT a.count FOR UPDATE OF p SKIP LOCKED) x
  WHERE a.state = 'active' LIMIT $5::int
), taken AS (
  UPDATE $schema.packets p SET owner = $4::bigint, claim = $6::bigint, attempt = p.attempt + 1, state = 'due', hold = NULL
  FROM picked k WHERE p.no = k.no AND $7::boolean AND NOT EXISTS (SELECT FROM picked WHERE key IS NOT NULL OR state = 'part')
  RETURNING p.*, k.ord, k.due_at AS since_at
)
SELECT json_build_object('now', now, 'known', EXISTS (SELECT FROM $schema.workers w WHERE w.no = $4::bigint),
  'silent', EXISTS (SELECT FROM silent),
  'resting', (SELECT json_agg(DISTINCT flow) FROM asked WHERE state <> 'active'),
  'picked', (SELECT json_agg(k ORDER BY k.ord, k.due_at, k.no) FROM picked k),
  'taken', (SELECT json_agg(t ORDER BY t.ord, t.since_at, t.no) FROM taken t),
  'upcoming', (SELECT json_agg(json_build_object('flow', a.flow, 'queue', a.queue, 'at', x.due_at)) FROM asked a, LATERAL (
    SELECT p.due_at FROM $schema.packets p WHERE p.flow = a.flow AND p.queue = a.queue AND ${claimable}
      AND p.no NOT IN (SELECT no FROM picked) ORDER BY p.due_at, p.no LIMIT 1) x WHERE a.state = 'active' AND a.wanted),
  'nextLapse', (SELECT min(w.lease_until) FROM $schema.workers w WHERE w.no <> $4::bigint)
)::text AS answer FROM clock`,
};

/**
 * Returns packets of workers whose lease has expired to their queues, increments each packet's crash count, and notes it. It may return only
 * some of them: at most $2, and none that another transaction has locked. That is safe because the same statement removes the
 * worker's row: `settlePacket` treats a missing packet as settled only if the store knows the worker, and from here on it does not.
 * The remaining packets have an owner that is not a worker, by which the next claim finds them. $1: the worker that claims; $2:
 * maximum number of packets.
 */
export const reapStatement = {
  name: "reap",
  text: `WITH RECURSIVE clock AS MATERIALIZED (SELECT ${serverNow} AS now), ${owners},
lapsed AS (
  DELETE FROM $schema.workers WHERE no = ANY (ARRAY(
    SELECT w.no FROM $schema.workers w, clock WHERE w.lease_until <= now AND w.no <> $1::bigint ORDER BY w.no FOR UPDATE OF w SKIP LOCKED))
  RETURNING no
), silent AS MATERIALIZED (
  SELECT no FROM lapsed
  UNION
  SELECT o.owner FROM owners o WHERE o.owner <> $1::bigint AND NOT EXISTS (SELECT FROM $schema.workers w WHERE w.no = o.owner)
), theirs AS MATERIALIZED (
  SELECT p.no FROM $schema.packets p WHERE p.owner = ANY (ARRAY(SELECT no FROM silent)) ORDER BY p.no LIMIT $2::int FOR UPDATE SKIP LOCKED
), freed AS (
  UPDATE $schema.packets p SET owner = NULL, crashes = p.crashes + 1 FROM theirs t WHERE p.no = t.no
  RETURNING p.no, p.execution, p.queue, p.attempt
), noted AS (
  INSERT INTO $schema.notes (execution, at, kind, queue, packet, about)
  SELECT a.execution, now, 'crashed', a.queue, a.no, a.attempt::text FROM clock, (
    SELECT f.*, row_number() OVER (PARTITION BY f.execution ORDER BY f.no)
      + (SELECT count(*) FROM $schema.notes n WHERE n.execution = f.execution) AS nth
    FROM freed f WHERE EXISTS (SELECT FROM $schema.executions e WHERE e.no = f.execution)) a
  WHERE a.nth <= ${notesMax} ORDER BY a.no
)
SELECT json_build_object('freed', (SELECT count(*) FROM freed), 'notified', ${notify}::text)::text AS answer`,
};
