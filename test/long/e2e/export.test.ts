import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { runSql } from '../../support/postgres/postgres.js';
import { runCommand } from '../../support/programs/commands.js';
import { openAnalystWorld } from '../../support/worlds/analyst-world.js';
import { assertKeptWhenStopped } from '../../support/worlds/export-stopped.js';
import {
  awkwardTrades,
  makeFolder,
  namesIn,
  openTradeArchive,
} from '../../support/worlds/export-world.js';

/** What a person meets who exports from an archive. */

const MAIN = join(import.meta.dirname, '../../../dist/cli/main.js');
const HOUR = ['--from', '2026-01-15T12:00:00Z', '--to', '2026-01-15T13:00:00Z'];

function run(url: string, ...args: readonly string[]) {
  return runCommand(['export', ...args], { TAPEKEEP_DATABASE_URL: url });
}

test('every kind can be had, from standard output or as a file', async (t) => {
  const { url } = await openAnalystWorld();
  const folder = await makeFolder(t);
  const btc = ['--market', 'BTC_USDT', ...HOUR];
  for (const [kind, format, rows, ...more] of [
    ['trades', 'ndjson', 4],
    ['candles', 'csv', 1, '--interval', '1h'],
    ['tickers', 'csv', 2],
    ['depth', 'parquet', 3, '--allow-gaps'],
    ['depth', 'ndjson', 3, '--allow-gaps'],
    ['states', 'parquet', 1],
  ] as const) {
    const path = join(folder, `${kind}.${format}`);
    const { code, err } = await run(url, '--kind', kind, ...btc, '--out', path, ...more);
    assert.equal(code, 0, `${kind} ${format} ${err}`);
    const told = JSON.parse(await readFile(`${path}.manifest.json`, 'utf8'));
    assert.deepEqual([told.rows, told.format, told.kind], [rows, format, kind]);
    assert.equal(told.isComplete, kind !== 'depth');
  }
  const csv = await run(url, '--kind', 'trades', ...btc);
  assert.equal(csv.code, 0);
  assert.match(
    csv.out,
    /^market,traded_at,tid,.*\r\nBTC_USDT,2026-01-15 12:00:00\+00,1,,buy,100,1,100,/,
  );
  const told = JSON.parse(csv.err);
  assert.deepEqual([told.rows, told.file], [4, null]);
});

