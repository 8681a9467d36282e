import type { StateEvent } from '../../client/index.js';
import { roughDuration } from '../daemon/summary.js';

/** Figures of a state in the order in which they are shown. */
const FIGURES = ['last', 'open', 'close', 'high', 'low', 'volume', 'deal', 'change'] as const;

const clockTime = (ms: number) => new Date(ms).toISOString().replace('T', ' ');

/** One line that tells a person what happened. */
export function lineOf(event: StateEvent, wallMs: number): string {
  const at = (ms: number) => `${clockTime(Math.round(ms))}  `;
  switch (event.kind) {
    case 'opened':
      return `${at(event.exchangeMs)}opened    subscribed`;
    case 'record': {
      const figures = FIGURES.flatMap((name) => {
        const value = event.record[name];
        return value === undefined || value === null ? [] : [`${name} ${value}`];
      });
      return `${at(event.exchangeMs)}${event.origin.padEnd(8)}  ${figures.join('  ')}`;
    }
    case 'alive':
      return `${at(event.exchangeMs)}alive     nothing was missed so far`;
    case 'gap':
      return `${at(event.fromExchangeMs)}gap       the archive that is replayed knows no more from here on`;
    case 'closed': {
      const sure =
        event.lastAliveExchangeMs === null
          ? ''
          : `, sure up to ${clockTime(event.lastAliveExchangeMs)}`;
      const lived = roughDuration(event.livedMs);
      return `${at(wallMs)}closed    ${event.reason} (${event.code}) after ${lived}${sure}`;
    }
    case 'retrying':
      return `${at(wallMs)}retrying  in ${roughDuration(event.waitMs)}, try ${event.attempts}`;
  }
}
