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
