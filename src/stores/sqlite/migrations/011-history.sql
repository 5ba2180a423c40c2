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
