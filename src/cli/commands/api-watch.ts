import type { StateEvent } from '../../client/index.js';
import { dialectOf } from '../../contract/dialects.js';
import { LIST_PERIOD_S } from '../../contract/realtime.js';
import { systemClock, unlessAborted } from '../../kernel/clock.js';
import { shownDuration } from '../../kernel/durations.js';
import { AbortedError, isAborted, TapekeepError } from '../../kernel/errors.js';
import { EXCHANGE_OPTIONS, openApiSession } from '../api/access.js';
import { argument, command, flag, nothing, option } from '../command.js';
import { waitForStop } from '../ending.js';
import { dialectOfConfig, openExchange } from '../opening/exchange.js';
import { durationArgument, periodArgument } from '../options.js';
import { writeOut } from '../output.js';

const DEFAULT_PERIOD_S = 60;
const NOT_ASKED = 'http://localhost';

/** Follows the state of a market, one line an event, until a signal or the end of `--for`. */
export const watch = command({
  args: { market: argument<string>('name of a public pair') },
  options: {
    period: option(
      '--period <seconds>',
      'period of the state (default: 60, or a day if only that is offered)',
      periodArgument,
    ),
    given: option('--realtime-url <address>', 'real-time address, instead of the setting'),
    dialect: EXCHANGE_OPTIONS.dialect,
    forMs: option('--for <duration>', 'stop after this time, such as 10s', durationArgument),
    json: flag('--json', 'one JSON object for each event'),
  },
  needs: nothing,
  async run(common, { market, given, dialect, forMs, json, ...chosen }) {
    // Only real-time calls are made: a dialect needs an address beside it, and none is asked there.
    const spoken = dialect === undefined ? {} : { dialect, url: NOT_ASKED };
    const session = openApiSession({ ...common, ...spoken });
    const { config } = session;
    const realtimeUrl = given ?? config.realtime.url;
    if (realtimeUrl === null) {
      throw new TapekeepError(
        'usage',
        'no real-time address is named: add --realtime-url ADDRESS (ws:// or wss://), or set realtime.url (TAPEKEEP_REALTIME_URL) beside exchange.url',
      );
    }
    const url = given === undefined ? (config.exchange.url ?? NOT_ASKED) : NOT_ASKED;
    await using access = openExchange(session, { url, realtimeUrl });
    const { isList } = dialectOf(dialectOfConfig(config)).realtime;
    const { period = isList === true ? LIST_PERIOD_S : DEFAULT_PERIOD_S } = chosen;
    const feed = access.openStateFeed(market, period);
    let isTimeUp = false;
    const stopping = new AbortController();
    void waitForStop(systemClock, forMs).then((reason) => {
      isTimeUp = reason === 'time is up';
      stopping.abort(new AbortedError());
      return feed.stop();
    });
    let hasOpened = false;
    let lastReason = 'no answer';
    for await (const event of feed) {
      const line = json ? JSON.stringify(event) : lineOf(event, systemClock.wallMs());
      // As fast as it is read, and the feed's own queue is bounded; the end does not wait for a reader.
      await unlessAborted(stopping.signal, writeOut(`${line}\n`)).catch((error: unknown) => {
        if (!isAborted(error)) throw error;
      });
      if (event.kind === 'opened') hasOpened = true;
      if (event.kind !== 'closed' || hasOpened) continue;
      if (event.reason === 'period_not_offered') {
        throw new TapekeepError(
          'usage',
          `--period ${period}: this exchange tells states over a day only; write --period ${LIST_PERIOD_S}`,
        );
      }
      if (event.reason === 'subscribe_refused') {
        throw new TapekeepError(
          'subscription_refused',
          `the exchange refuses to subscribe to ${market} over ${period} s: check the market's name and --period; a replay has the periods that were recorded, mostly ${LIST_PERIOD_S}`,
        );
      }
      if (event.reason !== 'stopped') lastReason = event.reason;
    }
    if (isTimeUp && !hasOpened) {
      const message = `${realtimeUrl}: no subscription came about (${lastReason})`;
      throw new TapekeepError('network', message);
    }
  },
});

/** Figures of a state in the order in which they are shown. */
const FIGURES = ['last', 'open', 'close', 'high', 'low', 'volume', 'deal', 'change'] as const;

const clockTime = (ms: number) => new Date(ms).toISOString().replace('T', ' ');

/** One line that describes an event for people. */
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
      return `${at(event.exchangeMs)}alive     nothing was missed up to this time`;
    case 'closed': {
      const sure =
        event.lastAliveExchangeMs === null
          ? ''
          : `, sure up to ${clockTime(event.lastAliveExchangeMs)}`;
      const lived = shownDuration(event.livedMs);
      return `${at(wallMs)}closed    ${event.reason} (${event.code}) after ${lived}${sure}`;
    }
    case 'retrying':
      return `${at(wallMs)}retrying  in ${shownDuration(event.waitMs)}, try ${event.attempts}`;
  }
}
