-- Exchanges of the family that are asked otherwise, and do not tell all figures of a ticker: what is
-- not told is null, never computed.

ALTER TABLE archive ADD COLUMN dialect text NOT NULL DEFAULT 'contract';
COMMENT ON COLUMN archive.dialect IS 'How the exchange is asked (setting exchange.dialect).';

ALTER TABLE ticker
  ALTER COLUMN open DROP NOT NULL,
  ALTER COLUMN deal DROP NOT NULL,
  ALTER COLUMN change DROP NOT NULL;
COMMENT ON COLUMN ticker.open IS 'Price 24 hours ago; null where the exchange does not tell it.';
COMMENT ON COLUMN ticker.deal IS 'Volume in the money currency; null where the exchange does not tell it.';
COMMENT ON COLUMN ticker.change IS 'Per cent, from open to last; null where the exchange does not tell it.';
