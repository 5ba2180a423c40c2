-- A chunk's place in its stream, and its writer's own count: each is taken once.

CREATE TABLE onceflow_chunks (
  no INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  stream TEXT NOT NULL,
  place INTEGER NOT NULL,
  writer TEXT NOT NULL,
  n INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  kind TEXT NOT NULL,
  size INTEGER NOT NULL,
  value TEXT,
  bytes BLOB
) STRICT;
CREATE UNIQUE INDEX onceflow_chunks_place ON onceflow_chunks (run, stream, place);
CREATE UNIQUE INDEX onceflow_chunks_count ON onceflow_chunks (run, writer, stream, n);
CREATE INDEX onceflow_chunks_end ON onceflow_chunks (run, stream) WHERE kind IN ('end', 'error');
