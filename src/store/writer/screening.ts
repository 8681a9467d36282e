import { decimalSign, equalDecimals, isDecimalText } from '../../kernel/decimal.js';
import {
  type ActiveOrderRow,
  ALL_MARKETS_ID,
  type BalanceRow,
  type DepthRow,
  type KlineRow,
  type StateRow,
  type TickerRow,
  type TradeRow,
} from '../../ledger/batch.js';

/**
 * Refuses, row by row and with a reason, what the tables would refuse for a whole transaction.
 * Each function returns the reason, or undefined for a row that can be stored.
 */

/** Moments that may be stored, exchange time, both ends inclusive. */
export interface SaneWindow {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Most levels a side of a book, and the end of JavaScript's and ISO's calendar. */
const MAX_LEVELS = 10_000;
const MAX_TIMESTAMP_MS = 253_402_300_799_999;
const MAX_INT4 = 2 ** 31 - 1;

const isInt4 = (value: number) => Number.isInteger(value) && value >= 0 && value <= MAX_INT4;
const isTimestamp = (ms: number) => Number.isInteger(ms) && ms >= 0 && ms <= MAX_TIMESTAMP_MS;

function momentReason(ms: number, { fromMs, toMs }: SaneWindow): string | undefined {
  if (!isTimestamp(ms)) return 'time not storable';
  return ms < fromMs || ms > toMs ? 'time outside the sane window' : undefined;
}

/** How nearly all decimals look; short enough for every limit, and not below zero. */
const USUAL_DECIMAL = /^\d{1,39}(?:\.\d{1,39})?$/;
const HAS_VALUE = /[1-9]/;

/** `sign`: 1 for above zero, 0 for zero and above, -1 for any. */
function decimalReason(name: string, text: string, sign: -1 | 0 | 1): string | undefined {
  if (USUAL_DECIMAL.test(text) && (sign < 1 || HAS_VALUE.test(text))) return undefined;
  if (!isDecimalText(text)) return `${name} is not a decimal number`;
  if (decimalSign(text) < sign) return `${name} is ${sign === 1 ? 'not above zero' : 'negative'}`;
  return undefined;
}

function nonNegativeReason(fields: Readonly<Record<string, string>>): string | undefined {
  for (const [name, text] of Object.entries(fields)) {
    const reason = decimalReason(name, text, 0);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

function commonReason(marketId: number, receivedAtMs: number): string | undefined {
  if (!isInt4(marketId) || marketId === 0) return 'market id not storable';
  return isTimestamp(receivedAtMs) ? undefined : 'received_at not storable';
}

/** All of a trade but its decimals. */
export function tradeKeyReason(row: TradeRow, window: SaneWindow): string | undefined {
  const second = row.executedAtUs === null ? row.tradedAtS : Math.floor(row.executedAtUs / 1e6);
  return (
    commonReason(row.marketId, row.receivedAtMs) ??
    momentReason(row.tradedAtS * 1_000, window) ??
    (Number.isSafeInteger(row.tid) && row.tid > 0 ? undefined : 'trade id not storable') ??
    (Number.isInteger(row.tradedAtS) ? undefined : 'traded_at is not a whole second') ??
    (second === row.tradedAtS ? undefined : 'executed_at is not within its second') ??
    (row.side === 'buy' || row.side === 'sell' ? undefined : 'side not known')
  );
}

export function tradeDecimalsReason({ price, amount, total }: TradeRow): string | undefined {
  return (
    decimalReason('price', price, 1) ??
    decimalReason('amount', amount, 1) ??
    decimalReason('total', total, 0)
  );
}

export function klineReason(row: KlineRow, window: SaneWindow): string | undefined {
  const { open, close, high, low, volume, amount } = row;
  return (
    commonReason(row.marketId, row.receivedAtMs) ??
    momentReason(row.openAtS * 1_000, window) ??
    (isInt4(row.intervalS) && row.intervalS > 0 ? undefined : 'interval not storable') ??
    nonNegativeReason({ open, close, high, low, volume, amount })
  );
}

export function tickerReason(row: TickerRow, window: SaneWindow): string | undefined {
  const { bid, ask, open, high, low, last, volume, deal } = row;
  return (
    commonReason(row.marketId, row.receivedAtMs) ??
    momentReason(row.observedAtMs, window) ??
    (isTimestamp(row.atMs) ? undefined : 'at not storable') ??
    nonNegativeReason({ bid, ask, open, high, low, last, volume, deal }) ??
    decimalReason('change', row.change, -1)
  );
}

export function depthReason(row: DepthRow, window: SaneWindow): string | undefined {
  const common =
    commonReason(row.marketId, row.receivedAtMs) ?? momentReason(row.observedAtMs, window);
  if (common !== undefined) return common;
  const { bidPrices, bidAmounts, askPrices, askAmounts } = row;
  if (bidPrices.length !== bidAmounts.length || askPrices.length !== askAmounts.length) {
    return 'prices and amounts are not paired';
  }
  if (bidPrices.length > MAX_LEVELS || askPrices.length > MAX_LEVELS) return 'too many levels';
  for (const text of [...bidPrices, ...bidAmounts, ...askPrices, ...askAmounts]) {
    const reason = decimalReason('level', text, 1);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

export function stateReason(row: StateRow, window: SaneWindow): string | undefined {
  const { last, open, close, high, low, deal, volume } = row;
  return (
    commonReason(row.marketId, row.receivedAtMs) ??
    momentReason(row.observedAtMs, window) ??
    (isInt4(row.periodS) && row.periodS > 0 ? undefined : 'period not storable') ??
    (isInt4(row.seq) ? undefined : 'seq not storable') ??
    (Number.isSafeInteger(row.sessionId) ? undefined : 'session id not storable') ??
    (row.origin === 'update' || row.origin === 'query' ? undefined : 'origin not known') ??
    nonNegativeReason({ last, open, close, high, low, deal, volume }) ??
    (row.change === null ? undefined : decimalReason('change', row.change, -1))
  );
}

/** A name that Postgres can hold as text, and that reads back as it was. */
const STORABLE_NAME = /^[^\p{Cc}\p{Cs}]{1,64}$/u;

export function balanceReason(row: BalanceRow, window: SaneWindow): string | undefined {
  const { available, freeze } = row;
  return (
    (row.marketId === ALL_MARKETS_ID ? undefined : 'a balance belongs to no market') ??
    (isTimestamp(row.receivedAtMs) ? undefined : 'received_at not storable') ??
    momentReason(row.observedAtMs, window) ??
    (STORABLE_NAME.test(row.currency) ? undefined : 'currency not storable') ??
    ((available === null) === (freeze === null) ? undefined : 'half a balance') ??
    (available === null || freeze === null ? undefined : nonNegativeReason({ available, freeze }))
  );
}

export function orderReason(row: ActiveOrderRow, window: SaneWindow): string | undefined {
  const { price, amount, left, dealStock, dealMoney, takerFee, makerFee } = row;
  return (
    commonReason(row.marketId, row.receivedAtMs) ??
    momentReason(row.observedAtMs, window) ??
    (Number.isSafeInteger(row.orderId) && row.orderId > 0 ? undefined : 'order id not storable') ??
    (isTimestamp(Math.floor(row.createdAtUs / 1_000)) ? undefined : 'created_at not storable') ??
    (Number.isSafeInteger(row.createdAtUs) ? undefined : 'created_at not storable') ??
    (row.side === 'buy' || row.side === 'sell' ? undefined : 'side not known') ??
    (STORABLE_NAME.test(row.type) ? undefined : 'type not storable') ??
    nonNegativeReason({ price, amount, left, dealStock, dealMoney, takerFee, makerFee })
  );
}

/** True when two lists of fields mean the same; decimals are compared by value. */
export function sameFields(a: readonly (string | null)[], b: readonly (string | null)[]): boolean {
  return (
    a.length === b.length &&
    a.every((field, index) => {
      const other = b[index] ?? null;
      if (field === other) return true;
      if (field === null || other === null) return false;
      if (field.startsWith('{')) return sameFields(elements(field), elements(other));
      return isDecimalText(field) && isDecimalText(other) && equalDecimals(field, other);
    })
  );
}

const elements = (text: string) => text.slice(1, -1).split(',');
