-- A database can come back older than it was: an asynchronous standby is promoted, a copy or a dump is put back while
-- the program runs. What the program remembers as stored is then not stored. So each transaction of the writer advances
-- a number, and one that does not find the number it left behind forgets what it remembers.

CREATE TABLE writer_commit (
  share smallint PRIMARY KEY DEFAULT 0,
  commit_no bigint NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE writer_commit IS 'Number of the writer''s last transaction.';
COMMENT ON COLUMN writer_commit.share IS 'Part of the markets that one writer has; 0 for all of them.';
COMMENT ON COLUMN writer_commit.commit_no IS 'Grows by one with each transaction of the writer.';
INSERT INTO writer_commit (commit_no) VALUES (0);

CREATE TABLE incident (
  incident_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  noticed_at timestamptz NOT NULL DEFAULT now(),
  kind text NOT NULL CONSTRAINT incident_kind_known CHECK (kind IN ('went back', 'rows removed')),
  acknowledged bigint,
  found bigint,
  note text NOT NULL
);
COMMENT ON TABLE incident IS 'Events after which stored data had to be checked or collected again.';
COMMENT ON COLUMN incident.noticed_at IS 'Clock of the database.';
COMMENT ON COLUMN incident.kind IS 'went back: the database was older than the writer left it, or another one; rows removed: a partition was gone that the ledger counts on.';
COMMENT ON COLUMN incident.acknowledged IS 'Commit number that the database had confirmed.';
COMMENT ON COLUMN incident.found IS 'Commit number that it had then.';

-- TRUNCATE takes rows that the ledger goes on claiming, and most of them cannot be collected again. Statement triggers
-- are not inherited: the table and each partition has its own.
CREATE FUNCTION rows_stay() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  RAISE EXCEPTION 'the archive does not let % be truncated: its ledger would go on calling the rows stored', TG_TABLE_NAME
    USING ERRCODE = 'TK004', TABLE = TG_TABLE_NAME,
      HINT = 'Rows leave by age (settings retention.*) or into files (cold.enabled). For an empty archive, use a new database.';
END
$$;
COMMENT ON FUNCTION rows_stay IS 'Refuses TRUNCATE of a table or partition with rows of the archive.';

CREATE OR REPLACE FUNCTION build_partition(for_table text, name text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
  held record;
BEGIN
  EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (fillfactor = %s)',
                 name, for_table, CASE for_table WHEN 'trade' THEN 85 ELSE 100 END);
  -- Not on a Citus cluster, whose tables have no triggers.
  IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = for_table::regclass AND tgname = 'rows_stay') THEN
    EXECUTE format('CREATE TRIGGER rows_stay BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION rows_stay()', name);
  END IF;
  -- A partition has the rights of its table, also for those who look at it alone.
  FOR held IN
    SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS grantee
    FROM pg_class c, aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.oid = for_table::regclass AND a.grantee <> c.relowner
  LOOP
    EXECUTE format('GRANT %s ON %I TO %s', held.privilege_type, name, held.grantee);
  END LOOP;
END
$$;

-- The guards of a final partition alone are taken down when it takes rows again.
CREATE OR REPLACE FUNCTION reopen_partition(partition text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '10s'
AS $$
DECLARE
  held record;
BEGIN
  SELECT s.* INTO held FROM partition_state s
  WHERE (partition_at(s.table_name, lower(s.span))).name = partition FOR UPDATE;
  IF held.state = 'archived' THEN
    RAISE EXCEPTION 'the partition % is archived: its rows are in files, and new ones cannot be added before "tapekeep restore" has brought it back', partition
      USING ERRCODE = 'TK002', TABLE = partition;
  ELSIF held.state = 'expired' THEN
    RAISE EXCEPTION 'the partition % is expired: rows of its time are no longer kept', partition
      USING ERRCODE = 'TK003', TABLE = partition;
  ELSIF held.state IS NULL OR to_regclass(partition) IS NULL THEN
    RETURN NULL;
  END IF;
  EXECUTE format('ALTER TABLE %1$I DISABLE TRIGGER final_rows; ALTER TABLE %1$I DISABLE TRIGGER final_table', partition);
  UPDATE partition_state
  SET state = 'hot', row_count = NULL, checksum = NULL, market_rows = NULL, sealed_at = NULL,
      uri = NULL, cold_bytes = NULL, restored_at = NULL
  WHERE table_name = held.table_name AND span = held.span;
  RETURN held.state;
END
$$;

-- In place of a partition that somebody dropped or detached a new one, without rows. What the ledger said of its time
-- is revoked in the same transaction. The writer finds its number changed and forgets what it remembers.
CREATE FUNCTION replace_partition(for_table text, at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  place record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  IF to_regclass(place.name) IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %I RENAME TO %I', place.name, left(place.name, 40) || '_detached_' || extract(epoch FROM now())::bigint);
  END IF;
  UPDATE partition_state
  SET state = 'hot', row_count = NULL, checksum = NULL, market_rows = NULL, sealed_at = NULL, restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  PERFORM make_partition(for_table, at);
  UPDATE writer_commit SET commit_no = commit_no + 2;
  INSERT INTO incident (kind, note)
  VALUES ('rows removed', format('the partition %s was dropped or detached; what it covered is a gap', place.name));
END
$$;
COMMENT ON FUNCTION replace_partition IS 'Makes a partition again that was dropped or detached by hand.';

DO $$
DECLARE
  is_cut CONSTANT boolean := to_regclass('pg_dist_partition') IS NOT NULL;
  one regclass;
  name text;
BEGIN
  IF NOT is_cut THEN
    FOR one IN
      SELECT c.oid::regclass FROM pg_class c
      WHERE c.relnamespace = current_schema()::regnamespace
        AND (c.relkind = 'p' OR c.relispartition AND c.relkind = 'r')
    LOOP
      EXECUTE format('CREATE TRIGGER rows_stay BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION rows_stay()', one);
    END LOOP;
  END IF;
  FOREACH name IN ARRAY ARRAY['build_partition(text, text)', 'replace_partition(text, timestamptz)', 'reopen_partition(text)', 'rows_stay()'] LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path TO %I, pg_temp', name, current_schema());
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', name);
  END LOOP;
END
$$;
