-- Where the rows of a time are. Rows that have left the database must not look like rows that never
-- were: whoever asks for their time is told so instead.

CREATE OR REPLACE VIEW analytics.partitions AS
SELECT p.table_name, lower(p.span) AS starts_at, upper(p.span) AS ends_at, p.state,
       p.row_count AS rows, p.uri AS manifest, p.sealed_at
FROM partition_state p;
COMMENT ON VIEW analytics.partitions IS 'The pieces of time in which the series are kept, and where the rows of each are. state: hot (growing), sealed (final), archived (in cold files, not in the database), expired (gone for good). Example: SELECT table_name, starts_at, ends_at FROM analytics.partitions WHERE state IN (''archived'', ''expired'') ORDER BY table_name, starts_at';
COMMENT ON COLUMN analytics.partitions.table_name IS 'Table of the series: ''trade''.';
COMMENT ON COLUMN analytics.partitions.starts_at IS 'First moment, exchange time: 2026-01-15 00:00:00+00.';
COMMENT ON COLUMN analytics.partitions.ends_at IS 'First moment after it: 2026-01-16 00:00:00+00.';
COMMENT ON COLUMN analytics.partitions.state IS '''hot'', ''sealed'', ''archived'' or ''expired''.';
COMMENT ON COLUMN analytics.partitions.rows IS 'How many there are; null while it grows: 1200000.';
COMMENT ON COLUMN analytics.partitions.manifest IS 'What describes its cold files, below the folder of cold partitions: ''manifests/trade/trade_20260115.json''.';
COMMENT ON COLUMN analytics.partitions.sealed_at IS 'When it was declared final, clock of the database: 2026-01-18 03:00:00+00.';

CREATE OR REPLACE FUNCTION analytics.elsewhere(series text, from_at timestamptz, to_at timestamptz)
RETURNS TABLE (state text, parts bigint, starts_at timestamptz, ends_at timestamptz, spans tstzmultirange, first_uri text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT place.state, count(*), min(lower(place.span)), max(upper(place.span)), range_agg(place.span), min(place.uri)
  FROM (SELECT p.span, p.uri, CASE
                 -- A transaction that keeps its snapshot still sees the state of before. The file of a
                 -- table is the present one, whatever the snapshot: emptied or dropped since, it is another.
                 -- Asking for its size locks it, without which a session may go by what it remembers.
                 WHEN p.state IN ('hot', 'sealed') AND c.oid IS NOT NULL
                   AND (pg_relation_size(c.oid) IS NULL
                     OR pg_relation_filenode(c.oid) IS DISTINCT FROM c.relfilenode)
                 THEN 'left' ELSE p.state END AS state
        FROM partition_state p JOIN pg_class home ON home.oid = p.tableoid
        LEFT JOIN pg_class c ON c.relnamespace = home.relnamespace
          AND c.relname = p.table_name || '_' || to_char(lower(p.span) AT TIME ZONE 'UTC',
            CASE WHEN upper(p.span) - lower(p.span) > interval '1 day' THEN 'YYYYMM' ELSE 'YYYYMMDD' END)
        WHERE p.table_name = elsewhere.series
          AND p.span && analytics.span(elsewhere.from_at, elsewhere.to_at)) place
  WHERE place.state IN ('archived', 'left', 'expired')
  GROUP BY place.state ORDER BY place.state;
END;
COMMENT ON FUNCTION analytics.elsewhere IS 'Helper: the partitions of a series that touch [from_at, to_at) and whose rows are not in the database: archived, expired, or left since this transaction began. Example: SELECT state, spans FROM analytics.elsewhere(''trade'', ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.in_database(series text, from_at timestamptz, to_at timestamptz, expired_too boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 100
SET search_path FROM CURRENT
AS $$
DECLARE
  mode CONSTANT text := coalesce(current_setting('tapekeep.missing', true), '');
  missing record;
  what text;
  code text;
  hint text;
BEGIN
  IF from_at >= to_at OR mode = 'ignore' THEN
    RETURN true;
  END IF;
  FOR missing IN
    SELECT * FROM analytics.elsewhere(in_database.series, in_database.from_at, in_database.to_at) e
    WHERE e.state <> 'expired' OR in_database.expired_too
  LOOP
    code := CASE missing.state WHEN 'expired' THEN 'TK003' ELSE 'TK002' END;
    what := format('rows of %s between %s and %s ', in_database.series, missing.starts_at, missing.ends_at)
      || CASE missing.state
           WHEN 'archived' THEN 'are in cold files, not in the database'
           WHEN 'left' THEN 'have left the database since this transaction began'
           ELSE 'are no longer kept' END;
    hint := CASE missing.state
      WHEN 'archived' THEN 'Give a span to a function of the name, which answers where all rows of it are here. The command tapekeep query reads both. tapekeep restore brings the rows back; in psql and other clients SET tapekeep.missing = ''warn'' answers without them, with a warning.'
      WHEN 'left' THEN 'Begin it anew to see where they are.'
      ELSE 'Ask for a time after it; in psql and other clients SET tapekeep.missing = ''warn'' answers without them, with a warning.' END;
    IF mode = 'warn' THEN
      RAISE WARNING '%', what || ': the answer is without them' USING ERRCODE = code, DETAIL = missing.spans::text;
    ELSE
      RAISE EXCEPTION '%', what
        USING ERRCODE = code, HINT = hint,
              DETAIL = format('%s of its parts: %s', missing.parts, missing.spans)
                       || coalesce('; the first manifest is ' || missing.first_uri, '');
    END IF;
  END LOOP;
  RETURN true;
END
$$;
COMMENT ON FUNCTION analytics.in_database IS 'Helper: true when all rows of a series (trade, kline, kline_revision, ticker, depth, market_state) between two moments are in the database. Rows that have moved to cold files are an error, and with expired_too also those that are no longer kept. With the setting tapekeep.missing they are a warning (''warn''), or nothing (''ignore''). Example: SELECT analytics.in_database(''trade'', now() - interval ''1 hour'', now())';

-- What stands in conditions of views and functions. It says the same about the same rows at any time,
-- and what it refuses can only change together with the partitions, which makes every plan over the
-- series anew: so it may be called immutable. Then the planner works it out, whatever becomes of the
-- condition: also under LIMIT 0, EXISTS, or where a statement is known to have no rows.
CREATE OR REPLACE FUNCTION analytics.is_here(series text, from_at timestamptz DEFAULT '-infinity', to_at timestamptz DEFAULT 'infinity', expired_too boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 100
SET search_path FROM CURRENT
AS $$
BEGIN
  RETURN analytics.in_database(series, from_at, to_at, expired_too);
END
$$;
COMMENT ON FUNCTION analytics.is_here IS 'Helper: in_database for the conditions of views and functions, asked while a statement is planned; without a span of all time. Example: SELECT analytics.is_here(''trade'', now() - interval ''1 hour'', now())';

-- The bounds of a question to a series, immutable as is_here is: so constants in them are worked out
-- early enough to leave out partitions. What is left out wholly would ask nothing, which is why the
-- upper bound depends on both moments as well.
CREATE OR REPLACE FUNCTION analytics.hot_from(series text, from_at timestamptz, to_at timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 100
SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM analytics.in_database(series, analytics.span_start(from_at, to_at), to_at, true);
  RETURN from_at;
END
$$;
COMMENT ON FUNCTION analytics.hot_from IS 'Helper: the start of a span of which all rows are in the database; any other is refused, and so is one that ends before it begins. Example: SELECT analytics.hot_from(''trade'', ''2026-01-15'', ''2026-01-16'')';

CREATE OR REPLACE FUNCTION analytics.hot_to(series text, from_at timestamptz, to_at timestamptz)
RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 100
AS $$
BEGIN
  RETURN to_at;
END
$$;
COMMENT ON FUNCTION analytics.hot_to IS 'Helper: the end of a span; goes with hot_from. Example: SELECT analytics.hot_to(''trade'', ''2026-01-15'', ''2026-01-16'')';
