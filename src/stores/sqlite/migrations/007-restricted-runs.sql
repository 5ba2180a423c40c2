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
