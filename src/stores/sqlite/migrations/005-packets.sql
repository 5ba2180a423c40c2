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
