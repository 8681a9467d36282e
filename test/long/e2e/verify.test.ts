import assert from 'node:assert/strict';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import pg from 'pg';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { runCommand } from '../../support/programs/commands.js';
import { Program, startSandbox } from '../../support/programs/program.js';
import { archiveDay } from '../../support/worlds/cold-world.js';
import { DAYS, openDaysWorld } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** What a person sees of an archive that was collected truly, and then tampered with. */

const MARKET = 'BTC_USDT';

interface Document {
  readonly isProven: boolean;
  readonly markets: ReadonlyArray<{
    readonly market: string;
    readonly intervals: ReadonlyArray<{ intervalS: number; slots: number; matches: number }>;
    readonly mismatches: ReadonlyArray<{
      readonly from: string;
      readonly differences: ReadonlyArray<{ figure: string; trades: string; candle: string }>;
      readonly tradeIds: readonly number[] | null;
    }>;
    readonly gaps: readonly unknown[];
  }>;
}

/** An archive with a quarter of an hour of a market in it, all judged; its daemon has ended. */
async function collect(t: TestContext): Promise<Record<string, string>> {
  const databaseUrl = await makeDatabase('empty');
  const { program, ready } = await startSandbox(['--seed', '11']);
  t.after(() => program.dispose());
  const env = {
    TAPEKEEP_DATABASE_URL: databaseUrl,
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
    TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '50',
    TAPEKEEP_MARKETS: MARKET,
    TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '60',
    TAPEKEEP_HTTP_PORT: '0',
  };
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], { env });
  t.after(() => daemon.dispose());
  await daemon.until(async () => {
    const rows = await runSql<{ minutes: number }>(
      databaseUrl,
      `SELECT coalesce(sum(extract(epoch FROM upper(span) - lower(span)) / 60), 0)::int AS minutes
       FROM candle_check WHERE outcome = 'match'`,
    ).catch(() => []);
    return (rows[0]?.minutes ?? 0) >= 10;
  });
  // Of the minute in which history begins it may take some more looks to know that it has no candle.
  await daemon.until(async () => (await verify(env)).code === 0);
  const wrong = await runSql(databaseUrl, "SELECT 1 FROM candle_check WHERE outcome <> 'match'");
  assert.deepEqual(wrong, []);
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
  return env;
}

function verify(env: Readonly<Record<string, string>>, ...args: string[]) {
  return runCommand(['verify', ...args], env);
}

/** Ctrl-C while it works, which here waits for a lock: it tells what it has, as a part. */
async function assertInterrupted(
  t: TestContext,
  env: Readonly<Record<string, string>>,
  args: readonly string[],
) {
  const client = new pg.Client({ connectionString: env.TAPEKEEP_DATABASE_URL });
  await client.connect();
  try {
    await client.query('BEGIN; LOCK TABLE candle_check IN ACCESS EXCLUSIVE MODE');
    const program = new Program(['verify', ...args], { env });
    t.after(() => program.dispose());
    const isWaiting = `SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'candle_check'::regclass`;
    while ((await client.query(isWaiting)).rowCount === 0);
    program.kill('SIGINT');
    await client.query('ROLLBACK');
    assert.equal((await program.ended()).code, 130, program.dump());
    const out = program.text('stdout');
    if (args.length === 0) assert.match(out, /^Interrupted: the figures above are only a part\.$/m);
    else {
      const { isWhole, isProven } = JSON.parse(out) as Document & { readonly isWhole: boolean };
      assert.deepEqual([isWhole, isProven], [false, false]);
    }
  } finally {
    await client.end();
  }
}

/** Files have no zeros at the end of a number. */
const shortened = (json: string) =>
  JSON.parse(json, (_, value: unknown) =>
    typeof value === 'string' ? value.replace(/^(\d+)(?:\.|(\.\d*[1-9]))0*$/, '$1$2') : value,
  ) as Document;

