-- Queue and journal. Every index is paid at every start, and again at every end (an end changes indexed columns, so the
-- row gets new entries everywhere): there are as few as the questions allow.
--
--   waiting  runs without an owner, by workflow and by when they may be claimed. A run that is executed from its creation
--            on is never in it.
--   held     runs with an owner, by owner: for renewals, and for claims of what has lapsed. There are as many owners as
--            workers, so that a claim can go through them one by one.
--   listed   newest first within a workflow and a status; a listing puts its pages together from those, so that rare
--            ones cost no more than common ones. No id in it: the few runs of one millisecond are sorted when read.
--   over     runs that have an expiry.
--
-- `hook_rev` is 0 while a run never had a hook, and +1 at every change of its hooks.
--
-- `closing` marks the entry with which a run ended: whether an entry can follow is seen in the journal alone, without a
-- look at the run. An end that has no entry leaves a row without events, which no reader is shown.

CREATE TYPE :"schema".run_status AS ENUM ('pending', 'running', 'unknown', 'diverged', 'completed', 'failed', 'cancelled');
CREATE TABLE :"schema".runs (
  id text COLLATE "C" NOT NULL PRIMARY KEY,
  workflow text COLLATE "C" NOT NULL,
  status :"schema".run_status NOT NULL,
  input text NOT NULL,
  fingerprint text,
  output text,
  trouble text,
  owner text COLLATE "C",
  epoch int NOT NULL,
  wake_at bigint,
  mail int NOT NULL DEFAULT 0,
  consumed int NOT NULL DEFAULT 0,
  hook_rev int NOT NULL DEFAULT 0,
  parent text COLLATE "C",
  creator text NOT NULL,
  created_at bigint NOT NULL,
  started_at bigint,
  ended_at bigint,
  retention_ms bigint,
  expires_at bigint
) WITH (fillfactor = 70);
CREATE INDEX runs_waiting ON :"schema".runs (workflow, wake_at) WHERE owner IS NULL AND wake_at IS NOT NULL;
CREATE INDEX runs_held ON :"schema".runs (owner, workflow, wake_at) WHERE owner IS NOT NULL;
CREATE INDEX runs_listed ON :"schema".runs (workflow, status, created_at);
CREATE INDEX runs_over ON :"schema".runs (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE :"schema".journal (
  run text COLLATE "C" NOT NULL,
  seq int NOT NULL,
  epoch int NOT NULL,
  at bigint NOT NULL,
  closing boolean,
  events text,
  PRIMARY KEY (run, seq)
);
CREATE TABLE :"schema".mail (
  run text COLLATE "C" NOT NULL,
  seq int NOT NULL,
  kind text NOT NULL,
  about text,
  payload text,
  key text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (run, seq),
  UNIQUE (run, key)
);
CREATE TABLE :"schema".hooks (
  token text COLLATE "C" NOT NULL PRIMARY KEY,
  run text COLLATE "C" NOT NULL,
  about text NOT NULL,
  metadata text,
  created_at bigint NOT NULL
);
CREATE INDEX hooks_run ON :"schema".hooks (run);
COMMENT ON TABLE :"schema".runs IS 'One row per run of a workflow. Instants are milliseconds since 1970 on this server''s clock.';
COMMENT ON TABLE :"schema".journal IS 'Append-only: what the owners of a run have committed. The primary key is the fence between two owners.';
COMMENT ON TABLE :"schema".mail IS 'What others sent to a run. Taken in up to runs.consumed.';
COMMENT ON TABLE :"schema".hooks IS 'Tokens under which mail reaches a run.';
