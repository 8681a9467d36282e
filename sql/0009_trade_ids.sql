-- Exchanges slip about ids: a counter begins anew, or one answer shows a row that never was a trade.

CREATE TABLE trade_epoch (
  market_id integer NOT NULL REFERENCES market,
  begins_at timestamptz NOT NULL,
  first_id bigint NOT NULL,
  last_before_at timestamptz NOT NULL,
  last_id_before bigint NOT NULL,
  endpoint text NOT NULL,
  seen_at timestamptz NOT NULL,
  PRIMARY KEY (market_id, begins_at)
);
COMMENT ON TABLE trade_epoch IS 'Where an exchange began the ids of a market''s trades anew. Trades are ordered by time, and by id within an epoch; before the first row all ids are of one epoch.';
COMMENT ON COLUMN trade_epoch.begins_at IS 'Second of the first trade of the epoch that was seen; the seam lies between last_before_at and this.';
COMMENT ON COLUMN trade_epoch.first_id IS 'Id of that trade.';
COMMENT ON COLUMN trade_epoch.last_before_at IS 'Second of the last trade before it that was seen.';
COMMENT ON COLUMN trade_epoch.last_id_before IS 'Id of that trade.';
COMMENT ON COLUMN trade_epoch.endpoint IS 'Which endpoint showed both in one answer.';
COMMENT ON COLUMN trade_epoch.seen_at IS 'When it was seen, exchange time.';

-- Whoever only writes may not take rows out of a series but by this. Nothing may claim that the second
-- of the row is whole while it goes: coverage is taken back first, in the same transaction.
CREATE FUNCTION expose_trade(of_market integer, at timestamptz, id bigint, why text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
AS $$
DECLARE
  gone trade;
BEGIN
  PERFORM FROM coverage c JOIN stream s ON s.stream_id = c.stream_id AND s.market_id = c.market_id
  WHERE c.market_id = of_market AND s.kind IN ('trades', 'times') AND c.span @> at;
  IF FOUND THEN
    RAISE EXCEPTION 'trade % of market % lies in a covered span: its coverage must be taken back first', id, of_market
      USING ERRCODE = 'object_in_use';
  END IF;
  DELETE FROM trade WHERE market_id = of_market AND traded_at = at AND tid = id RETURNING * INTO gone;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
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
COMMENT ON FUNCTION expose_trade IS 'Moves a row that never was a trade to quarantine; false when it is not there. Refused while coverage claims its second.';

-- The caller's search_path must not decide what the owner's rights are used on.
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION expose_trade SET search_path TO %I, pg_temp', current_schema());
  REVOKE EXECUTE ON FUNCTION expose_trade FROM PUBLIC;
END
$$;

-- What lies below the first page of a server that counts since as an id can not be asked for: that is
-- no start of its history.
ALTER TABLE stream ADD COLUMN start_reason text
  CONSTRAINT stream_start_reason_known CHECK (start_reason IN ('history begins', 'history horizon'));
COMMENT ON COLUMN stream.start_reason IS 'Why collect_from is where it is: the exchange''s history begins there, or what is older can not be asked for; null when it was chosen, or is not known.';
