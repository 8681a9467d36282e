import assert from 'node:assert/strict';
import test, { suite } from 'node:test';
import { isCovered } from '../../support/exchanges/recorded.js';
import { openTestStore, runSql } from '../../support/postgres/postgres.js';
import { claim, marketOf, NOON_S } from '../../support/postgres/postgres-rows.js';
import { runCommand } from '../../support/programs/commands.js';
import type { Program } from '../../support/programs/program.js';
import { at, START_S, TAPE_MARKET, TapeProgram } from '../../support/programs/tape-program.js';

/**
 * A span of the past that nobody collects is fetched on request, whoever does the work and whatever
 * interrupts it; what cannot be had is told with its reason.
 */

const FROM_S = 60;
const TO_S = 360;
const SPAN = ['--from', at(FROM_S), '--to', at(TO_S)];
const BACKFILL = ['backfill', '--market', TAPE_MARKET, ...SPAN];

async function assertWhole(world: TapeProgram): Promise<void> {
  const expected = world.idsBetween(FROM_S, TO_S);
  assert.deepEqual(await world.storedBetween(FROM_S, TO_S), expected);
  for (const kind of ['trades', 'candles']) {
    const [fromMs, toMs] = [(START_S + FROM_S) * 1000, (START_S + TO_S) * 1000];
    assert.ok(await isCovered(world.databaseUrl, kind, fromMs, toMs), kind);
  }
}

/** Requests that one endpoint got since the rules were set. */
async function requestsOf(world: TapeProgram): Promise<Record<string, number>> {
  const { result } = await world.faults('GET');
  return Object.fromEntries(result.report.map(({ rule, fired }) => [rule, fired]));
}

const counting = (where: string, ms = 0) => ({ id: where, kind: 'latency', where, ms });

/** Resolves when the program has committed so many times. */
async function commits(program: Program, count: number): Promise<void> {
  let left = count;
  await program.line((line) => {
    if (line.includes('"committed"')) left -= 1;
    return left === 0;
  });
}

/** Lines with this text that were printed so far. */
function countOf(program: Program, text: string): number {
  const { stdout, stderr } = program.lines;
  return [...stdout, ...stderr].filter((line) => line.includes(text)).length;
}

