-- Packets. Every index is partial: a packet that is claimed in the commit that sends it, and is gone with the next one, is
-- in that of the owners only.
--
--   due    packets without an owner, by queue and by when they may be claimed; not those that wait for another packet
--   owner  packets with an owner. There are as many owners as workers, so that a claim can go through them one by one
--   lane   places that are taken
--   held   packets that wait for a key, oldest first
--   parts  packets that wait for the other ports of their node, oldest first
--   kept, dead, over  packets that are there until their execution ends; dead letters, newest last; what has an expiry
--
-- `terms` is what no statement asks for: JSON. `claim` names the claim by which the owner got the packet (packets/doubt.ts).

CREATE TABLE :"schema".packets (
  no bigint NOT NULL PRIMARY KEY,
  flow text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  state text NOT NULL,
  owner bigint,
  claim bigint,
  attempt int NOT NULL,
  since int NOT NULL,
  crashes int NOT NULL,
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
  terms text
);
CREATE INDEX packets_due ON :"schema".packets (flow, queue, due_at, no)
  WHERE owner IS NULL AND state IN ('due', 'held', 'part') AND due_at < 9007199254740991;
CREATE INDEX packets_owner ON :"schema".packets (owner) WHERE owner IS NOT NULL;
CREATE INDEX packets_lane ON :"schema".packets (flow, queue, lane, place) WHERE place IS NOT NULL;
CREATE INDEX packets_held ON :"schema".packets (scope, key, created_at, no) WHERE hold = 'key';
CREATE INDEX packets_parts ON :"schema".packets (execution, node, port, created_at, no) WHERE state = 'part';
CREATE INDEX packets_kept ON :"schema".packets (execution) WHERE state = 'kept';
CREATE INDEX packets_dead ON :"schema".packets (flow, dead_at, no) WHERE state = 'dead';
CREATE INDEX packets_over ON :"schema".packets (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE :"schema".executions (
  no bigint NOT NULL PRIMARY KEY,
  flow text COLLATE "C" NOT NULL,
  entry text NOT NULL,
  input text NOT NULL,
  key text,
  open int NOT NULL,
  duplicates int NOT NULL,
  dead int NOT NULL,
  created_at bigint NOT NULL,
  ended_at bigint,
  outputs text NOT NULL,
  retention_ms bigint,
  expires_at bigint
) WITH (fillfactor = 85);
CREATE INDEX executions_listed ON :"schema".executions (flow, created_at, no);
CREATE INDEX executions_over ON :"schema".executions (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE :"schema".notes (
  id bigint GENERATED ALWAYS AS IDENTITY,
  execution bigint NOT NULL,
  at bigint NOT NULL,
  kind text NOT NULL,
  queue text NOT NULL,
  packet bigint NOT NULL,
  about text,
  PRIMARY KEY (execution, id)
);
CREATE TABLE :"schema".flows (flow text COLLATE "C" NOT NULL PRIMARY KEY, state text NOT NULL);
CREATE TABLE :"schema".workers (no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, lease_until bigint NOT NULL);
COMMENT ON TABLE :"schema".packets IS 'What waits to be delivered: one row per delivery. A packet that is done is removed.';
COMMENT ON TABLE :"schema".executions IS 'One trigger of a flow. Its row is written when the number of its packets changes.';
COMMENT ON TABLE :"schema".notes IS 'What was out of the ordinary in an execution.';
COMMENT ON TABLE :"schema".flows IS 'Flows that are paused or archived.';
COMMENT ON TABLE :"schema".workers IS 'Who claims packets. The lease of everything that a worker has is its row.';
