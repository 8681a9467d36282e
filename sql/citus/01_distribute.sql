-- Spreads the archive over the nodes of a Citus cluster: what every question joins with becomes a
-- copy on each node, and the big tables are cut by market_id, all in the same way, so that a market
-- lives on one node with all of its data. May be run again: what is spread already stays.
--
-- A foreign table cannot be a partition of a table that is cut, so that nothing is archived there: it is refused by name.
--
-- Foreign keys are taken off for the move and put back: a table that others point to can not change
-- its nature while they do.

CREATE EXTENSION IF NOT EXISTS citus;

DO $$
DECLARE
  copied CONSTANT text[] := ARRAY['archive', 'market', 'market_history', 'market_absence', 'stream',
                                  'partition_policy', 'partition_state'];
  cut CONSTANT text[] := ARRAY['trade', 'kline', 'kline_revision', 'ticker', 'depth',
                               'market_state', 'coverage', 'rows_by_day', 'gap', 'session', 'candle_check',
                               'candle_recheck', 'wanted', 'trade_epoch'];
  one text;
  key record;
  guarded record;
BEGIN
  CREATE TEMPORARY TABLE moved_key ON COMMIT DROP AS
    SELECT k.conrelid::regclass AS held_by, k.conname, pg_get_constraintdef(k.oid) AS definition
    FROM pg_constraint k
    WHERE k.contype = 'f' AND k.conparentid = 0 AND k.conrelid::regclass::text = ANY (copied || cut)
      AND EXISTS (
        SELECT FROM unnest(copied || cut) AS name
        WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = name::regclass));
  FOR key IN SELECT * FROM moved_key LOOP
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', key.held_by, key.conname);
  END LOOP;
  FOREACH one IN ARRAY copied LOOP
    IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = one::regclass) THEN
      PERFORM create_reference_table(one);
    END IF;
  END LOOP;
  FOREACH one IN ARRAY cut LOOP
    IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = one::regclass) THEN
      -- A table that is cut takes no triggers, nor do its partitions.
      FOR guarded IN
        SELECT t.tgrelid::regclass AS held_by FROM pg_trigger t
        WHERE t.tgname = 'rows_stay' AND (t.tgrelid = one::regclass
          OR t.tgrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = one::regclass))
      LOOP
        EXECUTE format('DROP TRIGGER rows_stay ON %s', guarded.held_by);
      END LOOP;
      PERFORM create_distributed_table(one, 'market_id', colocate_with =>
        CASE WHEN one = 'trade' THEN 'default' ELSE 'trade' END);
    END IF;
  END LOOP;
  FOR key IN SELECT * FROM moved_key LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', key.held_by, key.conname, key.definition);
  END LOOP;
END
$$;
