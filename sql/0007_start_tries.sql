-- While the start of history is not known, what lies below the lowest trade is no gap: nobody knows how
-- much it is. Tries to go on down there are remembered with the stream.

ALTER TABLE stream ADD COLUMN start_tries jsonb;
COMMENT ON COLUMN stream.start_tries IS 'While collect_from is null: tries in a row to go below the lowest that is covered that led no further (attempts), why the last one did not (reason, note), and when it is tried again (nextAttemptAt, exchange time). Null when the last one did.';
