import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import { runSql } from '../support/postgres/postgres.js';
import { runCommand } from '../support/programs/commands.js';
import { readByTool } from '../support/repository/outside-tools.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';
import { assertKeptWhenStopped } from '../support/worlds/export-stopped.js';
import { makeFolder, namesIn } from '../support/worlds/export-world.js';
import { readEvents, unzipOne } from '../support/worlds/interchange.js';

/** What a person meets who feeds another program from an archive. */

const HOURS = ['--from', '2026-01-15T12:00:00Z', '--to', '2026-01-15T16:00:00Z'];
const FIRST_HOUR = ['--from', '2026-01-15T12:00:00Z', '--to', '2026-01-15T13:00:00Z'];
const BTC = ['--market', 'BTC_USDT'];

const run = (url: string, ...args: readonly string[]) =>
  runCommand(['export', ...args], { TAPEKEEP_DATABASE_URL: url });

/** Everything below a folder, as paths. */
async function filesIn(folder: string): Promise<string[]> {
  const all = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = all.filter((one) => one.isFile());
  return files.map((one) => join(one.parentPath, one.name).slice(folder.length + 1)).sort();
}

const iso = (ms: unknown) => new Date(Number(ms)).toISOString().slice(11, 16);

test('each program gets its own files, and those who are here read them', async (t) => {
  const { url } = await openAnalystWorld();
  const dir = await makeFolder(t);
  for (const args of [
    ['--for', 'freqtrade', '--interval', '1h', ...HOURS],
    ['--for', 'freqtrade', '--kind', 'trades', ...HOURS, '--allow-gaps'],
    ['--for', 'backtrader', ...HOURS],
    ['--for', 'vectorbt', '--candles', 'trades', '--interval', '30m', ...HOURS, '--allow-gaps'],
    ['--for', 'hftbacktest', ...FIRST_HOUR, '--allow-gaps'],
  ]) {
    const { code, err, out } = await run(url, ...BTC, ...args, '--dir', dir);
    assert.equal(code, 0, `${args.join(' ')}: ${err}`);
    assert.equal(out, '');
  }
  const names = [
    ...['BTC_USDT-1h.csv', 'BTC_USDT-1h.feather', 'BTC_USDT-30m.csv', 'BTC_USDT-trades.feather'],
    'BTC_USDT.npz',
  ];
  const manifests = names.map((name) => `${name}.manifest.json`);
  assert.deepEqual(await filesIn(dir), [...names, ...manifests].sort());
  for (const name of names) {
    const told = JSON.parse(await readFile(join(dir, `${name}.manifest.json`), 'utf8'));
    const sum = createHash('sha256').update(await readFile(join(dir, name)));
    assert.deepEqual([told.sha256, told.market], [sum.digest('hex'), 'BTC_USDT'], name);
  }

  const hours = tableFromIPC(await readFile(join(dir, 'BTC_USDT-1h.feather')));
  assert.deepEqual(
    [...hours].map((row) => [iso(row?.date), row?.open, row?.high, row?.close, row?.volume]),
    [
      ['12:00', 100, 103, 103, 8],
      ['13:00', 104, 104.1, 103.9, 1.8],
      ['14:00', 105, 106, 106, 5],
    ],
    'the newest version of each candle; freqtrade fills 15:00 itself',
  );
  const trades = tableFromIPC(await readFile(join(dir, 'BTC_USDT-trades.feather')));
  assert.deepEqual(
    [...trades].slice(5, 7).map((row) => [row?.id, row?.side, row?.price, row?.amount, row?.cost]),
    [
      ['6', 'buy', 104.1, 0.1, 10.41],
      ['7', 'sell', 103.9, 0.2, 20.78],
    ],
  );
  assert.equal(
    await readFile(join(dir, 'BTC_USDT-1h.csv'), 'utf8'),
    [
      'datetime,open,high,low,close,volume,openinterest',
      '2026-01-15 12:00:00,100,103,100,103,8,0',
      '2026-01-15 13:00:00,104,104.1,103.9,103.9,1.8,0',
      '2026-01-15 14:00:00,105,106,105,106,5,0',
      '2026-01-15 15:00:00,106,106,106,106,0,0\n',
    ].join('\n'),
  );
  assert.equal(
    await readFile(join(dir, 'BTC_USDT-30m.csv'), 'utf8'),
    [
      'Date,Open,High,Low,Close,Volume',
      '2026-01-15 12:00:00+00:00,100,101,100,101,3',
      '2026-01-15 12:30:00+00:00,102,103,102,103,5',
      '2026-01-15 13:00:00+00:00,104,104.1,103.9,103.9,1.8',
      '2026-01-15 13:30:00+00:00,103.9,103.9,103.9,103.9,0',
      '2026-01-15 14:30:00+00:00,106,106,106,106,1',
      '2026-01-15 15:00:00+00:00,106,106,106,106,0',
      '2026-01-15 15:30:00+00:00,106,106,106,106,0\n',
    ].join('\n'),
    'the half hour with the gap in it is left out, although there was a trade',
  );
  const partial = JSON.parse(await readFile(join(dir, 'BTC_USDT-30m.csv.manifest.json'), 'utf8'));
  assert.deepEqual(partial.counts, { partialSlotsLeftOut: 1, quietSlotsFilled: 3 });
  assert.deepEqual([partial.isComplete, partial.sources[0].gaps.count], [false, 2]);

  const feed = readEvents(unzipOne(await readFile(join(dir, 'BTC_USDT.npz'))).content);
  const isTrade = ({ ev }: { readonly ev: number }) => ev % 256 === 2 && ev >= 2 ** 31;
  assert.deepEqual(
    feed.events.filter(isTrade).map(({ px, qty }) => [px, qty]),
    [
      [100, 1],
      [101, 2],
      [102, 1],
      [103, 4],
    ],
    'as the exchange saw them; received later than the book, they are there for the local side too',
  );

  for (const told of readByTool(dir)) t.diagnostic(told);
});

