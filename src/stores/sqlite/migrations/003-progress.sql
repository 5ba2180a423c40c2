-- How far a running attempt has come.

ALTER TABLE onceflow_records ADD COLUMN progress TEXT;
