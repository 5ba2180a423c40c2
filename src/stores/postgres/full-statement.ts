/**
 * One statement for any mixture of operations, whatever the state of their records:
 *
 *   asked    the operations, one row each, on distinct records, in one order
 *   seen     each with its record as it is, by the primary key
 *   judged   whether it is granted: the conditions of core/decide.ts, in SQL
 *   written  the granted ones, as compare-and-set on `rev`
 *   logged   the attempt that a new one has ended
 *
 * A record that changed between `seen` and its lock fails the compare-and-set and is answered "again": nothing is
 * decided on old sight. So the verdict is taken once, in one place, and a replay writes nothing at all.
 *
 * The read is a lateral subquery with LIMIT, which can only be a probe of the primary key per operation: joined in
 * the plain way, it was planned as a scan of the whole table. For the same reason settles go through INSERT … ON
 * CONFLICT too: its arbiter index is a probe by nature.
 */
export function fullStatement(schema: string): string {
  return `
WITH asked AS MATERIALIZED (
  SELECT a.*, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
  FROM json_to_recordset($1::json) AS a(
    ord int, verb text, scope text, key text, owner text, attempt int, fingerprint text, effect ${schema}.effect,
    lease_ms bigint, retention_ms bigint, horizon_ms bigint, reconcile_after_ms bigint, over int,
    to_state text, outcome text, forget boolean, verdict text, note text)
), seen AS MATERIALIZED (
  SELECT a.*, r.state AS r_state, r.fingerprint AS r_fingerprint, r.effect AS r_effect, r.attempt AS r_attempt,
    r.owner AS r_owner, r.created_at AS r_created_at, r.started_at AS r_started_at, r.lease_until AS r_lease_until,
    r.settled_at AS r_settled_at, r.retention_ms AS r_retention_ms, r.horizon_ms AS r_horizon_ms,
    r.reconcile_after_ms AS r_reconcile_after_ms, r.outcome AS r_outcome, r.expires_at AS r_expires_at,
    r.gone_at AS r_gone_at, r.verdict AS r_verdict, r.note AS r_note, r.rev AS r_rev,
    r.state = 'running' AND a.now >= r.lease_until AS lapsed,
    coalesce(a.now >= r.gone_at, false) AS afresh
  FROM asked a LEFT JOIN LATERAL (
    SELECT * FROM ${schema}.records r WHERE r.scope = a.scope AND r.key = a.key LIMIT 1
  ) r ON true
), judged AS MATERIALIZED (
  SELECT s.*, coalesce(CASE s.verb
    WHEN 'begin' THEN s.r_state IS NULL OR (
      NOT (s.r_state = 'running' AND s.r_owner = s.owner) AND (s.afresh OR (
        (s.r_fingerprint IS NULL OR s.fingerprint IS NULL OR s.r_fingerprint = s.fingerprint) AND (
          s.r_state = 'free'
          OR (s.lapsed AND greatest(s.r_effect, s.effect) <= 'keyed')
          OR ((s.lapsed OR s.r_state = 'unknown') AND greatest(s.r_effect, s.effect) = 'reconcile' AND s.over = s.r_attempt)))))
    WHEN 'settle' THEN s.r_owner = s.owner AND s.r_attempt = s.attempt AND s.r_state IN ('running', 'unknown') AND s.r_state <> s.to_state
    WHEN 'renew' THEN s.r_owner = s.owner AND s.r_attempt = s.attempt AND s.r_state = 'running'
    WHEN 'resolve' THEN s.r_attempt = s.attempt AND (s.r_state = 'unknown' OR (s.lapsed AND s.r_effect >= 'reconcile'))
  END, false) AS granted
  FROM seen s
), written AS (
  INSERT INTO ${schema}.records AS r (
    scope, key, state, fingerprint, effect, attempt, owner, created_at, started_at, lease_until, settled_at,
    retention_ms, horizon_ms, reconcile_after_ms, outcome, expires_at, gone_at, verdict, note, rev)
  SELECT j.scope, j.key,
    CASE j.verb WHEN 'begin' THEN 'running' WHEN 'renew' THEN j.r_state ELSE j.to_state END,
    CASE WHEN j.verb = 'begin' AND (j.r_state IS NULL OR j.afresh) THEN j.fingerprint
         WHEN j.verb = 'begin' THEN coalesce(j.r_fingerprint, j.fingerprint)
         WHEN j.forget THEN NULL ELSE j.r_fingerprint END,
    CASE WHEN j.verb = 'begin' AND (j.r_state IS NULL OR j.afresh) THEN j.effect
         WHEN j.verb = 'begin' THEN greatest(j.r_effect, j.effect) ELSE j.r_effect END,
    CASE j.verb WHEN 'begin' THEN coalesce(j.r_attempt, 0) + 1 ELSE j.r_attempt END,
    j.owner,
    CASE WHEN j.verb = 'begin' AND (j.r_state IS NULL OR j.afresh) THEN j.now ELSE j.r_created_at END,
    CASE j.verb WHEN 'begin' THEN j.now ELSE j.r_started_at END,
    CASE j.verb WHEN 'begin' THEN j.now + j.lease_ms WHEN 'renew' THEN greatest(j.r_lease_until, j.now + j.lease_ms) ELSE j.r_lease_until END,
    CASE WHEN j.verb IN ('settle', 'resolve') THEN j.now END,
    CASE j.verb WHEN 'begin' THEN j.retention_ms ELSE j.r_retention_ms END,
    CASE j.verb WHEN 'begin' THEN j.horizon_ms ELSE j.r_horizon_ms END,
    CASE j.verb WHEN 'begin' THEN j.reconcile_after_ms ELSE j.r_reconcile_after_ms END,
    CASE WHEN j.verb IN ('settle', 'resolve') THEN j.outcome END,
    CASE WHEN j.to_state <> 'unknown' THEN j.now + j.r_retention_ms END,
    CASE WHEN j.to_state <> 'unknown' THEN j.now + j.r_retention_ms + j.r_horizon_ms END,
    CASE j.verb WHEN 'begin' THEN 'running' WHEN 'renew' THEN j.r_verdict ELSE j.verdict END,
    CASE j.verb WHEN 'renew' THEN j.r_note ELSE j.note END,
    coalesce(j.r_rev, 0) + 1
  FROM judged j WHERE j.granted ORDER BY j.ord
  ON CONFLICT (scope, key) DO UPDATE SET
    state = excluded.state, fingerprint = excluded.fingerprint, effect = excluded.effect, attempt = excluded.attempt,
    owner = excluded.owner, created_at = excluded.created_at, started_at = excluded.started_at,
    lease_until = excluded.lease_until, settled_at = excluded.settled_at, retention_ms = excluded.retention_ms,
    horizon_ms = excluded.horizon_ms, reconcile_after_ms = excluded.reconcile_after_ms, outcome = excluded.outcome,
    expires_at = excluded.expires_at, gone_at = excluded.gone_at, verdict = excluded.verdict, note = excluded.note,
    rev = excluded.rev
  WHERE r.rev = excluded.rev - 1
  RETURNING r.scope, r.key
), logged AS (
  INSERT INTO ${schema}.attempts (scope, key, attempt, owner, started_at, ended_at, verdict, note)
  SELECT j.scope, j.key, j.r_attempt, j.r_owner, j.r_started_at,
    CASE j.r_verdict WHEN 'running' THEN j.r_lease_until ELSE j.r_settled_at END,
    CASE j.r_verdict WHEN 'running' THEN 'lapsed' ELSE j.r_verdict END, j.r_note
  FROM judged j JOIN written w ON w.scope = j.scope AND w.key = j.key
  WHERE j.verb = 'begin' AND j.r_state IS NOT NULL
)
SELECT j.ord, j.now, w.key IS NOT NULL AS written, j.r_state AS state, j.r_fingerprint AS fingerprint, j.r_effect AS effect,
  j.r_attempt AS attempt, j.r_owner AS owner, j.r_created_at AS "createdAt", j.r_started_at AS "startedAt",
  j.r_lease_until AS "leaseUntil", j.r_settled_at AS "settledAt", j.r_retention_ms AS "retentionMs",
  j.r_horizon_ms AS "horizonMs", j.r_reconcile_after_ms AS "reconcileAfterMs",
  CASE WHEN NOT j.granted THEN j.r_outcome END AS outcome, j.r_expires_at AS "expiresAt", j.r_gone_at AS "goneAt",
  j.r_verdict AS verdict, j.r_note AS note, j.r_rev AS rev
FROM judged j LEFT JOIN written w ON w.scope = j.scope AND w.key = j.key`;
}