test('archived time is judged like any other', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const env = { TAPEKEEP_DATABASE_URL: place.url, TAPEKEEP_COLD_DIR: place.coldDir };
  const day = ['--market', 'BTC_USD', '--from', DAYS[0], '--to', DAYS[1]];
  const hot = await verify(env, ...day, '--json');
  const said = shortened(hot.out);
  assert.ok((said.markets[0]?.mismatches.length ?? 0) > 0, 'candles contradict trades there');
  await archiveDay(place, 'trades', DAYS[0]);
  await archiveDay(place, 'candles', DAYS[0]);
  await runSql(place.url, 'DELETE FROM candle_check; DELETE FROM candle_recheck');
  const archived = await verify(env, ...day, '--json');
  assert.deepEqual([archived.code, archived.err], [6, '']);
  assert.deepEqual(shortened(archived.out), said);
  assert.match((await verify(env, ...day)).out, /MISMATCH 2026-01-14 01:00:00 \(1m\): /);
  const handed = await runSql(place.url, "SELECT 1 FROM candle_check WHERE outcome = 'mismatch'");
  assert.deepEqual(handed, [], 'the daemon is not asked to fetch archived time again');
  const all = JSON.parse((await verify(env, '--json')).out) as Document;
  assert.ok(all.markets[0]?.mismatches.some(({ from }) => from.startsWith(DAYS[0])));

  const lost = { ...env, TAPEKEEP_COLD_DIR: join(place.coldDir, 'elsewhere') };
  const refused = await verify(lost, ...day);
  assert.equal(refused.code, 1);
  assert.match(refused.err, /manifests.* is not there, though the archive counts on it/);
  const later = await verify(lost, '--market', 'BTC_USD', '--from', DAYS[1], '--to', DAYS[2]);
  assert.equal(later.code, 6, later.err);
  // No file holds what lies before the history of a market.
  await runSql(
    place.url,
    `WITH asked AS (UPDATE stream SET collect_from = '2026-01-14Z'),
     given AS (
       UPDATE coverage c SET span = c.span * tstzrange('2026-01-14 12:00Z', NULL)
       FROM stream s JOIN market m USING (market_id)
       WHERE m.name = 'BTC_USD' AND s.stream_id = c.stream_id AND s.kind = 'trades')
     INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at, attempts)
     SELECT s.stream_id, s.market_id, '[2026-01-14, 2026-01-14 12:00Z)', 'unfillable', 'beyond history', now(), 1
     FROM stream s JOIN market m USING (market_id) WHERE m.name = 'BTC_USD' AND s.kind = 'trades'`,
  );
  const early = `  UNPROVEN 2026-01-14 00:00:00 – 2026-01-14 12:00:00 (1m): before the exchange's history starts`;
  const begun = await verify(env, ...day);
  assert.ok(begun.out.includes(early), begun.out);
});

test('a market of which no slot can be judged yet is named, and is not proven', async (t) => {
  const { url } = await openDaysWorld(await makeFolder(t));
  const env = { TAPEKEEP_DATABASE_URL: url };
  await runSql(
    url,
    `DELETE FROM coverage c USING stream s JOIN market m USING (market_id)
     WHERE m.name = 'BTC_USD' AND s.stream_id = c.stream_id`,
  );
  await runSql(url, `DELETE FROM gap`);
  const { code, out } = await verify(env, '--market', 'BTC_USD');
  assert.equal(code, 6, out);
  const said = 'no whole slot of it is collected';
  assert.equal(
    out,
    `BTC_USD\n  nothing is collected that could be judged\nNothing to judge of BTC_USD so far: ${said}.`,
  );
  const document = JSON.parse((await verify(env, '--market', 'BTC_USD', '--json')).out) as Document;
  assert.equal(document.isProven, false);
  const early = await verify(env, '--market', 'BTC_USD', '--to', '2026-01-01');
  assert.match(early.out, /^Nothing to judge of BTC_USD in this time: /m);
  // A gap is named all the same.
  await runSql(
    url,
    `WITH asked AS (UPDATE stream SET collect_from = '2026-01-14Z')
     INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at, attempts)
     SELECT s.stream_id, s.market_id, '[2026-01-14, 2026-01-15)', 'open', 'exchange failed', now(), 1
     FROM stream s JOIN market m USING (market_id) WHERE m.name = 'BTC_USD' AND s.kind = 'trades'`,
  );
  const missing = await verify(env, '--market', 'BTC_USD');
  assert.match(missing.out, /^ {2}GAP 2026-01-14 .* \(trades\): exchange failed$/m);
  assert.match(missing.out, /^Not proven: BTC_USD\.$/m);
});

