-- Rows that are refused for the same reason in one answer are one sample here, with their number.

ALTER TABLE quarantine ADD COLUMN count bigint NOT NULL DEFAULT 1
  CONSTRAINT quarantine_count_positive CHECK (count > 0);
COMMENT ON COLUMN quarantine.count IS 'How many rows of the same answer were refused for this reason; payload is the first of them.';
COMMENT ON TABLE quarantine IS 'Samples of what was refused, the newest part of them. All of it is counted in quarantine_count.';
