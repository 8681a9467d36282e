-- Where the rows of a time are. Archived partitions are foreign tables below their series, so that every
-- question is answered in the same way, wherever its rows are.

CREATE OR REPLACE VIEW analytics.partitions AS
SELECT p.table_name, lower(p.span) AS starts_at, upper(p.span) AS ends_at, p.state,
       p.row_count AS rows, p.uri AS manifest, p.sealed_at
FROM partition_state p;
COMMENT ON VIEW analytics.partitions IS 'The pieces of time in which the series are kept, and where the rows of each are. state: hot (growing), sealed (final), archived (in cold files, read through a foreign table), expired (gone for good). Example: SELECT table_name, starts_at, ends_at FROM analytics.partitions WHERE state IN (''archived'', ''expired'') ORDER BY table_name, starts_at';
COMMENT ON COLUMN analytics.partitions.table_name IS 'Table of the series: ''trade''.';
COMMENT ON COLUMN analytics.partitions.starts_at IS 'First moment, exchange time: 2026-01-15 00:00:00+00.';
COMMENT ON COLUMN analytics.partitions.ends_at IS 'First moment after it: 2026-01-16 00:00:00+00.';
COMMENT ON COLUMN analytics.partitions.state IS '''hot'', ''sealed'', ''archived'' or ''expired''.';
COMMENT ON COLUMN analytics.partitions.rows IS 'How many there are; null while it grows: 1200000.';
COMMENT ON COLUMN analytics.partitions.manifest IS 'What describes its cold files, below the folder of cold partitions: ''manifests/trade/trade_20260115.json''.';
COMMENT ON COLUMN analytics.partitions.sealed_at IS 'When it was declared final, clock of the database: 2026-01-18 03:00:00+00.';
