-- What was past when the archive was last written to: coverage beyond it was never true, whatever clock
-- it came from.

ALTER TABLE archive
  ADD COLUMN present timestamptz,
  ADD COLUMN present_noted_at timestamptz,
  ADD COLUMN present_pace double precision;
COMMENT ON COLUMN archive.present IS 'The exchange''s time when its collector last noted it; null before the first note.';
COMMENT ON COLUMN archive.present_noted_at IS 'When that was, clock of this database.';
COMMENT ON COLUMN archive.present_pace IS 'Exchange seconds that passed in one second then.';
