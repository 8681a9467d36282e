-- What is expected beyond what is collected anyway, what is remembered of gaps (apart from each
-- other, in words of one list), and indexes by which questions about moments and spans read a few
-- rows of the ledger, whatever its size.

-- Coverage --------------------------------------------------------------------------------------

-- Spans of a stream are apart, so the order of their starts is the order of time: the island at an
-- instant is the last one that starts before it. Without market_id, which a stream implies: a planner
-- that takes the two for independent expects one row of a stream where there are thousands.
CREATE INDEX coverage_by_start ON coverage (stream_id, lower(span));
-- Nearly every start is the end of a gap: where the newest gaps of all streams are.
CREATE INDEX coverage_newest ON coverage (lower(span));
-- Which streams are covered up to the present.
CREATE INDEX coverage_ends ON coverage (upper(span));

-- Wanted ----------------------------------------------------------------------------------------

CREATE TABLE wanted (
  wanted_id bigint GENERATED ALWAYS AS IDENTITY,
  stream_id integer NOT NULL REFERENCES stream,
  market_id integer NOT NULL REFERENCES market,
  span tstzrange NOT NULL CONSTRAINT wanted_span_half_open CHECK (
    NOT isempty(span) AND lower_inc(span) AND NOT upper_inc(span)
    AND lower(span) IS NOT NULL AND upper(span) IS NOT NULL),
  requested_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (wanted_id, market_id),
  CONSTRAINT wanted_once UNIQUE (market_id, stream_id, span)
);
COMMENT ON TABLE wanted IS 'Spans that somebody asked for: expected of their stream like everything from its collect_from on.';
COMMENT ON COLUMN wanted.requested_at IS 'When it was asked for, clock of the database.';

-- Gaps ------------------------------------------------------------------------------------------

ALTER TABLE gap
  ADD COLUMN remarks text,
  ADD COLUMN uncovered_at timestamptz;
COMMENT ON COLUMN gap.span IS 'Memories of one stream that are not filled are apart from each other: a later one takes the place of what it overlaps.';
COMMENT ON COLUMN gap.reason IS 'Why it is not proven complete, in the words of one list; tapekeep gaps explain tells what each means.';
COMMENT ON COLUMN gap.first_seen_at IS 'Exchange time.';
COMMENT ON COLUMN gap.next_attempt_at IS 'When it is tried again, exchange time; null: as soon as possible, or never when it is unfillable.';
COMMENT ON COLUMN gap.closed_at IS 'When it was filled or given up.';
COMMENT ON COLUMN gap.note IS 'What the last try found.';
COMMENT ON COLUMN gap.remarks IS 'What people wrote about it; no try overwrites that.';
COMMENT ON COLUMN gap.uncovered_at IS 'Suspects: when coverage of the span was taken back, exchange time; null while that is still to be done.';

UPDATE gap SET reason = CASE reason
    WHEN 'rows refused by validation' THEN 'refused rows'
    ELSE 'beyond history' END
  WHERE reason IN ('rows refused by validation',
                   'beyond the history that the exchange still serves');

-- Until now only the starts were apart. What overlaps is cut: the later memory keeps its span.
CREATE TEMPORARY TABLE gap_part ON COMMIT DROP AS
  SELECT g.gap_id, part, row_number() OVER (PARTITION BY g.gap_id ORDER BY lower(part)) AS place
  FROM gap g LEFT JOIN LATERAL (
    SELECT unnest(tstzmultirange(g.span) - range_agg(later.span)) AS part FROM gap later
    WHERE later.market_id = g.market_id AND later.stream_id = g.stream_id
      AND later.state <> 'filled' AND later.gap_id > g.gap_id AND later.span && g.span) p ON true
  WHERE g.state <> 'filled' AND EXISTS (
    SELECT FROM gap later
    WHERE later.market_id = g.market_id AND later.stream_id = g.stream_id
      AND later.state <> 'filled' AND later.gap_id > g.gap_id AND later.span && g.span);
DROP INDEX gap_once;
DELETE FROM gap USING gap_part p WHERE gap.gap_id = p.gap_id AND p.part IS NULL;
INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at, attempts,
                 next_attempt_at, closed_at, note)
  SELECT stream_id, market_id, part, state, reason, first_seen_at, attempts, next_attempt_at,
         closed_at, note
  FROM gap JOIN gap_part p USING (gap_id) WHERE p.place > 1;
UPDATE gap SET span = p.part FROM gap_part p WHERE p.gap_id = gap.gap_id AND p.place = 1;

ALTER TABLE gap ADD CONSTRAINT gap_apart
  EXCLUDE USING gist (market_id WITH =, stream_id WITH =, span WITH &&) WHERE (state <> 'filled');
CREATE INDEX gap_by_start ON gap (stream_id, lower(span));
CREATE INDEX gap_open ON gap (lower(span)) WHERE state = 'open';
CREATE INDEX gap_suspect ON gap (lower(span))
  WHERE state = 'open' AND reason = 'suspect' AND uncovered_at IS NULL;

-- Archive ---------------------------------------------------------------------------------------

ALTER TABLE archive ADD COLUMN since_modes jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN archive.since_modes IS 'How the exchange understands the offset of each endpoint that pages through trades: skip or id, as far as it was found out.';
