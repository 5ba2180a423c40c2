-- No index has a column that a settle changes: so a settle writes the row where it is, and no index at all. What is
-- unknown is found among the classes that can become unknown; what is over, by `purge_from`, which is set at begin and
-- is never later than the real expiry.

CREATE TYPE :"schema".effect AS ENUM ('idempotent', 'keyed', 'reconcile', 'atMostOnce');
CREATE TABLE :"schema".records (
  scope text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  state text NOT NULL,
  fingerprint text,
  effect :"schema".effect NOT NULL,
  attempt bigint NOT NULL,
  owner text NOT NULL,
  created_at bigint NOT NULL,
  started_at bigint NOT NULL,
  lease_until bigint NOT NULL,
  settled_at bigint,
  retention_ms bigint,
  horizon_ms bigint NOT NULL,
  reconcile_after_ms bigint NOT NULL,
  outcome text,
  expires_at bigint,
  gone_at bigint,
  purge_from bigint,
  verdict text NOT NULL,
  note text,
  rev bigint NOT NULL,
  PRIMARY KEY (scope, key)
) WITH (fillfactor = 70);
CREATE INDEX records_strict ON :"schema".records (scope, key) WHERE effect >= 'reconcile';
CREATE INDEX records_purge ON :"schema".records (purge_from) WHERE purge_from IS NOT NULL;
CREATE TABLE :"schema".attempts (
  scope text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  attempt bigint NOT NULL,
  owner text NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint,
  verdict text NOT NULL,
  note text,
  PRIMARY KEY (scope, key, attempt)
);
CREATE TABLE :"schema".audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  owner text NOT NULL,
  answer text NOT NULL,
  attempt bigint NOT NULL
);
CREATE INDEX audit_key ON :"schema".audit (scope, key);
COMMENT ON TABLE :"schema".records IS 'One row per key. Instants are milliseconds since 1970 on this server''s clock.';
COMMENT ON TABLE :"schema".attempts IS 'Append-only: the ended attempts of a key. The present one is in records.';
