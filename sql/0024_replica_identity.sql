-- Logical replication names a changed row by its primary key. A publication of all tables refuses every change of a
-- table without one, and with it every commit.

ALTER TABLE coverage ADD COLUMN coverage_id bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE coverage ADD PRIMARY KEY (coverage_id, market_id);
COMMENT ON COLUMN coverage.coverage_id IS 'Names the row to logical replication, and nothing else: a span that grows may become another row.';

ALTER TABLE market_history ADD PRIMARY KEY (market_id, span);

-- A table without columns cannot be copied to a subscriber.
ALTER TABLE reader_lock ADD COLUMN name text PRIMARY KEY;
COMMENT ON COLUMN reader_lock.name IS 'Never filled: the table has no rows.';
