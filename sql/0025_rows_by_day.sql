-- Rows are counted by day, in the transaction that stores or removes them. Coverage counts nothing.

CREATE TABLE rows_by_day (
  market_id integer NOT NULL,
  series text NOT NULL,
  variant integer NOT NULL,
  day date NOT NULL,
  rows bigint NOT NULL CONSTRAINT rows_by_day_not_negative CHECK (rows >= 0),
  timed bigint NOT NULL DEFAULT 0 CONSTRAINT rows_by_day_timed_not_negative CHECK (timed >= 0),
  PRIMARY KEY (market_id, series, variant, day)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE rows_by_day IS 'Stored rows of each market, series and day, archived ones included. market_id refers to market.';
COMMENT ON COLUMN rows_by_day.series IS 'Table that holds the rows.';
COMMENT ON COLUMN rows_by_day.variant IS 'Interval of candles or period of states in seconds; 0 for the other series.';
COMMENT ON COLUMN rows_by_day.day IS 'UTC, exchange time.';
COMMENT ON COLUMN rows_by_day.timed IS 'Trades whose exact time is known.';

DROP VIEW IF EXISTS analytics.coverage CASCADE;
ALTER TABLE coverage DROP COLUMN first_id, DROP COLUMN last_id, DROP COLUMN row_count;
ALTER TABLE partition_state DROP COLUMN market_rows;

-- Removes what the ledger says of the time up to the end of an expired partition: coverage, expectation, requests, gaps
-- and check results.
CREATE OR REPLACE FUNCTION revoke_ledger(for_table text, until timestamptz) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
  kinds CONSTANT text[] := streams_of(for_table);
  markets integer[];
BEGIN
  IF kinds = '{}' THEN
    RETURN;
  END IF;
  SELECT array_agg(DISTINCT s.market_id) INTO markets FROM stream s WHERE s.kind = ANY (kinds);
  PERFORM lock_rows('market', markets);
  PERFORM lock_rows('gaps', markets);
  DELETE FROM coverage c USING stream s
  WHERE s.stream_id = c.stream_id AND s.kind = ANY (kinds) AND upper(c.span) <= until;
  UPDATE coverage c SET span = tstzrange(until, upper(c.span)) FROM stream s
  WHERE s.stream_id = c.stream_id AND s.kind = ANY (kinds) AND lower(c.span) < until;
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
    PERFORM lock_rows('checks', markets);
    DELETE FROM candle_check v
    WHERE lower(v.span) < until
      AND upper(v.span) <= to_timestamp(ceil(date_part('epoch', until) / v.interval_s) * v.interval_s);
    UPDATE candle_check v
    SET span = tstzrange(to_timestamp(ceil(date_part('epoch', until) / v.interval_s) * v.interval_s), upper(v.span))
    WHERE lower(v.span) < until;
    DELETE FROM candle_recheck d WHERE upper(d.span) <= until;
  END IF;
END
$$;

DROP FUNCTION stream_rows(text, stream, timestamptz, timestamptz);
DROP FUNCTION rows_by_market(text, text);

-- Markets of a partition whose rows, or rows with an exact time, are not as many as rows_by_day says.
CREATE FUNCTION miscounted(for_table text, name text, within tstzrange)
RETURNS TABLE (market_id integer, variant integer, known bigint, counted bigint)
LANGUAGE plpgsql STABLE
SET timezone TO 'UTC'
AS $$
BEGIN
  IF to_regclass(name) IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY EXECUTE format($query$
    SELECT market_id, variant,
           coalesce(CASE WHEN k.rows = c.rows THEN k.timed ELSE k.rows END, 0),
           coalesce(CASE WHEN k.rows = c.rows THEN c.timed ELSE c.rows END, 0)
    FROM (SELECT market_id, variant, sum(rows)::bigint AS rows, sum(timed)::bigint AS timed FROM rows_by_day
          WHERE series = $1 AND day >= lower($2)::date AND day < upper($2)::date GROUP BY 1, 2) k
    FULL JOIN (SELECT market_id, %s AS variant, count(*) AS rows, %s::bigint AS timed FROM ONLY %I GROUP BY 1, 2) c
      USING (market_id, variant)
    WHERE coalesce(k.rows, 0) <> coalesce(c.rows, 0) OR coalesce(k.timed, 0) <> coalesce(c.timed, 0)
    ORDER BY 1, 2$query$,
    CASE WHEN for_table IN ('kline', 'kline_revision') THEN 'interval_s' WHEN for_table = 'market_state' THEN 'period_s' ELSE '0' END,
    CASE for_table WHEN 'trade' THEN 'count(executed_at)' ELSE '0' END, name)
  USING for_table, within;
END
$$;
COMMENT ON FUNCTION miscounted IS 'Markets of a partition whose rows differ from rows_by_day.';

-- Last step of sealing: false when the partition was reopened meanwhile. The counters are checked here, because files
-- and restored rows are compared with them.
CREATE OR REPLACE FUNCTION finish_seal(for_table text, at timestamptz, counted bigint, sum text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  place record;
  total bigint;
  wrong record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  IF to_regclass(place.name) IS NULL THEN
    RETURN false;
  END IF;
  -- Before the lock, which late rows wait for. While the guard is up nothing changes.
  SELECT * INTO wrong FROM miscounted(for_table, place.name, place.span) LIMIT 1;
  EXECUTE format('SELECT count(*) FROM ONLY %I', place.name) INTO total;
  PERFORM FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state = 'hot' FOR UPDATE;
  IF NOT FOUND OR NOT EXISTS (
      SELECT FROM pg_trigger
      WHERE tgrelid = to_regclass(place.name) AND tgname = 'final_rows' AND tgenabled <> 'D') THEN
    RETURN false;
  END IF;
  IF total <> counted THEN
    RAISE EXCEPTION 'the partition % has % rows and is not sealed with %', place.name, total, counted
      USING ERRCODE = 'invalid_parameter_value', TABLE = place.name;
  ELSIF wrong.market_id IS NOT NULL THEN
    RAISE EXCEPTION 'the partition % is not sealed: rows_by_day counts % rows of market %, and there are %', place.name, wrong.known, wrong.market_id, wrong.counted
      USING ERRCODE = 'invalid_parameter_value', TABLE = place.name;
  END IF;
  UPDATE partition_state
  SET state = 'sealed', row_count = counted, checksum = sum, sealed_at = now(),
      uri = NULL, manifest_sha256 = NULL, cold_bytes = NULL, restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  RETURN true;
END
$$;

-- From here on the rows are in the files. The manifest must name as many rows of each market as are counted. False when
-- the partition is not sealed, or has another checksum. drop_emptied removes the emptied table later.
CREATE OR REPLACE FUNCTION archive_partition(for_table text, at timestamptz, manifest_uri text, manifest jsonb)
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
        SELECT r.market_id, sum(r.rows) AS rows FROM rows_by_day r
        WHERE r.series = for_table AND r.day >= lower(place.span)::date AND r.day < upper(place.span)::date
        GROUP BY 1 HAVING sum(r.rows) > 0) m USING (market_id)
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

-- The switch back. False when the partition is not archived, or has another checksum.
CREATE OR REPLACE FUNCTION finish_restore(for_table text, at timestamptz, sum text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
SET lock_timeout TO '2s'
AS $$
DECLARE
  place record;
  wrong record;
BEGIN
  SELECT * INTO place FROM partition_at(for_table, at);
  IF to_regclass(place.name) IS NULL THEN
    RETURN false;
  END IF;
  -- From here on the rows aside do not change; counted before readers have to wait.
  PERFORM guard_partition(place.name);
  SELECT * INTO wrong FROM miscounted(for_table, place.name, place.span) LIMIT 1;
  LOCK TABLE reader_lock IN ACCESS EXCLUSIVE MODE;
  PERFORM FROM partition_policy WHERE table_name = for_table FOR UPDATE;
  PERFORM FROM partition_state
  WHERE table_name = for_table AND span = place.span AND state = 'archived' AND checksum = sum FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF wrong.market_id IS NOT NULL THEN
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

-- Removes the rows of a partition for good, wherever they are, with their counters and all that the ledger says of that
-- time and the time before. Returns the state that it had; null when there is none such, when it is expired already,
-- or when its time has hardly ended: retention is never that short.
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
  DELETE FROM rows_by_day
  WHERE series = for_table AND day >= lower(place.span)::date AND day < upper(place.span)::date;
  UPDATE partition_state
  SET state = 'expired', row_count = NULL, checksum = NULL, uri = NULL,
      manifest_sha256 = NULL, cold_bytes = NULL, archived_at = NULL, restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  RETURN known;
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
  SET state = 'hot', row_count = NULL, checksum = NULL, sealed_at = NULL,
      uri = NULL, cold_bytes = NULL, restored_at = NULL
  WHERE table_name = held.table_name AND span = held.span;
  RETURN held.state;
END
$$;

-- Makes a new, empty partition in place of one that somebody dropped or detached. What the ledger said of its time is
-- revoked in the same transaction. The writer finds its number changed and reads the ledger again.
CREATE OR REPLACE FUNCTION replace_partition(for_table text, at timestamptz) RETURNS void
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
  DELETE FROM rows_by_day
  WHERE series = for_table AND day >= lower(place.span)::date AND day < upper(place.span)::date;
  UPDATE partition_state
  SET state = 'hot', row_count = NULL, checksum = NULL, sealed_at = NULL, restored_at = NULL
  WHERE table_name = for_table AND span = place.span;
  PERFORM make_partition(for_table, at);
  UPDATE writer_commit SET commit_no = commit_no + 2;
  INSERT INTO incident (kind, note)
  VALUES ('rows removed', format('the partition %s was dropped or detached; what it covered is a gap', place.name));
END
$$;

-- Whoever only writes may not take rows out of a series but by this. Nothing may claim that the second of the row is
-- whole while it goes: its coverage is revoked first, in the same transaction.
CREATE OR REPLACE FUNCTION expose_trade(of_market integer, at timestamptz, id bigint, why text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET timezone TO 'UTC'
AS $$
DECLARE
  gone trade;
BEGIN
  PERFORM FROM coverage c JOIN stream s ON s.stream_id = c.stream_id AND s.market_id = c.market_id
  WHERE c.market_id = of_market AND s.kind = ANY (streams_of('trade')) AND c.span @> at;
  IF FOUND THEN
    RAISE EXCEPTION 'trade % of market % lies in a covered span: its coverage must be taken back first', id, of_market
      USING ERRCODE = 'object_in_use';
  END IF;
  DELETE FROM trade WHERE market_id = of_market AND traded_at = at AND tid = id RETURNING * INTO gone;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE rows_by_day
  SET rows = rows - 1, timed = timed - (gone.executed_at IS NOT NULL)::int
  WHERE market_id = of_market AND series = 'trade' AND variant = 0 AND day = at::date;
  INSERT INTO quarantine (received_at, endpoint, market, reason, payload)
  SELECT gone.received_at, 'store:trade', m.name, left(why, 200), left(row_to_json(gone)::text, 8000)
  FROM market m WHERE m.market_id = of_market;
  INSERT INTO quarantine_count AS c (endpoint, reason, count, last_at)
  VALUES ('store:trade', 'exposed by later answers', 1, gone.received_at)
  ON CONFLICT (endpoint, reason) DO UPDATE
    SET count = c.count + 1, last_at = greatest(c.last_at, excluded.last_at);
  RETURN true;
END
$$;

-- The caller's search_path must not decide what the owner's rights are used on.
DO $$
DECLARE
  one regprocedure;
BEGIN
  FOR one IN
    SELECT oid::regprocedure FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (ARRAY[
      'revoke_ledger', 'miscounted', 'finish_seal', 'archive_partition', 'finish_restore', 'expire_partition',
      'reopen_partition', 'replace_partition', 'expose_trade'])
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path TO %I, pg_temp', one, current_schema());
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one);
  END LOOP;
END
$$;
