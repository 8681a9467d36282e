import { sleep, systemClock } from '../../src/kernel/clock.js';
import { startContestant } from '../support/exchanges/freshness-contestants.js';
import { startPoissonServer } from '../support/exchanges/poisson-server.js';
import type { TestPostgres } from '../support/postgres/postgres-server.js';
import { type BenchReport, tableOf } from './report.js';

/*
 * 400 markets with the default schedules and the default budget of 5 requests a second, of which they
 * ask for more than 200. The baseline is the ideal even share: half of the budget for trades, a tenth
 * for candles, the rest for tickers by their schedule and for depth, and every market in its turn.
 */

const MARKETS = 400;
const REQUESTS_PER_S = 5;
const TICKERS_PER_S = 0.5;
const SEED = 12;
const PAST_MS = 120_000;
const TRADES_PER_S = 0.05;

const IDEAL = {
  trades: 0.5,
  tickers: TICKERS_PER_S / REQUESTS_PER_S,
  depth: 0.4 - TICKERS_PER_S / REQUESTS_PER_S,
  candles: 0.1,
} as const;
type Stream = keyof typeof IDEAL;

const ENDPOINTS: Readonly<Record<Stream, readonly string[]>> = {
  trades: ['history', 'historyResult'],
  tickers: ['tickers'],
  depth: ['depth'],
  candles: ['kline'],
};

const round = (value: number) => Math.round(value * 1000) / 1000;

/** Measures who gets the requests where most of them must wait, and how soon trades are first asked for. */
export async function measureCrowd(postgres: TestPostgres, windowMs: number): Promise<BenchReport> {
  const server = await startPoissonServer({
    ...{ seed: SEED, historyMax: 2000, pastMs: PAST_MS },
    markets: Array.from({ length: MARKETS }, (_, at) => ({
      ...{ name: `M${at + 1}_USDT`, occasionsPerS: TRADES_PER_S, tradesPerOccasion: 1 },
    })),
  });
  const startedMs = systemClock.wallMs();
  const startedAtMs = systemClock.monotonicMs();
  const starting = startContestant({
    ...{ policy: 'pushed', postgres, exactTimes: false, server: server.report },
    ...{ requestsPerS: REQUESTS_PER_S, floorSchedule: '*/5 * * * * *', collectsAll: true },
  });
  try {
    const contestant = await starting;
    const openedS = (systemClock.monotonicMs() - startedAtMs) / 1000;
    const before = await server.ask();
    const fromMs = systemClock.wallMs();
    // What is measured is how it goes over a stretch of real time: there is no event to wait for.
    await sleep(systemClock, windowMs);
    const after = await server.ask();
    const asked = (stream: Stream) =>
      ENDPOINTS[stream].reduce(
        (sum, name) => sum + (after.requests[name] ?? 0) - (before.requests[name] ?? 0),
        0,
      );
    const streams = Object.keys(IDEAL) as Stream[];
    const all = streams.reduce((sum, stream) => sum + asked(stream), 0);
    const share = Object.fromEntries(streams.map((one) => [one, round(asked(one) / all)]));
    const longestWaitS = contestant.longestWaitMs(fromMs, systemClock.wallMs()) / 1000;
    const firstPollS = ((contestant.firstPolledAtMs() ?? Number.NaN) - startedMs) / 1000;
    const idealWaitS = MARKETS / (IDEAL.trades * REQUESTS_PER_S);
    const inUse = all / ((windowMs / 1000) * REQUESTS_PER_S);
    const rows = streams.map((one) => [one, String(IDEAL[one]), String(share[one])]);
    return {
      table: [
        tableOf([['400 markets, 5 requests/s', 'even share', 'ours'], ...rows]),
        `trades first asked for after ${round(firstPollS)} s; all markets open after ${round(openedS)} s; longest time between two polls of trades ${round(longestWaitS)} s, evenly ${idealWaitS} s`,
      ].join('\n'),
      figures: {
        ratio: {
          crowdTrades: round((share.trades ?? 0) / IDEAL.trades),
          crowdCandles: round((share.candles ?? 0) / IDEAL.candles),
        },
        ideal: IDEAL,
        share,
        ...{ firstPollS: round(firstPollS), openedS: round(openedS) },
        ...{ longestWaitS: round(longestWaitS), idealWaitS, budgetInUse: round(inUse) },
      },
    };
  } finally {
    await starting.then((contestant) => contestant.stop()).catch(() => undefined);
    await server.stop();
  }
}
