-- The life of a partition after its time: sealed (final), archived (its rows lie in files) or expired
-- (its rows are gone). Each change of a state and what it means for the rows is one transaction, so
-- that whatever ends a program in the middle leaves the state before or the state after.
--
-- Whoever only writes has no right to any of this on the tables: it is done by functions that work with
-- the rights of the tables' owner and refuse what does not fit the state. Who may call them is granted
-- by the program at each migration.
--
-- SQLSTATEs of our own: TK001 rows of a final partition were to be changed, TK002 the partition is
-- archived, TK003 it is expired.

ALTER TABLE partition_state
  DROP CONSTRAINT partition_state_known,
  ADD CONSTRAINT partition_state_known CHECK (state IN ('hot', 'sealed', 'archived', 'expired')),
  ADD COLUMN market_rows jsonb,
  ADD COLUMN archived_at timestamptz,
  ADD COLUMN restored_at timestamptz,
  ADD COLUMN cold_bytes bigint;
COMMENT ON COLUMN partition_state.state IS 'hot: being written; sealed: final, rows are refused until it is reopened; archived: rows are in the files that uri names; expired: rows are gone for good.';
COMMENT ON COLUMN partition_state.row_count IS 'Rows at the time of sealing; null while it is hot.';
COMMENT ON COLUMN partition_state.checksum IS 'Of the rows at the time of sealing; the same again after a restore.';
COMMENT ON COLUMN partition_state.uri IS 'Manifest of its files, relative to the folder of cold partitions. Only while it is archived do readers go there.';
COMMENT ON COLUMN partition_state.market_rows IS 'By market id, at the time of sealing: the number of rows; of trades also the lowest and highest id, and the same three of those whose exact time is known.';
COMMENT ON COLUMN partition_state.archived_at IS 'When its rows left the database.';
COMMENT ON COLUMN partition_state.restored_at IS 'When its rows came back; for some time it is then not archived again by itself.';
COMMENT ON COLUMN partition_state.cold_bytes IS 'Size of its files.';

-- Name and span of the partition of a table that holds a moment.
CREATE FUNCTION partition_at(for_table text, at timestamptz, OUT name text, OUT span tstzrange)
LANGUAGE plpgsql STABLE
SET timezone TO 'UTC'
AS $$
DECLARE
  chosen text;
  from_at timestamptz;
BEGIN
  -- Only tables with a policy have partitions: no other name gets any further.
  SELECT width INTO STRICT chosen FROM partition_policy WHERE table_name = for_table;
  from_at := date_trunc(chosen, at);
  span := tstzrange(from_at, from_at + ('1 ' || chosen)::interval);
  name := for_table || '_' || to_char(from_at, CASE chosen WHEN 'day' THEN 'YYYYMMDD' ELSE 'YYYYMM' END);
END
$$;
COMMENT ON FUNCTION partition_at IS 'Name and span of the partition of a table that holds a moment, whether or not it is there.';

-- Builds a table with all that a partition needs, aside: CREATE TABLE … PARTITION OF would lock out
-- every reader of the parent, and ATTACH does not.
CREATE FUNCTION build_partition(for_table text, name text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
  held record;
BEGIN
  EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (fillfactor = %s)',
                 name, for_table, CASE for_table WHEN 'trade' THEN 85 ELSE 100 END);
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
COMMENT ON FUNCTION build_partition IS 'Builds the table of a partition, with the rights of its parent, not yet attached.';

