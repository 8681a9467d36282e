import type { StateRecord } from '../contract/resources.js';
import {
  decimalSign,
  divideDecimals,
  multiplyDecimals,
  subtractDecimals,
  toPlainDecimal,
} from '../kernel/decimal.js';
import type { MarketTape, WindowFigures } from './market-tape.js';
import { formatScaled, formatTrimmed } from './scaled.js';

/** What a rolling window shows, as decimal texts; all zero before the first trade. */
export type RollingFigures = Omit<StateRecord, 'period' | 'change'> & { readonly change: string };

const NOTHING: RollingFigures = {
  last: '0',
  open: '0',
  close: '0',
  high: '0',
  low: '0',
  deal: '0',
  volume: '0',
  change: '0',
};

/** Percent from `open` to `last`, two places. */
function percentChange(open: string, last: string): string {
  if (decimalSign(open) === 0) return '0';
  const percent = multiplyDecimals(subtractDecimals(last, open), '100');
  return toPlainDecimal(divideDecimals(percent, open, 2));
}

/** Windows as they were written; a tape gives the same window as long as its trades are the same. */
const written = new WeakMap<WindowFigures, RollingFigures>();

/** The figures of a market over the last `lengthMs` milliseconds of the exchange's time. */
export function rollingFigures(tape: MarketTape, nowMs: number, lengthMs: number): RollingFigures {
  const window = tape.window(nowMs, lengthMs);
  if (window === undefined) return NOTHING;
  const known = written.get(window);
  if (known !== undefined) return known;
  const figures = writeFigures(tape, window);
  written.set(window, figures);
  return figures;
}

function writeFigures({ columns }: MarketTape, window: WindowFigures): RollingFigures {
  const { priceDigits, amountDigits } = columns;
  const open = formatScaled(window.open, priceDigits);
  const last = formatScaled(window.last, priceDigits);
  return {
    last,
    open,
    close: last,
    high: formatScaled(window.high, priceDigits),
    low: formatScaled(window.low, priceDigits),
    deal: formatTrimmed(window.quoteVolume, priceDigits + amountDigits),
    volume: formatTrimmed(window.amount, amountDigits),
    change: percentChange(open, last),
  };
}
