import { serverNow } from "./read.js";

/**
 * One statement for any mixture of operations and any state of their records:
 *
 *   asked    the operations, one row each, on distinct records, in a fixed order
 *   seen     each operation with its record `r`, read by the primary key
 *   judged   whether the operation is granted: the conditions of core/ledger/decide.ts in SQL
 *   written  the granted operations, as compare-and-set on `rev`
 *   logged   the attempts that new attempts have ended
 *
 * If a record changes between `seen` and its lock, the compare-and-set fails and the operation is answered "again": no decision
 * is based on an old record. A replay writes nothing.
 *
 * The result is one JSON text per operation, because in a handler's transaction the statement runs on the handler's client, whose
 * parsing of numbers may be configured differently.
 *
 * The record is read by a lateral subquery with LIMIT, which can only be planned as a lookup by primary key: a plain join was planned as a
 * scan of the whole table. For the same reason settles use INSERT … ON CONFLICT too: it always uses the
 * unique index.
 */
export function fullStatement(schema: string): string {
  return `
WITH asked AS MATERIALIZED (
  SELECT a.*, ${serverNow} AS now
  FROM json_to_recordset($1::json) AS a(
    ord int, verb text, scope text, key text, owner text, attempt bigint, fingerprint text, effect ${schema}.effect,
    lease_ms bigint, retention_ms bigint, horizon_ms bigint, reconcile_after_ms bigint, over bigint,
    to_state text, outcome text, forget boolean, verdict text, note text, progress text, erase boolean)
), seen AS MATERIALIZED (
  SELECT a.*, x.r, (x.r).state = 'running' AND a.now >= (x.r).lease_until AS lapsed, coalesce(a.now >= (x.r).gone_at, false) AS afresh
  FROM asked a LEFT JOIN LATERAL (
    SELECT r FROM ${schema}.records r WHERE r.scope = a.scope AND r.key = a.key LIMIT 1
  ) x ON true
), judged AS MATERIALIZED (
  SELECT s.*, coalesce(CASE s.verb
    WHEN 'begin' THEN s.r IS NULL OR (
      NOT ((s.r).state = 'running' AND (s.r).owner = s.owner) AND (s.afresh OR (
        ((s.r).fingerprint IS NULL OR s.fingerprint IS NULL OR (s.r).fingerprint = s.fingerprint) AND (
          (s.r).state = 'free'
          OR (s.lapsed AND greatest((s.r).effect, s.effect) <= 'keyed')
          OR ((s.lapsed OR (s.r).state = 'unknown') AND greatest((s.r).effect, s.effect) = 'reconcile' AND s.over = (s.r).attempt)))))
    WHEN 'settle' THEN (s.r).owner = s.owner AND (s.r).attempt = s.attempt AND (s.r).state IN ('running', 'unknown') AND (s.r).state <> s.to_state
    WHEN 'renew' THEN (s.r).owner = s.owner AND (s.r).attempt = s.attempt AND (s.r).state = 'running'
    WHEN 'resolve' THEN (s.r).attempt = s.attempt AND ((s.r).state = 'unknown' OR s.lapsed OR (
      s.erase AND (s.r).state <> 'running' AND NOT ((s.r).owner = s.owner AND (s.r).state = s.to_state)))
  END, false) AS granted
  FROM seen s
), written AS (
  INSERT INTO ${schema}.records AS r (
    scope, key, state, fingerprint, effect, attempt, owner, created_at, started_at, lease_until, settled_at,
    retention_ms, horizon_ms, reconcile_after_ms, outcome, expires_at, gone_at, purge_from, verdict, note, progress, rev)
  SELECT j.scope, j.key,
    CASE j.verb WHEN 'begin' THEN 'running' WHEN 'renew' THEN (j.r).state ELSE j.to_state END,
    CASE WHEN j.verb = 'begin' AND (j.r IS NULL OR j.afresh) THEN j.fingerprint
         WHEN j.verb = 'begin' THEN coalesce((j.r).fingerprint, j.fingerprint)
         WHEN j.forget THEN NULL ELSE (j.r).fingerprint END,
    CASE WHEN j.verb = 'begin' AND (j.r IS NULL OR j.afresh) THEN j.effect
         WHEN j.verb = 'begin' THEN greatest((j.r).effect, j.effect) ELSE (j.r).effect END,
    CASE j.verb WHEN 'begin' THEN coalesce((j.r).attempt, 0) + 1 ELSE (j.r).attempt END,
    j.owner,
    CASE WHEN j.verb = 'begin' AND (j.r IS NULL OR j.afresh) THEN j.now ELSE (j.r).created_at END,
    CASE j.verb WHEN 'begin' THEN j.now ELSE (j.r).started_at END,
    CASE j.verb WHEN 'begin' THEN j.now + j.lease_ms WHEN 'renew' THEN greatest((j.r).lease_until, j.now + j.lease_ms) ELSE (j.r).lease_until END,
    CASE WHEN j.verb IN ('settle', 'resolve') THEN j.now END,
    CASE j.verb WHEN 'begin' THEN j.retention_ms ELSE (j.r).retention_ms END,
    CASE j.verb WHEN 'begin' THEN j.horizon_ms ELSE (j.r).horizon_ms END,
    CASE j.verb WHEN 'begin' THEN j.reconcile_after_ms ELSE (j.r).reconcile_after_ms END,
    CASE WHEN j.verb IN ('settle', 'resolve') THEN j.outcome END,
    CASE WHEN j.to_state <> 'unknown' THEN j.now + (j.r).retention_ms END,
    CASE WHEN j.to_state <> 'unknown' THEN j.now + (j.r).retention_ms + (j.r).horizon_ms END,
    CASE j.verb WHEN 'begin' THEN j.now + j.retention_ms ELSE (j.r).purge_from END,
    CASE j.verb WHEN 'begin' THEN 'running' WHEN 'renew' THEN (j.r).verdict ELSE j.verdict END,
    CASE j.verb WHEN 'renew' THEN (j.r).note ELSE j.note END,
    CASE WHEN j.verb = 'begin' AND (j.r IS NULL OR j.afresh) THEN j.progress
         WHEN j.verb = 'begin' THEN coalesce((j.r).progress, j.progress)
         WHEN j.verb = 'renew' THEN coalesce(j.progress, (j.r).progress)
         WHEN j.to_state = 'unknown' THEN (j.r).progress END,
    coalesce((j.r).rev, 0) + 1
  FROM judged j WHERE j.granted ORDER BY j.ord
  ON CONFLICT (scope, key) DO UPDATE SET
    state = excluded.state, fingerprint = excluded.fingerprint, effect = excluded.effect, attempt = excluded.attempt,
    owner = excluded.owner, created_at = excluded.created_at, started_at = excluded.started_at,
    lease_until = excluded.lease_until, settled_at = excluded.settled_at, retention_ms = excluded.retention_ms,
    horizon_ms = excluded.horizon_ms, reconcile_after_ms = excluded.reconcile_after_ms, outcome = excluded.outcome,
    expires_at = excluded.expires_at, gone_at = excluded.gone_at, purge_from = excluded.purge_from, verdict = excluded.verdict, note = excluded.note,
    progress = excluded.progress, rev = excluded.rev
  WHERE r.rev = excluded.rev - 1
  RETURNING r.scope, r.key
), logged AS (
  INSERT INTO ${schema}.attempts (scope, key, attempt, owner, started_at, ended_at, verdict, note)
  SELECT j.scope, j.key, (j.r).attempt, (j.r).owner, (j.r).started_at,
    CASE (j.r).verdict WHEN 'running' THEN (j.r).lease_until ELSE (j.r).settled_at END,
    CASE (j.r).verdict WHEN 'running' THEN 'lapsed' ELSE (j.r).verdict END, (j.r).note
  FROM judged j JOIN written w ON w.scope = j.scope AND w.key = j.key
  WHERE j.verb = 'begin' AND NOT (j.r IS NULL)
)
SELECT json_build_object('ord', j.ord, 'now', j.now, 'written', w.key IS NOT NULL, 'record', j.r)::text AS answer
FROM judged j LEFT JOIN written w ON w.scope = j.scope AND w.key = j.key`;
}