-- Makes the partition of a table that holds a moment. Returns its name when it is new, else null.
-- Racing makers wait for each other here and then find it made.
CREATE OR REPLACE FUNCTION make_partition(for_table text, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  place record;
  known text;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  PERFORM pg_advisory_xact_lock(hashtext('tapekeep partitions'), hashtext(for_table));
  SELECT state INTO known FROM partition_state WHERE table_name = for_table AND span = place.span;
  IF known = 'archived' THEN
    RAISE EXCEPTION 'the partition % is archived: its rows are in files, and new ones can not be added before "tapekeep restore" has brought it back', place.name
      USING ERRCODE = 'TK002', TABLE = place.name;
  ELSIF known = 'expired' THEN
    RAISE EXCEPTION 'the partition % is expired: rows of its time are no longer kept', place.name
      USING ERRCODE = 'TK003', TABLE = place.name;
  END IF;
  PERFORM FROM pg_inherits WHERE inhparent = for_table::regclass AND inhrelid = to_regclass(place.name);
  IF FOUND THEN
    RETURN NULL;
  END IF;
  PERFORM build_partition(for_table, place.name);
  EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                 for_table, place.name, lower(place.span), upper(place.span));
  INSERT INTO partition_state (table_name, span, state)
  VALUES (for_table, place.span, 'hot') ON CONFLICT DO NOTHING;
  RETURN place.name;
END
$$;

-- Final partitions ------------------------------------------------------------------------------

CREATE FUNCTION partition_is_final() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  RAISE EXCEPTION 'the partition % is final: it must be reopened before its rows change', TG_TABLE_NAME
    USING ERRCODE = 'TK001', TABLE = TG_TABLE_NAME;
END
$$;
COMMENT ON FUNCTION partition_is_final IS 'Refuses every change of rows; stands on partitions that are sealed, or about to be.';

