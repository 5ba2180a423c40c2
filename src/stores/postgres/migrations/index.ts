// Generated from the .sql files in this folder by scripts/build-migrations.mjs (npm run build). Edit those.

/** The migrations in their order: the first one is version 1 of the schema. */
export const migrations: readonly string[] = [
  // 001-ledger.sql
  `
-- No index has a column that a settle changes: so a settle writes the row where it is, and no index at all. What is
-- unknown is found among the classes that can become unknown; what is over, by \`purge_from\`, which is set at begin and
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
`,
  // 002-runs.sql
  `
-- Queue and journal. Every index is paid at every start, and again at every end (an end changes indexed columns, so the
-- row gets new entries everywhere): there are as few as the questions allow.
--
--   waiting  runs without an owner, by workflow and by when they may be claimed. A run that is executed from its creation
--            on is never in it.
--   held     runs with an owner, by owner: for renewals, and for claims of what has lapsed. There are as many owners as
--            workers, so that a claim can go through them one by one.
--   listed   newest first within a workflow and a status; a listing puts its pages together from those, so that rare
--            ones cost no more than common ones. No id in it: the few runs of one millisecond are sorted when read.
--   over     runs that have an expiry.
--
-- \`hook_rev\` is 0 while a run never had a hook, and +1 at every change of its hooks.
--
-- \`closing\` marks the entry with which a run ended: whether an entry can follow is seen in the journal alone, without a
-- look at the run. An end that has no entry leaves a row without events, which no reader is shown.

CREATE TYPE :"schema".run_status AS ENUM ('pending', 'running', 'unknown', 'diverged', 'completed', 'failed', 'cancelled');
CREATE TABLE :"schema".runs (
  id text COLLATE "C" NOT NULL PRIMARY KEY,
  workflow text COLLATE "C" NOT NULL,
  status :"schema".run_status NOT NULL,
  input text NOT NULL,
  fingerprint text,
  output text,
  trouble text,
  owner text COLLATE "C",
  epoch int NOT NULL,
  wake_at bigint,
  mail int NOT NULL DEFAULT 0,
  consumed int NOT NULL DEFAULT 0,
  hook_rev int NOT NULL DEFAULT 0,
  parent text COLLATE "C",
  creator text NOT NULL,
  created_at bigint NOT NULL,
  started_at bigint,
  ended_at bigint,
  retention_ms bigint,
  expires_at bigint
) WITH (fillfactor = 70);
CREATE INDEX runs_waiting ON :"schema".runs (workflow, wake_at) WHERE owner IS NULL AND wake_at IS NOT NULL;
CREATE INDEX runs_held ON :"schema".runs (owner, workflow, wake_at) WHERE owner IS NOT NULL;
CREATE INDEX runs_listed ON :"schema".runs (workflow, status, created_at);
CREATE INDEX runs_over ON :"schema".runs (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE :"schema".journal (
  run text COLLATE "C" NOT NULL,
  seq int NOT NULL,
  epoch int NOT NULL,
  at bigint NOT NULL,
  closing boolean,
  events text,
  PRIMARY KEY (run, seq)
);
CREATE TABLE :"schema".mail (
  run text COLLATE "C" NOT NULL,
  seq int NOT NULL,
  kind text NOT NULL,
  about text,
  payload text,
  key text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (run, seq),
  UNIQUE (run, key)
);
CREATE TABLE :"schema".hooks (
  token text COLLATE "C" NOT NULL PRIMARY KEY,
  run text COLLATE "C" NOT NULL,
  about text NOT NULL,
  metadata text,
  created_at bigint NOT NULL
);
CREATE INDEX hooks_run ON :"schema".hooks (run);
COMMENT ON TABLE :"schema".runs IS 'One row per run of a workflow. Instants are milliseconds since 1970 on this server''s clock.';
COMMENT ON TABLE :"schema".journal IS 'Append-only: what the owners of a run have committed. The primary key is the fence between two owners.';
COMMENT ON TABLE :"schema".mail IS 'What others sent to a run. Taken in up to runs.consumed.';
COMMENT ON TABLE :"schema".hooks IS 'Tokens under which mail reaches a run.';
`,
  // 003-progress.sql
  `
-- How far a running attempt has come.

ALTER TABLE :"schema".records ADD COLUMN progress text;
`,
  // 004-chunks.sql
  `
-- Streams of runs.

CREATE TABLE :"schema".chunks (
  run text COLLATE "C" NOT NULL,
  stream text COLLATE "C" NOT NULL,
  place int NOT NULL,
  writer text COLLATE "C" NOT NULL,
  n int NOT NULL,
  attempt int NOT NULL,
  kind text NOT NULL,
  size int NOT NULL,
  value text,
  bytes bytea,
  PRIMARY KEY (run, stream, place),
  UNIQUE (run, writer, stream, n)
);
CREATE INDEX chunks_end ON :"schema".chunks (run, stream) WHERE kind IN ('end', 'error');
COMMENT ON TABLE :"schema".chunks IS 'Streams of runs, and long values that stand beside the journal. A place in a stream, and a writer''s own count, are taken once.';
`,
  // 005-packets.sql
  `
-- Packets. Every index is partial: a packet that is claimed in the commit that sends it, and is gone with the next one, is
-- in that of the owners only.
--
--   due    packets without an owner, by queue and by when they may be claimed; not those that wait for another packet
--   owner  packets with an owner. There are as many owners as workers, so that a claim can go through them one by one
--   lane   places that are taken
--   held   packets that wait for a key, oldest first
--   parts  packets that wait for the other ports of their node, oldest first
--   kept, dead, over  packets that are there until their execution ends; dead letters, newest last; what has an expiry
--
-- \`terms\` is what no statement asks for: JSON. \`claim\` names the claim by which the owner got the packet (packets/doubt.ts).

CREATE TABLE :"schema".packets (
  no bigint NOT NULL PRIMARY KEY,
  flow text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  state text NOT NULL,
  owner bigint,
  claim bigint,
  attempt int NOT NULL,
  since int NOT NULL,
  crashes int NOT NULL,
  due_at bigint NOT NULL,
  execution bigint,
  scope text COLLATE "C",
  key text COLLATE "C",
  lane text COLLATE "C",
  place bigint,
  hold text,
  node text COLLATE "C",
  port text COLLATE "C",
  payload text NOT NULL,
  parts text,
  history text,
  note text,
  created_at bigint NOT NULL,
  dead_name text COLLATE "C",
  dead_at bigint,
  expires_at bigint,
  terms text
);
CREATE INDEX packets_due ON :"schema".packets (flow, queue, due_at, no)
  WHERE owner IS NULL AND state IN ('due', 'held', 'part') AND due_at < 9007199254740991;
CREATE INDEX packets_owner ON :"schema".packets (owner) WHERE owner IS NOT NULL;
CREATE INDEX packets_lane ON :"schema".packets (flow, queue, lane, place) WHERE place IS NOT NULL;
CREATE INDEX packets_held ON :"schema".packets (scope, key, created_at, no) WHERE hold = 'key';
CREATE INDEX packets_parts ON :"schema".packets (execution, node, port, created_at, no) WHERE state = 'part';
CREATE INDEX packets_kept ON :"schema".packets (execution) WHERE state = 'kept';
CREATE INDEX packets_dead ON :"schema".packets (flow, dead_at, no) WHERE state = 'dead';
CREATE INDEX packets_over ON :"schema".packets (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE :"schema".executions (
  no bigint NOT NULL PRIMARY KEY,
  flow text COLLATE "C" NOT NULL,
  entry text NOT NULL,
  input text NOT NULL,
  key text,
  open int NOT NULL,
  duplicates int NOT NULL,
  dead int NOT NULL,
  created_at bigint NOT NULL,
  ended_at bigint,
  outputs text NOT NULL,
  retention_ms bigint,
  expires_at bigint
) WITH (fillfactor = 85);
CREATE INDEX executions_listed ON :"schema".executions (flow, created_at, no);
CREATE INDEX executions_over ON :"schema".executions (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE :"schema".notes (
  id bigint GENERATED ALWAYS AS IDENTITY,
  execution bigint NOT NULL,
  at bigint NOT NULL,
  kind text NOT NULL,
  queue text NOT NULL,
  packet bigint NOT NULL,
  about text,
  PRIMARY KEY (execution, id)
);
CREATE TABLE :"schema".flows (flow text COLLATE "C" NOT NULL PRIMARY KEY, state text NOT NULL);
CREATE TABLE :"schema".workers (no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, lease_until bigint NOT NULL);
COMMENT ON TABLE :"schema".packets IS 'What waits to be delivered: one row per delivery. A packet that is done is removed.';
COMMENT ON TABLE :"schema".executions IS 'One trigger of a flow. Its row is written when the number of its packets changes.';
COMMENT ON TABLE :"schema".notes IS 'What was out of the ordinary in an execution.';
COMMENT ON TABLE :"schema".flows IS 'Flows that are paused or archived.';
COMMENT ON TABLE :"schema".workers IS 'Who claims packets. The lease of everything that a worker has is its row.';
`,
  // 006-restricted-runs.sql
  `
-- What few runs have, and an index of the runs that not every worker may claim: suspects, and runs that some workers are to
-- avoid. They are rare: the other indexes hold these runs too, and a claim passes over them there.
--
-- The new status is not used in here: PostgreSQL does not allow that before the migration is committed.

ALTER TYPE :"schema".run_status ADD VALUE IF NOT EXISTS 'parked' AFTER 'diverged';
ALTER TABLE :"schema".runs
  ADD COLUMN deaths int NOT NULL DEFAULT 0,
  ADD COLUMN crashes int NOT NULL DEFAULT 0,
  ADD COLUMN alone boolean NOT NULL DEFAULT false,
  ADD COLUMN avoid text[] COLLATE "C",
  ADD COLUMN avoid_until bigint,
  ADD COLUMN unsettled int NOT NULL DEFAULT 0;
CREATE INDEX runs_restricted ON :"schema".runs (workflow, wake_at) WHERE wake_at IS NOT NULL AND (deaths >= 2 OR avoid IS NOT NULL);
CREATE TABLE :"schema".run_workers (
  id text COLLATE "C" NOT NULL PRIMARY KEY,
  workflows text[] NOT NULL,
  version text,
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL,
  lease_until bigint NOT NULL
);
COMMENT ON TABLE :"schema".run_workers IS 'Workers that execute runs, with their last sign of life.';
`,
  // 007-reach.sql
  `
-- Packets of flows with joins say which ports of joins they may still fill: JSON. They are found by their execution. Other packets have
-- NULL here, and are not in the index.

ALTER TABLE :"schema".packets ADD COLUMN reach text COLLATE "C";
CREATE INDEX packets_reach ON :"schema".packets (execution, state) WHERE reach IS NOT NULL;
`,
  // 008-operator-log.sql
  `
-- Deadlines, which few runs have, and the operator log, which outlives the runs that it is about. The index holds only runs that can be ended
-- without their code.
--
-- The new status is not used in here: PostgreSQL does not allow that before the migration is committed.

ALTER TYPE :"schema".run_status ADD VALUE IF NOT EXISTS 'paused' AFTER 'running';
ALTER TABLE :"schema".runs
  ADD COLUMN deadline_at bigint,
  ADD COLUMN stop_at bigint;
CREATE INDEX runs_stop ON :"schema".runs (stop_at) WHERE stop_at IS NOT NULL AND ended_at IS NULL;
CREATE TABLE :"schema".operator_log (
  no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  at bigint NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  subject text COLLATE "C" NOT NULL,
  reason text,
  detail text
);
CREATE INDEX operator_log_subject ON :"schema".operator_log (subject, no);
COMMENT ON TABLE :"schema".operator_log IS 'Append-only: the actions of operators, each written with the change that it makes.';
`,
  // 009-search.sql
  `
-- By what runs are searched. Each index serves some filters of core/runs/search/served.ts, in the order of the list. The indexes that begin with
-- \`scope\`, and those of parents, errors, troubles and attributes, hold only runs that have these: other runs do not pay for them. Attributes are
-- kept by triggers, so that no statement that writes or removes a run can forget them. psql does not replace the name of the schema in the
-- bodies of functions: they find the table by their search path.

ALTER TABLE :"schema".runs
  ADD COLUMN scope text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN attributes text,
  ADD COLUMN error_name text COLLATE "C",
  ADD COLUMN error_code text COLLATE "C";
ALTER TABLE :"schema".hooks ADD COLUMN scope text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX runs_ended ON :"schema".runs (workflow, status, ended_at, id) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_parent ON :"schema".runs (parent, created_at, id) WHERE parent IS NOT NULL;
CREATE INDEX runs_error_name ON :"schema".runs (error_name, created_at, id) WHERE error_name IS NOT NULL;
CREATE INDEX runs_error_code ON :"schema".runs (error_code, created_at, id) WHERE error_code IS NOT NULL;
CREATE INDEX runs_person ON :"schema".runs (created_at, id) WHERE trouble IS NOT NULL OR unsettled > 0;
CREATE INDEX runs_scope_listed ON :"schema".runs (scope, workflow, status, created_at, id) WHERE scope <> '';
CREATE INDEX runs_scope_ended ON :"schema".runs (scope, workflow, status, ended_at, id) WHERE scope <> '' AND ended_at IS NOT NULL;
CREATE INDEX runs_scope_id ON :"schema".runs (scope, id) WHERE scope <> '';
CREATE INDEX runs_scope_error_name ON :"schema".runs (scope, error_name, created_at, id) WHERE scope <> '' AND error_name IS NOT NULL;
CREATE INDEX runs_scope_error_code ON :"schema".runs (scope, error_code, created_at, id) WHERE scope <> '' AND error_code IS NOT NULL;
CREATE INDEX runs_scope_person ON :"schema".runs (scope, created_at, id) WHERE scope <> '' AND (trouble IS NOT NULL OR unsettled > 0);
CREATE INDEX hooks_scope ON :"schema".hooks (scope, token) WHERE scope <> '';
CREATE TABLE :"schema".run_attributes (
  run text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  scope text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (run, name)
);
CREATE INDEX run_attributes_value ON :"schema".run_attributes (name, value, created_at, run);
CREATE INDEX run_attributes_scope ON :"schema".run_attributes (scope, name, value, created_at, run) WHERE scope <> '';
CREATE FUNCTION :"schema".keep_run_attributes() RETURNS trigger LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $body$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    DELETE FROM run_attributes WHERE run = OLD.id;
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO run_attributes (run, name, value, scope, created_at)
      SELECT NEW.id, e.key, e.value, NEW.scope, NEW.created_at FROM json_each_text(NEW.attributes::json) e
      ON CONFLICT (run, name) DO UPDATE SET value = excluded.value, scope = excluded.scope, created_at = excluded.created_at;
  END IF;
  RETURN NULL;
END
$body$;
CREATE TRIGGER run_attributes_added AFTER INSERT ON :"schema".runs FOR EACH ROW WHEN (NEW.attributes IS NOT NULL)
  EXECUTE FUNCTION :"schema".keep_run_attributes();
CREATE TRIGGER run_attributes_changed AFTER UPDATE OF attributes ON :"schema".runs FOR EACH ROW
  WHEN (NEW.attributes IS DISTINCT FROM OLD.attributes) EXECUTE FUNCTION :"schema".keep_run_attributes();
CREATE TRIGGER run_attributes_removed AFTER DELETE ON :"schema".runs FOR EACH ROW WHEN (OLD.attributes IS NOT NULL)
  EXECUTE FUNCTION :"schema".keep_run_attributes();
COMMENT ON TABLE :"schema".run_attributes IS 'One row per attribute of a run, written by triggers of the table runs.';
`,
  // 010-history.sql
  `
-- The history of executions: a row for each delivery that has ended, if the runtime keeps one.

CREATE TABLE :"schema".deliveries (
  execution bigint NOT NULL,
  packet bigint NOT NULL,
  attempt int NOT NULL,
  queue text COLLATE "C" NOT NULL,
  node text NOT NULL,
  verdict text NOT NULL,
  at bigint NOT NULL,
  started_at bigint NOT NULL,
  ms bigint NOT NULL,
  code text,
  links text,
  details text,
  PRIMARY KEY (execution, packet, attempt)
);
CREATE INDEX deliveries_packet ON :"schema".deliveries (packet);
COMMENT ON TABLE :"schema".deliveries IS 'The history of executions: the deliveries that have ended. Empty unless a runtime keeps a history.';

-- Executions with a scope or attributes are found by them. Other executions have NULL here, and are in none of these indexes.

ALTER TABLE :"schema".executions
  ADD COLUMN scope text COLLATE "C",
  ADD COLUMN attributes text;
CREATE INDEX executions_scope ON :"schema".executions (scope, created_at, no) WHERE scope IS NOT NULL;
CREATE TABLE :"schema".execution_attributes (
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  execution bigint NOT NULL,
  scope text COLLATE "C",
  PRIMARY KEY (name, value, created_at, execution)
);
CREATE INDEX execution_attributes_scope ON :"schema".execution_attributes (scope, name, value, created_at, execution)
  WHERE scope IS NOT NULL;
CREATE INDEX execution_attributes_execution ON :"schema".execution_attributes (execution);
COMMENT ON TABLE :"schema".execution_attributes IS 'The attributes of executions, newest last: those by which executions are listed.';
`,
];
