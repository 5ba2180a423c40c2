-- Streams of runs.

CREATE TABLE :"schema".chunks (
  run text COLLATE "C" NOT NULL,
  stream text COLLATE "C" NOT NULL,
  place int NOT NULL,
  writer text COLLATE "C" NOT NULL,
  n int NOT NULL,
  attempt int NOT NULL,
  kind text NOT NULL,
  size int NOT NULL,
  value text,
  bytes bytea,
  PRIMARY KEY (run, stream, place),
  UNIQUE (run, writer, stream, n)
);
CREATE INDEX chunks_end ON :"schema".chunks (run, stream) WHERE kind IN ('end', 'error');
COMMENT ON TABLE :"schema".chunks IS 'Streams of runs, and long values that stand beside the journal. A place in a stream, and a writer''s own count, are taken once.';