-- Refuses changes of a partition's rows from now on. After the statement and not before: a row that is
-- there already and passed over by ON CONFLICT is no change.
CREATE FUNCTION guard_partition(name text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass(name) AND tgname = 'final_rows') THEN
    EXECUTE format('ALTER TABLE %I ENABLE TRIGGER USER', name);
    RETURN;
  END IF;
  EXECUTE format('CREATE TRIGGER final_rows AFTER INSERT OR UPDATE OR DELETE ON %I
                  FOR EACH ROW EXECUTE FUNCTION partition_is_final()', name);
  EXECUTE format('CREATE TRIGGER final_table BEFORE TRUNCATE ON %I
                  FOR EACH STATEMENT EXECUTE FUNCTION partition_is_final()', name);
END
$$;
COMMENT ON FUNCTION guard_partition IS 'Makes a partition refuse changes of its rows.';

-- First step of sealing: from its end on the rows do not change, or the guard is down again. Null when
-- the partition is not hot, or not there.
CREATE FUNCTION begin_seal(for_table text, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '2s'
AS $$
DECLARE
  place record;
  known text;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  SELECT state INTO known FROM partition_state
  WHERE table_name = for_table AND span = place.span FOR UPDATE;
  IF known IS DISTINCT FROM 'hot' OR to_regclass(place.name) IS NULL THEN
    RETURN NULL;
  END IF;
  PERFORM guard_partition(place.name);
  RETURN place.name;
END
$$;
COMMENT ON FUNCTION begin_seal IS 'Makes a hot partition refuse changes, so that what is counted holds until finish_seal; its name, or null.';

-- Last step: false when somebody reopened it meanwhile.
CREATE FUNCTION finish_seal(for_table text, at timestamptz, counted bigint, sum text, markets jsonb)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  place record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  PERFORM FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state = 'hot' FOR UPDATE;
  IF NOT FOUND OR NOT EXISTS (
      SELECT FROM pg_trigger
      WHERE tgrelid = to_regclass(place.name) AND tgname = 'final_rows' AND tgenabled <> 'D') THEN
    RETURN false;
  END IF;
  UPDATE partition_state
  SET state = 'sealed', row_count = counted, checksum = sum, market_rows = markets, sealed_at = now(),
      uri = NULL, cold_bytes = NULL, restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  RETURN true;
END
$$;
COMMENT ON FUNCTION finish_seal IS 'Declares a partition sealed with what was counted since begin_seal; false when it was reopened meanwhile.';

-- Makes a final partition take rows again. Returns the state that it had; raises when its rows are not
-- here.
CREATE FUNCTION reopen_partition(partition text) RETURNS text
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
    RAISE EXCEPTION 'the partition % is archived: its rows are in files, and new ones can not be added before "tapekeep restore" has brought it back', partition
      USING ERRCODE = 'TK002', TABLE = partition;
  ELSIF held.state = 'expired' THEN
    RAISE EXCEPTION 'the partition % is expired: rows of its time are no longer kept', partition
      USING ERRCODE = 'TK003', TABLE = partition;
  ELSIF held.state IS NULL OR to_regclass(partition) IS NULL THEN
    RETURN NULL;
  END IF;
  EXECUTE format('ALTER TABLE %I DISABLE TRIGGER USER', partition);
  UPDATE partition_state
  SET state = 'hot', row_count = NULL, checksum = NULL, market_rows = NULL, sealed_at = NULL,
      uri = NULL, cold_bytes = NULL, restored_at = NULL
  WHERE table_name = held.table_name AND span = held.span;
  RETURN held.state;
END
$$;
COMMENT ON FUNCTION reopen_partition IS 'Makes a sealed partition hot again, for rows that came late; the state that it had.';

-- Upkeep ----------------------------------------------------------------------------------------

-- What an interrupted REINDEX CONCURRENTLY left behind. Returns how many there were.
CREATE FUNCTION drop_broken_indexes(for_table text, at timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '2s'
AS $$
DECLARE
  place record;
  broken regclass;
  dropped integer := 0;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  FOR broken IN
    SELECT indexrelid::regclass FROM pg_index JOIN pg_class c ON c.oid = indexrelid
    WHERE indrelid = to_regclass(place.name) AND NOT indisvalid AND c.relname ~ '_cc(new|old)\d*$'
  LOOP
    EXECUTE format('DROP INDEX %s', broken);
    dropped := dropped + 1;
  END LOOP;
  RETURN dropped;
END
$$;
COMMENT ON FUNCTION drop_broken_indexes IS 'Drops the halves of indexes that an interrupted rebuild left on a partition.';

-- For those who are not of the tables' owner. It locks out readers of this one partition meanwhile.
CREATE FUNCTION rebuild_indexes(for_table text, at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '1s'
AS $$
DECLARE
  place record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  EXECUTE format('REINDEX TABLE %I', place.name);
END
$$;
COMMENT ON FUNCTION rebuild_indexes IS 'Builds the indexes of a partition anew, densely.';

-- Leaving and coming back -----------------------------------------------------------------------
--
-- Every transaction of a reader holds a shared lock on ('tapekeep readers', 0). Whoever changes where
-- rows are takes it alone, so that a reader may trust the states that it has read. Waits are short:
-- while one waits for it, new readers wait as well.

-- Empties a partition without asking.
CREATE FUNCTION empty_partition(name text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
  PERFORM set_config('lock_timeout', '300ms', true);
  EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', name);
  PERFORM guard_partition(name);
  EXECUTE format('ALTER TABLE %I DISABLE TRIGGER USER', name);
  EXECUTE format('TRUNCATE TABLE ONLY %I', name);
  -- As long as it is there it must not take rows.
  EXECUTE format('ALTER TABLE %I ENABLE TRIGGER USER', name);
END
$$;
COMMENT ON FUNCTION empty_partition IS 'Takes all rows out of a partition, and makes it refuse new ones.';

-- The switch: from here on the rows are in the files. The emptied table goes later, by drop_emptied,
-- because that needs the parent for a moment. False when it is not sealed, or not with these rows.
CREATE FUNCTION archive_partition(for_table text, at timestamptz, sum text, manifest text, bytes bigint)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '2s'
AS $$
DECLARE
  place record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  PERFORM pg_advisory_xact_lock(hashtext('tapekeep readers'), 0);
  PERFORM FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state = 'sealed' AND checksum = sum FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM empty_partition(place.name);
  UPDATE partition_state
  SET state = 'archived', uri = manifest, cold_bytes = bytes, archived_at = now(),
      restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  RETURN true;
END
$$;
COMMENT ON FUNCTION archive_partition IS 'Takes the rows of a sealed partition out of the database, once they are in files; false when it is not what was written.';

-- False when somebody works with the parent at this moment: it is asked for without waiting, so that
-- nobody ever waits behind it.
CREATE FUNCTION drop_emptied(for_table text, at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  place record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  PERFORM FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state IN ('archived', 'expired') FOR UPDATE;
  IF NOT FOUND OR to_regclass(place.name) IS NULL THEN
    RETURN true;
  END IF;
  EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE NOWAIT', for_table);
  EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE NOWAIT', place.name);
  EXECUTE format('DROP TABLE %I', place.name);
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END
$$;
COMMENT ON FUNCTION drop_emptied IS 'Drops what is left of a partition that is archived or expired; false when somebody uses the table right now.';

-- A table for the rows that come back, not attached. Null when the partition is not archived.
CREATE FUNCTION begin_restore(for_table text, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '2s'
AS $$
DECLARE
  place record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  PERFORM FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state = 'archived' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  PERFORM FROM pg_inherits WHERE inhrelid = to_regclass(place.name);
  IF FOUND AND NOT drop_emptied(for_table, at) THEN
    RAISE EXCEPTION 'the emptied partition % is in use', place.name USING ERRCODE = 'lock_not_available';
  END IF;
  -- Of a restore that did not come to its end.
  EXECUTE format('DROP TABLE IF EXISTS %I', place.name);
  PERFORM build_partition(for_table, place.name);
  RETURN place.name;
END
$$;
COMMENT ON FUNCTION begin_restore IS 'Makes an empty table for the rows of an archived partition, aside; its name, or null.';

-- The switch back. False when the rows are not those that it was sealed with.
CREATE FUNCTION finish_restore(for_table text, at timestamptz, sum text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '2s'
AS $$
DECLARE
  place record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  PERFORM pg_advisory_xact_lock(hashtext('tapekeep readers'), 0);
  PERFORM pg_advisory_xact_lock(hashtext('tapekeep partitions'), hashtext(for_table));
  PERFORM FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state = 'archived' AND checksum = sum FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM guard_partition(place.name);
  EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                 for_table, place.name, lower(place.span), upper(place.span));
  UPDATE partition_state SET state = 'sealed', archived_at = NULL, restored_at = now()
  WHERE table_name = for_table AND span = place.span;
  RETURN true;
END
$$;
COMMENT ON FUNCTION finish_restore IS 'Attaches the rows that came back; the partition is sealed again.';

-- Gives the rows of a partition up, wherever they are. The caller takes back what the ledger says of
-- them in the same transaction. Returns the state that it had; null when there is none such, when it
-- is expired already, or when its time has hardly ended: retention is never that short.
CREATE FUNCTION expire_partition(for_table text, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '2s'
AS $$
DECLARE
  place record;
  known text;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  IF upper(place.span) > now() - interval '1 hour' THEN
    RETURN NULL;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('tapekeep readers'), 0);
  SELECT state INTO known FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state <> 'expired' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  PERFORM FROM pg_inherits WHERE inhparent = for_table::regclass AND inhrelid = to_regclass(place.name);
  IF FOUND THEN
    PERFORM empty_partition(place.name);
  END IF;
  UPDATE partition_state
  SET state = 'expired', row_count = NULL, checksum = NULL, market_rows = NULL, uri = NULL,
      cold_bytes = NULL, archived_at = NULL, restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  RETURN known;
END
$$;
COMMENT ON FUNCTION expire_partition IS 'Gives up the rows of a partition for good; the state that it had, or null.';

-- The caller's search_path must not decide what the owner's rights are used on. Temporary tables come
-- last, or they would hide the real ones.
DO $$
DECLARE
  one regprocedure;
BEGIN
  FOR one IN
    SELECT oid::regprocedure FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (ARRAY[
      'make_partition', 'partition_at', 'build_partition', 'partition_is_final', 'guard_partition',
      'begin_seal', 'finish_seal', 'reopen_partition', 'drop_broken_indexes', 'rebuild_indexes',
      'empty_partition', 'archive_partition', 'drop_emptied', 'begin_restore', 'finish_restore',
      'expire_partition'])
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path TO %I, pg_temp', one, current_schema());
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one);
  END LOOP;
END
$$;
