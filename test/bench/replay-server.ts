import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { WebSocket } from 'ws';
import { systemClock } from '../../src/kernel/clock.js';
import { seededRandom } from '../../src/kernel/random.js';
import { COUNT_ROWS } from '../support/postgres/postgres-rows.js';
import {
  copyDatabase,
  makeTempDir,
  runSql,
  startTestPostgres,
} from '../support/postgres/postgres-server.js';
import {
  type ReplayServer as Side,
  startReplayServer,
} from '../support/programs/replay-server-process.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about =
  'messages/s of a replayed state feed against a bare ws loop with the same bytes; pages of trades';

/**
 * The replay reads its records from Postgres while it sends them; the bare loop has its lines in
 * memory. Both run in processes of their own and send as fast as the same client reads, by turns. The
 * processor time of a server is told too, because on a busy machine the client is the limit.
 */

const MESSAGES = 100_000;
const ROUNDS = 5;
const TRADES = 1_000_000;
const START_MS = Date.UTC(2026, 0, 15);
const SPAN_MS = 86_400_000;
const PAGES = 30;

const START = `timestamptz '2026-01-15T00:00:00Z'`;
const MAKE = (messages: number, trades: number) => [
  `INSERT INTO archive (name, base_url, is_sandbox) VALUES ('bench', 'http://bench', false)`,
  `INSERT INTO market (name, base, quote, base_prec, quote_prec, fee_prec, min_amount, first_seen_at, last_seen_at)
   VALUES ('BTC_USDT', 'BTC', 'USDT', 8, 2, 4, 0.001, ${START}, ${START})`,
  `INSERT INTO stream (kind, market_id, variant) VALUES ('states', 1, 60), ('trades', 1, 0)`,
  `SELECT make_partition('market_state', ${START}), make_partition('trade', ${START})`,
  `INSERT INTO market_state SELECT at, at, 1, 1, 60, n, 'update', price, 60000, price, 61000, 59000,
     round((1e7 + n * 1.37)::numeric, 8), round((1e3 + n * 0.01)::numeric, 8), NULL
   FROM (SELECT n, ${START} + interval '1 day' * (n / ${messages + 1}::float8) AS at,
                round((60000 + 500 * sin(n / 700.0))::numeric, 8) AS price
         FROM generate_series(1, ${messages}) n) made`,
  `INSERT INTO trade (traded_at, tid, executed_at, received_at, market_id, side, price, amount, total)
   SELECT date_trunc('second', at), n, at, at, 1, 'buy', price, 0.12345678, price * 0.12345678
   FROM (SELECT n, ${START} + interval '1 day' * (n / ${trades + 1}::float8) AS at,
                round((60000 + 500 * sin(n / 700.0))::numeric, 8) AS price
         FROM generate_series(1, ${trades}) n) made`,
  `INSERT INTO coverage (stream_id, market_id, span, evidence)
   SELECT stream_id, 1, tstzrange(${START}, ${START} + interval '1 day'), '{}' FROM stream`,
  COUNT_ROWS,
  'VACUUM ANALYZE trade',
  'VACUUM ANALYZE market_state',
];

interface Feed {
  readonly perS: number;
  readonly cpuUs: number;
  readonly texts: string[];
}

/** Reads a whole feed, from the first message to the last. */
async function readFeed(side: Side, query: string, count: number, keep: boolean): Promise<Feed> {
  const socket = new WebSocket(side.report.realtimeUrl + query, { perMessageDeflate: false });
  await once(socket, 'open');
  const cpuBeforeMs = (await side.ask()).cpuMs;
  const texts: string[] = [];
  let read = 0;
  let startMs = 0;
  const done = new Promise<void>((resolve, reject) => {
    socket.on('message', (data: Buffer) => {
      // The acknowledgement is no update; it is the only other frame.
      if (read === 0 && data.includes('"status"')) return;
      if (read === 0) startMs = systemClock.monotonicMs();
      read += 1;
      if (keep) texts.push(String(data));
      if (read === count) resolve();
    });
    socket.on('close', () => reject(new Error(`closed after ${read} messages`)));
  });
  socket.send(JSON.stringify({ method: 'state.subscribe', params: ['BTC_USDT', 60], id: 1 }));
  await done;
  const ms = systemClock.monotonicMs() - startMs;
  const cpuMs = (await side.ask()).cpuMs - cpuBeforeMs;
  socket.removeAllListeners('close').terminate();
  return { perS: Math.round((count / ms) * 1000), cpuUs: (cpuMs / count) * 1000, texts };
}

