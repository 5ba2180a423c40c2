-- What of a bundle is gone is kept apart, so that a long row is not written again for every packet that goes. What is
-- needed to find a bundle comes first in its row: the rest of it is on pages of its own.

CREATE TABLE onceflow_bundles (
  no INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  edges TEXT NOT NULL,
  packets TEXT NOT NULL,
  payloads TEXT NOT NULL
) STRICT;
CREATE TABLE onceflow_bundles_gone (
  bundle INTEGER PRIMARY KEY,
  gone TEXT NOT NULL
) STRICT;
