-- What an account holds and has open at the exchange, for those who let it be collected. An archive
-- follows one account. The rules of the series hold: market_id is in every key, no foreign keys,
-- unchanged observations are not stored again, coverage says how long one held.

ALTER TABLE stream DROP CONSTRAINT stream_kind_known;
ALTER TABLE stream ADD CONSTRAINT stream_kind_known
  CHECK (kind IN ('trades', 'times', 'depth', 'ticker', 'kline', 'state', 'balance', 'orders'));

CREATE TABLE balance (
  observed_at timestamptz NOT NULL,
  received_at timestamptz NOT NULL,
  market_id integer NOT NULL CONSTRAINT balance_of_no_market CHECK (market_id = 0),
  currency text NOT NULL,
  available numeric,
  frozen numeric,
  PRIMARY KEY (market_id, currency, observed_at),
  CONSTRAINT balance_finite CHECK (
    available >= 0 AND frozen >= 0
    AND NOT ARRAY[available, frozen] && ARRAY['NaN', 'Infinity']::numeric[]),
  CONSTRAINT balance_paired CHECK ((available IS NULL) = (frozen IS NULL))
) PARTITION BY RANGE (observed_at);
COMMENT ON TABLE balance IS 'What the account holds of each currency, a row where it changed. balances_at(moment) answers for a moment.';
COMMENT ON COLUMN balance.observed_at IS 'When it was looked at, exchange time.';
COMMENT ON COLUMN balance.received_at IS 'When this row was received, clock of the collecting machine.';
COMMENT ON COLUMN balance.market_id IS 'Always 0: balances belong to no market.';
COMMENT ON COLUMN balance.available IS 'Not bound in active orders; null with frozen: the exchange lists the currency no longer.';
COMMENT ON COLUMN balance.frozen IS 'Bound in active orders.';

CREATE TABLE active_order (
  observed_at timestamptz NOT NULL,
  received_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  order_id bigint NOT NULL CONSTRAINT active_order_id_positive CHECK (order_id > 0),
  market_id integer NOT NULL,
  is_gone boolean NOT NULL,
  side taker_side NOT NULL,
  order_type text NOT NULL,
  price numeric NOT NULL,
  amount numeric NOT NULL,
  left_amount numeric NOT NULL,
  deal_stock numeric NOT NULL,
  deal_money numeric NOT NULL,
  taker_fee numeric NOT NULL,
  maker_fee numeric NOT NULL,
  PRIMARY KEY (market_id, order_id, observed_at),
  CONSTRAINT active_order_finite CHECK (
    price >= 0 AND amount >= 0 AND left_amount >= 0 AND deal_stock >= 0 AND deal_money >= 0
    AND taker_fee >= 0 AND maker_fee >= 0
    AND NOT ARRAY[price, amount, left_amount, deal_stock, deal_money, taker_fee, maker_fee]
            && ARRAY['NaN', 'Infinity']::numeric[])
) PARTITION BY RANGE (observed_at);
COMMENT ON TABLE active_order IS 'Versions of the account''s active orders, a row where one appeared, changed or was gone. orders_open_at(moment) answers for a moment.';
COMMENT ON COLUMN active_order.observed_at IS 'When this version was first seen, exchange time; it holds until the next one of the order.';
COMMENT ON COLUMN active_order.received_at IS 'When this row was received, clock of the collecting machine.';
COMMENT ON COLUMN active_order.created_at IS 'Creation of the order, as the exchange tells it.';
COMMENT ON COLUMN active_order.is_gone IS 'No longer active: executed or cancelled. The other columns repeat how it was last seen.';
COMMENT ON COLUMN active_order.left_amount IS 'Not executed yet, in the stock currency.';
COMMENT ON COLUMN active_order.deal_stock IS 'Executed, in the stock currency.';
COMMENT ON COLUMN active_order.deal_money IS 'Executed, in the money currency.';
COMMENT ON COLUMN active_order.taker_fee IS 'Rate.';
COMMENT ON COLUMN active_order.maker_fee IS 'Rate.';

CREATE FUNCTION balances_at(moment timestamptz)
RETURNS TABLE (currency text, available numeric, frozen numeric, known_since timestamptz, is_observed boolean)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
  SELECT b.currency, b.available, b.frozen, b.observed_at,
         EXISTS (SELECT FROM coverage c JOIN stream s USING (stream_id)
                 WHERE s.kind = 'balance' AND c.market_id = 0 AND c.span @> moment)
  FROM (SELECT DISTINCT ON (o.currency) o.* FROM balance o
        WHERE o.market_id = 0 AND o.observed_at <= moment
        ORDER BY o.currency, o.observed_at DESC) b
  WHERE b.available IS NOT NULL
  ORDER BY b.currency
$$;
COMMENT ON FUNCTION balances_at IS 'What the account held at a moment, as far as is known; is_observed is false where nobody was looking then.';

CREATE FUNCTION orders_open_at(moment timestamptz)
RETURNS TABLE (market text, order_id bigint, side taker_side, order_type text, price numeric,
               amount numeric, left_amount numeric, deal_stock numeric, deal_money numeric,
               created_at timestamptz, known_since timestamptz, is_observed boolean)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
  SELECT m.name, v.order_id, v.side, v.order_type, v.price, v.amount, v.left_amount, v.deal_stock,
         v.deal_money, v.created_at, v.observed_at,
         EXISTS (SELECT FROM coverage c JOIN stream s USING (stream_id)
                 WHERE s.kind = 'orders' AND c.market_id = v.market_id AND c.span @> moment)
  FROM (SELECT DISTINCT ON (o.market_id, o.order_id) o.* FROM active_order o
        WHERE o.observed_at <= moment
        ORDER BY o.market_id, o.order_id, o.observed_at DESC) v
  JOIN market m ON m.market_id = v.market_id
  WHERE NOT v.is_gone
  ORDER BY m.name, v.order_id
$$;
COMMENT ON FUNCTION orders_open_at IS 'The account''s orders that were open at a moment, as far as is known; is_observed is false where nobody was looking then.';
