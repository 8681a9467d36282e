import type { ActiveOrderRow, BalanceRow } from '../ledger/batch.js';
import type { Runner } from './database.js';
import { toMs } from './instants.js';

/** What the archive knows of the account now: the newest version of each thing that still is. */

const KNOWN_BALANCES = `
  SELECT market_id AS "marketId", currency, ${toMs('observed_at')} AS "observedAtMs",
         ${toMs('received_at')} AS "receivedAtMs", available::text, frozen::text AS freeze
  FROM (SELECT DISTINCT ON (currency) * FROM balance WHERE market_id = 0
        ORDER BY currency, observed_at DESC) newest
  WHERE available IS NOT NULL`;

export async function readKnownBalances(runner: Runner): Promise<BalanceRow[]> {
  return await runner.rows<BalanceRow>(KNOWN_BALANCES);
}

const OPEN_ORDERS = `
  SELECT market_id AS "marketId", order_id::float8 AS "orderId", is_gone AS "isGone",
         ${toMs('observed_at')} AS "observedAtMs", ${toMs('received_at')} AS "receivedAtMs",
         round(extract(epoch FROM created_at) * 1000000)::float8 AS "createdAtUs",
         side, order_type AS type, price::text, amount::text, left_amount::text AS left,
         deal_stock::text AS "dealStock", deal_money::text AS "dealMoney",
         taker_fee::text AS "takerFee", maker_fee::text AS "makerFee"
  FROM (SELECT DISTINCT ON (order_id) * FROM active_order WHERE market_id = $1
        ORDER BY order_id, observed_at DESC) newest
  WHERE NOT is_gone`;

export async function readOpenOrders(runner: Runner, marketId: number): Promise<ActiveOrderRow[]> {
  return await runner.rows<ActiveOrderRow>(OPEN_ORDERS, [marketId]);
}
