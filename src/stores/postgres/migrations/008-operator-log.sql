-- Deadlines, which few runs have, and the operator log, which outlives the runs that it is about. The index holds only runs that can be ended
-- without their code.
--
-- The new status is not used in here: PostgreSQL does not allow that before the migration is committed.

ALTER TYPE :"schema".run_status ADD VALUE IF NOT EXISTS 'paused' AFTER 'running';
ALTER TABLE :"schema".runs
  ADD COLUMN deadline_at bigint,
  ADD COLUMN stop_at bigint;
CREATE INDEX runs_stop ON :"schema".runs (stop_at) WHERE stop_at IS NOT NULL AND ended_at IS NULL;
CREATE TABLE :"schema".operator_log (
  no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  at bigint NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  subject text COLLATE "C" NOT NULL,
  reason text,
  detail text
);
CREATE INDEX operator_log_subject ON :"schema".operator_log (subject, no);
COMMENT ON TABLE :"schema".operator_log IS 'Append-only: the actions of operators, each written with the change that it makes.';
