import assert from 'node:assert/strict';
import test from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { runCommand } from '../../support/programs/commands.js';
import { askControl, controlled } from '../../support/programs/control.js';
import { Program, startSandbox } from '../../support/programs/program.js';

/**
 * A market that is listed, delisted and listed again with other precisions while a daemon runs, as
 * the exchange's owner does it; the daemon is told nothing.
 */

const OLD = 'BTC_USDT';
const NEW = 'XMR_USDT';

interface Truth {
  readonly id: number;
  readonly timeUs: number;
  readonly price: string;
  readonly amount: string;
}

test('a market comes, goes and comes back in other precisions; what is missing is told', async (t) => {
  const databaseUrl = await makeDatabase('empty');
  const { program: sandbox, ready } = await startSandbox([
    ...['--run', '--control', '--keep-all', '--seed', '5', '--market', OLD, '--no-rate-limit'],
    ...['--start-offset', '3m'],
  ]);
  t.after(() => sandbox.dispose());
  const exchange = {
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
  };
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: {
      ...{ TAPEKEEP_DATABASE_URL: databaseUrl, ...exchange },
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '50',
      TAPEKEEP_STREAMS_MARKETS_SCHEDULE: '* * * * * *',
      TAPEKEEP_STREAMS_CANDLES_SCHEDULE: '* * * * * *',
      TAPEKEEP_STREAMS_CANDLES_GRACE: '0s',
      TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '60',
      TAPEKEEP_STREAMS_DEPTH_SCHEDULE: '* * * * * *',
      TAPEKEEP_HTTP_PORT: '0',
    },
  });
  t.after(() => daemon.dispose());

  const change = (path: string, body: object) =>
    controlled(ready.url, `sandbox/markets${path}`, { body });
  const truthOf = async (market: string) => {
    const { status, text } = await askControl(ready.url, `sandbox/truth?market=${market}`);
    assert.equal(status, 200, text);
    const lines = text.split('\n').filter((line) => line !== '');
    return lines.map((line) => JSON.parse(line) as Truth);
  };
  const ask = <Row extends object>(sql: string, ...values: unknown[]) =>
    runSql<Row>(databaseUrl, sql, values);
  const countOf = async (sql: string, ...values: unknown[]) =>
    (await ask(sql, ...values).catch(() => [])).length;
  /** Kinds of streams of the new market that have coverage after a moment. */
  const isCollectedAfter = (ms: number) => async () =>
    (await countOf(
      `SELECT DISTINCT kind FROM coverage JOIN stream USING (stream_id, market_id)
         JOIN market USING (market_id)
       WHERE name = $1 AND upper(span) > to_timestamp($2 / 1000.0)
         AND kind IN ('trades', 'depth', 'states')`,
      ...[NEW, ms],
    )) === 3;
  const gapsOf = async (...args: string[]) => {
    const env = { TAPEKEEP_DATABASE_URL: databaseUrl, ...exchange };
    const list = ['gaps', 'list', '--json', '--market', NEW, ...args];
    const { code, out, err } = await runCommand(list, env);
    assert.equal(code, 0, out + err);
    const { gaps } = JSON.parse(out) as {
      readonly gaps: ReadonlyArray<Record<'kind' | 'from' | 'to' | 'state' | 'reason', string>>;
    };
    return gaps;
  };
  const page = await daemon.page();
  const metrics = async () => await (await fetch(`${page}/metrics`)).text();
  await daemon.until(async () => (await countOf('SELECT 1 FROM trade LIMIT 1')) === 1);

  // Listed: collected in all streams, by the same process.
  await change('', { name: NEW, moneyPrec: 3, basePrice: '150', activity: 0.6 });
  const listedMs = systemClock.wallMs();
  await daemon.until(isCollectedAfter(listedMs));
  await daemon.until(
    async () =>
      (await countOf('SELECT 1 FROM trade JOIN market USING (market_id) WHERE name = $1', NEW)) > 3,
  );
  assert.match(await metrics(), new RegExp(`tapekeep_lag_seconds\\{[^}]*market="${NEW}"`));

  // Delisted: nothing is expected any more, and what was missing at that moment is given up.
  await change('/delist', { market: NEW });
  await daemon.until(
    async () => (await countOf('SELECT 1 FROM market WHERE delisted_at IS NOT NULL')) === 1,
  );
  const [market] = await ask<{ delisted: string; id: number }>(
    `SELECT market_id AS id, delisted_at::text AS delisted FROM market WHERE name = $1`,
    NEW,
  );
  const commitsLater = daemon.lines.stdout.length + daemon.lines.stderr.length;
  await daemon.until(
    async () => daemon.lines.stdout.length + daemon.lines.stderr.length > commitsLater + 50,
  );
  for (const { kind, state, reason, to } of await gapsOf()) {
    assert.equal(state, 'unfillable', `${kind} ${reason}`);
    assert.ok(Date.parse(to) <= Date.parse(market?.delisted ?? ''), `${kind} ends at ${to}`);
  }
  // Nothing can be asked about it: "fill" says so, makes no gap due, and does not wait for a daemon's work.
  const given =
    (await gapsOf()).find(({ reason }) => reason === 'delisted') ??
    assert.fail('it was there until it was found missing, and was not asked about any more');
  const settings = { TAPEKEEP_DATABASE_URL: databaseUrl, ...exchange };
  const fill = await runCommand(['gaps', 'fill', '--market', NEW, '--again'], settings);
  assert.match(
    fill.err,
    new RegExp(`Not filled: .* of ${NEW}, which the exchange does not list now`),
  );
  assert.match(fill.err, /Not filled: \d+ gaps? of depth.*, which exist only while they happen/);
  assert.deepEqual([fill.code, fill.out], [7, 'Nothing to fill.']);
  const plain = await runCommand(['gaps', 'fill', '--market', NEW], settings);
  assert.equal(plain.code, 0, 'what was given up is not asked for');
  for (const { kind, state } of await gapsOf()) assert.equal(state, 'unfillable', kind);
  const span = ['--market', NEW, '--from', '2m'];
  const backfill = await runCommand(['backfill', ...span], settings);
  assert.equal(backfill.code, 2, backfill.out + backfill.err);
  assert.match(backfill.err, /--market: "XMR_USDT" is not allowed; the exchange does not list it/);
  const at = [NEW, given.kind, given.from];
  const why = await runCommand(['gaps', 'explain', ...at], settings);
  assert.match(why.out, /[Ww]ait until the exchange lists XMR_USDT again|nothing brings it back/);
  const status = await runCommand(['status'], { ...settings, TAPEKEEP_MARKETS: NEW });
  const notListed = /^Not listed by the exchange, so not collected: XMR_USDT$/gm;
  assert.equal(status.out.match(notListed)?.length, 1, 'once');
  const unnamed = await runCommand(['status'], settings);
  assert.match(unnamed.out, notListed);
  const later = await runCommand(['gaps', 'explain', NEW, 'depth', 'now'], settings);
  assert.match(later.out, /not listed/);
  const whileAway = await metrics();
  assert.match(whileAway, /tapekeep_gaps_found_total\{stream="trades",reason="delisted"\} [1-9]/);
  assert.doesNotMatch(whileAway, new RegExp(`tapekeep_lag_seconds\\{[^}]*market="${NEW}"`));
  assert.match(whileAway, new RegExp(`tapekeep_lag_seconds\\{[^}]*market="${OLD}"`));

  // Listed again with other precisions.
  await change('', { name: NEW, moneyPrec: 2, basePrice: '160', activity: 0.6 });
  const backMs = systemClock.wallMs();
  await daemon.until(isCollectedAfter(backMs));
  const history = await ask<{ prec: number; isTold: boolean }>(
    `SELECT quote_prec AS prec, lower(h.span) = m.first_seen_at
              AND upper(h.span) > m.first_seen_at AND upper(h.span) <= m.last_seen_at AS "isTold"
     FROM market_history h JOIN market m USING (market_id) WHERE name = $1`.replace(
      'quote_prec',
      'h.quote_prec',
    ),
    NEW,
  );
  assert.deepEqual(history, [{ prec: 3, isTold: true }]);
  const [terms] = await ask<{ prec: number }>(
    'SELECT quote_prec AS prec FROM market WHERE name = $1',
    NEW,
  );
  assert.equal(terms?.prec, 2);
  // Trades and exact times are whole over the time away; of depth and states that time is told.
  await daemon.until(async () => {
    const open = (await gapsOf('--state', 'open')).filter(({ to }) => Date.parse(to) < backMs);
    return open.filter(({ kind }) => kind !== 'candles').length === 0;
  });
  await daemon.until(async () => (await truthOf(NEW)).some(({ timeUs }) => timeUs > backMs * 1000));
  const untilMs = systemClock.wallMs();
  await daemon.until(isCollectedAfter(untilMs));
  // Exact times follow.
  const untimed = `SELECT FROM trade JOIN market USING (market_id)
    WHERE name = $1 AND executed_at IS NULL AND traded_at < to_timestamp($2 / 1000.0)`;
  await daemon.until(async () => (await countOf(untimed, NEW, untilMs)) === 0);
  const away = (await gapsOf('--reason', 'delisted')).filter(
    ({ to }) => Date.parse(to) > Date.parse(market?.delisted ?? ''),
  );
  assert.deepEqual(away.map(({ kind, state }) => `${kind} ${state}`).sort(), [
    'depth unfillable',
    'states unfillable',
    'tickers unfillable',
  ]);
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());

  const truth = (await truthOf(NEW)).filter(({ timeUs }) => timeUs < untilMs * 1000);
  const stored = await ask<{ id: string; us: string; price: string; amount: string }>(
    `SELECT tid::text AS id, (extract(epoch FROM executed_at) * 1000000)::bigint::text AS us,
            price::text, amount::text
     FROM trade JOIN market USING (market_id)
     WHERE name = $1 AND executed_at < to_timestamp($2 / 1000.0) ORDER BY tid`,
    ...[NEW, untilMs],
  );
  assert.deepEqual(
    stored.map(({ id, us, price, amount }) => [id, us, price, amount]),
    truth.map(({ id, timeUs, price, amount }) => [String(id), String(timeUs), price, amount]),
  );
  const places = new Set(truth.map(({ price }) => price.split('.')[1]?.length ?? 0));
  assert.ok(places.has(3), 'some were made in the old precision');
  assert.ok(
    truth.some(({ timeUs }) => timeUs > backMs * 1000),
    'and some after it came back',
  );
});
