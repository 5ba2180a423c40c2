-- How far a running attempt has come.

ALTER TABLE :"schema".records ADD COLUMN progress text;
