import { compareDecimals, equalDecimals } from '../kernel/decimal.js';
import { HOUR_MS } from '../kernel/durations.js';
import {
  ceilToMs,
  doOverlap,
  floorToMs,
  normalizeSpans,
  type Span,
  subtractSpans,
} from '../kernel/span.js';

/**
 * Trades against candles: two roads by which the exchange serves the same facts. Where the archive
 * holds both, they must agree to the last digit; where they do not, one of them is wrong.
 */

/** Sums of the stored trades of a slot; decimals are exact sums as text. */
export interface TradeFigures {
  readonly count: number;
  readonly amount: string;
  readonly total: string;
  /** Sum of price × amount: the total, where the exchange does not round it. */
  readonly paid: string;
  /** Prices of the first and the last trade by time and id. */
  readonly first: string;
  readonly last: string;
  readonly high: string;
  readonly low: string;
}

/** The stored candle of a slot. */
export interface CandleFigures {
  readonly open: string;
  readonly close: string;
  readonly high: string;
  readonly low: string;
  /** In the base currency. */
  readonly volume: string;
  /** In the quote currency. */
  readonly quoteVolume: string;
}

/** All that the archive holds about one slot of the grid of candles. */
export interface SlotFigures {
  readonly span: Span;
  /** Null: no trade is stored. */
  readonly trades: TradeFigures | null;
  /** Null: no candle is stored. */
  readonly candle: CandleFigures | null;
  /** Close of the candle before, however long ago; null when it is not known for sure. */
  readonly previousClose: string | null;
  /** True if all trades of the slot are stored. */
  readonly hasTrades: boolean;
  /** True if the exchange was asked for the candle after it was final. */
  readonly hasCandle: boolean;
}

export type CheckOutcome = 'match' | 'mismatch' | 'unproven';

/** One figure on which the two roads do not agree; null: there is none on that side. */
export interface Difference {
  readonly figure: 'candle' | 'volume' | 'quoteVolume' | 'open' | 'close' | 'high' | 'low';
  readonly trades: string | null;
  readonly candle: string | null;
}

export interface SlotCheck {
  readonly span: Span;
  readonly outcome: CheckOutcome;
  /** Empty unless the outcome is a mismatch. */
  readonly differences: readonly Difference[];
  /** Why nothing can be said; null unless the outcome is unproven. */
  readonly reason: string | null;
  /** True if the candle can stand for its trades: {@link isExactCandle}. */
  readonly isExact: boolean;
}

function unprovenReason({ hasTrades, hasCandle }: SlotFigures): string | null {
  if (hasTrades) return hasCandle ? null : 'the candle is not collected';
  return hasCandle ? 'trades are not proven complete' : 'neither trades nor candle are complete';
}

/**
 * Judges one slot. One stored trade contradicts an absent candle, whether or not all of the slot's
 * trades are proven to be stored.
 *
 * Volume, quote volume and close must agree exactly. A candle may open with the close before it, and then
 * its high and low may include that price (field notes, kline); nothing else is allowed to differ.
 * Without trades there may be no candle, or one without volume; its prices then say nothing.
 */
export function judgeSlot(slot: SlotFigures): SlotCheck {
  const { span, trades, candle } = slot;
  const isContradicted = slot.hasCandle && candle === null && trades !== null;
  const reason = isContradicted ? null : unprovenReason(slot);
  if (reason !== null)
    return { span, outcome: 'unproven', differences: [], reason, isExact: false };
  const differences = candle === null ? missingCandle(trades) : differencesOf(slot, candle);
  const outcome = differences.length === 0 ? 'match' : 'mismatch';
  const isExact = outcome === 'match' && isExactCandle(trades, candle);
  return { span, outcome, differences, reason: null, isExact };
}

/**
 * Looks at a match: are all six values of the candle those of its trades, and is the quote volume the sum of
 * price × amount? Only then do candles give the same answers as trades.
 */
function isExactCandle(trades: TradeFigures | null, candle: CandleFigures | null): boolean {
  if (trades === null || candle === null) return true;
  return (
    equalDecimals(candle.open, trades.first) &&
    equalDecimals(candle.high, trades.high) &&
    equalDecimals(candle.low, trades.low) &&
    equalDecimals(candle.quoteVolume, trades.paid)
  );
}

/** The difference of stored trades whose candle is absent, which stands alone. */
export const ABSENT_CANDLE = { figure: 'candle' } as const satisfies Partial<Difference>;

/** Returns true if differences are those of an absent candle: they do not speak of covered trades. */
export function isAbsentCandle(differences: readonly Difference[]): boolean {
  return differences.some(({ figure }) => figure === ABSENT_CANDLE.figure);
}

function missingCandle(trades: TradeFigures | null): Difference[] {
  if (trades === null) return [];
  const { count } = trades;
  return [{ ...ABSENT_CANDLE, trades: `${count} trade${count === 1 ? '' : 's'}`, candle: null }];
}

