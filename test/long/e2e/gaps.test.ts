import assert from 'node:assert/strict';
import test, { suite } from 'node:test';
import { runSql } from '../../support/postgres/postgres.js';
import { at, START_S, TAPE_MARKET, TapeProgram } from '../../support/programs/tape-program.js';

/** What a person does about a gap: see it, understand it, note what is known of it, have it filled. */

interface Listed {
  readonly gaps: ReadonlyArray<{
    readonly id: string;
    readonly market: string;
    readonly kind: string;
    readonly from: string;
    readonly to: string;
    readonly state: string;
    readonly reason: string;
    readonly attempts: number;
    readonly note: string | null;
  }>;
  readonly sums: ReadonlyArray<{ state: string; reason: string; lengthMs: number }>;
  readonly isWritten: boolean;
  readonly isCollecting: boolean;
  readonly cutTo: { readonly from: string; readonly to: string } | null;
}

async function list(world: TapeProgram, ...args: string[]): Promise<Listed> {
  const { code, out, err } = await world.ask('gaps', 'list', '--json', ...args);
  assert.equal(code, 0, out + err);
  return JSON.parse(out) as Listed;
}

/**
 * A collector that stood still for a good part of the tape, with a second in it that no page holds;
 * since it runs again the exchange gives one page, and fails whoever asks for more.
 */
async function standStill(t: Parameters<typeof TapeProgram.make>[0], seed: number) {
  const world = await TapeProgram.make(t, seed);
  await world.openExchange(200);
  const before = await world.startDaemon();
  await world.stop(before);
  const fault = (where: string) => ['--fault', `kind=status,where=${where},after=1`];
  await world.openExchange(500, ...fault('historyResult'), ...fault('history'));
  const daemon = world.start(['start']);
  await daemon.until(async () => {
    const rows = await runSql(
      world.databaseUrl,
      `SELECT DISTINCT kind FROM gap JOIN stream USING (stream_id)
       WHERE kind = 'trades' AND attempts > 1 AND reason = 'exchange failed'
         AND upper(span) - lower(span) > interval '1 minute'`,
    );
    return rows.length === 1;
  });
  return { world, daemon };
}

const TRADES = ['--market', TAPE_MARKET, '--kind', 'trades'];

