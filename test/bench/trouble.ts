import { setMaxListeners } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createExchangeClient, createExchangeClock } from '../../src/client/index.js';
import { RequestBudget } from '../../src/kernel/budget.js';
import { sleep, systemClock } from '../../src/kernel/clock.js';
import { systemRandom } from '../../src/kernel/random.js';
import { Faults } from '../../src/sandbox/faults/faults.js';
import type { FaultRuleInput } from '../../src/sandbox/faults/script.js';
import { TAPE_HEADER } from '../../src/sandbox/tape/recorded-tape.js';
import { openTape } from '../../src/sandbox/tape/tape-backend.js';
import { startExchangeServer } from '../../src/server/exchange-server.js';
import { startContestant } from '../support/exchanges/freshness-contestants.js';
import { makeTrades, tapeLines } from '../support/exchanges/recorded.js';
import { hearing, noTelemetry } from '../support/no-telemetry.js';
import { startTestPostgres, type TestPostgres } from '../support/postgres/postgres-server.js';
import { type BenchReport, tableOf } from './report.js';

export const about =
  'pace of a backlog with a tenth of the answers broken, and under rare refusals';

/*
 * The collector fetches the history of three markets that it has nothing of, from a real server over
 * real sockets into a real Postgres, with a page cap of 100 and a budget of 5 requests a second: once
 * undisturbed, once with a tenth of all answers broken. What counts is rows stored a second over the
 * whole window, and the requests that the server saw.
 *
 * The rate is measured at the client alone, whose callers always want more than the budget has: one
 * answer in 150 is a 429 with Retry-After 1 s, and the server would serve all others.
 */

const MARKETS = ['AAA_USDT', 'BBB_USDT', 'CCC_USDT'];
const HISTORY_S = 3000;
/** Of the trades after the history, one in so many is kept: one in four seconds a market. */
const QUIET_EVERY = 60;
const PAGE_CAP = 100;
const REQUESTS_PER_S = 5;
const FAST_REQUESTS_PER_S = 40;
const FAST_BURST = 10;
const CALLERS = 64;
const SEED = 19;
const START_S = 1_760_000_000;

/** A tenth of all answers: cut, a page in place of JSON, 502, refused for going too fast, no answer. */
const BROKEN: readonly FaultRuleInput[] = [
  { kind: 'truncate', probability: 0.02 },
  { kind: 'html', probability: 0.02 },
  { kind: 'status', status: 502, probability: 0.02 },
  { kind: 'rateLimit', retryAfterS: 1, probability: 0.02 },
  { kind: 'reset', probability: 0.02 },
];
const RARELY_REFUSED: readonly FaultRuleInput[] = [
  { kind: 'rateLimit', retryAfterS: 1, every: 150 },
];

interface Exchange {
  readonly url: string;
  readonly realtimeUrl: string;
  readonly served: () => number;
  readonly broken: () => number;
  stop(): Promise<void>;
}

/** Three markets with a long past, whose trading goes on quietly. */
async function startExchange(folder: string, rules: readonly FaultRuleInput[]): Promise<Exchange> {
  const tapes = [];
  for (const [at, market] of MARKETS.entries()) {
    const path = join(folder, `${market}.csv`);
    const made = makeTrades({
      seed: SEED + at,
      seconds: HISTORY_S + 600,
      startS: START_S,
      flood: 0,
    });
    // Once collecting begins, trading is quiet: what is measured is the backlog, not the news.
    const isKept = (timeMs: number, index: number) =>
      timeMs < (START_S + HISTORY_S) * 1000 || index % QUIET_EVERY === 0;
    const kept = made.filter(({ timeMs }, index) => isKept(timeMs, index));
    // One counter over all markets, as exchanges of the family have.
    const trades = kept.map((trade) => ({ ...trade, id: trade.id + at * 1_000_000_000 }));
    await writeFile(path, `${[TAPE_HEADER, ...tapeLines(trades)].join('\n')}\n`);
    tapes.push({ market, path });
  }
  const backend = await openTape({ tapes, time: 'now', startOffsetS: HISTORY_S }, systemClock);
  const faults = new Faults({ rules, seed: SEED, clock: systemClock });
  let served = 0;
  const server = await startExchangeServer({
    ...{ backend, clock: systemClock, interference: faults },
    variants: { rateLimit: false, pageCap: PAGE_CAP },
    telemetry: hearing(noTelemetry.server, {
      served: () => {
        served += 1;
      },
    }),
  });
  const { url, realtimeUrl } = server;
  return {
    ...{ url, realtimeUrl, served: () => served },
    broken: () => faults.report().reduce((sum, { fired }) => sum + fired, 0),
    async stop() {
      await server.stop();
      backend.stop();
    },
  };
}

