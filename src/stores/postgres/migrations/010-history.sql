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
