import { TapekeepError } from '../../kernel/errors.js';

/** The answer is for another market or interval than was asked for, so it proves nothing. */
export class CandleMismatchError extends TapekeepError {
  constructor(market: string, intervalS: number, got: string) {
    super(
      'candle_mismatch',
      'retry',
      `${market}: candles of ${intervalS} s were asked for, the answer is for ${got}; check that the exchange knows this interval`,
    );
  }
}