test('a slot called quiet where history begins is named, as long as its rows are in the database', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const env = { TAPEKEEP_DATABASE_URL: place.url, TAPEKEEP_COLD_DIR: place.coldDir };
  const [first] = await runSql<{ at: Date }>(
    place.url,
    `SELECT date_trunc('minute', min(traded_at)) AS at
     FROM trade JOIN market USING (market_id) WHERE name = 'BTC_USD'`,
  );
  assert.ok(first !== undefined);
  await runSql(
    place.url,
    `WITH own AS (SELECT market_id FROM market WHERE name = 'BTC_USD'),
     quiet AS (DELETE FROM kline USING own WHERE kline.market_id = own.market_id AND open_at = $1::timestamptz)
     UPDATE coverage c SET span = tstzrange($1::timestamptz + interval '59 seconds', upper(c.span))
     FROM stream s JOIN own USING (market_id)
     WHERE s.stream_id = c.stream_id AND s.kind = 'trades' AND c.span @> $1::timestamptz`,
    [first.at],
  );
  const at = first.at.toISOString().slice(0, 19).replace('T', ' ');
  const named = await verify(env, '--market', 'BTC_USD');
  assert.equal(named.code, 6, named.err);
  assert.match(named.out, new RegExp(`MISMATCH ${at} \\(1m\\): \\d+ trades, but no candle`));
  const [row] = await runSql(place.url, 'SELECT 1 FROM candle_check WHERE lower(span) = $1', [
    first.at,
  ]);
  assert.ok(row !== undefined, 'the daemon is asked to fetch it again');
  await archiveDay(place, 'trades', DAYS[0]);
  const cold = await verify(env, '--market', 'BTC_USD');
  assert.doesNotMatch(cold.out, new RegExp(`MISMATCH ${at} .*no candle`));
});

