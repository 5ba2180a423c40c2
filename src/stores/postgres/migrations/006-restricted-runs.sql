-- What few runs have, and an index of the runs that not every worker may claim: suspects, and runs that some workers are to
-- avoid. They are rare: the other indexes hold these runs too, and a claim passes over them there.
--
-- The new status is not used in here: PostgreSQL does not allow that before the migration is committed.

ALTER TYPE :"schema".run_status ADD VALUE IF NOT EXISTS 'parked' AFTER 'diverged';
ALTER TABLE :"schema".runs
  ADD COLUMN deaths int NOT NULL DEFAULT 0,
  ADD COLUMN crashes int NOT NULL DEFAULT 0,
  ADD COLUMN alone boolean NOT NULL DEFAULT false,
  ADD COLUMN avoid text[] COLLATE "C",
  ADD COLUMN avoid_until bigint,
  ADD COLUMN unsettled int NOT NULL DEFAULT 0;
CREATE INDEX runs_restricted ON :"schema".runs (workflow, wake_at) WHERE wake_at IS NOT NULL AND (deaths >= 2 OR avoid IS NOT NULL);
CREATE TABLE :"schema".run_workers (
  id text COLLATE "C" NOT NULL PRIMARY KEY,
  workflows text[] NOT NULL,
  version text,
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL,
  lease_until bigint NOT NULL
);
COMMENT ON TABLE :"schema".run_workers IS 'Workers that execute runs, with their last sign of life.';