function differencesOf(slot: SlotFigures, candle: CandleFigures): Difference[] {
  const { trades } = slot;
  const differences: Difference[] = [];
  const compare = (figure: Difference['figure'], summed: string, reported: string) => {
    if (!equalDecimals(summed, reported))
      differences.push({ figure, trades: summed, candle: reported });
  };
  compare('volume', trades?.amount ?? '0', candle.volume);
  compare('quoteVolume', trades?.total ?? '0', candle.quoteVolume);
  if (trades === null) return differences;
  compare('close', trades.last, candle.close);
  return [...differences, ...priceDifferences(trades, candle, slot.previousClose)];
}

/** Open, high and low, modulo the rule about the close before. */
function priceDifferences(
  trades: TradeFigures,
  candle: CandleFigures,
  previousClose: string | null,
): Difference[] {
  const differences: Difference[] = [];
  const { open, high, low } = candle;
  const isFirst = equalDecimals(open, trades.first);
  const isPrevious = previousClose !== null && equalDecimals(open, previousClose);
  // While the close before is not known, any open may be it.
  if (!isFirst && !isPrevious && previousClose !== null) {
    differences.push({ figure: 'open', trades: trades.first, candle: open });
  }
  const isHigh =
    equalDecimals(high, trades.high) ||
    (equalDecimals(high, open) && compareDecimals(open, trades.high) > 0);
  if (!isHigh) differences.push({ figure: 'high', trades: trades.high, candle: high });
  const isLow =
    equalDecimals(low, trades.low) ||
    (equalDecimals(low, open) && compareDecimals(open, trades.low) < 0);
  if (!isLow) differences.push({ figure: 'low', trades: trades.low, candle: low });
  return differences;
}

/** A difference in words, both figures named: `volume: trades 1.5, candle 1.6`. */
export function describeDifference({ figure, trades, candle }: Difference): string {
  if (figure === 'candle') return `${trades ?? 'no trade'}, but no candle`;
  return `${figure}: trades ${trades ?? 'none'}, candle ${candle ?? 'none'}`;
}

/** A row of the table of results: runs of matches are one, each mismatch is its own. */
export interface CheckRow {
  readonly span: Span;
  readonly outcome: 'match' | 'mismatch';
  readonly differences: readonly Difference[];
  /** How often the slot was fetched again. */
  readonly tries: number;
  /** When it is judged again, exchange time; null: it is settled. */
  readonly nextTryAtMs: number | null;
  /** True of a run of matches whose every candle can stand for its trades. */
  readonly isExact: boolean;
}

/** A match over a span; it needs nothing more. */
export function matchRow(span: Span, isExact = true): CheckRow {
  return { span, outcome: 'match', differences: [], tries: 0, nextTryAtMs: null, isExact };
}

/**
 * The rows that stand for all results when later ones come: the newest result of a slot wins, and
 * matches that touch become one row, so that the table does not grow with the archive. An hour with a match that is not
 * exact has none that is: else the two kinds could take turns minute by minute.
 *
 * @param known rows around the new ones, apart from each other
 * @param later rows that replace what they overlap, apart from each other
 */
export function mergeChecks(known: readonly CheckRow[], later: readonly CheckRow[]): CheckRow[] {
  let kept = [...known];
  for (const { span } of later) {
    kept = kept.flatMap((row) =>
      doOverlap(row.span, span)
        ? subtractSpans(row.span, [span]).map((part) => ({ ...row, span: part }))
        : row,
    );
  }
  const all = [...kept, ...later];
  const matching = all.filter(({ outcome }) => outcome === 'match');
  const spans = normalizeSpans(matching.map(({ span }) => span));
  const hours = normalizeSpans(
    matching
      .filter((row) => !row.isExact)
      .map(({ span }) => ({
        fromMs: floorToMs(span.fromMs, HOUR_MS),
        toMs: ceilToMs(span.toMs, HOUR_MS),
      })),
  );
  const exact = subtractSpans(spans, hours);
  const matches = [
    ...exact.map((span) => matchRow(span)),
    ...subtractSpans(spans, exact).map((span) => matchRow(span, false)),
  ];
  const others = all.filter(({ outcome }) => outcome === 'mismatch');
  return [...matches, ...others].sort((a, b) => a.span.fromMs - b.span.fromMs);
}

/**
 * The rows that are left when what they speak of has changed: matches end to hold there, settled
 * mismatches are to be looked at again with the count of their tries kept. Those that wait for their
 * next look go on waiting: a refetch is itself a change, and must not shorten the pause after it.
 */
export function invalidateRows(
  known: readonly CheckRow[],
  changed: Span,
  nowMs: number,
): CheckRow[] {
  return known.flatMap((row) => {
    if (!doOverlap(row.span, changed)) return row;
    if (row.outcome === 'mismatch') return { ...row, nextTryAtMs: row.nextTryAtMs ?? nowMs };
    return subtractSpans(row.span, [changed]).map((span) => ({ ...row, span }));
  });
}