test('an export of nothing says why: there was nothing, or nobody has looked', async (t) => {
  const { url } = await openTradeArchive({ A_B: awkwardTrades(3) });
  const folder = await makeFolder(t);
  const tell = async (from: string, to: string, ...more: readonly string[]) => {
    const span = ['--from', `2026-01-15T${from}Z`, '--to', `2026-01-15T${to}Z`];
    const { code, err } = await run(url, '--market', 'A_B', ...span, ...more, '--force');
    assert.equal(code, 0, err);
    return err;
  };
  const file = ['--kind', 'trades', '--out', join(folder, 'a.csv')];
  const SPAN = /2026-01-15 12:01:10.* to 2026-01-15 12:01:30/;
  const quiet = await tell('12:01:10', '12:01:30', ...file);
  assert.match(
    quiet,
    /^0 rows of trades from 2026-01-15T12:01:10.000Z to 2026-01-15T12:01:30.000Z in /,
  );
  assert.match(quiet, /^A_B: no trades from .*: all of it is covered, and there were none$/m);
  assert.match(quiet, SPAN);
  const unseen = await tell('13:00:00', '14:00:00', ...file, '--allow-gaps');
  assert.match(unseen, /^A_B: no trades from .* 13:00:00.*; "tapekeep gaps explain A_B trades/m);
  const half = await tell('12:01:10', '14:00:00', ...file, '--allow-gaps');
  assert.match(half, /^A_B: no trades from .*; "tapekeep gaps explain A_B trades/m);
  const some = await run(url, ...['--market', 'A_B'], ...file, '--force');
  assert.doesNotMatch(some.err, /no trades/);
});

test('an export from the start of history says when that is not all that the exchange has', async (t) => {
  const { url } = await openTradeArchive({ A_B: awkwardTrades(3) });
  const folder = await makeFolder(t);
  const path = join(folder, 'a.csv');
  const file = ['--kind', 'trades', '--out', path];
  const notesOf = async (...span: readonly string[]) => {
    const { code, err } = await run(url, '--market', 'A_B', ...file, ...span, '--force');
    assert.equal(code, 0, err);
    const { notes } = JSON.parse(await readFile(`${path}.manifest.json`, 'utf8'));
    const about = (notes as string[]).filter((line) => line.startsWith('trades of A_B: '));
    // What the file says, the terminal says.
    for (const line of about) assert.ok(err.split('\n').includes(line), err);
    return about;
  };
  const startsWith = (reason: string) =>
    runSql(
      url,
      `UPDATE stream SET collect_from = '2026-01-15 12:00Z', start_reason = '${reason}' WHERE kind = 'trades'`,
    );
  const GOES_ON = /older history is still being fetched; reached: 2026-01-15 12:00:00\.$/;
  const inside = ['--from', '2026-01-15T12:00:10Z', '--to', '2026-01-15T12:01:00Z'];
  for (const span of [[], ['--from', 'start'], ['--from', '2026-01-14', '--clamp']]) {
    const [note, ...others] = await notesOf(...span);
    assert.match(note ?? '', GOES_ON);
    assert.deepEqual(others, []);
  }
  assert.deepEqual(await notesOf(...inside), [], 'it is whole as asked');
  await startsWith('history horizon');
  const [note] = await notesOf('--from', 'start');
  assert.match(
    note ?? '',
    /older history than 2026-01-15 12:00:00 exists, but the exchange no longer serves it\.$/,
  );
  assert.deepEqual(await notesOf(...inside), []);
  await startsWith('history begins');
  assert.deepEqual(await notesOf('--from', 'start'), []);
});

test('a span with gaps is refused by an exit code of its own, with what can be done', async (t) => {
  const { url } = await openAnalystWorld();
  const folder = await makeFolder(t);
  const path = join(folder, 'a.csv');
  const args = ['--kind', 'trades', '--market', 'BTC_USDT', '--out', path];
  const refused = await run(url, ...args);
  assert.equal(refused.code, 8, refused.err);
  assert.match(refused.err, /not complete for BTC_USDT; nothing was written/);
  assert.match(
    refused.err,
    /2026-01-15 14:10:00 +2026-01-15 14:20:00 +10m +unfillable +beyond history/,
  );
  assert.match(refused.err, /--allow-gaps/);
  assert.deepEqual(await namesIn(folder), []);
  const within = (from: string, to: string, ...more: readonly string[]) =>
    run(url, ...args, '--from', `2026-01-15T${from}Z`, '--to', `2026-01-15T${to}Z`, ...more);
  const tail = await within('15:00:00', '17:00:00');
  assert.equal(tail.code, 8);
  assert.match(tail.err, /--to 2026-01-15T16:00:00.000Z is what is covered of it, 1h$/m);
  assert.match(
    tail.err,
    /Newer than all that is collected, which ends at 2026-01-15 16:00:00\.\n {2}A daemon that/,
  );
  const delist = (at: string) => runSql(url, `UPDATE market SET delisted_at = ${at}`);
  await delist("'2026-01-15 16:00Z'");
  const left = await within('15:00:00', '17:00:00');
  assert.equal((await within('15:00:00', '17:00:00', '--allow-gaps')).code, 0);
  const { markets } = JSON.parse(await readFile(`${path}.manifest.json`, 'utf8'));
  assert.deepEqual(markets[0].gaps.list, [
    {
      ...{ from: '2026-01-15T16:00:00.000Z', to: '2026-01-15T17:00:00.000Z' },
      ...{ state: 'not listed', reason: 'delisted' },
    },
  ]);
  for (const made of [path, `${path}.manifest.json`]) await rm(made);
  // What is whole need not be right.
  await runSql(
    url,
    `INSERT INTO candle_check (market_id, interval_s, span, outcome, detail, next_try_at)
     SELECT market_id, 60, '[2026-01-15 12:10Z, 2026-01-15 12:11Z)', 'mismatch', '{}', 'infinity'
     FROM market WHERE name = 'BTC_USDT'`,
  );
  const noted = await within('12:00:00', '13:00:00');
  assert.equal(noted.code, 0, noted.err);
  const note =
    'Candles and trades of BTC_USDT contradict each other in 1 slot of this time range: "tapekeep verify" names them.';
  assert.ok(noted.err.includes(note), noted.err);
  assert.ok(JSON.parse(await readFile(`${path}.manifest.json`, 'utf8')).notes.includes(note));
  const beside = await within('12:30:00', '13:00:00', '--force');
  assert.doesNotMatch(beside.err, /contradict/);
  await runSql(url, "DELETE FROM candle_check WHERE outcome = 'mismatch'");
  for (const made of [path, `${path}.manifest.json`]) await rm(made);
  assert.match(left.err, /not listed +delisted\n/);
  assert.match(left.err, /Wait until the exchange lists BTC_USDT again\./);
  assert.doesNotMatch(tail.err, /tapekeep gaps fill|tapekeep backfill/);
  const head = await within('11:00:00', '13:00:00');
  assert.match(head.err, /--from 2026-01-15T12:00:00.000Z --to 2026-01-15T13:00:00.000Z is what/);
  assert.match(head.err, /tapekeep gaps fill --market BTC_USDT/);
  assert.doesNotMatch(head.err, /tapekeep backfill/);
  // Several pieces are whole: the last one can be copied, and the longest.
  const pieces = await within('12:00:00', '17:00:00', '--clamp');
  const [, last, longest] = [
    ...(/(--from \S+ --to \S+) is the last .*, 1h 30m\n *(--from \S+ --to \S+) is the longest one, 2h 10m\n/.exec(
      pieces.err,
    ) ?? assert.fail(pieces.err)),
  ];
  for (const [at, piece] of [last, longest].entries()) {
    const out = join(folder, `${at}.csv`);
    const copied = [...args.slice(0, -1), out, ...String(piece).split(' ')];
    assert.equal((await run(url, ...copied)).code, 0);
    await rm(out);
    await rm(`${out}.manifest.json`);
  }
  // Nothing of it is covered, in two pieces that are remembered apart: no span would do.
  await runSql(
    url,
    `INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at)
     SELECT stream_id, 1, '["2026-01-15 09:00Z","2026-01-15 10:00Z")', 'unfillable', 'beyond history', now()
     FROM stream WHERE kind = 'trades' AND market_id = 1`,
  );
  const none = await within('09:00:00', '11:00:00');
  assert.equal(none.code, 8);
  assert.doesNotMatch(none.err, /where coverage does|^ +--from/m);
  assert.equal((await within('09:00:00', '11:00:00', '--clamp')).code, 8);
  // Only the ends move: what is missing between them is still refused.
  assert.match(head.err, /--clamp/);
  assert.equal((await within('11:00:00', '15:00:00', '--clamp')).code, 8);
  assert.equal((await within('11:00:00', '13:00:00', '--clamp', '--force')).code, 0);
  const [part] = JSON.parse(await readFile(`${path}.manifest.json`, 'utf8')).markets;
  assert.deepEqual([part.from, part.to], ['2026-01-15T12:00:00.000Z', '2026-01-15T13:00:00.000Z']);
  const hole = await within('14:12:00', '14:15:00', '--allow-gaps', '--force');
  assert.match(
    hole.err,
    /^BTC_USDT: no trades from .*; "tapekeep gaps explain BTC_USDT trades 2026/m,
  );
  // Ends that lie in a gap move out of it.
  for (const [asked, written] of [
    [
      ['14:15:00', '15:00:00'],
      ['14:30:00', '15:00:00'],
    ],
    [
      ['13:00:00', '14:15:00'],
      ['13:00:00', '14:10:00'],
    ],
  ] as const) {
    const inside = await within(asked[0], asked[1], '--clamp', '--force');
    assert.equal(inside.code, 0, inside.err);
    const [one] = JSON.parse(await readFile(`${path}.manifest.json`, 'utf8')).markets;
    const times = written.map((time) => `2026-01-15T${time}.000Z`);
    assert.deepEqual([one.from, one.to], times);
  }
  const book = ['--kind', 'depth', '--market', 'BTC_USDT', '--out', path];
  const unseen = await run(url, ...book, '--force');
  assert.equal(unseen.code, 8);
  assert.doesNotMatch(unseen.err, /gaps fill|backfill/);
  // What was never expected is no gap that another command lists: the advice follows from the state of the piece.
  const before = async () => await within('11:00:00', '13:00:00', '--force');
  await runSql(
    url,
    `UPDATE stream SET (collect_from, start_reason) = ('2026-01-15 12:00Z', 'history begins')
     WHERE kind = 'trades' AND market_id = 1`,
  );
  const older = (await before()).err;
  assert.match(older, /12:00:00 +1h +before history +beyond history\n/);
  assert.match(older, /The exchange's history starts at 2026-01-15 12:00:00\./);
  assert.doesNotMatch(older, /tapekeep gaps fill|backfill/);
  await runSql(
    url,
    `UPDATE stream SET start_reason = NULL WHERE kind = 'trades' AND market_id = 1`,
  );
  assert.match(
    (await before()).err,
    /tapekeep backfill --market BTC_USDT --kinds trades --from 2026-01-15T11:00:00.000Z --to 2026-01-15T12/,
  );
  await runSql(
    url,
    `INSERT INTO partition_state (table_name, span, state)
     VALUES ('trade', '[2026-01-14 11:00Z, 2026-01-15 11:30Z)', 'expired')`,
  );
  const both = (await before()).err;
  assert.match(both, /11:30:00 +30m +expired .*\n.*12:00:00 +30m +before collecting/);
  assert.match(both, /Expired: retention deletes all before 2026-01-15 11:30:00\./);
  await runSql(url, `DELETE FROM partition_state WHERE state = 'expired'`);
  const allowed = await run(url, ...args, '--allow-gaps', '--force');
  assert.equal(allowed.code, 0, allowed.err);
  assert.match(allowed.err, /2 gaps in it; the manifest lists them/);
});

test('a whole span is offered however many gaps there are', async (t) => {
  const { url } = await openAnalystWorld();
  await runSql(
    url,
    `INSERT INTO coverage (stream_id, market_id, span, evidence)
     SELECT stream_id, 1, tstzrange(at, at + interval '100 ms'), '{}'
     FROM stream, generate_series('2026-01-15 09:00Z'::timestamptz, '2026-01-15 09:40Z', '200 ms') AS at
     WHERE kind = 'trades' AND market_id = 1`,
  );
  const path = join(await makeFolder(t), 'a.csv');
  const refused = await run(url, '--kind', 'trades', '--market', 'BTC_USDT', '--out', path);
  assert.equal(refused.code, 8);
  assert.match(refused.err, /… and 11,98\d more; /);
  assert.match(refused.err, /is the last time range of it without a gap, 1h 30m$/m);
});

test('a length of candles of which none is complete yet is named, and what there is instead', async (t) => {
  const { url, store } = await openAnalystWorld();
  const path = join(await makeFolder(t), 'days.csv');
  await store.ensureStream({ kind: 'candles', marketId: 1, variant: 86_400 });
  const days = ['--market', 'BTC_USDT', '--interval', '1d', '--from', '3650d', '--clamp'];
  const refused = await run(url, '--kind', 'candles', '--out', path, ...days);
  assert.equal(refused.code, 2);
  assert.match(
    refused.err,
    /--interval: "1d".*no candle of 1d of BTC_USDT is complete yet; there are some of 1h/,
  );
});

test('a candle whose time has not ended is said to be incomplete, and until when', async () => {
  const { url, store } = await openAnalystWorld();
  await runSql(
    url,
    `INSERT INTO archive (name, base_url, is_sandbox) VALUES ('A', 'http://a.test', true)`,
  );
  await store.notePresent(() => ({ presentMs: Date.parse('2026-01-15T16:30:00Z'), pace: 1 }));
  const hours = ['--kind', 'candles', '--interval', '1h', '--market', 'BTC_USDT'];
  const refused = async (from: string, to: string) => {
    const span = ['--from', `2026-01-15T${from}Z`, '--to', `2026-01-15T${to}Z`];
    const { code, err } = await run(url, ...hours, ...span);
    assert.equal(code, 8, err);
    return err;
  };
  const OPEN = /^ +The candle of 1h ends at 2026-01-15 17:00:00\.$/m;
  const running = await refused('16:00:00', '16:30:00');
  assert.match(running, OPEN);
  assert.doesNotMatch(running, /gaps fill/);
  assert.match(await refused('15:00:00', '16:30:00'), OPEN);
  assert.doesNotMatch(await refused('11:00:00', '13:00:00'), /The candle of/);
  const explain = ['gaps', 'explain', 'BTC_USDT', 'candles', '2026-01-15T16:20:00Z'];
  const { out } = await runCommand(explain, { TAPEKEEP_DATABASE_URL: url });
  assert.match(
    out,
    /^candles 1h of BTC_USDT\n.*\n {2}later: not collected\n {2}The candle of 1h ends at/m,
  );
});

test('wrong arguments are refused by name, before anything is written', async (t) => {
  const { url } = await openAnalystWorld();
  const folder = await makeFolder(t);
  const path = join(folder, 'a.csv');
  await writeFile(path, 'mine');
  const trades = ['--kind', 'trades', ...HOUR];
  for (const [args, said] of [
    [['--kind', 'trade5'], /There is no kind "trade5".*Did you mean "trades"/],
    [[], /required option '--kind/],
    [[...trades, '--market', 'BTC_USDT,ETH_USDT'], /--market.*: name one with each --market/],
    [[...trades, '--market', 'BTC_USD'], /--market.*"BTC_USD".*Did you mean BTC_USDT\?/],
    [[...trades, '--format', 'parket'], /There is no format "parket".*Did you mean "parquet"/],
    [['--kind', 'candles', '--interval', '60', '--market', 'BTC_USDT'], /--interval.*"60".*1h/],
    [['--kind', 'candles', '--interval', '7m', '--market', 'BTC_USDT'], /--interval: "7m".*1h/],
    [['--kind', 'candles', '--interval', 'soon'], /Write a length such as 1m/],
    [['--kind', 'candles', '--market', 'ETH_USDT'], /none of ETH_USDT/],
    [[...trades, '--interval', '1m'], /--interval: "1m".*only candles/],
    [['--kind', 'trades', '--from', '1h', '--to', '2h'], /--from.*must be before --to/],
    [['--kind', 'trades', '--from', '2026-02-30'], /--from.*2026-02-30/],
    [[...trades, '--market', 'BTC_USDT', '--out', path], /a\.csv: it is there already; --force/],
    [[...trades, '--market', 'BTC_USDT', '--out', folder], /it is a folder/],
    [
      [...trades, '--market', 'BTC_USDT', '--out', join(folder, 'b.xlsx')],
      /--out: ".*b\.xlsx" .*\.xlsx is the ending of no format.*\.csv, \.ndjson, \.parquet, \.jsonl.*--format/,
    ],
    [[...trades, '--market', 'BTC_USDT', '--out', join(folder, 'no/a')], /folder does not exist/],
    [
      [...trades, '--out', join(folder, 'b.csv'), '--manifest', join(folder, '.', 'b.csv')],
      /b\.csv: the data go there; name another file for the manifest/,
    ],
    [
      [...trades, '--out', path, '--force', '--manifest', path],
      /a\.csv: the data go there; name another file for the manifest/,
    ],
    [
      [...trades, '--out', join(folder, 'b.csv'), '--manifest', join(folder, 'no/m.json')],
      /no\/m\.json: its folder does not exist/,
    ],
    [
      [...trades, '--out', join(folder, 'b.csv'), '--manifest', folder, '--force'],
      /it is a folder; name a file for the manifest/,
    ],
  ] as const) {
    const refused = await run(url, ...args);
    assert.equal(refused.code, 2, args.join(' ') + refused.out + refused.err);
    assert.match(refused.err, said);
  }
  for (const [name, ...more] of [['b.xlsx', '--format', 'csv'], ['b']] as const) {
    const out = join(folder, name);
    const named = await run(url, ...trades, '--market', 'BTC_USDT', '--out', out, ...more);
    assert.equal(named.code, 0, named.err);
    assert.match(await readFile(out, 'utf8'), /^market,traded_at,tid,/);
    for (const made of [out, `${out}.manifest.json`]) await rm(made);
  }
  const full = await run(url, ...trades, '--market', 'BTC_USDT', '--out', '/dev/full');
  assert.equal(full.code, 1);
  assert.match(full.err, /no space is left for \/dev\/full/);
  assert.equal(await readFile(path, 'utf8'), 'mine');
  assert.deepEqual(await namesIn(folder), ['a.csv']);
});

test('a reader that has seen enough is no failure, and nothing stays behind', async (t) => {
  const { url } = await openTradeArchive({ A_B: awkwardTrades(20_000) });
  const scratch = await makeFolder(t);
  for (const format of ['csv', 'parquet']) {
    const command = `"${process.execPath}" "${MAIN}" export --kind trades --format ${format} 2>/dev/null | head -c 4`;
    const child = spawn('bash', ['-c', `set -o pipefail; ${command}`], {
      env: { PATH: process.env.PATH, TAPEKEEP_DATABASE_URL: url, TMPDIR: scratch },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const seen: Buffer[] = [];
    child.stdout.on('data', (piece: Buffer) => seen.push(piece));
    const [code] = await once(child, 'close');
    assert.deepEqual(
      [code, Buffer.concat(seen).toString()],
      [0, format === 'csv' ? 'mark' : 'PAR1'],
    );
    assert.deepEqual(await namesIn(scratch), []);
  }
});

test('stopped or killed in the middle: what was there before stays', async (t) => {
  const { url } = await openTradeArchive({ A_B: awkwardTrades(100) });
  const path = join(await makeFolder(t), 'a.parquet');
  await assertKeptWhenStopped(t, url, path, ['--kind', 'trades', '--out', path]);
});
