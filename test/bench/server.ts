import assert from 'node:assert/strict';
import { loadavg } from 'node:os';
import { Pool } from 'undici';
import { systemClock } from '../../src/kernel/clock.js';
import {
  type BenchServer,
  recordPage,
  startBenchServer,
} from '../support/exchanges/bench-server.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'our server against bare fastify with ready texts, requests a second';

/*
 * Ours checks the query and asks a recorded tape whose time stands still. The other is fastify
 * without any hook that sends the recorded text with the same headers. Both are processes of their
 * own; the load comes from here, over kept-alive connections, in short rounds that take turns. A ratio is
 * that of a pair of neighbouring rounds, and told is the middle of all pairs: what slows the machine for
 * a while slows both sides of a pair. `ticker` is checked and put
 * together each time, `history` is one page of 1000 trades again and again, and `fresh` is another
 * page each time, taken from all over the history. Ours keeps no page, but the texts of trades once
 * they were shown; after the warming up all were. Where all processors are busy the load itself can
 * be the limit, so the processor time that each server spends on a request is told too.
 */

const TARGETS = {
  ticker: '/api/v1/public/ticker?market=BTC_USDT',
  history: '/api/v1/public/history?market=BTC_USDT&limit=1000',
  fresh: '/api/v1/public/history?market=BTC_USDT&limit=1000&lastId=',
} as const;
/** Different pages that `fresh` goes through, and how far apart one is from the next. */
const FRESH_PAGES = 4000;
const FRESH_STRIDE = 617;
type TargetName = keyof typeof TARGETS;

const CONNECTIONS = 32;
/** Short, so that a busy moment of the machine falls on both sides of a pair, or spoils few pairs. */
const ROUNDS = 21;
const ROUND_MS = 200;
/** Rounds for the compiler to warm up. */
const WARM_UP_ROUNDS = 5;

interface Side {
  readonly server: BenchServer;
  readonly pool: Pool;
  readonly connections: number;
}

interface Load {
  readonly perS: number;
  readonly cpuUs: number;
}

/** One request; resolves when the whole body has come, which must have `bytes` at least. */
function fetchOnce(pool: Pool, path: string, bytes: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let status = 0;
    let size = 0;
    pool.dispatch(
      { method: 'GET', path },
      {
        onRequestStart() {},
        onResponseStart(_controller, statusCode) {
          status = statusCode;
        },
        onResponseData(_controller, chunk) {
          size += chunk.length;
        },
        onResponseEnd() {
          if (status === 200 && size >= bytes) resolve();
          else reject(new Error(`HTTP ${status} with ${size} bytes`));
        },
        onResponseError: (_controller, error) => reject(error),
      },
    );
  });
}

/** As many requests as can be answered in a round. */
async function load(
  { server, pool, connections }: Side,
  path: string,
  bytes: number,
): Promise<Load> {
  const cpuBeforeMs = (await server.ask()).cpuMs;
  const startMs = systemClock.monotonicMs();
  let count = 0;
  const work = async () => {
    while (systemClock.monotonicMs() - startMs < ROUND_MS) {
      count += 1;
      const which = path.endsWith('=') ? String((count * FRESH_STRIDE) % FRESH_PAGES) : '';
      await fetchOnce(pool, path + which, bytes);
    }
  };
  await Promise.all(Array.from({ length: connections }, work));
  const ms = systemClock.monotonicMs() - startMs;
  const cpuMs = (await server.ask()).cpuMs - cpuBeforeMs;
  return { perS: (count / ms) * 1000, cpuUs: (cpuMs / count) * 1000 };
}

/** The middle of some loads, each figure by itself. */
function middleOf(loads: readonly Load[]): Load {
  return {
    perS: Math.round(median(loads.map(({ perS }) => perS))),
    cpuUs: Math.round(median(loads.map(({ cpuUs }) => cpuUs))),
  };
}

async function measure(
  servers: Record<'ours' | 'bare', BenchServer>,
  path: string,
  rounds: number,
  connections: number,
) {
  // Other pages of as many trades are a little longer or shorter.
  const share = path.endsWith('=') ? 0.9 : 1;
  const first = path.endsWith('=') ? `${path}0` : path;
  const bytes = Math.floor((await recordPage(servers.ours, first)).body.length * share);
  const sideOf = (server: BenchServer): Side => {
    return { server, pool: new Pool(server.report.url, { connections }), connections };
  };
  const sides = { ours: sideOf(servers.ours), bare: sideOf(servers.bare) };
  const loads = { ours: [] as Load[], bare: [] as Load[] };
  for (let round = -WARM_UP_ROUNDS; round < rounds; round += 1) {
    // Whoever goes first would have the better of a machine that gets busier, so that changes too.
    const turns = round % 2 === 0 ? (['ours', 'bare'] as const) : (['bare', 'ours'] as const);
    for (const who of turns) {
      const seen = await load(sides[who], path, bytes);
      if (round >= 0) loads[who].push(seen);
    }
  }
  await Promise.all([sides.ours.pool.destroy(), sides.bare.pool.destroy()]);
  const pairs = loads.ours.map((us, round) => ({ us, them: loads.bare[round] ?? us }));
  return {
    ours: middleOf(loads.ours),
    bare: middleOf(loads.bare),
    ratio: median(pairs.map(({ us, them }) => us.perS / them.perS)),
    cpuRatio: median(pairs.map(({ us, them }) => them.cpuUs / us.cpuUs)),
    bytes,
  };
}

const round2 = (value: number) => Math.round(value * 100) / 100;

/** @param options a number of rounds (default 21), and of connections (default 32) */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const [rounds = ROUNDS, connections = CONNECTIONS] = options.map(Number);
  const loadAverage = loadavg().map(round2);
  const ours = await startBenchServer({ kind: 'ours' });
  const recorded = [TARGETS.ticker, TARGETS.history];
  const pages = await Promise.all(recorded.map((path) => recordPage(ours, path)));
  const trades = JSON.parse(pages.at(-1)?.body ?? '') as { result: unknown[] };
  assert.equal(trades.result.length, 1000);
  const bare = await startBenchServer({ kind: 'bare', pages });
  try {
    const servers = { ours, bare };
    const measured = {
      ticker: await measure(servers, TARGETS.ticker, rounds, connections),
      history: await measure(servers, TARGETS.history, rounds, connections),
      fresh: await measure(servers, TARGETS.fresh, rounds, connections),
    };
    const names = Object.keys(measured) as TargetName[];
    const ratioOf = (of: (name: TargetName) => number) =>
      Object.fromEntries(names.map((name) => [name, round2(of(name))]));
    const ratio = ratioOf((name) => measured[name].ratio);
    const cpuRatio = ratioOf((name) => measured[name].cpuRatio);
    const header = ['reply', 'ours/s', 'bare/s', 'ratio', 'ours µs', 'bare µs', 'cpu ratio'];
    const rows = names.map((name) => {
      const { ours: us, bare: them } = measured[name];
      const figures = [us.perS, them.perS, ratio[name], us.cpuUs, them.cpuUs, cpuRatio[name]];
      return [name, ...figures.map(String)];
    });
    return {
      table: tableOf([header, ...rows]),
      figures: { ratio, cpuRatio, measured, connections, rounds, loadAverage },
    };
  } finally {
    await Promise.all([ours.stop(), bare.stop()]);
  }
}
