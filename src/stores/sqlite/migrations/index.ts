// Generated from the .sql files in this folder by scripts/build-migrations.mjs (npm run build). Edit those.

/** The migrations in their order: the first one is version 1 of the schema. */
export const migrations: readonly string[] = [
  // 001-ledger.sql
  `
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
`,
  // 002-runs.sql
  `
-- Runs have numbers, given in the order of their creation, and their journal and mail are kept by number: runs that are
-- active now lie side by side on the last pages, however their ids are made. With ids in their place every commit of fifty
-- random runs wrote fifty pages, and was a third as fast. Texts of any length come last in their row: what a statement
-- compares is found without reading them.

CREATE TABLE onceflow_runs (
  no INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  workflow TEXT NOT NULL,
  status TEXT NOT NULL,
  owner TEXT,
  epoch INTEGER NOT NULL,
  wake_at INTEGER,
  mail INTEGER NOT NULL,
  consumed INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  retention_ms INTEGER,
  expires_at INTEGER,
  parent TEXT,
  creator TEXT NOT NULL,
  fingerprint TEXT,
  trouble TEXT,
  input TEXT,
  output TEXT
) STRICT;
CREATE UNIQUE INDEX onceflow_runs_id ON onceflow_runs (id);
CREATE INDEX onceflow_runs_queue ON onceflow_runs (owner, workflow, wake_at) WHERE ended_at IS NULL;
CREATE INDEX onceflow_runs_newest ON onceflow_runs (created_at, id, workflow);
CREATE INDEX onceflow_runs_rare ON onceflow_runs (status, created_at, id) WHERE status NOT IN ('running', 'completed');
CREATE INDEX onceflow_runs_expiry ON onceflow_runs (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE onceflow_journal (
  run INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  at INTEGER NOT NULL,
  events TEXT NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE onceflow_mail (
  run INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  key TEXT NOT NULL,
  kind TEXT NOT NULL,
  about TEXT,
  payload TEXT,
  at INTEGER NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX onceflow_mail_key ON onceflow_mail (run, key);
CREATE TABLE onceflow_hooks (
  no INTEGER PRIMARY KEY,
  token TEXT NOT NULL,
  run INTEGER NOT NULL,
  about TEXT NOT NULL,
  metadata TEXT,
  created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX onceflow_hooks_token ON onceflow_hooks (token);
CREATE INDEX onceflow_hooks_run ON onceflow_hooks (run);
`,
  // 003-progress.sql
  `
-- How far a running attempt has come.

ALTER TABLE onceflow_records ADD COLUMN progress TEXT;
`,
  // 004-chunks.sql
  `
-- A chunk's place in its stream, and its writer's own count: each is taken once.

CREATE TABLE onceflow_chunks (
  no INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  stream TEXT NOT NULL,
  place INTEGER NOT NULL,
  writer TEXT NOT NULL,
  n INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  kind TEXT NOT NULL,
  size INTEGER NOT NULL,
  value TEXT,
  bytes BLOB
) STRICT;
CREATE UNIQUE INDEX onceflow_chunks_place ON onceflow_chunks (run, stream, place);
CREATE UNIQUE INDEX onceflow_chunks_count ON onceflow_chunks (run, writer, stream, n);
CREATE INDEX onceflow_chunks_end ON onceflow_chunks (run, stream) WHERE kind IN ('end', 'error');
`,
  // 005-packets.sql
  `
-- A hop is one row out and one row in: every index that a row is in is paid for twice. So what is due and what a worker
-- has are one index, and the others hold only rows of the kind that they find. A flow and a queue are names that come
-- again with every packet: they are kept once, and have a number. A worker's number is never given again, therefore
-- AUTOINCREMENT. Texts of any length come last in their row.

CREATE TABLE onceflow_workers (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  lease_until INTEGER NOT NULL
) STRICT;
CREATE TABLE onceflow_flows (
  flow TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE onceflow_queues (
  no INTEGER PRIMARY KEY,
  flow TEXT NOT NULL,
  queue TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX onceflow_queues_name ON onceflow_queues (flow, queue);
CREATE TABLE onceflow_packets (
  no INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  state TEXT NOT NULL,
  owner INTEGER,
  attempt INTEGER NOT NULL,
  since INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  execution INTEGER,
  created_at INTEGER NOT NULL,
  hold TEXT,
  lane TEXT,
  place INTEGER,
  dead_blocks INTEGER NOT NULL,
  key_scope TEXT,
  key TEXT,
  key_about TEXT,
  node TEXT,
  part TEXT,
  letter TEXT,
  dead_name TEXT,
  dead_at INTEGER,
  expires_at INTEGER,
  note TEXT,
  parts TEXT,
  history TEXT,
  payload TEXT NOT NULL
) STRICT;
CREATE INDEX onceflow_packets_queue ON onceflow_packets (owner, queue, due_at) WHERE state IN ('due', 'held', 'part');
CREATE INDEX onceflow_packets_lane ON onceflow_packets (queue, lane, place) WHERE place IS NOT NULL;
CREATE INDEX onceflow_packets_key ON onceflow_packets (key_scope, key, created_at) WHERE hold = 'key';
CREATE INDEX onceflow_packets_stay ON onceflow_packets (execution, state) WHERE state IN ('part', 'kept', 'dead');
CREATE INDEX onceflow_packets_dead ON onceflow_packets (dead_at, no, queue) WHERE dead_at IS NOT NULL;
CREATE INDEX onceflow_packets_expiry ON onceflow_packets (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE onceflow_executions (
  no INTEGER PRIMARY KEY,
  flow TEXT NOT NULL,
  entry TEXT NOT NULL,
  key TEXT,
  open INTEGER NOT NULL,
  duplicates INTEGER NOT NULL,
  dead INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  retention_ms INTEGER,
  expires_at INTEGER,
  outputs TEXT,
  input TEXT NOT NULL
) STRICT;
CREATE INDEX onceflow_executions_newest ON onceflow_executions (created_at, no, flow);
CREATE INDEX onceflow_executions_open ON onceflow_executions (created_at, no) WHERE ended_at IS NULL;
CREATE INDEX onceflow_executions_dead ON onceflow_executions (created_at, no) WHERE dead > 0;
CREATE INDEX onceflow_executions_expiry ON onceflow_executions (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE onceflow_notes (
  no INTEGER PRIMARY KEY,
  execution INTEGER NOT NULL,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  queue TEXT NOT NULL,
  packet INTEGER NOT NULL,
  about TEXT
) STRICT;
CREATE INDEX onceflow_notes_execution ON onceflow_notes (execution);
`,
  // 006-bundles.sql
  `
-- What of a bundle is gone is kept apart, so that a long row is not written again for every packet that goes. What is
-- needed to find a bundle comes first in its row: the rest of it is on pages of its own.

CREATE TABLE onceflow_bundles (
  no INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  edges TEXT NOT NULL,
  packets TEXT NOT NULL,
  payloads TEXT NOT NULL
) STRICT;
CREATE TABLE onceflow_bundles_gone (
  bundle INTEGER PRIMARY KEY,
  gone TEXT NOT NULL
) STRICT;
`,
  // 007-restricted-runs.sql
  `
-- What few runs have, behind the texts of their row: a run without it is as short as before. Runs that not every worker
-- may claim have an index of their own, so that a claim finds them without reading the whole queue.

ALTER TABLE onceflow_runs ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
ALTER TABLE onceflow_runs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE onceflow_runs ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE onceflow_runs ADD COLUMN avoid TEXT;
ALTER TABLE onceflow_runs ADD COLUMN avoid_until INTEGER;
ALTER TABLE onceflow_runs ADD COLUMN unsettled INTEGER NOT NULL DEFAULT 0;
CREATE INDEX onceflow_runs_restricted ON onceflow_runs (workflow, wake_at)
  WHERE ended_at IS NULL AND wake_at IS NOT NULL AND (deaths >= 2 OR avoid IS NOT NULL);
CREATE TABLE onceflow_run_workers (
  id TEXT NOT NULL PRIMARY KEY,
  workflows TEXT NOT NULL,
  version TEXT,
  started_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`,
  // 008-reach.sql
  `
-- Packets of flows with joins say which ports of joins they may still fill: JSON. They are found by their execution, and are not
-- bundled. Other packets have NULL here, and are not in the index.

ALTER TABLE onceflow_packets ADD COLUMN reach TEXT;
CREATE INDEX onceflow_packets_reach ON onceflow_packets (execution, state, reach) WHERE reach IS NOT NULL;
`,
  // 009-operator-log.sql
  `
-- Deadlines, which few runs have, behind the texts of their row. The index holds only runs that can be ended without their code. The operator log
-- outlives the runs that it is about, so it names them by id. Numbers are never used again: a reader pages by them.

ALTER TABLE onceflow_runs ADD COLUMN deadline_at INTEGER;
ALTER TABLE onceflow_runs ADD COLUMN stop_at INTEGER;
CREATE INDEX onceflow_runs_stop ON onceflow_runs (stop_at) WHERE stop_at IS NOT NULL AND ended_at IS NULL;
CREATE TABLE onceflow_operator_log (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  reason TEXT,
  detail TEXT
) STRICT;
CREATE UNIQUE INDEX onceflow_operator_log_id ON onceflow_operator_log (id);
CREATE INDEX onceflow_operator_log_subject ON onceflow_operator_log (subject, no);
`,
  // 010-search.sql
  `
-- By what runs are searched. Each index serves some filters of core/runs/search/served.ts, in the order of the list. The indexes that begin with
-- \`scope\`, and those of parents, errors, troubles and attributes, hold only runs that have these: other runs do not pay for them. Attributes are
-- kept by triggers, so that no statement that writes or removes a run can forget them. Runs that a worker has in memory are not in the index by which
-- runs are listed: they are few, and found by their owner. Otherwise every run would be moved within it at its end, which costs two more pages.

ALTER TABLE onceflow_runs ADD COLUMN scope TEXT NOT NULL DEFAULT '';
ALTER TABLE onceflow_runs ADD COLUMN attributes TEXT;
ALTER TABLE onceflow_runs ADD COLUMN error_name TEXT;
ALTER TABLE onceflow_runs ADD COLUMN error_code TEXT;
ALTER TABLE onceflow_hooks ADD COLUMN scope TEXT NOT NULL DEFAULT '';
CREATE INDEX onceflow_runs_listed ON onceflow_runs (workflow, status, created_at, id) WHERE status <> 'running' OR owner IS NULL;
CREATE INDEX onceflow_runs_ended ON onceflow_runs (workflow, status, ended_at, id) WHERE ended_at IS NOT NULL;
CREATE INDEX onceflow_runs_parent ON onceflow_runs (parent, created_at, id) WHERE parent IS NOT NULL;
CREATE INDEX onceflow_runs_error_name ON onceflow_runs (error_name, created_at, id) WHERE error_name IS NOT NULL;
CREATE INDEX onceflow_runs_error_code ON onceflow_runs (error_code, created_at, id) WHERE error_code IS NOT NULL;
CREATE INDEX onceflow_runs_person ON onceflow_runs (created_at, id) WHERE trouble IS NOT NULL OR unsettled > 0;
CREATE INDEX onceflow_runs_scope_listed ON onceflow_runs (scope, workflow, status, created_at, id) WHERE scope <> '';
CREATE INDEX onceflow_runs_scope_ended ON onceflow_runs (scope, workflow, status, ended_at, id) WHERE scope <> '' AND ended_at IS NOT NULL;
CREATE INDEX onceflow_runs_scope_id ON onceflow_runs (scope, id) WHERE scope <> '';
CREATE INDEX onceflow_runs_scope_error_name ON onceflow_runs (scope, error_name, created_at, id) WHERE scope <> '' AND error_name IS NOT NULL;
CREATE INDEX onceflow_runs_scope_error_code ON onceflow_runs (scope, error_code, created_at, id) WHERE scope <> '' AND error_code IS NOT NULL;
CREATE INDEX onceflow_runs_scope_person ON onceflow_runs (scope, created_at, id) WHERE scope <> '' AND (trouble IS NOT NULL OR unsettled > 0);
CREATE INDEX onceflow_hooks_scope ON onceflow_hooks (scope, token) WHERE scope <> '';
CREATE TABLE onceflow_run_attributes (
  run INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  scope TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  id TEXT NOT NULL,
  PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX onceflow_run_attributes_value ON onceflow_run_attributes (name, value, created_at, id);
CREATE INDEX onceflow_run_attributes_scope ON onceflow_run_attributes (scope, name, value, created_at, id) WHERE scope <> '';
CREATE TRIGGER onceflow_runs_attributes_added AFTER INSERT ON onceflow_runs WHEN NEW.attributes IS NOT NULL BEGIN
  INSERT OR REPLACE INTO onceflow_run_attributes (run, name, value, scope, created_at, id)
    SELECT NEW.no, key, value, NEW.scope, NEW.created_at, NEW.id FROM json_each(NEW.attributes);
END;
CREATE TRIGGER onceflow_runs_attributes_changed AFTER UPDATE OF attributes ON onceflow_runs WHEN NEW.attributes IS NOT OLD.attributes BEGIN
  DELETE FROM onceflow_run_attributes WHERE run = NEW.no;
  INSERT OR REPLACE INTO onceflow_run_attributes (run, name, value, scope, created_at, id)
    SELECT NEW.no, key, value, NEW.scope, NEW.created_at, NEW.id FROM json_each(NEW.attributes);
END;
CREATE TRIGGER onceflow_runs_attributes_removed AFTER DELETE ON onceflow_runs WHEN OLD.attributes IS NOT NULL BEGIN
  DELETE FROM onceflow_run_attributes WHERE run = OLD.no;
END;
`,
  // 011-history.sql
  `
-- The history of executions: a row for each delivery that has ended, if the runtime keeps one. Values come last in their row, and the
-- index by which the rows of an execution are counted does not have them.

CREATE TABLE onceflow_deliveries (
  no INTEGER PRIMARY KEY,
  execution INTEGER NOT NULL,
  packet INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  queue TEXT NOT NULL,
  node TEXT NOT NULL,
  verdict TEXT NOT NULL,
  at INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ms INTEGER NOT NULL,
  code TEXT,
  links TEXT,
  details TEXT
) STRICT;
CREATE UNIQUE INDEX onceflow_deliveries_execution ON onceflow_deliveries (execution, packet, attempt);
CREATE INDEX onceflow_deliveries_packet ON onceflow_deliveries (packet);

-- Executions with a scope or attributes are found by them. Other executions have NULL here, and are in none of these indexes.

ALTER TABLE onceflow_executions ADD COLUMN scope TEXT;
ALTER TABLE onceflow_executions ADD COLUMN attributes TEXT;
CREATE INDEX onceflow_executions_scope ON onceflow_executions (scope, created_at, no) WHERE scope IS NOT NULL;
CREATE TABLE onceflow_execution_attributes (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  scope TEXT,
  PRIMARY KEY (name, value, created_at, execution)
) STRICT, WITHOUT ROWID;
CREATE INDEX onceflow_execution_attributes_scope ON onceflow_execution_attributes (scope, name, value, created_at, execution)
  WHERE scope IS NOT NULL;
CREATE INDEX onceflow_execution_attributes_execution ON onceflow_execution_attributes (execution);
`,
];