/** Milliseconds of pages of a thousand trades, each at another moment. */
async function readPages(url: string, skipOf: (page: number) => number): Promise<number[]> {
  const random = seededRandom(1);
  const taken: number[] = [];
  for (let page = 0; page < PAGES; page += 1) {
    const to = START_MS + Math.floor((0.5 + random() / 2) * SPAN_MS);
    await fetch(`${url}/replay/seek`, { method: 'POST', body: JSON.stringify({ to }) });
    const startMs = systemClock.monotonicMs();
    const path = `/api/v1/public/history?market=BTC_USDT&limit=1000&lastId=${skipOf(page)}`;
    const reply = await fetch(url + path);
    const { result } = (await reply.json()) as { result: unknown[] };
    taken.push(systemClock.monotonicMs() - startMs);
    if (result.length !== 1000) throw new Error(`a page of ${result.length} trades`);
  }
  return taken;
}

const round2 = (value: number) => Math.round(value * 100) / 100;

/** @param options messages (default 100,000), rounds (5) and trades (1,000,000) */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const [messages = MESSAGES, rounds = ROUNDS, trades = TRADES] = options.map(Number);
  const postgres = await startTestPostgres();
  const dir = await makeTempDir();
  const sides: Side[] = [];
  try {
    const databaseUrl = await copyDatabase(postgres.url, 'bench');
    for (const sql of MAKE(messages, trades)) await runSql(databaseUrl, sql);
    const span = { fromMs: START_MS, toMs: START_MS + SPAN_MS };
    const ours = await startReplayServer({ kind: 'replay', databaseUrl, ...span });
    sides.push(ours);
    const { texts } = await readFeed(ours, '?session=record', messages, true);
    const path = join(dir, 'frames');
    await writeFile(path, texts.join('\n'));
    const bare = await startReplayServer({ kind: 'bare', path });
    sides.push(bare);
    const feeds = { ours: [] as Feed[], bare: [] as Feed[] };
    for (let round = 0; round < rounds; round += 1) {
      // Whoever goes first would have the better of a machine that gets busier.
      for (const who of round % 2 === 0
        ? (['ours', 'bare'] as const)
        : (['bare', 'ours'] as const)) {
        const side = who === 'ours' ? ours : bare;
        feeds[who].push(await readFeed(side, `?session=r${round}`, messages, false));
      }
    }
    const of = (who: 'ours' | 'bare', figure: 'perS' | 'cpuUs') =>
      median(feeds[who].map((feed) => feed[figure]));
    const pairs = feeds.ours.map((us, at) => us.perS / (feeds.bare[at]?.perS ?? us.perS));
    const url = ours.report.url;
    const far = Math.floor(trades / 5);
    const first = await readPages(url, () => far);
    const pages = {
      newest: median(await readPages(url, () => 0)),
      deepFirst: first[0] ?? 0,
      deep: median(await readPages(url, (page) => far + 997 * page)),
    };
    const ratio = { realtime: round2(median(pairs)) };
    const figures = {
      ratio,
      cpuRatio: { realtime: round2(of('bare', 'cpuUs') / of('ours', 'cpuUs')) },
      oursPerS: of('ours', 'perS'),
      barePerS: of('bare', 'perS'),
      oursCpuUs: round2(of('ours', 'cpuUs')),
      bareCpuUs: round2(of('bare', 'cpuUs')),
      pageMs: Object.fromEntries(Object.entries(pages).map(([name, ms]) => [name, round2(ms)])),
      ...{ messages, rounds, trades },
    };
    const table = tableOf([
      ['state feed', 'ours/s', 'bare/s', 'ratio', 'ours µs', 'bare µs'],
      [
        ...['max', String(figures.oursPerS), String(figures.barePerS), String(ratio.realtime)],
        ...[String(figures.oursCpuUs), String(figures.bareCpuUs)],
      ],
      ...Object.entries(figures.pageMs).map(([name, ms]) => [`page, ${name}`, `${ms} ms`]),
    ]);
    return { table, figures };
  } finally {
    for (const side of sides) await side.stop();
    await postgres.stop();
    await rm(dir, { recursive: true, force: true });
  }
}