/** Most of their time they wait. */
suite('backfill', { concurrency: 3 }, () => {
  test('without a daemon the command does the work, and a second time finds it done', async (t) => {
    const world = await TapeProgram.make(t, 21, 'empty');
    await world.openExchange(420);
    const first = await world.run(...BACKFILL);
    assert.equal(first.code, 0, first.out + first.err);
    assert.match(first.err, /this program does the work itself/);
    assert.match(first.err, /^\d+(\.\d)?%, [\d,]+ rows/m);
    assert.match(first.out, /BTC_USDT trades .*: 100% covered/);
    assert.match(first.out, /BTC_USDT candles 1m .*: 100% covered/);
    assert.match(first.out, /Complete after .+\. [\d,]+ rows were added\./);
    await assertWhole(world);

    await world.faults(
      'PUT',
      ['historyResult', 'history', 'kline'].map((where) => counting(where)),
    );
    const second = await world.run(...BACKFILL, '--json');
    assert.equal(second.code, 0, second.out + second.err);
    const document = JSON.parse(second.out) as { isWhole: boolean; streams: object[] };
    assert.equal(document.isWhole, true);
    assert.equal(document.streams.length, 2);
    const { historyResult, history, kline } = await requestsOf(world);
    assert.ok((historyResult ?? 9) <= 1 && (history ?? 9) <= 1, 'no more than a look at the head');
    assert.equal(kline, 0);
  });

  test('only what was requested is filled, however much history the settings want', async (t) => {
    const world = await TapeProgram.make(t, 28, 'empty');
    await world.openExchange(420, '--page-cap', '100');
    const settings = { TAPEKEEP_STREAMS_TRADES_HISTORY: 'all' };
    const early = ['--from', at(100), '--to', at(130), '--kinds', 'trades'];
    const filling = world.start(['backfill', '--market', TAPE_MARKET, ...early], settings);
    assert.equal((await filling.ended()).code, 0, filling.dump());
    assert.deepEqual(await world.storedBetween(100, 130), world.idsBetween(100, 130));
    // The search for its place leaves pages here and there.
    const newer = await world.storedBetween(130, 400);
    assert.ok(newer.length < world.idsBetween(130, 400).length / 2, `${newer.length} newer trades`);
  });

  test('what retention gave up is not asked for again, and is named as given up', async (t) => {
    const world = await TapeProgram.make(t, 27, 'empty');
    await world.openExchange(420);
    assert.equal((await world.run(...BACKFILL)).code, 0);
    const today = at(0).slice(0, 10);
    const before = new Date(Date.parse(today) - 1).toISOString();
    await runSql(world.databaseUrl, `SELECT make_partition('trade', '${before}')`);
    await runSql(world.databaseUrl, `SELECT expire_partition('trade', '${before}')`);
    const asked = ['backfill', '--market', TAPE_MARKET, '--from', before, '--to', at(TO_S)];
    const refused = await world.run(...asked);
    assert.equal(refused.code, 2, refused.out + refused.err);
    assert.match(refused.err, new RegExp(`--from: .*before ${today} 00:00:00 are expired`));
    const wanted = await runSql(
      world.databaseUrl,
      `SELECT FROM wanted WHERE lower(span) < '${today}'`,
    );
    assert.deepEqual(wanted, []);
    const candles = await world.run(...BACKFILL, '--kinds', 'candles');
    assert.equal(candles.code, 0, 'another kind is kept');
    const explained = await world.run('gaps', 'explain', TAPE_MARKET, 'trades', before);
    assert.match(explained.out, new RegExp(`Expired: retention deletes all before ${today}`));
  });

  test('what is in files is not asked for before it is brought back', async (t) => {
    const world = await TapeProgram.make(t, 29, 'empty');
    await world.openExchange(420);
    assert.equal((await world.run(...BACKFILL)).code, 0);
    const today = at(0).slice(0, 10);
    const before = new Date(Date.parse(today) - 60_000).toISOString();
    await runSql(
      world.databaseUrl,
      `INSERT INTO partition_state (table_name, span, state)
       VALUES ('trade', tstzrange('${today}'::timestamptz - interval '1 day', '${today}'), 'archived')`,
    );
    const asked = ['backfill', '--market', TAPE_MARKET, '--from', before, '--to', at(TO_S)];
    const refused = await world.run(...asked);
    assert.equal(refused.code, 2, refused.out + refused.err);
    assert.match(
      refused.err,
      new RegExp(
        `--from: .* what is in files .*restore --kind trades --from ${before} --to ${today}T00`,
      ),
    );
    // All parts are named at once, and a candle that is open at the begin lies where it opened.
    const dayMs = Date.parse(today);
    const iso = (ms: number) => new Date(dayMs + ms).toISOString();
    const archive = (table: string, fromMs: number, toMs: number) =>
      runSql(
        world.databaseUrl,
        `INSERT INTO partition_state (table_name, span, state)
         VALUES ('${table}', tstzrange('${iso(fromMs)}', '${iso(toMs)}'), 'archived')`,
      );
    const HOUR_MS = 3_600_000;
    await archive('trade', -96 * HOUR_MS, -72 * HOUR_MS);
    await archive('kline', 0, 30_000);
    const wide = ['backfill', '--market', TAPE_MARKET, '--from', iso(-73 * HOUR_MS)];
    const late = ['backfill', '--market', TAPE_MARKET, '--from', iso(40_000), '--kind', 'candles'];
    const named = async (args: readonly string[]) => {
      const { code, err } = await world.run(...args, '--to', at(TO_S));
      assert.equal(code, 2, err);
      return Array.from(err.matchAll(/restore (--kind .+?)"/g), ([, part]) => part).sort();
    };
    const candles = `--kind candles --from ${iso(0)} --to ${iso(30_000)}`;
    assert.deepEqual(await named(wide), [
      candles,
      `--kind trades --from ${iso(-73 * HOUR_MS)} --to ${iso(-72 * HOUR_MS)}`,
      `--kind trades --from ${iso(-24 * HOUR_MS)} --to ${iso(0)}`,
    ]);
    assert.deepEqual(await named(late), [candles]);
    await runSql(world.databaseUrl, `DELETE FROM partition_state WHERE table_name = 'kline'`);
    // Asked for before it went there: no gap that a daemon works on.
    await runSql(
      world.databaseUrl,
      `INSERT INTO wanted (stream_id, market_id, span)
       SELECT stream_id, market_id, tstzrange('${before}', '${today}') FROM stream WHERE kind = 'trades'`,
    );
    const explained = await world.run('gaps', 'explain', TAPE_MARKET, 'trades', before);
    assert.match(
      explained.out,
      /What to do: Restore its rows first: tapekeep restore --kind trades/,
    );
    const fill = await world.run('gaps', 'fill', '--market', TAPE_MARKET, '--kind', 'trades');
    assert.match(
      fill.err,
      /Not filled: 1 gap of trades; nothing can be added to partitions that are/,
    );
    // What is given up is not lacking, unless it is tried once more; nothing brings it back.
    await runSql(
      world.databaseUrl,
      `INSERT INTO gap (market_id, stream_id, span, state, reason, first_seen_at)
       SELECT market_id, stream_id, tstzrange('${before}', '${today}'), 'unfillable', 'beyond history', now()
       FROM stream WHERE kind = 'trades'`,
    );
    const lost = await world.run('gaps', 'explain', TAPE_MARKET, 'trades', before);
    assert.match(lost.out, /; next try: none$/m);
    assert.doesNotMatch(lost.out, /restore|hourly/);
    assert.equal((await world.run(...asked, '--again')).code, 2);
    const rest = await world.run(...asked, '--kind', 'trades');
    assert.equal(rest.code, 7, rest.out + rest.err);
  });

  test('which candle is open at the begin is told by those that are stored', async (t) => {
    const world = await TapeProgram.make(t, 29);
    await world.openExchange(420);
    assert.equal((await world.run(...BACKFILL)).code, 0);
    const DAY_MS = 86_400_000;
    const dayMs = Date.parse(at(0).slice(0, 10)) - 2 * DAY_MS;
    const ofHour = (hour: number) => new Date(dayMs + hour * 3_600_000).toISOString();
    const { store } = await openTestStore({ databaseUrl: world.databaseUrl });
    const [{ marketId } = assert.fail()] = await store.inspection.streams();
    const stream = await store.ensureStream({ kind: 'candles', marketId, variant: 86_400 });
    const span = { fromMs: Date.parse(ofHour(16)), toMs: Date.parse(ofHour(16)) + DAY_MS };
    await store.commit({ claims: [{ stream, span, evidence: {} }] });
    await runSql(
      world.databaseUrl,
      `INSERT INTO partition_state (table_name, span, state)
       VALUES ('kline', tstzrange('${ofHour(-24)}', '${ofHour(0)}'), 'archived')`,
    );
    const env = { TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '86400' };
    const begun = async (hour: number) => {
      const span = ['--from', ofHour(hour), '--to', ofHour(40)];
      const args = ['backfill', '--market', TAPE_MARKET, ...span, '--kind', 'candles'];
      const program = world.start(args, env);
      await program.ended();
      return program.text('stderr');
    };
    assert.match(await begun(1), new RegExp(`--from ${ofHour(-8)} --to ${ofHour(0)}`));
    await runSql(
      world.databaseUrl,
      `UPDATE partition_state SET span = tstzrange('${ofHour(0)}', '${ofHour(16)}')
       WHERE table_name = 'kline' AND state = 'archived'`,
    );
    assert.doesNotMatch(await begun(20), /restore/);
  });

  test('a running daemon asks for nothing of a time that its retention gives up meanwhile', async (t) => {
    const world = await TapeProgram.make(t, 28);
    await world.openExchange(420);
    const keeping = { TAPEKEEP_RETENTION_TRADES: '1d', TAPEKEEP_PARTITIONS_EVERY: '1s' };
    const daemon = await world.startDaemon(keeping);
    const failing = { kind: 'status', after: 1 };
    await world.faults('PUT', [
      { ...failing, where: 'history' },
      { ...failing, where: 'historyResult' },
    ]);
    const DAY_S = 86_400;
    const keptFrom = at(-DAY_S).slice(0, 10);
    const given = at(-DAY_S * 2);
    await runSql(
      world.databaseUrl,
      `INSERT INTO wanted (stream_id, market_id, span)
       SELECT stream_id, market_id, tstzrange($1, $2) FROM stream WHERE kind = 'trades'`,
      [given, at(FROM_S)],
    );
    /** Kinds with a memory of why their time is missing, by where it begins. */
    const missing = async (reason: string) =>
      await runSql<{ kind: string; isKept: boolean }>(
        world.databaseUrl,
        `SELECT DISTINCT kind, lower(span) >= $2 AS "isKept" FROM gap JOIN stream USING (stream_id)
         WHERE reason = $1 AND state <> 'filled' AND lower(span) < $3 ORDER BY kind`,
        [reason, keptFrom, at(0)],
      );
    await daemon.until(async () => (await missing('exchange failed')).length === 1);
    await runSql(world.databaseUrl, `SELECT make_partition('trade', '${given}')`);
    await daemon.until(async () => {
      const expired = await runSql(
        world.databaseUrl,
        `SELECT FROM partition_state WHERE table_name = 'trade' AND state = 'expired'`,
      );
      return expired.length === 1;
    });
    await world.faults('DELETE');
    await daemon.until(async () => (await missing('beyond history')).length === 1);
    assert.deepEqual(await missing('beyond history'), [{ kind: 'trades', isKept: true }]);
    await world.stop(daemon);
  });

  test('interrupted and killed, the same command goes on and fetches nothing twice', async (t) => {
    const world = await TapeProgram.make(t, 22);
    await world.openExchange(420);
    await world.faults('PUT', [counting('historyResult', 100), counting('history', 100)]);
    const interrupted = world.start(BACKFILL);
    await commits(interrupted, 3);
    interrupted.kill('SIGINT');
    assert.equal((await interrupted.ended()).code, 130, interrupted.dump());
    assert.match(
      interrupted.text('stdout'),
      /Incomplete[\s\S]*to continue, run the same command again/,
    );

    const killed = world.start(BACKFILL);
    await commits(killed, 3);
    killed.kill('SIGKILL');
    assert.equal((await killed.ended()).signal, 'SIGKILL');

    const last = await world.run(...BACKFILL);
    assert.equal(last.code, 0, last.out + last.err);
    await assertWhole(world);
    const { historyResult = Number.NaN } = await requestsOf(world);
    const pages = Math.ceil(world.idsBetween(FROM_S, 420).length / 1000);
    // Each start looks at the head, finds out how the server counts, and finds its place again.
    assert.ok(historyResult <= pages + 3 * 12, `${historyResult} requests for ${pages} pages`);
  });

  test('beside a daemon the daemon does the work', async (t) => {
    const world = await TapeProgram.make(t, 23);
    await world.openExchange(420);
    const daemon = await world.startDaemon();
    const { code, out, err } = await world.run(...BACKFILL);
    assert.equal(code, 0, out + err + daemon.dump());
    assert.match(err, /The running daemon does the work\./);
    assert.match(out, /^Complete after/m);
    await assertWhole(world);
    await world.stop(daemon);
  });

  test('status names the time between covered spans that was never asked for', async () => {
    const { store, url } = await openTestStore();
    await store.ensureMarkets([marketOf('A_USDT')], 0);
    const collectFromMs = (NOON_S + 600) * 1000;
    const key = { kind: 'trades', marketId: 1, variant: 0, collectFromMs } as const;
    const stream = await store.ensureStream(key);
    const earlier = claim(stream, 0, 60);
    await store.want(stream, earlier.span);
    await store.commit({ claims: [earlier, claim(stream, 600, 900)] });
    const { out } = await runCommand(['status'], { TAPEKEEP_DATABASE_URL: url });
    assert.match(out, /^A_USDT +trades .* 100% /m);
    const line =
      /^Never requested, between covered times \("tapekeep backfill" fetches it\): trades of 1 market, up to 9m$/m;
    assert.match(out, line);
  });

  test('when the daemon that does the work dies, the command goes on by itself', async (t) => {
    const world = await TapeProgram.make(t, 27);
    await world.openExchange(420);
    const daemon = await world.startDaemon();
    await world.faults('PUT', [counting('historyResult', 400), counting('history', 400)]);
    const filling = world.start(BACKFILL);
    await filling.line((line) => line.includes('The running daemon does the work.'));
    await filling.line((line) => line.startsWith('Filling '));
    // Its work has begun, and is not done: each page takes its time.
    await commits(daemon, 1 + countOf(daemon, '"committed"'));
    daemon.kill('SIGKILL');
    assert.equal((await daemon.ended()).signal, 'SIGKILL');
    await filling.line((line) => line.includes('The daemon is gone; this program goes on'));
    await world.faults('DELETE');
    assert.equal((await filling.ended()).code, 0, filling.dump());
    assert.match(filling.text('stdout'), /^Complete after/m);
    await assertWhole(world);
  });

  test('what lies before the beginning of history is told apart from what was filled', async (t) => {
    const world = await TapeProgram.make(t, 24);
    await world.openExchange(120);
    const early = ['--from', at(-100), '--to', at(60), '--kinds', 'trades'];
    const { code, out, err } = await world.run('backfill', '--market', TAPE_MARKET, ...early);
    assert.equal(code, 7, out + err);
    assert.match(out, /^Incomplete after/m);
    assert.match(out, /BTC_USDT trades .*unfillable, beyond history \(gap \d+/);
    assert.match(out, /beyond history: The exchange serves nothing as old as this\./);
    assert.deepEqual(await world.storedBetween(0, 60), world.idsBetween(0, 60));
    const gaps = await world.ask('gaps', '--state', 'unfillable');
    assert.match(
      gaps.out,
      /^Before the history of the exchange, not counted as missing: trades of BTC_USDT\. See --all\.$/m,
    );
    const all = (await world.ask('gaps', '--all', '--json')).out;
    const [lost] = (JSON.parse(all) as { readonly gaps: { readonly id: string }[] }).gaps;
    const listed = await world.ask('gaps', '--all');
    assert.match(listed.out, /^Unfillable: 1m 41s beyond history\.$/m);
    assert.match(listed.out, / hourly\b/);
    const why = await world.ask('gaps', 'explain', lost?.id ?? '');
    assert.match(why.out, /tr(?:y|ies); next try: hourly$/m);
    // Nobody could ever have had it: the archive is complete all the same.
    const status = await world.ask('status');
    assert.match(status.out, /^BTC_USDT +trades .* 100% +0 +0s/m);
    const never =
      /^Before the history of the exchange, not counted as missing: trades of 1 market, up to /m;
    assert.match(status.out, never);
    // However few streams are listed.
    assert.match((await world.ask('status', '--summary')).out, never);
    assert.match((await world.ask('status', '--worst', '1')).out, never);
    // History begins within the minute of its first trade, whose candle the exchange leaves out.
    const candles = ['--from', at(-100), '--to', at(120), '--kinds', 'candles'];
    assert.equal((await world.run('backfill', '--market', TAPE_MARKET, ...candles)).code, 7);
    const proven = await world.ask('verify');
    assert.equal(proven.code, 0, proven.out + proven.err);
    assert.match(proven.out, /; 2m before the exchange's history starts$/m);
    assert.match(proven.out, /^Proven: candles and stored trades agree \(1 slot\)\.$/m);
    // Who names that time wants to have it.
    const named = await world.ask('verify', '--from', at(-100));
    assert.equal(named.code, 6, named.out + named.err);
    assert.match(
      named.out,
      /candles of 1m, 4 slots: 1 match, 0 do not, 3 unproven$\n {2}UNPROVEN .* \(1m\): before the exchange's history starts$\nNot proven/m,
    );
  });

  test('a server that counts in ids has nothing older than its newest page', async (t) => {
    const world = await TapeProgram.make(t, 25);
    await world.openExchange(420, '--since-mode', 'id');
    const old = ['--from', at(10), '--to', at(40), '--kinds', 'trades', '--json'];
    const { code, out, err } = await world.run('backfill', '--market', TAPE_MARKET, ...old);
    assert.equal(code, 7, out + err);
    const { isWhole, gaps } = JSON.parse(out) as {
      isWhole: boolean;
      gaps: { kind: string; state: string; reason: string }[];
    };
    assert.equal(isWhole, false);
    assert.deepEqual(
      gaps.map(({ kind, state, reason }) => [kind, state, reason].join(' ')).sort(),
      ['trades unfillable history horizon'],
    );
  });

  test('a wrong span or market is refused by name, before anything is fetched', async (t) => {
    const world = await TapeProgram.make(t, 26);
    await world.openExchange(120);
    const market = ['--market', TAPE_MARKET];
    for (const [args, said] of [
      [['--from', '1h'], /--market/],
      [[...market], /--from/],
      [['--market', 'BTC_USD', '--from', at(0)], /--market.*"BTC_USD".*Did you mean BTC_USDT\?/],
      [[...market, '--from', at(50), '--to', at(10)], /--from.*must be before --to/],
      [[...market, '--from', '2099-01-01'], /--from.*must be before the exchange's time now/],
      [[...market, '--from', 'yesterday'], /--from.*yesterday.*2026-01-31/],
      [
        [...market, '--from', '1h', '--kinds', 'depth'],
        /--kind.*depth.*exists only while it happens/,
      ],
      [[...market, '--from', '1h', '--kinds', 'tades'], /Did you mean "trades"\?/],
    ] as const) {
      const { code, out, err } = await world.ask('backfill', ...args);
      assert.equal(code, 2, args.join(' ') + out + err);
      assert.match(err, said);
    }
    const wanted = await runSql(world.databaseUrl, 'SELECT 1 FROM wanted').catch(() => []);
    assert.deepEqual(wanted, []);
    // The minute that the tape begins in has no candle.
    const cut = ['--from', at(60), '--to', '2099-01-01', '--kinds', 'candles'];
    const { code, out, err } = await world.run('backfill', ...market, ...cut);
    assert.equal(code, 0, out + err);
    assert.match(err, /--to lies in the future of the exchange; the time range ends now/);
  });
});
