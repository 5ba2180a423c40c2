-- Packets of flows with joins say which ports of joins they may still fill: JSON. They are found by their execution. Other packets have
-- NULL here, and are not in the index.

ALTER TABLE :"schema".packets ADD COLUMN reach text COLLATE "C";
CREATE INDEX packets_reach ON :"schema".packets (execution, state) WHERE reach IS NOT NULL;
