-- By what runs are searched. Each index serves some filters of core/runs/search/served.ts, in the order of the list. The indexes that begin with
-- `scope`, and those of parents, errors, troubles and attributes, hold only runs that have these: other runs do not pay for them. Attributes are
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