interface Outcome {
  readonly perS: number;
  readonly requestsPerS: number;
  readonly brokenShare: number;
}

const round = (value: number) => Math.round(value * 1000) / 1000;

/** Rows of the backlog stored a second. */
async function fetchBacklog(
  postgres: TestPostgres,
  folder: string,
  rules: readonly FaultRuleInput[],
  windowMs: number,
): Promise<Outcome> {
  const server = await startExchange(folder, rules);
  try {
    const contestant = await startContestant({
      ...{ policy: 'pushed', postgres, server, requestsPerS: REQUESTS_PER_S, history: 'all' },
      ...{ exactTimes: true, floorSchedule: '*/5 * * * * *' },
    });
    // What is measured is how it goes over a stretch of real time: there is no event to wait for.
    await sleep(systemClock, windowMs);
    const rows = contestant.storedAtMs.size;
    const outcome = outcomeOf(server, rows, windowMs);
    await contestant.stop();
    return outcome;
  } finally {
    await server.stop();
  }
}

function outcomeOf(server: Exchange, count: number, windowMs: number): Outcome {
  return {
    perS: round((count * 1000) / windowMs),
    requestsPerS: round((server.served() * 1000) / windowMs),
    brokenShare: round(server.broken() / server.served()),
  };
}

/** Answers a second that callers got who always want more. */
async function askAlways(folder: string, windowMs: number): Promise<Outcome> {
  const server = await startExchange(folder, RARELY_REFUSED);
  const clock = systemClock;
  const budget = new RequestBudget({
    ...{ clock, ratePerS: FAST_REQUESTS_PER_S, burst: FAST_BURST, maxWaiting: CALLERS },
  });
  const client = createExchangeClient({
    ...{ baseUrl: server.url, clock, budget, random: systemRandom },
    ...{ telemetry: noTelemetry.client, exchangeClock: createExchangeClock({ clock }) },
  });
  const stopping = new AbortController();
  const { signal } = stopping;
  setMaxListeners(0, signal);
  let answered = 0;
  const ask = async () => {
    while (!signal.aborted) {
      await client.markets({ signal }).then(
        () => {
          answered += 1;
        },
        () => undefined,
      );
    }
  };
  const callers = Array.from({ length: CALLERS }, ask);
  await sleep(clock, windowMs);
  const outcome = outcomeOf(server, answered, windowMs);
  stopping.abort();
  await Promise.all(callers);
  await client.close();
  await server.stop();
  return outcome;
}

/** @param options --seconds of the window (default 120) */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({
    args: [...options],
    options: { seconds: { type: 'string', default: '120' } },
  });
  const windowMs = Number(values.seconds) * 1000;
  const postgres = await startTestPostgres();
  const folders = await Promise.all(
    ['undisturbed', 'broken', 'refused'].map((name) =>
      mkdtemp(join(tmpdir(), `tapekeep-trouble-${name}-`)),
    ),
  );
  const [first = '', second = '', third = ''] = folders;
  try {
    // All at once: whatever else this machine does befalls all of them alike.
    const [undisturbed, broken, refused] = await Promise.all([
      fetchBacklog(postgres, first, [], windowMs),
      fetchBacklog(postgres, second, BROKEN, windowMs),
      askAlways(third, windowMs),
    ]);
    const ratio = {
      backlog: round(broken.perS / undisturbed.perS),
      rate: round(refused.perS / FAST_REQUESTS_PER_S),
    };
    const rows = Object.entries({ undisturbed, broken, refused }).map(([name, one]) => [
      ...[name, name === 'refused' ? FAST_REQUESTS_PER_S : REQUESTS_PER_S],
      ...[one.requestsPerS, one.brokenShare, one.perS],
    ]);
    const header = ['answers', 'budget/s', 'requests/s', 'broken share', 'rows or answers/s'];
    const isKept = { backlog: ratio.backlog >= 0.7, rate: ratio.rate >= 0.8 };
    return {
      table: tableOf([header, ...rows.map((row) => row.map(String))]),
      figures: { ratio, isKept, undisturbed, broken, refused, seconds: windowMs / 1000 },
    };
  } finally {
    await postgres.stop();
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
  }
}