test('what verify tells of an archive', async (t) => {
  const env = await collect(t);

  await t.test('a true archive is proven; a trade lost, altered or added is named', async () => {
    const url = env.TAPEKEEP_DATABASE_URL ?? '';
    const whole = await verify(env);
    assert.equal(whole.code, 0, whole.out + whole.err);
    assert.match(whole.out, /^Proven: candles and stored trades agree \(\d+ slots\)/m);

    const [victim] = await runSql<{ tid: string; minute: Date }>(
      url,
      `SELECT tid, date_trunc('minute', traded_at) AS minute FROM trade t
       WHERE traded_at <@ (SELECT span FROM candle_check) ORDER BY tid OFFSET 20 LIMIT 1`,
    );
    assert.ok(victim !== undefined);
    const { tid } = victim;
    await runSql(url, 'CREATE TABLE before_tampering AS SELECT * FROM trade');
    const tamperings: ReadonlyArray<readonly [string, string, boolean]> = [
      [`DELETE FROM trade WHERE tid = ${tid}`, 'volume', false],
      [`UPDATE trade SET amount = amount + 0.00000001 WHERE tid = ${tid}`, 'volume', true],
      [
        `UPDATE trade SET price = price * 2, total = total * 2 WHERE tid = ${tid}`,
        'quoteVolume',
        true,
      ],
      [
        `INSERT INTO trade (market_id, traded_at, tid, side, price, amount, total, received_at)
         SELECT market_id, traded_at, 9007199254740000, side, price, amount, total, received_at
         FROM trade WHERE tid = ${tid}`,
        'volume',
        true,
      ],
    ];
    for (const [sql, figure, isThere] of tamperings) {
      await runSql(url, sql);
      const { code, out, err } = await verify(env, '--json', '--market', MARKET);
      assert.equal(code, 6, sql + out + err);
      const document = JSON.parse(out) as Document;
      assert.equal(document.isProven, false);
      const [found, ...others] = document.markets[0]?.mismatches ?? [];
      assert.deepEqual(others, [], 'no other minute is doubted');
      assert.equal(found?.from, victim.minute.toISOString());
      const difference = found?.differences.find((one) => one.figure === figure);
      assert.ok(difference !== undefined && difference.trades !== difference.candle);
      assert.equal(found?.tradeIds?.includes(Number(tid)), isThere);
      const told = await verify(env);
      assert.match(told.out, new RegExp(`MISMATCH .* \\(1m\\): .*${figure}: trades .*, candle .*`));
      assert.match(told.out, /Not proven: BTC_USDT\./);
      await runSql(
        url,
        'SET session_replication_role = replica; TRUNCATE trade; INSERT INTO trade SELECT * FROM before_tampering',
      );
    }
    assert.equal((await verify(env)).code, 0, 'all is as it was');
  });

  await t.test('what is not covered is doubt; wrong arguments are refused by name', async (t) => {
    const early = await verify(env, '--from', '2h');
    assert.equal(early.code, 6);
    assert.match(early.out, /UNPROVEN .* before the exchange's history starts/);
    assert.doesNotMatch(early.out, /beyond history/);
    for (const [args, said] of [
      [['--market', 'BTC_USD'], /--market.*"BTC_USD".*Did you mean BTC_USDT\?/],
      [['--from', '1h', '--to', '2h'], /--from.*must be before --to/],
      [['--from', '2099-01-01'], /--from.*must be before the exchange's time now/],
      [['--from', 'yesterday'], /--from.*yesterday.*2026-01-31/],
      [['--to', '2026-02-30'], /--to.*2026-02-30/],
      [['--from', '0s'], /--from.*must be before the exchange's time now/],
      [['--from', '5m', '--to', '5m'], /--from.*must be before --to/],
    ] as const) {
      const refused = await verify(env, ...args);
      assert.equal(refused.code, 2, args.join(' ') + refused.out + refused.err);
      assert.match(refused.err, said);
    }
    // The ends of the calendar are moments like others.
    const wide = await verify(env, '--from', '0001-01-01', '--to', '9999-12-31T23:59:59.999Z');
    assert.equal(wide.code, 6, wide.err);
    assert.match(
      wide.out,
      /UNPROVEN 0001-01-01 00:00:00 – .* before the exchange's history starts/,
    );
    assert.match(wide.out, /UNPROVEN .* – \+010000-01-01 .* nothing is collected of this time/);

    for (const args of [[], ['--json']]) await assertInterrupted(t, env, args);
  });

  await t.test(
    'a running daemon fetches again what verify found lost, and then it adds up',
    async (t) => {
      const url = env.TAPEKEEP_DATABASE_URL ?? '';
      const lost = await runSql<{ tid: string; minute: Date }>(
        url,
        `DELETE FROM trade WHERE tid = (
         SELECT tid FROM trade WHERE traded_at <@ ANY (SELECT span FROM candle_check WHERE outcome = 'match')
         ORDER BY tid DESC OFFSET 30 LIMIT 1)
         RETURNING tid, date_trunc('minute', traded_at) AS minute`,
      );
      assert.equal((await verify(env)).code, 6);
      const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
        env,
      });
      t.after(() => daemon.dispose());
      await daemon.until(async () => {
        const suspects = await runSql<{ kind: string; state: string; note: string }>(
          url,
          `SELECT kind, state, note FROM gap JOIN stream USING (stream_id)
           WHERE reason = 'suspect' AND kind IN ('trades', 'candles') AND lower(span) = $1
           ORDER BY kind`,
          [lost[0]?.minute],
        );
        const told = suspects.filter(
          ({ state, note }) => state === 'filled' && /it adds up after \d refetches/.test(note),
        );
        return told.length === 2;
      });
      const again = await runSql(url, 'SELECT 1 FROM trade WHERE tid = $1', [lost[0]?.tid]);
      assert.equal(again.length, 1);
      assert.deepEqual(
        await runSql(url, "SELECT 1 FROM candle_check WHERE outcome <> 'match'"),
        [],
      );
    },
  );
});

test('status names slots that do not match in all its forms, whatever it lists', async (t) => {
  const { url } = await openDaysWorld(await makeFolder(t));
  const env = { TAPEKEEP_DATABASE_URL: url };
  const status = async (...args: string[]) => (await runCommand(['status', ...args], env)).out;
  assert.doesNotMatch(await status(), /^Mismatch/m);
  assert.equal((await verify(env)).code, 6);
  const { archive } = JSON.parse(await status('--json'));
  const countOf = (market: string, intervalS: number): string =>
    archive.streams.find(
      (one: Record<string, unknown>) =>
        one.market === market && one.kind === 'candles' && one.intervalS === intervalS,
    ).mismatches;
  const [short, long] = [countOf('BTC_USD', 60), countOf('BTC_USD', 3600)];
  const named = `Mismatch: stored trades do not match the candles of ${short} slots of 1m of BTC_USD, ${long} slots of 1h of BTC_USD; "tapekeep verify" lists them`;
  for (const form of [[], ['--summary'], ['--worst', '1'], ['--kind', 'trades']]) {
    const lines = (await status('--market', 'BTC_USD', ...form)).split('\n');
    assert.deepEqual(
      lines.filter((line) => line.startsWith('Mismatch')),
      [named],
      form.join(' '),
    );
  }
  assert.match(
    await status('--summary'),
    /(s of \d+\w of .*){3}, 1 more stream; "tapekeep verify"/,
  );
  assert.doesNotMatch(await status('--kind', 'depth'), /^Mismatch/m);
  const trades = JSON.parse(await status('--kind', 'trades', '--json'));
  assert.equal(trades.archive.mismatches, archive.mismatches);
});