test('a feed begins with the book that holds where its span begins, if depth is covered up to there', async (t) => {
  const { url } = await openAnalystWorld();
  const dir = await makeFolder(t);
  const isSnapshot = ({ ev }: { readonly ev: number }) => ev % 256 === 4;
  const booksOf = async (from: string, to: string) => {
    const span = ['--from', `2026-01-15T${from}Z`, '--to', `2026-01-15T${to}Z`, '--allow-gaps'];
    const args = ['--for', 'hftbacktest', ...BTC, ...span, '--latency', '100ms', '--dir', dir];
    const { code, err } = await run(url, ...args, '--force');
    assert.equal(code, 0, err);
    const { events } = readEvents(unzipOne(await readFile(join(dir, 'BTC_USDT.npz'))).content);
    const books = events.filter(isSnapshot).map(({ px, qty, exchNs }) => {
      return [new Date(Number(exchNs) / 1e6).toISOString().slice(11, 19), px, qty];
    });
    return { err, books };
  };
  const quiet = await booksOf('12:15:00', '12:25:00');
  assert.deepEqual(quiet.books, [
    ['12:15:00', 100, 2],
    ['12:15:00', 101, 1],
    ['12:15:00', 102, 1],
    ['12:15:00', 103, 9],
  ]);
  // Depth is not covered from 12:30 to 12:40.
  const { books } = await booksOf('12:35:00', '12:45:00');
  assert.deepEqual(books, [
    ['12:40:00', 100, 1],
    ['12:40:00', 100.5, 4],
  ]);
});

test('trades of a feed are cut by their exact times', async (t) => {
  const { url } = await openAnalystWorld();
  const dir = await makeFolder(t);
  await runSql(url, `UPDATE trade SET executed_at = traded_at + interval '400 ms'`);
  const [{ at } = assert.fail()] = await runSql<{ at: string }>(
    url,
    `SELECT to_char(max(traded_at), 'YYYY-MM-DD"T"HH24:MI:SS') AS at FROM trade
     WHERE market_id = 1 AND traded_at < '2026-01-15 13:00+00'`,
  );
  const counts: number[] = [];
  for (const [from, to] of [
    ['2026-01-15T12:00:00.200Z', `${at}.500Z`],
    ['2026-01-15T12:00:00.500Z', `${at}.500Z`],
    ['2026-01-15T12:00:00.200Z', `${at}.300Z`],
  ] as const) {
    const span = ['--from', from, '--to', to, '--allow-gaps'];
    const args = ['--for', 'hftbacktest', ...BTC, ...span, '--latency', '100ms', '--dir', dir];
    const { code, err } = await run(url, ...args, '--force');
    assert.equal(code, 0, err);
    const told = JSON.parse(await readFile(join(dir, 'BTC_USDT.npz.manifest.json'), 'utf8'));
    const [{ n } = assert.fail()] = await runSql<{ n: number }>(
      url,
      `SELECT count(*)::int AS n FROM trade
       WHERE market_id = 1 AND executed_at >= '${from}' AND executed_at < '${to}'`,
    );
    assert.equal(told.counts.trades, n, `${from} to ${to}`);
    counts.push(n);
  }
  const [all = 0, ...cut] = counts;
  assert.ok(all > 0 && cut.every((some) => some < all), counts.join());
});

