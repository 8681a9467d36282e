import { parseArgs } from 'node:util';
import { sleep, systemClock } from '../../src/kernel/clock.js';
import {
  type Contestant,
  POLICIES,
  type Policy,
  startContestant,
} from '../support/exchanges/freshness-contestants.js';
import type { PoissonMarket } from '../support/exchanges/poisson-exchange.js';
import { startPoissonServer } from '../support/exchanges/poisson-server.js';
import { startTestPostgres, type TestPostgres } from '../support/postgres/postgres-server.js';
import { measureCrowd } from './freshness-crowd.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about =
  'age of trades when stored: pushed polling against round robin, 200 markets; 400 markets with too few requests';

/*
 * 200 markets whose rates follow Zipf's law, served by the real server in a process of its own, over
 * HTTP and WebSocket; trades come from a random source instead of the matching engine, which would
 * take the processors of a small machine for itself. A real Postgres stores them. Both policies have
 * the same budget of 10 requests a second, one connection to the archive's writer and the same walks;
 * round robin polls one market after the other and asks for nothing else.
 *
 * Age is the time from a trade to the end of the commit that stored it, of all trades that happened in
 * the window, however long their storing took. Exact times are off (they cost a second walk over all
 * markets); --exact measures with them.
 */

const MARKETS = 200;
const REQUESTS_PER_S = 10;
/** Trades of one market that the exchange serves; what is older when first asked for is lost. */
const HISTORY_MAX = 2000;
/** Pages are as long as they are asked for, as on an exchange that has traded for long. */
const PAST_MS = 1_200_000;
const SEED = 11;
/** For markets to be opened, polled once, and their rates to be learnt. */
const WARM_UP_MS = 30_000;
const DRAIN_MS = 90_000;
/** Longest time without a poll that the schedule allows ours, with some for the line. */
const FLOOR_MS = 60_000;
const FLOOR_SLACK_MS = 2000;

const LOADS = {
  /** Fewer occasions of trading than requests; several trades at each. */
  quiet: { occasionsPerS: 3, tradesPerOccasion: 3 },
  /** The busiest 20 markets alone have more occasions than there are requests. */
  saturated: { occasionsPerS: 120, tradesPerOccasion: 1 },
} as const;
type LoadName = keyof typeof LOADS;

interface Outcome {
  readonly trades: number;
  readonly requests: number;
  readonly tradesPerRequest: number;
  /** How often each trade was downloaded, in the mean. */
  readonly downloads: number;
  readonly meanS: number;
  readonly medianS: number;
  readonly p99S: number;
  readonly lost: number;
  /** Longest time that any market was not polled, from the end of the warm-up on. */
  readonly longestWaitS: number;
}

function zipf(load: LoadName): PoissonMarket[] {
  const { occasionsPerS, tradesPerOccasion } = LOADS[load];
  const weights = Array.from({ length: MARKETS }, (_, at) => 1 / (at + 1));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight, at) => ({
    name: `M${at + 1}_USDT`,
    occasionsPerS: (occasionsPerS * weight) / sum,
    tradesPerOccasion,
  }));
}

const round = (value: number) => Math.round(value * 1000) / 1000;
const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/** Least mean age that blind polling can reach: rates of polling in proportion to √λ. */
function optimumS(markets: readonly PoissonMarket[]): number {
  const rates = markets.map((one) => one.occasionsPerS * one.tradesPerOccasion);
  const roots = sumOf(rates.map(Math.sqrt));
  return roots ** 2 / (2 * REQUESTS_PER_S * sumOf(rates));
}

async function measure(
  postgres: TestPostgres,
  policy: Policy,
  load: LoadName,
  windowMs: number,
  exactTimes: boolean,
): Promise<Outcome> {
  const markets = zipf(load);
  const server = await startPoissonServer({
    seed: SEED,
    markets,
    historyMax: HISTORY_MAX,
    pastMs: PAST_MS,
  });
  let contestant: Contestant | undefined;
  try {
    contestant = await startContestant({
      ...{ policy, postgres, exactTimes, server: server.report },
      requestsPerS: REQUESTS_PER_S,
      floorSchedule: '0 * * * * *',
    });
    // What is measured is how it goes over a stretch of real time: there is no event to wait for.
    await sleep(systemClock, WARM_UP_MS);
    const fromMs = systemClock.wallMs();
    const before = await server.ask();
    const receivedBefore = contestant.receivedRows();
    await sleep(systemClock, windowMs);
    const untilMs = systemClock.wallMs();
    const after = await server.ask();
    const received = contestant.receivedRows() - receivedBefore;
    const issued = after.trades.filter(
      ([, timeUs]) => timeUs >= fromMs * 1000 && timeUs < untilMs * 1000,
    );
    const { storedAtMs } = contestant;
    const isStored = () => issued.every(([id]) => storedAtMs.has(id));
    const deadlineMs = systemClock.monotonicMs() + DRAIN_MS;
    while (!isStored() && systemClock.monotonicMs() < deadlineMs) await sleep(systemClock, 250);
    const agesS = issued
      .flatMap(([id, timeUs]) => {
        const atMs = storedAtMs.get(id);
        return atMs === undefined ? [] : [(atMs - timeUs / 1000) / 1000];
      })
      .sort((a, b) => a - b);
    const asked = (report: typeof before) =>
      (report.requests.history ?? 0) + (report.requests.historyResult ?? 0);
    const requests = asked(after) - asked(before);
    return {
      trades: issued.length,
      requests,
      tradesPerRequest: round(issued.length / requests),
      downloads: round(received / issued.length),
      meanS: round(sumOf(agesS) / agesS.length),
      medianS: round(median(agesS)),
      p99S: round(agesS[Math.floor(agesS.length * 0.99)] ?? Number.NaN),
      lost: issued.length - agesS.length,
      longestWaitS: round(contestant.longestWaitMs(fromMs, systemClock.wallMs()) / 1000),
    };
  } finally {
    await contestant?.stop();
    await server.stop();
  }
}

