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
