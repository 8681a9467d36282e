import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { parse } from 'yaml';
import { STREAM_KINDS } from '../../../src/model/series.js';
import { asking, promQuery, readBoard, sqlQuery } from '../../support/dashboards/grafana.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { loginAs } from '../../support/postgres/postgres-logins.js';
import { claim } from '../../support/postgres/postgres-rows.js';
import { runCommand } from '../../support/programs/commands.js';
import { Program, startSandbox } from '../../support/programs/program.js';
import { prometheusLack, type Rules, startPrometheus } from '../../support/programs/prometheus.js';
import { repositoryPath } from '../../support/repository/repository.js';
import { DAYS, openDaysWorld } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** What the dashboards of Grafana ask, asked of what they are for: every panel has something to show. */

/** A daemon on the sandbox whose archive has an archived, a sealed and a hot day of its past. */
async function openDaemon(t: TestContext, env: Readonly<Record<string, string>>) {
  const { program: sandbox, ready } = await startSandbox(['--seed', '7']);
  t.after(() => sandbox.dispose());
  const all = {
    ...{ TAPEKEEP_HTTP_PORT: '0', TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '50' },
    ...{ TAPEKEEP_EXCHANGE_URL: ready.url, TAPEKEEP_REALTIME_URL: ready.realtimeUrl },
    ...env,
  };
  const start = async () => {
    const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
      env: all,
    });
    t.after(() => daemon.dispose());
    return { daemon, page: await daemon.page() };
  };
  return { env: all, start };
}

test('every panel of the analysts answers over archived, sealed and hot days', async (t) => {
  const dataDir = await makeFolder(t);
  const { url, store } = await openDaysWorld(join(dataDir, 'cold'));
  // A hole, which the lists of gaps show.
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const { span } = claim(trades, 43_200, 43_260);
  await runSql(
    url,
    `UPDATE coverage SET span = tstzrange(lower(span), to_timestamp($2)) WHERE stream_id = $1`,
    [trades.streamId, span.toMs / 1000],
  );
  const { env, start } = await openDaemon(t, {
    ...{ TAPEKEEP_DATABASE_URL: url, TAPEKEEP_DATA_DIR: dataDir },
    ...{ TAPEKEEP_VERIFICATION_ENABLED: 'false', TAPEKEEP_PARTITIONS_SEAL: 'false' },
    ...{ TAPEKEEP_STREAMS_TRADES_HISTORY: 'none', TAPEKEEP_STREAMS_CANDLES_HISTORY: 'none' },
  });
  for (const args of [
    ['--archive', '--before', DAYS[1]],
    ['--before', DAYS[2]],
  ]) {
    const { code, err } = await runCommand(['seal', ...args], env);
    assert.equal(code, 0, err);
  }
  await start();
  const states = await runSql<{ state: string }>(
    url,
    `SELECT DISTINCT state::text FROM analytics.partitions WHERE starts_at < '2026-01-17' ORDER BY 1`,
  );
  assert.deepEqual(
    states.map(({ state }) => state),
    ['archived', 'hot', 'sealed'],
  );
  const reader = await loginAs(url, 'tapekeep_reader');
  const ranges = {
    'all three days': { from: '2026-01-14T00:00:00Z', to: '2026-01-17T00:00:00Z', stepS: 3600 },
    'the archived day': { from: '2026-01-14T00:00:00Z', to: '2026-01-14T23:59:59Z', stepS: 60 },
    'the hot day': { from: '2026-01-16T00:00:00Z', to: '2026-01-16T23:59:59Z', stepS: 900 },
  };
  const { list } = readBoard('analysts').templating;
  const query = String(list.find(({ name }) => name === 'market')?.query);
  const offered = (await runSql<{ market: string }>(reader, query)).map(({ market }) => market);
  assert.ok(offered.includes('BTC_USD') && offered.includes("it's/odd"));
  // One name that ends a text that is not quoted.
  for (const market of ['BTC_USD', "it's/odd"]) {
    for (const [name, range] of Object.entries(ranges)) {
      for (const { title, targets } of asking('analysts')) {
        for (const { rawSql = '', format } of targets) {
          const sql = sqlQuery(rawSql, range, { market: [market], kind: STREAM_KINDS });
          const rows = await runSql<Record<string, unknown>>(reader, sql);
          const isGaps = title === 'Gaps' && (market !== 'BTC_USD' || name !== 'all three days');
          const what = `${title}, ${market}, ${name}`;
          assert.ok(isGaps || rows.length > 0, what);
          const values = rows.flatMap(({ time: _, ...rest }) => Object.values(rest));
          assert.ok(isGaps || values.some((value) => value !== null), what);
          if (format === 'time_series') {
            assert.ok(
              rows.every(({ time }) => time instanceof Date),
              what,
            );
          }
        }
      }
    }
  }
});

test('every panel of the operators answers about a daemon in good health', async (t) => {
  const lack = prometheusLack();
  if (lack !== undefined) {
    t.skip(`${lack}: PromQL of the dashboards was not asked`);
    return;
  }
  const { start } = await openDaemon(t, {
    ...{ TAPEKEEP_DATABASE_URL: await makeDatabase(), TAPEKEEP_DATA_DIR: await makeFolder(t) },
  });
  const { daemon, page } = await start();
  const rules = readFileSync(join(repositoryPath, 'config', 'prometheus-rules.yml'), 'utf8');
  const prometheus = await startPrometheus(t, page, parse(rules) as Rules);
  const open = new Map(
    asking('operators').flatMap(({ title, targets }) =>
      targets.map(({ refId, expr = '' }) => [`${title} ${refId}`, promQuery(expr, '20s')] as const),
    ),
  );
  assert.ok(open.size > 40);
  // Rates need two scrapes, quantiles what happens within them.
  await daemon.until(async () => {
    for (const [name, query] of [...open]) {
      const samples = await prometheus.query(query);
      if (samples.some(({ value }) => Number.isFinite(Number(value[1])))) open.delete(name);
    }
    return open.size === 0;
  });
});
