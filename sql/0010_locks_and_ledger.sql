-- Locks that only writers can take, and functions that never take rows away while the ledger claims
-- them, whoever calls them.

-- Locks -----------------------------------------------------------------------------------------
--
-- Any login that may connect can hold any advisory lock. So writers exclude each other by rows of a
-- table that readers may not lock: FOR UPDATE needs the right to UPDATE.

CREATE TABLE exclusive_lock (
  name text NOT NULL,
  id integer NOT NULL DEFAULT 0,
  token bigint,
  pid integer,
  held_by text,
  application text,
  held_since timestamptz,
  PRIMARY KEY (name, id)
);
COMMENT ON TABLE exclusive_lock IS 'What writers lock to exclude each other: rows, locked until the end of a transaction, and holders, which hold until their connection ends.';
COMMENT ON COLUMN exclusive_lock.id IS 'Market, where the lock is of one; else 0.';
COMMENT ON COLUMN exclusive_lock.token IS 'Advisory lock that the holder''s connection has: a sign of life. Another connection that has it proves nothing.';
COMMENT ON COLUMN exclusive_lock.pid IS 'Server process of the holder.';
COMMENT ON COLUMN exclusive_lock.held_since IS 'When the holder took it, clock of the database.';

-- The rows of a market are there before anybody can know of the market, so that whoever locks them has
-- nothing to add while it holds others.
CREATE FUNCTION add_market_locks() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
  INSERT INTO exclusive_lock (name, id)
  SELECT name, NEW.market_id FROM unnest(ARRAY['gaps', 'market', 'verdicts']) AS name
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION add_market_locks IS 'Adds the rows of exclusive_lock of a new market.';
CREATE TRIGGER market_locks AFTER INSERT ON market FOR EACH ROW EXECUTE FUNCTION add_market_locks();
INSERT INTO exclusive_lock (name, id)
SELECT lock_name, market_id FROM market, unnest(ARRAY['gaps', 'market', 'verdicts']) AS lock_name
UNION ALL SELECT lock_name, 0 FROM unnest(ARRAY['catalog', 'sealing', 'writer']) AS lock_name;

CREATE TABLE reader_lock ();
COMMENT ON TABLE reader_lock IS 'Readers that must see one archive lock it IN ACCESS SHARE MODE, which is the most that they may; a partition on its way out waits for them.';

