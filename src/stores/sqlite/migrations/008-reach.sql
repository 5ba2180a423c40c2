-- Packets of flows with joins say which ports of joins they may still fill: JSON. They are found by their execution, and are not
-- bundled. Other packets have NULL here, and are not in the index.

ALTER TABLE onceflow_packets ADD COLUMN reach TEXT;
CREATE INDEX onceflow_packets_reach ON onceflow_packets (execution, state, reach) WHERE reach IS NOT NULL;