test('gaps are refused before anything is written, with what can be done', async (t) => {
  const { url } = await openAnalystWorld();
  const dir = join(await makeFolder(t), 'not-yet');
  const args = ['--for', 'hftbacktest', ...BTC, ...HOURS, '--dir', dir];
  const refused = await run(url, ...args);
  assert.equal(refused.code, 8, refused.err);
  assert.match(refused.err, /trades: beyond history/);
  assert.match(refused.err, /depth: not collected/);
  assert.match(refused.err, /--allow-gaps/);
  await assert.rejects(readdir(dir), { code: 'ENOENT' });
});

test('times of which no backtest could make anything are refused, unless they are asked for', async (t) => {
  const { url } = await openAnalystWorld();
  await runSql(url, `UPDATE trade SET received_at = received_at + interval '3 days'`);
  const dir = await makeFolder(t);
  const args = ['--for', 'hftbacktest', ...BTC, ...FIRST_HOUR, '--allow-gaps', '--dir', dir];
  const refused = await run(url, ...args);
  assert.equal(refused.code, 2, refused.err);
  assert.match(
    refused.err,
    /% of the events were received more than a minute off.*--latency 100ms/,
  );
  assert.deepEqual(await namesIn(dir), []);
  for (const [latency, apart] of [
    ['100ms', undefined],
    ['received', 3],
  ] as const) {
    const { code, err } = await run(url, ...args, '--latency', latency, '--force');
    assert.equal(code, 0, err);
    const told = JSON.parse(await readFile(join(dir, 'BTC_USDT.npz.manifest.json'), 'utf8'));
    assert.equal(told.counts.eventsPutApart, apart, latency);
  }
});

test('wrong arguments are refused by name, before anything is written', async (t) => {
  const { url } = await openAnalystWorld();
  const dir = await makeFolder(t);
  const there = join(dir, 'BTC_USDT-1h.feather');
  await writeFile(there, 'mine');
  const blocked = join(dir, 'blocked');
  await writeFile(blocked, '');
  await mkdir(join(dir, 'empty'));
  for (const [args, said] of [
    [
      ['--for', 'freqtrad', '--dir', dir],
      /There is no program "freqtrad".*Did you mean "freqtrade"/,
    ],
    [['--for', 'freqtrade'], /--dir.*user_data\/data/],
    [['--for', 'freqtrade', '--dir', dir, ...HOURS], /it is there already; --force/],
    [['--for', 'freqtrade', '--dir', dir, '--kind', 'depth'], /it takes candles or trades/],
    [['--for', 'backtrader', '--dir', dir, '--kind', 'trades'], /it takes candles/],
    [['--for', 'hftbacktest', '--dir', dir, '--kind', 'trades'], /trades and depth together/],
    [['--for', 'vectorbt', '--dir', dir, '--candles', 'trades'], /--interval.*such as 1m/],
    [['--for', 'vectorbt', '--dir', dir, '--latency', '1s'], /only hftbacktest/],
    [['--for', 'vectorbt', '--dir', dir, '--format', 'csv'], /--format.*no use/],
    [['--for', 'backtrader', '--dir', blocked, ...HOURS], /its folder cannot be made/],
    [['--kind', 'trades', '--dir', dir], /--dir.*belongs to --for/],
    [
      ['--for', 'vectorbt', '--dir', dir, '--candles', 'trades', '--interval', '7m', ...FIRST_HOUR],
      /420 s cannot be computed from trades/,
    ],
  ] as const) {
    const refused = await run(url, ...BTC, ...args);
    assert.equal(refused.code, 2, args.join(' ') + refused.out + refused.err);
    assert.match(refused.err, said);
  }
  assert.equal(await readFile(there, 'utf8'), 'mine');
  assert.deepEqual(await namesIn(dir), ['BTC_USDT-1h.feather', 'blocked', 'empty']);
});

test('stopped or killed in the middle: no half file, and what was there before stays', async (t) => {
  const { url } = await openAnalystWorld();
  const dir = await makeFolder(t);
  const trades = ['--for', 'freqtrade', '--kind', 'trades', ...BTC, ...FIRST_HOUR, '--dir', dir];
  await assertKeptWhenStopped(t, url, join(dir, 'BTC_USDT-trades.feather'), trades);
});
