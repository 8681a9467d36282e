-- Verdicts that are worked with: spans apart from each other, tries at a mismatch, and marks of what
-- changed after it was judged. Everything keeps market_id in its keys.

ALTER TABLE verdict
  ADD COLUMN tries integer NOT NULL DEFAULT 0
    CONSTRAINT verdict_tries_not_negative CHECK (tries >= 0),
  ADD COLUMN next_try_at timestamptz,
  ADD CONSTRAINT verdict_span_half_open CHECK (
    NOT isempty(span) AND lower_inc(span) AND NOT upper_inc(span)
    AND lower(span) IS NOT NULL AND upper(span) IS NOT NULL),
  ADD CONSTRAINT verdict_apart
    EXCLUDE USING gist (market_id WITH =, interval_s WITH =, span WITH &&);
COMMENT ON COLUMN verdict.span IS 'A run of candles that all match, or one candle that does not.';
COMMENT ON COLUMN verdict.detail IS 'Of a mismatch: what differs, with the figure of either side.';
COMMENT ON COLUMN verdict.tries IS 'How often trades and candles of a mismatch were fetched again.';
COMMENT ON COLUMN verdict.next_try_at IS 'When a mismatch is judged again, exchange time; null when it is settled.';
CREATE INDEX verdict_open ON verdict (next_try_at) WHERE outcome = 'mismatch';

CREATE TABLE verdict_doubt (
  doubt_id bigint GENERATED ALWAYS AS IDENTITY,
  market_id integer NOT NULL REFERENCES market,
  interval_s integer NOT NULL,
  span tstzrange NOT NULL CONSTRAINT verdict_doubt_span_not_empty CHECK (NOT isempty(span)),
  PRIMARY KEY (doubt_id, market_id)
);
COMMENT ON TABLE verdict_doubt IS 'Spans in which rows changed after they may have been judged; gone once they are judged anew.';
COMMENT ON COLUMN verdict_doubt.interval_s IS 'The interval whose candle changed; 0 for trades, which concern every interval.';
