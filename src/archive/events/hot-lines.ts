import type { MergedKind } from '../../model/kinds.js';
import { shortest } from '../parquet/texts.js';
import { levels } from './decimals.js';
import type { ArchiveEvent } from './event.js';

/** The last microsecond of a second. */
export const SECOND_END_US = 999_999;
const NULL = '\\N';

/**
 * Reads `2026-01-31 12:00:00.5+00`, UTC. Rows that follow each other are mostly of the same minute,
 * which is taken apart once.
 */
class Instants {
  #minute = '';
  #minuteUs = 0;

  us(text: string): number {
    if (!text.startsWith(this.#minute) || this.#minute === '') {
      this.#minute = text.slice(0, 16);
      this.#minuteUs = Date.parse(`${this.#minute.replace(' ', 'T')}Z`) * 1000;
    }
    const ten = text.charCodeAt(17) - 48;
    const seconds = ten * 10 + text.charCodeAt(18) - 48;
    let us = this.#minuteUs + seconds * 1_000_000;
    if (text.charCodeAt(19) !== 46) return us;
    for (let at = 20, unit = 100_000; unit >= 1; at += 1, unit /= 10) {
      const digit = text.charCodeAt(at) - 48;
      if (!(digit >= 0)) break;
      us += digit * unit;
    }
    return us;
  }
}

/** Makes an event of the fields of a line; the first is the place of its market, the second its time. */
export type LineReader = (fields: readonly string[]) => ArchiveEvent;

/** What a line is read with; an instance for each stream of lines. */
export function lineReader(
  kind: MergedKind,
  markets: readonly string[],
  variantS: number,
): LineReader {
  const instants = new Instants();
  const received = new Instants();
  const marketOf = (place: string | undefined) => markets[Number(place)] ?? '';
  switch (kind) {
    case 'trades':
      return (f) => {
        const executed = f[3] ?? NULL;
        const isExactTime = executed !== NULL;
        return {
          kind: 'trade',
          market: marketOf(f[0]),
          atUs: isExactTime ? instants.us(executed) : instants.us(f[1] ?? '') + SECOND_END_US,
          receivedAtUs: received.us(f[8] ?? ''),
          id: Number(f[2]),
          price: shortest(f[5] ?? ''),
          amount: shortest(f[6] ?? ''),
          total: shortest(f[7] ?? ''),
          side: f[4] === 'buy' ? 'buy' : 'sell',
          isExactTime,
        };
      };
    case 'klines':
    case 'kline_revisions':
      return (f) => {
        const openAtUs = instants.us(f[1] ?? '');
        return {
          kind: 'kline',
          market: marketOf(f[0]),
          atUs: openAtUs + variantS * 1_000_000,
          receivedAtUs: received.us(f[9] ?? ''),
          openAtUs,
          intervalS: variantS,
          open: shortest(f[3] ?? ''),
          high: shortest(f[4] ?? ''),
          low: shortest(f[5] ?? ''),
          close: shortest(f[6] ?? ''),
          volume: shortest(f[7] ?? ''),
          amount: shortest(f[8] ?? ''),
          revision: Number(f[2]),
        };
      };
    case 'tickers':
      return (f) => ({
        kind: 'ticker',
        market: marketOf(f[0]),
        atUs: instants.us(f[1] ?? ''),
        receivedAtUs: received.us(f[12] ?? ''),
        tickerAtUs: instants.us(f[2] ?? ''),
        bid: shortest(f[3] ?? ''),
        ask: shortest(f[4] ?? ''),
        open: shortest(f[5] ?? ''),
        high: shortest(f[6] ?? ''),
        low: shortest(f[7] ?? ''),
        last: shortest(f[8] ?? ''),
        volume: shortest(f[9] ?? ''),
        deal: shortest(f[10] ?? ''),
        change: shortest(f[11] ?? ''),
      });
    case 'depth':
      return (f) => ({
        kind: 'depth',
        market: marketOf(f[0]),
        atUs: instants.us(f[1] ?? ''),
        receivedAtUs: received.us(f[6] ?? ''),
        bids: levels(f[2] ?? '', f[3] ?? ''),
        asks: levels(f[4] ?? '', f[5] ?? ''),
      });
    case 'states':
      return (f) => ({
        kind: 'state',
        market: marketOf(f[0]),
        atUs: instants.us(f[1] ?? ''),
        receivedAtUs: received.us(f[13] ?? ''),
        periodS: variantS,
        origin: f[3] === 'query' ? 'query' : 'update',
        last: shortest(f[4] ?? ''),
        open: shortest(f[5] ?? ''),
        close: shortest(f[6] ?? ''),
        high: shortest(f[7] ?? ''),
        low: shortest(f[8] ?? ''),
        deal: shortest(f[9] ?? ''),
        volume: shortest(f[10] ?? ''),
        change: f[11] === NULL ? null : shortest(f[11] ?? ''),
        seq: Number(f[2]),
        sessionId: Number(f[12]),
      });
  }
}