/** Most of their time they wait. */
suite('gaps', { concurrency: 3 }, () => {
  test('the gap of a collector that stood still is listed, explained, noted and filled', async (t) => {
    const { world, daemon } = await standStill(t, 31);
    const { gaps: all, isWritten, sums } = await list(world, ...TRADES);
    assert.equal(isWritten, true);
    // A stop between a page and the longer one after it leaves another one, of seconds.
    const gaps = all.filter(({ from, to }) => Date.parse(to) - Date.parse(from) > 60_000);
    assert.deepEqual(
      gaps.map(({ kind }) => kind),
      ['trades'],
    );
    for (const gap of gaps) {
      assert.equal(gap.state, 'open');
      assert.equal(gap.reason, 'exchange failed');
      assert.ok(gap.attempts > 1);
      assert.match(gap.id, /^\d+$/);
      const [fromS, toS] = [gap.from, gap.to].map((text) => Date.parse(text) / 1000 - START_S);
      assert.ok((fromS ?? 0) >= 198 && (toS ?? 0) <= 500, `${gap.from} – ${gap.to}`);
    }
    assert.deepEqual(
      sums.map(({ state, reason }) => `${state} ${reason}`),
      ['open exchange failed'],
    );
    const id = gaps.find(({ kind }) => kind === 'trades')?.id ?? '';
    const { gaps: tickers } = await list(world, '--market', TAPE_MARKET, '--kind', 'tickers');
    assert.ok(tickers.length > 0);
    for (const { market, kind } of tickers)
      assert.deepEqual([market, kind], [TAPE_MARKET, 'tickers']);

    const table = await world.run('gaps', '--all', ...TRADES);
    assert.match(
      table.out,
      /^id +market +stream +from +to +length +state +reason +tries +next try/m,
    );
    assert.match(table.out, /^Open: \d+m( \d+s)? exchange failed\.$/m);

    assert.doesNotMatch(table.out, /Cut to/);
    const inside = ['--from', at(400), '--to', at(410)];
    const cut = await world.run('gaps', ...TRADES, ...inside);
    assert.match(cut.out, / 10s {2}open +exchange failed +BTC_USDT trades$/m);
    assert.match(cut.out, /^Cut to 20\S+ \S+ – 20\S+ \S+, as asked\.$/m);
    const { cutTo } = await list(world, ...TRADES, ...inside);
    assert.deepEqual(
      cutTo && [cutTo.from, cutTo.to].map(Date.parse),
      [400, 410].map((s) => 1000 * (START_S + s)),
    );

    const why = await world.ask('gaps', 'explain', id);
    assert.equal(why.code, 0, why.err);
    assert.match(why.out, /Requests failed or were refused/);
    assert.match(why.out, /\d+ tries; next try: (20|soon)/);
    assert.match(why.out, /Before it: \w+, 20/);
    assert.match(why.out, /After it: +covered, 20/);
    assert.match(why.out, new RegExp(`What to do: .*tapekeep gaps fill ${id}`));
    const place = await world.ask('gaps', 'explain', TAPE_MARKET, 'trades', at(250));
    assert.equal(place.out.split('\n')[0], why.out.split('\n')[0]);

    const text = 'the exchange\u001b[31m was down';
    const noted = await world.ask('gaps', 'note', id, text);
    assert.deepEqual([noted.code, noted.out], [0, `Noted at gap ${id}.`]);
    const after = await list(world, ...TRADES);
    assert.match(after.gaps.find((gap) => gap.id === id)?.note ?? '', /was down/);
    assert.equal(after.gaps.filter(({ note }) => note?.includes('was down')).length, 1);
    const told = await world.ask('gaps', 'explain', id);
    assert.match(told.out, /note: the exchange\\u001b\[31m was down/);

    // Nobody collects: the command fills the gap itself, and nothing else.
    await world.stop(daemon);
    await world.faults('PUT', [{ kind: 'status', where: 'history', after: 1 }]);
    const own = await world.run('gaps', 'fill', id);
    assert.equal(own.code, 0, own.out + own.err);
    assert.match(own.err, /this program does the work itself/);
    // The daemon may have listed besides that its looks at history fail, and left the gap of one of them.
    const stillListed = (await list(world, ...TRADES)).gaps;
    const filledGap = gaps.find((gap) => gap.id === id);
    assert.ok(filledGap !== undefined);
    // The stop of the first daemon may have left one of seconds below, which is another gap.
    for (const { kind, from, to } of stillListed) {
      const isOutside = to <= filledGap.from || from >= filledGap.to;
      assert.ok(isOutside, `${kind} ${from} – ${to}`);
    }
    const left = await world.ask('gaps');
    assert.match(
      left.out,
      /^Not collecting: no daemon runs\. Time since a stream ends is not listed\.$/m,
    );
    const closed = await world.ask('gaps', 'explain', id);
    assert.match(closed.out, /^ {2}filled: 20/m);

    const second = world.start(['start']);
    await second.page();
    await second.until(async () => (await list(world, ...TRADES)).isCollecting);
    await world.faults('DELETE');
    assert.deepEqual(await world.storedBetween(205, 500), world.idsBetween(205, 500));
    // What was traded since may be a second short for as long as a step of the head takes.
    await second.until(async () => (await list(world, ...TRADES)).gaps.length === 0);
    const whole = await world.ask('gaps', 'fill', ...TRADES, '--to', at(500));
    assert.deepEqual([whole.code, whole.out], [0, 'Nothing to fill.']);
    const covered = await world.ask('gaps', 'explain', TAPE_MARKET, 'trades', at(250));
    assert.equal(covered.code, 0, covered.err);
    assert.match(covered.out, /trades of BTC_USDT\n.*\n {2}covered\n {2}Nothing is missing\.$/m);
    await world.stop(second);
  });

  test('where only the newest page is served, history before it is said to exist and not to be had', async (t) => {
    const world = await TapeProgram.make(t, 34);
    await world.openExchange(420, '--since-mode', 'id');
    const daemon = world.start(['start'], { TAPEKEEP_STREAMS_TRADES_HISTORY: 'all' });
    await daemon.until(async () => {
      const rows = await runSql(
        world.databaseUrl,
        `SELECT FROM stream WHERE kind = 'trades' AND start_reason = 'history horizon'`,
      ).catch(() => []);
      return rows.length === 1;
    });
    const gaps = await world.ask('gaps', ...TRADES);
    const said =
      /^trades of BTC_USDT: older history than .+ exists, but the exchange no longer serves it/m;
    assert.match(gaps.out, said);
    assert.doesNotMatch(gaps.out, /No gaps: all that is expected is covered/);
    const { out } = await world.ask('gaps', ...TRADES, '--json');
    const { historyNotReached } = JSON.parse(out) as {
      historyNotReached: { kind: string; startReason: string; why: string }[];
    };
    assert.deepEqual(
      historyNotReached.map(({ kind, startReason }) => [kind, startReason]),
      [['trades', 'history horizon']],
    );
    const status = await world.ask('status');
    assert.match(status.out, said);
    assert.match(status.out, /^BTC_USDT +trades .* of part /m);
    const short = (await world.ask('status', '--summary')).out;
    assert.match(short, /^trades .* of part /m);
    await world.stop(daemon);
  });

  test('what cannot be had stays unfillable until it is tried again on request', async (t) => {
    const world = await TapeProgram.make(t, 33);
    await world.openExchange(200);
    await world.stop(await world.startDaemon());
    await world.openExchange(500, '--since-mode', 'id');
    await runSql(world.databaseUrl, "UPDATE archive SET since_modes = '{}'");
    const daemon = await world.startDaemon();
    // More than one of each where the first daemon ended between a page and the longer one after it.
    await daemon.until(async () => {
      const rows = await runSql<{ state: string; kinds: number }>(
        world.databaseUrl,
        `SELECT state, count(DISTINCT kind)::int AS kinds FROM gap JOIN stream USING (stream_id)
         WHERE kind = 'trades' AND state IN ('open', 'unfillable') GROUP BY state`,
      );
      return rows.length === 1 && rows[0]?.state === 'unfillable' && rows[0].kinds === 1;
    });
    const { gaps } = await list(world, ...TRADES, '--reason', 'history_horizon');
    assert.deepEqual(
      [...new Set(gaps.map(({ kind, state, reason }) => `${kind} ${state} ${reason}`))].sort(),
      ['trades unfillable history horizon'],
    );
    const idle = await world.ask('gaps', 'fill', ...TRADES);
    assert.equal(idle.code, 0);
    assert.match(
      idle.out,
      /^Nothing to fill. \d+ gaps? (is|are) unfillable. Retry (it|them) with --again\.$/,
    );
    const id = gaps[0]?.id ?? '';
    const named = await world.ask('gaps', 'fill', id);
    assert.deepEqual(
      [named.code, named.out],
      [7, 'Nothing to fill. 1 gap is unfillable. Retry it with --again.'],
    );
    const again = await world.run('gaps', 'fill', id, '--again');
    assert.equal(again.code, 7, again.out + again.err);
    assert.match(again.out, /history horizon: The exchange serves only its newest trades/);
    const [tried] = (await list(world, ...TRADES)).gaps.filter((gap) => gap.id === id);
    assert.ok((tried?.attempts ?? 0) > (gaps[0]?.attempts ?? 0), 'it was really tried');
    await world.stop(daemon);
  });

  test('candles from before history keep their id, and are tried each time that a person asks', async (t) => {
    const world = await TapeProgram.make(t, 37);
    await world.openExchange(420);
    const daemon = await world.startDaemon();
    const candles = ['--market', TAPE_MARKET, '--kind', 'candles'];
    // Several pages of them.
    const span = ['--from', at(-3 * 86_400), '--to', at(60)];
    const first = await world.run('backfill', ...candles, ...span);
    assert.equal(first.code, 7, first.out + first.err);
    const tried = async () => {
      const { gaps } = await list(world, ...candles, '--state', 'unfillable');
      assert.equal(gaps.length, 1, JSON.stringify(gaps));
      return gaps[0] ?? assert.fail();
    };
    const { id, attempts, reason } = await tried();
    assert.deepEqual([attempts, reason], [1, 'beyond history']);
    // The second time within the minute in which the daemon passes the same request on once only.
    for (const times of [1, 2]) {
      const again = await world.run('gaps', 'fill', id, '--again', '--json');
      assert.equal(again.code, 7, again.out + again.err);
      const { end } = JSON.parse(again.out) as { end: string };
      assert.equal(end, 'settled');
      const { id: kept, attempts: now } = await tried();
      assert.deepEqual([kept, now], [id, 1 + times]);
    }
    await world.stop(daemon);
  });

  test('quiet candles from before the oldest one are had once the trades of their time are', async (t) => {
    // The first minute is no whole one, and in the three after it nothing is traded.
    const isTraded = (seconds: number) => seconds >= 240 || (seconds >= 30 && seconds < 50);
    const world = await TapeProgram.make(t, 38, 'migrated', isTraded);
    await world.openExchange(420, '--fault', 'kind=status,where=historyResult');
    const daemon = world.start(['start'], {
      TAPEKEEP_STREAMS_TRADES_HISTORY: 'all',
      TAPEKEEP_STREAMS_CANDLES_HISTORY: '10m',
      TAPEKEEP_STREAMS_CANDLES_SCHEDULE: '* * * * * *',
    });
    const lost = () => list(world, '--kind', 'candles', '--state', 'unfillable');
    await daemon.until(async () => (await lost()).gaps.some(({ to }) => to >= at(240)));
    await world.faults('DELETE');
    await daemon.until(async () => (await lost()).gaps.every(({ to }) => to <= at(60)));
    const [covered] = await runSql<{ from: Date }>(
      world.databaseUrl,
      `SELECT lower(span) AS from FROM coverage JOIN stream USING (stream_id) WHERE kind = 'candles'`,
    );
    assert.equal(covered?.from.toISOString(), at(60));
    await world.stop(daemon);
  });

  test('refused rows are counted, listed and shown, and never steer the terminal', async (t) => {
    const world = await TapeProgram.make(t, 34);
    // The first question shows in which dialect the exchange is asked.
    const fault = 'kind=badRows,where=kline,rows=2,defect=notANumber,maxCount=2';
    await world.openExchange(420, '--fault', fault);
    const span = ['--from', at(0), '--to', at(360), '--kinds', 'candles'];
    const filled = await world.run('backfill', '--market', TAPE_MARKET, ...span);
    assert.equal(filled.code, 7, filled.out + filled.err);
    assert.match(filled.out, /refused rows: Rows were invalid/);

    const listed = await world.ask('quarantine');
    assert.equal(listed.code, 0, listed.err);
    assert.match(listed.out, /^Refused since the archive began: 2$/m);
    assert.match(listed.out, /^kline +.* 2 +1 +20\d\d-/m);
    const document = JSON.parse((await world.ask('quarantine', '--json')).out) as {
      counts: { endpoint: string; count: number }[];
      rows: { id: number; payload: string; market: string; count: number }[];
    };
    assert.deepEqual(
      document.counts.map(({ endpoint, count }) => [endpoint, count]),
      [['kline', 2]],
    );
    assert.equal(document.rows.length, 1, 'two of one answer, refused for the same reason');
    const [row] = document.rows;
    assert.equal(row?.count, 2);
    const shown = await world.ask('quarantine', 'show', String(row?.id));
    assert.ok(shown.out.endsWith(row?.payload ?? '?'), shown.out);
    assert.match(shown.out, /^rows +2 of the same answer; this is the first$/m);

    const hostile = '\u001b]0;owned\u0007\u009b2J\u202e{"evil":1}';
    await runSql(
      world.databaseUrl,
      `INSERT INTO quarantine (received_at, endpoint, market, reason, payload)
       VALUES (now(), 'kline', $1, $1, $1)`,
      [hostile],
    );
    for (const args of [['list'], ['list', '--json'], ['show', '2'], ['show', '2', '--json']]) {
      const { code, out } = await world.ask('quarantine', ...args);
      assert.equal(code, 0);
      assert.match(out, /evil/);
      assert.ok(!/[\p{Cc}\p{Cf}]/u.test(out.replaceAll('\n', '')), JSON.stringify(out));
      if (args.includes('--json')) assert.ok(out.includes('\\u001b]0;owned'), 'it stays JSON');
    }
  });

  test('what names nothing is refused by name', async (t) => {
    const world = await TapeProgram.make(t, 35);
    await world.openExchange(120);
    await world.stop(await world.startDaemon());
    const { out: listed } = await world.ask('gaps');
    // A gap of some seconds where the daemon ended between a page and the longer one after it.
    assert.match(listed, /^No gaps\.$| open +not collected +BTC_USDT/m);
    assert.match(listed, /^Not collecting: no daemon runs\. Time since/m);
    // A daemon that waits for its exchange holds the archive and lists nothing: what passes is said all the same.
    const waiting = world.start(['start'], { TAPEKEEP_EXCHANGE_URL: 'http://127.0.0.1:9' });
    await waiting.page();
    for (const [command, ...args] of [['gaps'], ['status', '--summary']] as const) {
      const { out } = await world.ask(command, ...args);
      assert.match(out, /^Not collecting: another tapekeep holds the archive/m);
    }
    await world.stop(waiting);
    const stall = async (nextAttemptAt: string) => {
      const failed = { attempts: 3, reason: 'walk stalled', note: 'no way', nextAttemptAt };
      await runSql(
        world.databaseUrl,
        `UPDATE stream SET collect_from = NULL, start_tries = $1 WHERE kind = 'trades'`,
        [JSON.stringify(failed)],
      );
    };
    await stall(at(1));
    assert.match((await world.ask('gaps')).out, /led no further \(.*: no way\), next try now\.$/m);
    await stall(at(90_000));
    const open = (await world.ask('gaps')).out;
    assert.match(open, /trades of BTC_USDT: older history is still being fetched; reached: 20/);
    assert.match(open, /the last 3 tries led no further \(walk stalled: no way\), next try at 20/);
    // The daemon may have ended before the first of them.
    const tickers = await world.ask('gaps', 'explain', TAPE_MARKET, 'tickers', at(1));
    assert.equal(tickers.code, 0, tickers.err);
    assert.match(tickers.out, /^tickers of BTC_USDT\n.*\n {2}(before collecting|later)/);
    const timeless = await world.ask('gaps', 'explain', TAPE_MARKET, 'trades');
    assert.equal(timeless.code, 2);
    assert.match(
      timeless.err,
      /<time> is missing; name the time of trades, such as "tapekeep gaps explain /,
    );
    const early = await world.ask('gaps', 'explain', TAPE_MARKET, 'trades', at(1));
    assert.match(early.out, /still being fetched.* the last 3 tries led no further/);
    for (const [atS, said] of [
      [5000, /^ {2}This time has not come yet at the exchange\.$/m],
    ] as const) {
      const { code, out } = await world.ask('gaps', 'explain', TAPE_MARKET, 'trades', at(atS));
      assert.equal(code, 0);
      assert.match(out, said);
    }
    for (const [args, said] of [
      [['gaps', '--market', 'BTC_USD'], /--market.*"BTC_USD".*Did you mean BTC_USDT\?/],
      [['gaps', 'fil'], /unknown command 'fil': did you mean fill\?/],
      [['gaps', 'x', '--json'], /unknown command 'x': there are list, explain, note, fill/],
      [['gaps', '--kind', 'tades'], /There is no kind "tades"\. Did you mean "trades"\?/],
      [['gaps', '--state', 'lost'], /There is no state "lost".*unfillable/],
      [['gaps', '--reason', 'head moves'], /Did you mean "head moved"\?/],
      [['gaps', '--from', '1h', '--to', '2h'], /--from.*must be before --to/],
      [['gaps', '--from', 'soon'], /--from.*soon.*2026-01-31/],
      [['gaps', 'explain', '4711'], /"4711".*no such gap/],
      [['gaps', 'explain', '4711@2026-01-31T12:00:00Z'], /no such gap/],
      [['gaps', 'explain', '1@2026-01-31T12:00:00Z'], /This time has not come yet/],
      [['gaps', 'explain', 'abc'], /"abc".*write an id/],
      [['gaps', 'explain', 'BTC_USDT', 'tades', at(1)], /<kind>.*"tades"/],
      [['gaps', 'explain', 'BTC_USDT', 'trades', 'soon'], /<time>.*"soon"/],
      [['gaps', 'note', '17'], /write the ids first/],
      [['gaps', 'note', '17', 'words'], /"17".*no such gap/],
      [['gaps', 'fill', '17'], /"17".*no such gap/],
      [['gaps', 'list', 'all'], /too many arguments/],
      [['quarantine', 'show', '9'], /"9".*nothing with this id is kept/],
      [['quarantine', 'show', 'x'], /"x".*write a number/],
      [['quarantine', '--market', 'BTC_USD'], /Did you mean BTC_USDT\?/],
    ] as const) {
      const { code, out, err } = await world.ask(...args);
      assert.equal(code, 2, args.join(' ') + out + err);
      assert.match(err, said);
    }
  });
});
