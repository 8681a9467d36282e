import assert from 'node:assert/strict';
import { loadavg } from 'node:os';
import { Pool } from 'undici';
import { createExchangeClient, createExchangeClock } from '../../src/client/index.js';
import { RequestBudget } from '../../src/kernel/budget.js';
import { systemClock } from '../../src/kernel/clock.js';
import { recordPage, startBenchServer } from '../support/exchanges/bench-server.js';
import { noTelemetry } from '../support/no-telemetry.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'our client against bare undici with JSON.parse, 1000-trade pages a second';

/*
 * Both fetch the same ready text from the same bare server, over as many connections. Ours also
 * keeps its budget and its clock, recognises errors, and checks and copies every row; the other
 * believes what JSON.parse gives.
 */

const MARKET = 'BTC_USDT';
const LIMIT = 1000;
const CONNECTIONS = 4;
const ROUNDS = 5;
const ROUND_MS = 1000;
const PAGES = {
  history: `/api/v1/public/history?market=${MARKET}&lastId=0&limit=${LIMIT}`,
  result: `/api/v1/public/history/result?market=${MARKET}&since=0&limit=${LIMIT}`,
} as const;
type PageName = keyof typeof PAGES;

interface Fetchers {
  readonly ours: (name: PageName) => Promise<number>;
  readonly bare: (name: PageName) => Promise<number>;
  close(): Promise<unknown>;
}

/** Each returns the number of trades that it got. */
function fetchersOf(url: string): Fetchers {
  const clock = systemClock;
  const client = createExchangeClient({
    baseUrl: url,
    clock,
    random: () => 0,
    telemetry: noTelemetry.client,
    // No limit that either of the two could reach; the bare server's headers would set one.
    budget: new RequestBudget({ clock, ratePerS: 1e6, burst: 1e6, maxWaiting: 100 }),
    exchangeClock: createExchangeClock({ clock }),
    connections: CONNECTIONS,
  });
  const pool = new Pool(url, { connections: CONNECTIONS });
  const rowsOf = (page: unknown) =>
    (Array.isArray(page) ? page : (page as { result: unknown[] }).result).length;
  return {
    async ours(name) {
      const query = { market: MARKET, limit: LIMIT };
      const { data } =
        name === 'history'
          ? await client.history({ ...query, lastId: 0 })
          : await client.historyResult({ ...query, since: 0 });
      return data.length;
    },
    async bare(name) {
      const { body } = await pool.request({ method: 'GET', path: PAGES[name] });
      return rowsOf(JSON.parse(await body.text()));
    },
    close: () => Promise.all([client.close(), pool.destroy()]),
  };
}

/** Pages a second. */
async function load(fetchPage: (name: PageName) => Promise<number>, name: PageName) {
  const startMs = systemClock.monotonicMs();
  const cpuBefore = process.cpuUsage();
  let count = 0;
  const work = async () => {
    while (systemClock.monotonicMs() - startMs < ROUND_MS) {
      assert.equal(await fetchPage(name), LIMIT);
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  const { user, system } = process.cpuUsage(cpuBefore);
  const perS = (count / (systemClock.monotonicMs() - startMs)) * 1000;
  return { perS, cpuUs: (user + system) / count };
}

async function measure(fetchers: Fetchers, name: PageName, rounds: number) {
  const perS = { ours: [] as number[], bare: [] as number[] };
  const cpuUs = { ours: [] as number[], bare: [] as number[] };
  for (let round = -1; round < rounds; round += 1) {
    for (const who of ['ours', 'bare'] as const) {
      const seen = await load(fetchers[who], name);
      // The first round is for the compiler to warm up.
      if (round < 0) continue;
      perS[who].push(seen.perS);
      cpuUs[who].push(seen.cpuUs);
    }
  }
  const middle = (who: 'ours' | 'bare') => ({
    perS: Math.round(median(perS[who])),
    cpuUs: Math.round(median(cpuUs[who])),
  });
  return { ours: middle('ours'), bare: middle('bare') };
}

const round2 = (value: number) => Math.round(value * 100) / 100;

/** @param options a number of rounds (default 5) */
export async function run([text = `${ROUNDS}`]: readonly string[]): Promise<BenchReport> {
  const rounds = Number(text);
  const loadAverage = loadavg().map(round2);
  const source = await startBenchServer({ kind: 'ours' });
  const recorded = await Promise.all(Object.values(PAGES).map((path) => recordPage(source, path)));
  await source.stop();
  // What the server says of its rate limit would hold the client back, and rightly.
  const pages = recorded.map(({ headers, ...page }) => {
    const kept = Object.entries(headers).filter(([header]) => !header.startsWith('x-ratelimit-'));
    return { ...page, headers: Object.fromEntries(kept) };
  });
  const server = await startBenchServer({ kind: 'bare', pages });
  const fetchers = fetchersOf(server.report.url);
  try {
    const measured = {
      history: await measure(fetchers, 'history', rounds),
      result: await measure(fetchers, 'result', rounds),
    };
    const ratioOf = (name: PageName) => measured[name].ours.perS / measured[name].bare.perS;
    const ratio = {
      pages: round2(Math.min(ratioOf('history'), ratioOf('result'))),
      history: round2(ratioOf('history')),
      result: round2(ratioOf('result')),
    };
    const header = ['page', 'ours/s', 'bare/s', 'ratio', 'ours µs', 'bare µs'];
    const rows = (['history', 'result'] as const).map((name) => {
      const { ours, bare } = measured[name];
      return [name, ...[ours.perS, bare.perS, ratio[name], ours.cpuUs, bare.cpuUs].map(String)];
    });
    return {
      table: tableOf([header, ...rows]),
      figures: { ratio, measured, connections: CONNECTIONS, rounds, loadAverage },
    };
  } finally {
    await fetchers.close();
    await server.stop();
  }
}
