-- Every page that a commit touches is paid for at every operation. So the table is its own primary key, and the index
-- that finds what is unknown among millions holds only classes that can become unknown: the others do not pay for it.

CREATE TABLE onceflow_records (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  state TEXT NOT NULL,
  fingerprint TEXT,
  effect TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  owner TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  settled_at INTEGER,
  retention_ms INTEGER,
  horizon_ms INTEGER NOT NULL,
  reconcile_after_ms INTEGER NOT NULL,
  outcome TEXT,
  expires_at INTEGER,
  gone_at INTEGER,
  verdict TEXT NOT NULL,
  note TEXT,
  rev INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX onceflow_records_doubt ON onceflow_records (scope, key)
  WHERE state = 'unknown' OR (state = 'running' AND effect IN ('reconcile', 'atMostOnce'));
CREATE INDEX onceflow_records_expiry ON onceflow_records (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE onceflow_attempts (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  owner TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  verdict TEXT NOT NULL,
  note TEXT,
  PRIMARY KEY (scope, key, attempt)
) STRICT;
CREATE TABLE onceflow_audit (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  at INTEGER NOT NULL,
  owner TEXT NOT NULL,
  answer TEXT NOT NULL,
  attempt INTEGER NOT NULL
) STRICT;
CREATE INDEX onceflow_audit_key ON onceflow_audit (scope, key);
