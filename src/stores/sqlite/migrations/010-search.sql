-- By what runs are searched. Each index serves some filters of core/runs/search/served.ts, in the order of the list. The indexes that begin with
-- `scope`, and those of parents, errors, troubles and attributes, hold only runs that have these: other runs do not pay for them. Attributes are
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