/**
 * @param options --seconds of the window (default 40; of crowd 180), --load quiet|saturated|crowd, --exact;
 * crowd is measured last unless another load is chosen
 */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      seconds: { type: 'string' },
      load: { type: 'string' },
      policy: { type: 'string' },
      exact: { type: 'boolean', default: false },
    },
  });
  const windowMs = Number(values.seconds ?? 40) * 1000;
  const loads = (Object.keys(LOADS) as LoadName[]).filter(
    (load) => values.load === undefined || values.load === load,
  );
  const policies = POLICIES.filter((one) => values.policy === undefined || values.policy === one);
  const postgres = await startTestPostgres();
  let crowd: BenchReport | undefined;
  const measured: Partial<Record<LoadName, Partial<Record<Policy, Outcome>>>> = {};
  try {
    for (const load of loads) {
      const outcomes: Partial<Record<Policy, Outcome>> = {};
      for (const policy of policies) {
        outcomes[policy] = await measure(postgres, policy, load, windowMs, values.exact);
      }
      measured[load] = outcomes;
    }
    if (values.load === undefined || values.load === 'crowd') {
      crowd = await measureCrowd(postgres, Number(values.seconds ?? 180) * 1000);
    }
  } finally {
    await postgres.stop();
  }
  if (values.load === 'crowd' && crowd !== undefined) return crowd;
  const { quiet, saturated } = measured;
  const bestS = round(optimumS(zipf('saturated')));
  const ratio = {
    ...(quiet?.pushed &&
      quiet.roundRobin && {
        quietMedianAge: round(quiet.roundRobin.medianS / quiet.pushed.medianS),
      }),
    ...(saturated?.pushed &&
      saturated.roundRobin && {
        saturatedMeanAge: round(saturated.roundRobin.meanS / saturated.pushed.meanS),
      }),
  };
  const outcomes = Object.values(measured).flatMap((one) => Object.values(one));
  const isKept = {
    quietMedianUnder1S: (quiet?.pushed?.medianS ?? 0) < 1,
    quietTenTimesFresher: (ratio.quietMedianAge ?? 10) >= 10,
    saturatedWithin1_3OfOptimum: (saturated?.pushed?.meanS ?? 0) <= 1.3 * bestS,
    nobodyBeyondTheFloor: [quiet?.pushed, saturated?.pushed].every(
      (one) => (one?.longestWaitS ?? 0) * 1000 <= FLOOR_MS + FLOOR_SLACK_MS,
    ),
    saturatedDownloadsAtMost3: (saturated?.pushed?.downloads ?? 0) <= 3,
    nothingLost: outcomes.every(({ lost }) => lost === 0),
  };
  const header = [
    'load',
    'policy',
    'trades',
    'per request',
    'downloads',
    'mean s',
    'median s',
    'p99 s',
  ];
  const rows = Object.entries(measured).flatMap(([load, byPolicy]) =>
    Object.entries(byPolicy).map(([policy, one]) => [
      ...[load, policy, one.trades, one.tradesPerRequest, one.downloads, one.meanS],
      ...[one.medianS, one.p99S, one.lost, one.longestWaitS],
    ]),
  );
  const texts = rows.map((row) => row.map(String));
  return {
    table: [
      tableOf([[...header, 'lost', 'longest wait s'], ...texts]),
      ...(crowd === undefined ? [] : [crowd.table]),
    ].join('\n\n'),
    figures: {
      ratio: { ...ratio, ...crowd?.figures.ratio },
      ...(crowd === undefined ? {} : { crowd: crowd.figures }),
      optimumS: bestS,
      ofOptimum: round((saturated?.pushed?.meanS ?? Number.NaN) / bestS),
      isKept,
      measured,
      exactTimes: values.exact,
    },
  };
}
