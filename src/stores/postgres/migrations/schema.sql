-- The schema after all migrations in this folder. ONCEFLOW_UPDATE_SCHEMA=1 npx vitest run test/stores/schema.test.ts writes it.

CREATE TYPE effect AS ENUM ('idempotent', 'keyed', 'reconcile', 'atMostOnce');
CREATE TYPE run_status AS ENUM ('pending', 'running', 'paused', 'unknown', 'diverged', 'parked', 'completed', 'failed', 'cancelled');
CREATE TABLE attempts (
  scope text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  attempt bigint NOT NULL,
  owner text NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint,
  verdict text NOT NULL,
  note text
);
CREATE TABLE audit (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  scope text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  owner text NOT NULL,
  answer text NOT NULL,
  attempt bigint NOT NULL
);
CREATE TABLE chunks (
  run text COLLATE "C" NOT NULL,
  stream text COLLATE "C" NOT NULL,
  place integer NOT NULL,
  writer text COLLATE "C" NOT NULL,
  n integer NOT NULL,
  attempt integer NOT NULL,
  kind text NOT NULL,
  size integer NOT NULL,
  value text,
  bytes bytea
);
CREATE TABLE deliveries (
  execution bigint NOT NULL,
  packet bigint NOT NULL,
  attempt integer NOT NULL,
  queue text COLLATE "C" NOT NULL,
  node text NOT NULL,
  verdict text NOT NULL,
  at bigint NOT NULL,
  started_at bigint NOT NULL,
  ms bigint NOT NULL,
  code text,
  links text,
  details text
);
CREATE TABLE execution_attributes (
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  execution bigint NOT NULL,
  scope text COLLATE "C"
);
CREATE TABLE executions (
  no bigint NOT NULL,
  flow text COLLATE "C" NOT NULL,
  entry text NOT NULL,
  input text NOT NULL,
  key text,
  open integer NOT NULL,
  duplicates integer NOT NULL,
  dead integer NOT NULL,
  created_at bigint NOT NULL,
  ended_at bigint,
  outputs text NOT NULL,
  retention_ms bigint,
  expires_at bigint,
  scope text COLLATE "C",
  attributes text
) WITH (fillfactor=85);
CREATE TABLE flows (
  flow text COLLATE "C" NOT NULL,
  state text NOT NULL
);
CREATE TABLE hooks (
  token text COLLATE "C" NOT NULL,
  run text COLLATE "C" NOT NULL,
  about text NOT NULL,
  metadata text,
  created_at bigint NOT NULL,
  scope text COLLATE "C" NOT NULL DEFAULT ''::text
);
CREATE TABLE journal (
  run text COLLATE "C" NOT NULL,
  seq integer NOT NULL,
  epoch integer NOT NULL,
  at bigint NOT NULL,
  closing boolean,
  events text
);
CREATE TABLE mail (
  run text COLLATE "C" NOT NULL,
  seq integer NOT NULL,
  kind text NOT NULL,
  about text,
  payload text,
  key text COLLATE "C" NOT NULL,
  at bigint NOT NULL
);
CREATE TABLE notes (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  execution bigint NOT NULL,
  at bigint NOT NULL,
  kind text NOT NULL,
  queue text NOT NULL,
  packet bigint NOT NULL,
  about text
);
CREATE TABLE operator_log (
  no bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  id text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  subject text COLLATE "C" NOT NULL,
  reason text,
  detail text
);
CREATE TABLE packets (
  no bigint NOT NULL,
  flow text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  state text NOT NULL,
  owner bigint,
  claim bigint,
  attempt integer NOT NULL,
  since integer NOT NULL,
  crashes integer NOT NULL,
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
  terms text,
  reach text COLLATE "C"
);
CREATE TABLE records (
  scope text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  state text NOT NULL,
  fingerprint text,
  effect effect NOT NULL,
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
  progress text
) WITH (fillfactor=70);
CREATE TABLE run_attributes (
  run text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  scope text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL
);
CREATE TABLE run_workers (
  id text COLLATE "C" NOT NULL,
  workflows text[] NOT NULL,
  version text,
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL,
  lease_until bigint NOT NULL
);
CREATE TABLE runs (
  id text COLLATE "C" NOT NULL,
  workflow text COLLATE "C" NOT NULL,
  status run_status NOT NULL,
  input text NOT NULL,
  fingerprint text,
  output text,
  trouble text,
  owner text COLLATE "C",
  epoch integer NOT NULL,
  wake_at bigint,
  mail integer NOT NULL DEFAULT 0,
  consumed integer NOT NULL DEFAULT 0,
  hook_rev integer NOT NULL DEFAULT 0,
  parent text COLLATE "C",
  creator text NOT NULL,
  created_at bigint NOT NULL,
  started_at bigint,
  ended_at bigint,
  retention_ms bigint,
  expires_at bigint,
  deaths integer NOT NULL DEFAULT 0,
  crashes integer NOT NULL DEFAULT 0,
  alone boolean NOT NULL DEFAULT false,
  avoid text[] COLLATE "C",
  avoid_until bigint,
  unsettled integer NOT NULL DEFAULT 0,
  deadline_at bigint,
  stop_at bigint,
  scope text COLLATE "C" NOT NULL DEFAULT ''::text,
  attributes text,
  error_name text COLLATE "C",
  error_code text COLLATE "C"
) WITH (fillfactor=70);
CREATE TABLE schema_additions (
  version integer NOT NULL
);
CREATE TABLE schema_version (
  version integer NOT NULL
);
CREATE TABLE workers (
  no bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  lease_until bigint NOT NULL
);
CREATE UNIQUE INDEX attempts_pkey ON attempts USING btree (scope, key, attempt);
CREATE INDEX audit_key ON audit USING btree (scope, key);
CREATE UNIQUE INDEX audit_pkey ON audit USING btree (id);
CREATE INDEX chunks_end ON chunks USING btree (run, stream) WHERE (kind = ANY (ARRAY['end'::text, 'error'::text]));
CREATE UNIQUE INDEX chunks_pkey ON chunks USING btree (run, stream, place);
CREATE UNIQUE INDEX chunks_run_writer_stream_n_key ON chunks USING btree (run, writer, stream, n);
CREATE INDEX deliveries_packet ON deliveries USING btree (packet);
CREATE UNIQUE INDEX deliveries_pkey ON deliveries USING btree (execution, packet, attempt);
CREATE INDEX execution_attributes_execution ON execution_attributes USING btree (execution);
CREATE UNIQUE INDEX execution_attributes_pkey ON execution_attributes USING btree (name, value, created_at, execution);
CREATE INDEX execution_attributes_scope ON execution_attributes USING btree (scope, name, value, created_at, execution) WHERE (scope IS NOT NULL);
CREATE INDEX executions_listed ON executions USING btree (flow, created_at, no);
CREATE INDEX executions_over ON executions USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE UNIQUE INDEX executions_pkey ON executions USING btree (no);
CREATE INDEX executions_scope ON executions USING btree (scope, created_at, no) WHERE (scope IS NOT NULL);
CREATE UNIQUE INDEX flows_pkey ON flows USING btree (flow);
CREATE UNIQUE INDEX hooks_pkey ON hooks USING btree (token);
CREATE INDEX hooks_run ON hooks USING btree (run);
CREATE INDEX hooks_scope ON hooks USING btree (scope, token) WHERE (scope <> ''::text);
CREATE UNIQUE INDEX journal_pkey ON journal USING btree (run, seq);
CREATE UNIQUE INDEX mail_pkey ON mail USING btree (run, seq);
CREATE UNIQUE INDEX mail_run_key_key ON mail USING btree (run, key);
CREATE UNIQUE INDEX notes_pkey ON notes USING btree (execution, id);
CREATE UNIQUE INDEX operator_log_id_key ON operator_log USING btree (id);
CREATE UNIQUE INDEX operator_log_pkey ON operator_log USING btree (no);
CREATE INDEX operator_log_subject ON operator_log USING btree (subject, no);
CREATE INDEX packets_dead ON packets USING btree (flow, dead_at, no) WHERE (state = 'dead'::text);
CREATE INDEX packets_due ON packets USING btree (flow, queue, due_at, no) WHERE ((owner IS NULL) AND (state = ANY (ARRAY['due'::text, 'held'::text, 'part'::text])) AND (due_at < '9007199254740991'::bigint));
CREATE INDEX packets_held ON packets USING btree (scope, key, created_at, no) WHERE (hold = 'key'::text);
CREATE INDEX packets_kept ON packets USING btree (execution) WHERE (state = 'kept'::text);
CREATE INDEX packets_lane ON packets USING btree (flow, queue, lane, place) WHERE (place IS NOT NULL);
CREATE INDEX packets_over ON packets USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX packets_owner ON packets USING btree (owner) WHERE (owner IS NOT NULL);
CREATE INDEX packets_parts ON packets USING btree (execution, node, port, created_at, no) WHERE (state = 'part'::text);
CREATE UNIQUE INDEX packets_pkey ON packets USING btree (no);
CREATE INDEX packets_reach ON packets USING btree (execution, state) WHERE (reach IS NOT NULL);
CREATE UNIQUE INDEX records_pkey ON records USING btree (scope, key);
CREATE INDEX records_purge ON records USING btree (purge_from) WHERE (purge_from IS NOT NULL);
CREATE INDEX records_strict ON records USING btree (scope, key) WHERE (effect >= 'reconcile'::effect);
CREATE UNIQUE INDEX run_attributes_pkey ON run_attributes USING btree (run, name);
CREATE INDEX run_attributes_scope ON run_attributes USING btree (scope, name, value, created_at, run) WHERE (scope <> ''::text);
CREATE INDEX run_attributes_value ON run_attributes USING btree (name, value, created_at, run);
CREATE UNIQUE INDEX run_workers_pkey ON run_workers USING btree (id);
CREATE INDEX runs_ended ON runs USING btree (workflow, status, ended_at, id) WHERE (ended_at IS NOT NULL);
CREATE INDEX runs_error_code ON runs USING btree (error_code, created_at, id) WHERE (error_code IS NOT NULL);
CREATE INDEX runs_error_name ON runs USING btree (error_name, created_at, id) WHERE (error_name IS NOT NULL);
CREATE INDEX runs_held ON runs USING btree (owner, workflow, wake_at) WHERE (owner IS NOT NULL);
CREATE INDEX runs_listed ON runs USING btree (workflow, status, created_at);
CREATE INDEX runs_over ON runs USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX runs_parent ON runs USING btree (parent, created_at, id) WHERE (parent IS NOT NULL);
CREATE INDEX runs_person ON runs USING btree (created_at, id) WHERE ((trouble IS NOT NULL) OR (unsettled > 0));
CREATE UNIQUE INDEX runs_pkey ON runs USING btree (id);
CREATE INDEX runs_restricted ON runs USING btree (workflow, wake_at) WHERE ((wake_at IS NOT NULL) AND ((deaths >= 2) OR (avoid IS NOT NULL)));
CREATE INDEX runs_scope_ended ON runs USING btree (scope, workflow, status, ended_at, id) WHERE ((scope <> ''::text) AND (ended_at IS NOT NULL));
CREATE INDEX runs_scope_error_code ON runs USING btree (scope, error_code, created_at, id) WHERE ((scope <> ''::text) AND (error_code IS NOT NULL));
CREATE INDEX runs_scope_error_name ON runs USING btree (scope, error_name, created_at, id) WHERE ((scope <> ''::text) AND (error_name IS NOT NULL));
CREATE INDEX runs_scope_id ON runs USING btree (scope, id) WHERE (scope <> ''::text);
CREATE INDEX runs_scope_listed ON runs USING btree (scope, workflow, status, created_at, id) WHERE (scope <> ''::text);
CREATE INDEX runs_scope_person ON runs USING btree (scope, created_at, id) WHERE ((scope <> ''::text) AND ((trouble IS NOT NULL) OR (unsettled > 0)));
CREATE INDEX runs_stop ON runs USING btree (stop_at) WHERE ((stop_at IS NOT NULL) AND (ended_at IS NULL));
CREATE INDEX runs_waiting ON runs USING btree (workflow, wake_at) WHERE ((owner IS NULL) AND (wake_at IS NOT NULL));
CREATE UNIQUE INDEX schema_additions_pkey ON schema_additions USING btree (version);
CREATE UNIQUE INDEX workers_pkey ON workers USING btree (no);
ALTER TABLE attempts ADD CONSTRAINT attempts_pkey PRIMARY KEY (scope, key, attempt);
ALTER TABLE audit ADD CONSTRAINT audit_pkey PRIMARY KEY (id);
ALTER TABLE chunks ADD CONSTRAINT chunks_pkey PRIMARY KEY (run, stream, place);
ALTER TABLE chunks ADD CONSTRAINT chunks_run_writer_stream_n_key UNIQUE (run, writer, stream, n);
ALTER TABLE deliveries ADD CONSTRAINT deliveries_pkey PRIMARY KEY (execution, packet, attempt);
ALTER TABLE execution_attributes ADD CONSTRAINT execution_attributes_pkey PRIMARY KEY (name, value, created_at, execution);
ALTER TABLE executions ADD CONSTRAINT executions_pkey PRIMARY KEY (no);
ALTER TABLE flows ADD CONSTRAINT flows_pkey PRIMARY KEY (flow);
ALTER TABLE hooks ADD CONSTRAINT hooks_pkey PRIMARY KEY (token);
ALTER TABLE journal ADD CONSTRAINT journal_pkey PRIMARY KEY (run, seq);
ALTER TABLE mail ADD CONSTRAINT mail_pkey PRIMARY KEY (run, seq);
ALTER TABLE mail ADD CONSTRAINT mail_run_key_key UNIQUE (run, key);
ALTER TABLE notes ADD CONSTRAINT notes_pkey PRIMARY KEY (execution, id);
ALTER TABLE operator_log ADD CONSTRAINT operator_log_id_key UNIQUE (id);
ALTER TABLE operator_log ADD CONSTRAINT operator_log_pkey PRIMARY KEY (no);
ALTER TABLE packets ADD CONSTRAINT packets_pkey PRIMARY KEY (no);
ALTER TABLE records ADD CONSTRAINT records_pkey PRIMARY KEY (scope, key);
ALTER TABLE run_attributes ADD CONSTRAINT run_attributes_pkey PRIMARY KEY (run, name);
ALTER TABLE run_workers ADD CONSTRAINT run_workers_pkey PRIMARY KEY (id);
ALTER TABLE runs ADD CONSTRAINT runs_pkey PRIMARY KEY (id);
ALTER TABLE schema_additions ADD CONSTRAINT schema_additions_pkey PRIMARY KEY (version);
ALTER TABLE workers ADD CONSTRAINT workers_pkey PRIMARY KEY (no);
CREATE FUNCTION keep_run_attributes AS $$
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
$$;
CREATE TRIGGER run_attributes_added AFTER INSERT ON runs FOR EACH ROW WHEN ((new.attributes IS NOT NULL)) EXECUTE FUNCTION keep_run_attributes();
CREATE TRIGGER run_attributes_changed AFTER UPDATE OF attributes ON runs FOR EACH ROW WHEN ((new.attributes IS DISTINCT FROM old.attributes)) EXECUTE FUNCTION keep_run_attributes();
CREATE TRIGGER run_attributes_removed AFTER DELETE ON runs FOR EACH ROW WHEN ((old.attributes IS NOT NULL)) EXECUTE FUNCTION keep_run_attributes();
COMMENT ON TABLE attempts IS 'Append-only: the ended attempts of a key. The present one is in records.';
COMMENT ON TABLE chunks IS 'Streams of runs, and long values that stand beside the journal. A place in a stream, and a writer''s own count, are taken once.';
COMMENT ON TABLE deliveries IS 'The history of executions: the deliveries that have ended. Empty unless a runtime keeps a history.';
COMMENT ON TABLE execution_attributes IS 'The attributes of executions, newest last: those by which executions are listed.';
COMMENT ON TABLE executions IS 'One trigger of a flow. Its row is written when the number of its packets changes.';
COMMENT ON TABLE flows IS 'Flows that are paused or archived.';
COMMENT ON TABLE hooks IS 'Tokens under which mail reaches a run.';
COMMENT ON TABLE journal IS 'Append-only: what the owners of a run have committed. The primary key is the fence between two owners.';
COMMENT ON TABLE mail IS 'What others sent to a run. Taken in up to runs.consumed.';
COMMENT ON TABLE notes IS 'What was out of the ordinary in an execution.';
COMMENT ON TABLE operator_log IS 'Append-only: the actions of operators, each written with the change that it makes.';
COMMENT ON TABLE packets IS 'What waits to be delivered: one row per delivery. A packet that is done is removed.';
COMMENT ON TABLE records IS 'One row per key. Instants are milliseconds since 1970 on this server''s clock.';
COMMENT ON TABLE run_attributes IS 'One row per attribute of a run, written by triggers of the table runs.';
COMMENT ON TABLE run_workers IS 'Workers that execute runs, with their last sign of life.';
COMMENT ON TABLE runs IS 'One row per run of a workflow. Instants are milliseconds since 1970 on this server''s clock.';
COMMENT ON TABLE workers IS 'Who claims packets. The lease of everything that a worker has is its row.';