-- Locks rows until the end of the transaction, in the order of the ids: callers of the same name
-- cannot lock each other out. Rows of what is no market are added at their first use.
CREATE FUNCTION lock_rows(lock_name text, ids integer[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
  locked integer;
BEGIN
  LOOP
    SELECT count(*) INTO locked FROM (
      SELECT FROM exclusive_lock l WHERE l.name = lock_name AND l.id = ANY (ids) ORDER BY l.id FOR UPDATE) l;
    EXIT WHEN locked = (SELECT count(DISTINCT one) FROM unnest(ids) AS one);
    INSERT INTO exclusive_lock (name, id)
    SELECT DISTINCT lock_name, one FROM unnest(ids) AS one ORDER BY one ON CONFLICT DO NOTHING;
  END LOOP;
END
$$;
COMMENT ON FUNCTION lock_rows IS 'Locks rows of exclusive_lock until the end of the transaction.';

CREATE FUNCTION lock_holder(lock_name text, OUT pid integer, OUT held_by text, OUT application text, OUT held_since timestamptz)
LANGUAGE sql STABLE
AS $$
  SELECT e.pid, e.held_by, e.application, e.held_since FROM exclusive_lock e
  WHERE e.name = lock_name AND e.id = 0 AND EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.granted AND l.pid = e.pid AND l.objsubid = 1
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.classid::bigint << 32 | l.objid::bigint = e.token)
$$;
COMMENT ON FUNCTION lock_holder IS 'The connection that holds a lock until it ends; null when there is none.';

-- A lock for as long as a connection lives, over any number of transactions. The holder is written
-- into a row that readers cannot change; that its connection lives is seen by an advisory lock of a
-- number drawn for this connection, which counts only in the hands of that server process.
CREATE FUNCTION hold_lock(lock_name text, OUT got boolean, OUT held_by_other text)
LANGUAGE plpgsql
AS $$
DECLARE
  holder record;
  drawn bigint;
BEGIN
  PERFORM lock_rows(lock_name, '{0}');
  SELECT * INTO holder FROM lock_holder(lock_name);
  got := holder.pid IS NULL OR holder.pid = pg_backend_pid();
  IF NOT got THEN
    held_by_other := format('user %s, server process %s, application "%s", since %s', holder.held_by,
      holder.pid, holder.application,
      to_char(holder.held_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"'));
  ELSIF holder.pid IS NULL THEN
    LOOP
      drawn := ('x' || substr(md5(gen_random_uuid()::text), 1, 16))::bit(64)::bigint;
      EXIT WHEN pg_try_advisory_lock(drawn);
    END LOOP;
    UPDATE exclusive_lock
    SET token = drawn, pid = pg_backend_pid(), held_by = session_user,
        application = current_setting('application_name'), held_since = clock_timestamp()
    WHERE name = lock_name AND id = 0;
  END IF;
END
$$;
COMMENT ON FUNCTION hold_lock IS 'Takes a lock until this connection ends, without waiting; else tells who holds it.';

-- The ledger of what leaves ---------------------------------------------------------------------

ALTER TABLE partition_state ADD COLUMN manifest_sha256 text;
COMMENT ON COLUMN partition_state.manifest_sha256 IS 'Checksum that the manifest carries of itself; null while it is not archived, and of one written before manifests had one.';

CREATE FUNCTION streams_of(for_table text) RETURNS text[]
LANGUAGE sql IMMUTABLE
AS $$
  SELECT CASE for_table
    WHEN 'trade' THEN ARRAY['trades', 'times'] WHEN 'kline' THEN ARRAY['kline']
    WHEN 'ticker' THEN ARRAY['ticker'] WHEN 'depth' THEN ARRAY['depth']
    WHEN 'market_state' THEN ARRAY['state'] ELSE '{}' END
$$;
COMMENT ON FUNCTION streams_of IS 'Kinds of the streams that claim rows of a table; none for revisions, which have no ledger of their own.';

-- Rows of a stream between two moments: those that are here are counted, those of final partitions
-- are known. Null where a partition that has left reaches beyond the span: how many of its rows lie
-- in it is not known, and of other kinds than trades not even how many there are of a variant.
CREATE FUNCTION stream_rows(for_table text, for_stream stream, from_at timestamptz, to_at timestamptz)
RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
DECLARE
  is_exact CONSTANT boolean := for_table = 'trade';
  place CONSTANT integer := CASE for_stream.kind WHEN 'times' THEN 3 ELSE 0 END;
  time_column CONSTANT text := CASE for_table WHEN 'trade' THEN 'traded_at' WHEN 'kline' THEN 'open_at' ELSE 'observed_at' END;
  condition CONSTANT text := CASE for_table
    WHEN 'trade' THEN 'market_id = $1' WHEN 'kline' THEN 'market_id = $1 AND interval_s = $2'
    WHEN 'market_state' THEN 'market_id = $1 AND period_s = $2'
    ELSE 'market_id = $1' END;
  asked CONSTANT tstzrange := tstzrange(from_at, to_at);
  known tstzmultirange := '{}';
  total bigint := 0;
  here bigint;
  one record;
BEGIN
  FOR one IN
    SELECT p.span, p.state, p.market_rows FROM partition_state p
    WHERE p.table_name = for_table AND p.state IN ('sealed', 'archived') AND p.span && asked
  LOOP
    IF is_exact AND one.span <@ asked AND one.market_rows IS NOT NULL THEN
      known := known + tstzmultirange(one.span);
      total := total + coalesce((one.market_rows -> for_stream.market_id::text ->> place)::bigint, 0);
    ELSIF one.state = 'archived' THEN
      RETURN NULL;
    END IF;
  END LOOP;
  -- One span a statement, as text: so partitions are left out before the work.
  FOR one IN SELECT part FROM unnest(tstzmultirange(asked) - known) AS part LOOP
    EXECUTE format('SELECT count(%s) FROM %I WHERE %s AND %I >= %L AND %I < %L',
        CASE for_stream.kind WHEN 'times' THEN 'executed_at' ELSE '*' END, for_table, condition,
        time_column, lower(one.part), time_column, upper(one.part))
      INTO here USING for_stream.market_id, for_stream.variant;
    total := total + here;
  END LOOP;
  RETURN total;
END
$$;
COMMENT ON FUNCTION stream_rows IS 'How many rows of a stream lie in a span; null where that is not known any more.';

-- Of the time up to a moment, the end of a partition that is given up, nothing is claimed, expected,
-- wanted, missing or judged any more. What is left of a covered span that reached beyond it keeps an
-- exact count of its rows. Must run while the rows are still there.
CREATE FUNCTION revoke_ledger(for_table text, until timestamptz) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
  kinds CONSTANT text[] := streams_of(for_table);
  markets integer[];
  cut record;
  gone bigint;
  rest bigint;
  lowest bigint;
  place integer;
BEGIN
  IF kinds = '{}' THEN
    RETURN;
  END IF;
  SELECT array_agg(DISTINCT s.market_id) INTO markets FROM stream s WHERE s.kind = ANY (kinds);
  PERFORM lock_rows('market', markets);
  PERFORM lock_rows('gaps', markets);
  FOR cut IN
    SELECT s AS of_stream, s.kind, c.market_id, c.stream_id, c.span, c.row_count
    FROM stream s JOIN coverage c USING (stream_id)
    WHERE s.kind = ANY (kinds) AND lower(c.span) < until AND upper(c.span) > until
    ORDER BY c.market_id, c.stream_id
  LOOP
    gone := stream_rows(for_table, cut.of_stream, lower(cut.span), until);
    rest := CASE WHEN gone IS NULL THEN stream_rows(for_table, cut.of_stream, until, upper(cut.span))
                 ELSE greatest(cut.row_count - gone, 0) END;
    -- Neither is known: they go in proportion to time.
    rest := coalesce(rest, round(cut.row_count * extract(epoch FROM upper(cut.span) - until)
                                 / extract(epoch FROM upper(cut.span) - lower(cut.span))));
    lowest := NULL;
    IF for_table = 'trade' AND rest > 0 THEN
      place := CASE cut.kind WHEN 'times' THEN 4 ELSE 1 END;
      -- Ids grow with time: it is that of the oldest rows, here or in a final partition.
      SELECT min(tid) INTO lowest FROM (
        (SELECT (p.market_rows -> cut.market_id::text ->> place)::bigint AS tid FROM partition_state p
         WHERE p.table_name = 'trade' AND p.state IN ('sealed', 'archived') AND lower(p.span) >= until
           AND lower(p.span) < upper(cut.span) AND p.market_rows -> cut.market_id::text ->> place IS NOT NULL
         ORDER BY lower(p.span) LIMIT 1)
        UNION ALL
        (SELECT t.tid FROM trade t
         WHERE t.market_id = cut.market_id AND t.traded_at >= until AND t.traded_at < upper(cut.span)
           AND (cut.kind = 'trades' OR t.executed_at IS NOT NULL)
         ORDER BY t.traded_at, t.tid LIMIT 1)) AS candidate;
    END IF;
    UPDATE coverage c
    SET span = tstzrange(until, upper(c.span)), row_count = rest, first_id = lowest,
        last_id = CASE WHEN rest = 0 THEN NULL ELSE c.last_id END
    WHERE c.stream_id = cut.stream_id AND c.market_id = cut.market_id AND c.span = cut.span;
  END LOOP;
  DELETE FROM coverage c USING stream s
  WHERE s.stream_id = c.stream_id AND s.kind = ANY (kinds) AND upper(c.span) <= until;
  UPDATE stream SET collect_from = until, start_reason = NULL
  WHERE kind = ANY (kinds) AND (collect_from IS NULL OR collect_from < until);
  DELETE FROM wanted w USING stream s
  WHERE s.stream_id = w.stream_id AND s.kind = ANY (kinds) AND upper(w.span) <= until;
  UPDATE wanted w SET span = tstzrange(until, upper(w.span)) FROM stream s
  WHERE s.stream_id = w.stream_id AND s.kind = ANY (kinds) AND lower(w.span) < until
    AND NOT EXISTS (
      SELECT FROM wanted o WHERE o.stream_id = w.stream_id AND o.market_id = w.market_id
        AND o.wanted_id <> w.wanted_id AND upper(o.span) = upper(w.span) AND lower(o.span) <= until);
  DELETE FROM gap g USING stream s
  WHERE s.stream_id = g.stream_id AND s.kind = ANY (kinds) AND upper(g.span) <= until;
  UPDATE gap g SET span = tstzrange(until, upper(g.span)) FROM stream s
  WHERE s.stream_id = g.stream_id AND s.kind = ANY (kinds) AND lower(g.span) < until;
  IF for_table IN ('trade', 'kline') THEN
    PERFORM lock_rows('verdicts', markets);
    DELETE FROM verdict v
    WHERE lower(v.span) < until
      AND upper(v.span) <= to_timestamp(ceil(date_part('epoch', until) / v.interval_s) * v.interval_s);
    UPDATE verdict v
    SET span = tstzrange(to_timestamp(ceil(date_part('epoch', until) / v.interval_s) * v.interval_s), upper(v.span))
    WHERE lower(v.span) < until;
    DELETE FROM verdict_doubt d WHERE upper(d.span) <= until;
  END IF;
END
$$;
COMMENT ON FUNCTION revoke_ledger IS 'Takes back all that the ledger says of a table up to a moment.';

-- Plans that were made while all rows were here must be made anew: whoever asks for a part that has
-- left is told so while the plan is made. Changes nothing, and needs a lock that only makers of
-- partitions and VACUUM wait for.
CREATE FUNCTION forget_plans(for_table text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
  EXECUTE format('ALTER TABLE ONLY %I ALTER COLUMN market_id SET STATISTICS -1', for_table);
END
$$;
COMMENT ON FUNCTION forget_plans IS 'Makes every session plan its statements over a table anew.';

-- Rows of a table by market, as finish_seal remembers them.
CREATE FUNCTION rows_by_market(for_table text, name text) RETURNS jsonb
LANGUAGE plpgsql STABLE
AS $$
DECLARE
  counted jsonb;
BEGIN
  EXECUTE format(
    'SELECT coalesce(jsonb_object_agg(market_id::text, counts), ''{}'') FROM (
       SELECT market_id, jsonb_build_array(%s) AS counts FROM ONLY %I GROUP BY market_id) c',
    CASE for_table WHEN 'trade' THEN
      'count(*), min(tid), max(tid), count(executed_at), min(tid) FILTER (WHERE executed_at IS NOT NULL),
       max(tid) FILTER (WHERE executed_at IS NOT NULL)' ELSE 'count(*)' END, name)
  INTO counted;
  RETURN counted;
END
$$;
COMMENT ON FUNCTION rows_by_market IS 'What partition_state.market_rows says of a partition, counted now.';

-- The life of a partition -----------------------------------------------------------------------

CREATE OR REPLACE FUNCTION make_partition(for_table text, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  earliest CONSTANT timestamptz := '2009-01-01';
  latest timestamptz;
  place record;
  known text;
BEGIN
  -- Years beyond the present, whichever of database and exchange is ahead: a mistake in the unit.
  SELECT greatest(now(), max(upper(span))) + interval '10 years' INTO latest FROM coverage;
  IF at IS NULL OR at < earliest OR at > latest THEN
    RAISE EXCEPTION 'no partition of % is made for %: market data are of % to %', for_table, coalesce(at::text, 'null'), earliest, latest
      USING ERRCODE = 'datetime_field_overflow', HINT = 'Check the unit of the time: seconds, milliseconds or microseconds.';
  END IF;
  SELECT * INTO place FROM partition_at(for_table, at);
  PERFORM FROM partition_policy WHERE table_name = for_table FOR UPDATE;
  SELECT state INTO known FROM partition_state WHERE table_name = for_table AND span = place.span;
  IF known = 'archived' THEN
    RAISE EXCEPTION 'the partition % is archived: its rows are in files, and new ones cannot be added before "tapekeep restore" has brought it back', place.name
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

DROP FUNCTION finish_seal(text, timestamptz, bigint, text, jsonb);
-- Last step of sealing: false when it was reopened meanwhile. What is remembered of the rows is
-- counted here, because what leaves later is held against it.
CREATE FUNCTION finish_seal(for_table text, at timestamptz, counted bigint, sum text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  place record;
  markets jsonb;
  total bigint;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  IF to_regclass(place.name) IS NULL THEN
    RETURN false;
  END IF;
  -- Before the lock, which late rows wait for. While the guard is up nothing changes.
  markets := rows_by_market(for_table, place.name);
  PERFORM FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state = 'hot' FOR UPDATE;
  IF NOT FOUND OR NOT EXISTS (
      SELECT FROM pg_trigger
      WHERE tgrelid = to_regclass(place.name) AND tgname = 'final_rows' AND tgenabled <> 'D') THEN
    RETURN false;
  END IF;
  SELECT coalesce(sum((one.value ->> 0)::bigint), 0) INTO total FROM jsonb_each(markets) AS one;
  IF total <> counted THEN
    RAISE EXCEPTION 'the partition % has % rows and is not sealed with %', place.name, total, counted
      USING ERRCODE = 'invalid_parameter_value', TABLE = place.name;
  END IF;
  UPDATE partition_state
  SET state = 'sealed', row_count = counted, checksum = sum, market_rows = markets, sealed_at = now(),
      uri = NULL, manifest_sha256 = NULL, cold_bytes = NULL, restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  RETURN true;
END
$$;
COMMENT ON FUNCTION finish_seal IS 'Declares a partition sealed with the rows counted since begin_seal; false when it was reopened meanwhile.';

DROP FUNCTION archive_partition(text, timestamptz, text, text, bigint);
-- The switch: from here on the rows are in the files. What the manifest says of them must be what the
-- partition was sealed with, market by market: the ledger goes on claiming them. The emptied table
-- goes later, by drop_emptied, because that needs the parent for a moment. False when the partition is
-- not sealed, or not with this checksum.
CREATE FUNCTION archive_partition(for_table text, at timestamptz, manifest_uri text, manifest jsonb)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '2s'
AS $$
DECLARE
  place record;
  held partition_state;
  files record;
  wrong text;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  LOCK TABLE reader_lock IN ACCESS EXCLUSIVE MODE;
  SELECT * INTO held FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state = 'sealed'
    AND checksum = manifest ->> 'checksum' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  SELECT coalesce(sum(f.rows), 0) AS rows, coalesce(sum(f.bytes), 0) AS bytes,
         bool_and(f.sha256 ~ '^[0-9a-f]{64}$' AND f.path <> '' AND f.bytes > 0) AS are_named
  INTO files
  FROM jsonb_to_recordset(manifest -> 'files') AS f(path text, rows bigint, bytes bigint, sha256 text);
  wrong := CASE
    WHEN manifest_uri IS DISTINCT FROM 'manifests/' || for_table || '/' || place.name || '.json' THEN 'its path'
    WHEN (manifest ->> 'sha256') ~ '^[0-9a-f]{64}$' IS NOT TRUE THEN 'the checksum of itself'
    WHEN manifest ->> 'table' IS DISTINCT FROM for_table THEN 'its table'
    WHEN (manifest ->> 'from')::timestamptz IS DISTINCT FROM lower(place.span)
      OR (manifest ->> 'to')::timestamptz IS DISTINCT FROM upper(place.span) THEN 'its span'
    WHEN (manifest ->> 'rows')::bigint IS DISTINCT FROM held.row_count
      OR files.rows IS DISTINCT FROM held.row_count THEN 'the number of rows'
    WHEN files.are_named IS FALSE THEN 'a file'
    WHEN EXISTS (
      SELECT FROM (
        SELECT f."marketId" AS market_id, sum(f.rows) AS rows
        FROM jsonb_to_recordset(manifest -> 'files') AS f("marketId" integer, rows bigint) GROUP BY 1) f
      FULL JOIN (
        SELECT one.key::integer AS market_id, (one.value ->> 0)::bigint AS rows
        FROM jsonb_each(held.market_rows) AS one) m USING (market_id)
      WHERE f.rows IS DISTINCT FROM m.rows) THEN 'the rows of a market'
  END;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'the partition % stays in the database: % of the manifest % is not what it was sealed with', place.name, wrong, coalesce(quote_literal(manifest_uri), 'null')
      USING ERRCODE = 'invalid_parameter_value', TABLE = place.name;
  END IF;
  PERFORM forget_plans(for_table);
  PERFORM empty_partition(place.name);
  UPDATE partition_state
  SET state = 'archived', uri = manifest_uri, manifest_sha256 = manifest ->> 'sha256',
      cold_bytes = files.bytes, archived_at = now(), restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  RETURN true;
END
$$;
COMMENT ON FUNCTION archive_partition IS 'Takes the rows of a sealed partition out of the database, once a manifest says that all of them are in files; false when it is not what was written.';

-- The switch back. False when the rows are not those that it was sealed with.
CREATE OR REPLACE FUNCTION finish_restore(for_table text, at timestamptz, sum text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '2s'
AS $$
DECLARE
  place record;
  held partition_state;
  counted jsonb;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  IF to_regclass(place.name) IS NULL THEN
    RETURN false;
  END IF;
  -- From here on the rows aside do not change; counted before readers have to wait.
  PERFORM guard_partition(place.name);
  counted := rows_by_market(for_table, place.name);
  LOCK TABLE reader_lock IN ACCESS EXCLUSIVE MODE;
  PERFORM FROM partition_policy WHERE table_name = for_table FOR UPDATE;
  SELECT * INTO held FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state = 'archived' AND checksum = sum FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF counted IS DISTINCT FROM held.market_rows THEN
    RAISE EXCEPTION 'the partition % stays archived: the rows that came back are not those that it was sealed with, market by market', place.name
      USING ERRCODE = 'invalid_parameter_value', TABLE = place.name;
  END IF;
  EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                 for_table, place.name, lower(place.span), upper(place.span));
  UPDATE partition_state SET state = 'sealed', archived_at = NULL, restored_at = now()
  WHERE table_name = for_table AND span = place.span;
  RETURN true;
END
$$;

-- Gives the rows of a partition up, wherever they are, and with them all that the ledger says of them
-- and of the time before. Returns the state that it had; null when there is none such, when it is
-- expired already, or when its time has hardly ended: retention is never that short.
CREATE OR REPLACE FUNCTION expire_partition(for_table text, at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '10s'
AS $$
DECLARE
  place record;
  known text;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  IF upper(place.span) > now() - interval '1 hour' THEN
    RETURN NULL;
  END IF;
  PERFORM FROM partition_state WHERE table_name = for_table AND span = place.span AND state <> 'expired';
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  PERFORM revoke_ledger(for_table, upper(place.span));
  PERFORM set_config('lock_timeout', '2s', true);
  LOCK TABLE reader_lock IN ACCESS EXCLUSIVE MODE;
  SELECT state INTO known FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state <> 'expired' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  PERFORM FROM pg_inherits WHERE inhparent = for_table::regclass AND inhrelid = to_regclass(place.name);
  IF FOUND THEN
    PERFORM forget_plans(for_table);
    PERFORM empty_partition(place.name);
  END IF;
  UPDATE partition_state
  SET state = 'expired', row_count = NULL, checksum = NULL, market_rows = NULL, uri = NULL,
      manifest_sha256 = NULL, cold_bytes = NULL, archived_at = NULL, restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  RETURN known;
END
$$;
COMMENT ON FUNCTION expire_partition IS 'Gives up the rows of a partition for good, and what the ledger says of them; the state that it had, or null.';

-- The caller's search_path must not decide what the owner's rights are used on. Temporary tables come
-- last, or they would hide the real ones.
DO $$
DECLARE
  one regprocedure;
BEGIN
  FOR one IN
    SELECT oid::regprocedure FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (ARRAY[
      'lock_rows', 'hold_lock', 'add_market_locks', 'stream_rows', 'revoke_ledger', 'forget_plans', 'rows_by_market',
      'make_partition', 'finish_seal', 'archive_partition', 'finish_restore', 'expire_partition'])
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path TO %I, pg_temp', one, current_schema());
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one);
  END LOOP;
  EXECUTE format('ALTER FUNCTION lock_holder SET search_path TO %I, pg_temp', current_schema());
END
$$;
