import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { QualityReport } from '../../src/archive/report/quality.js';
import { makeDatabase, openTestStore, runSql } from '../support/postgres/postgres.js';
import { marketOf, trade } from '../support/postgres/postgres-rows.js';
import { runCommand } from '../support/programs/commands.js';
import { Program, startSandbox } from '../support/programs/program.js';
import { makeFolder } from '../support/worlds/export-world.js';

/** The sheet of data quality of a month, in each of its forms. */

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const FIRST_MS = Date.UTC(2026, 0, 30);
const ODD = `<b>O'DD|"&</b>_USDT`;

/** Two days of January and one of February of a market, with an hour lost and a candle in doubt. */
async function makeArchive() {
  const nowMs = FIRST_MS + 3 * DAY_MS;
  const { store, url } = await openTestStore({ exchangeNowMs: () => nowMs });
  await store.ensureMarkets([marketOf(ODD, { stock: 'A', money: 'USDT' })], FIRST_MS);
  await store.claimArchive({
    ...{ name: 'odd <exchange>', baseUrl: 'http://127.0.0.1:1', isSandbox: true },
    ...{ identity: 'seed 1', dialect: 'contract' },
  });
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await runSql(url, `UPDATE stream SET collect_from = to_timestamp(${FIRST_MS / 1000})`);
  const rows = [1, 2, 3, 4].map((tid) =>
    trade(tid, 0, { tradedAtS: FIRST_MS / 1000 + tid, receivedAtMs: FIRST_MS }),
  );
  const lost = { fromMs: FIRST_MS + DAY_MS, toMs: FIRST_MS + DAY_MS + HOUR_MS };
  await store.commit({
    trades: rows,
    claims: [
      { stream, span: { fromMs: FIRST_MS, toMs: lost.fromMs }, evidence: {} },
      { stream, span: { fromMs: lost.toMs, toMs: nowMs }, evidence: {} },
    ],
  });
  await store.recordGap({
    ...{ stream, span: lost, state: 'unfillable', reason: 'history horizon', atMs: nowMs },
  });
  await runSql(
    url,
    `INSERT INTO candle_check (market_id, interval_s, span, outcome, detail)
     VALUES (1, 60, tstzrange('2026-01-30', '2026-01-30 01:00'), 'match', '{}')`,
  );
  await store.noteRun({ host: 'one', version: '1', configHash: 'a'.repeat(64) });
  await store.noteRun({ host: 'one', version: '2', configHash: 'b'.repeat(64) });
  await runSql(
    url,
    `UPDATE run SET started_at = '2026-01-30', ended_at = '2026-01-31' WHERE run_id = 1;
     UPDATE run SET started_at = '2026-01-31', ended_at = '2026-02-02' WHERE run_id = 2`,
  );
  return { TAPEKEEP_DATABASE_URL: url };
}

/** Names of elements in the order of their tags; throws where they are not nested. */
function assertNested(page: string): void {
  const open: string[] = [];
  for (const [, slash, name = ''] of page.matchAll(/<(\/?)([a-z][a-z0-9]*)\b[^>]*>/g)) {
    if (name === 'meta') continue;
    if (slash === '') open.push(name);
    else assert.equal(open.pop(), name);
  }
  assert.deepEqual(open, []);
}

async function report(env: Record<string, string>, ...args: string[]) {
  const end = await runCommand(['report', '--month', '2026-01', ...args], env);
  assert.equal(end.code, 0, end.err);
  return end.out;
}

test('the sheet of a month has the same facts in each form', async (t: TestContext) => {
  const env = await makeArchive();
  const document = JSON.parse(await report(env, '--json')) as QualityReport;
  assert.deepEqual(
    [document.month, document.from, document.to, document.hasEnded],
    ['2026-01', '2026-01-01T00:00:00.000Z', '2026-02-01T00:00:00.000Z', true],
  );
  const [stream] = document.streams;
  assert.deepEqual(
    [stream?.market, stream?.rows, stream?.gaps, stream?.gapsPerMillionRows],
    [ODD, 4, 1, 250_000],
  );
  assert.deepEqual(
    [stream?.expectedS, stream?.missingS, stream?.unfillableS],
    [172_800, 3600, 3600],
  );
  assert.equal(stream?.missingSPerYear, (3600 / 172_800) * 365.25 * 86_400);
  assert.deepEqual(stream?.days, { available: 1, degraded: 1, pending: 0, missing: 0 });
  assert.deepEqual(
    document.incidents.map(({ cause, lengthMs }) => [cause, lengthMs]),
    [['history horizon', HOUR_MS]],
  );
  assert.deepEqual(document.checks, [{ market: ODD, intervalS: 60, verified: 60, mismatches: 0 }]);
  assert.deepEqual(
    document.runs.map(({ host, version, changed }) => [host, version, changed]),
    [
      ['one', '1', []],
      ['one', '2', ['version', 'configuration']],
    ],
  );

  const markdown = await report(env);
  assert.match(markdown, /^# Data quality of odd &lt;exchange&gt;, 2026-01\n/);
  assert.match(
    markdown,
    /\| &lt;b&gt;O'DD\\\|"&amp;&lt;\/b&gt;_USDT \| trades \| 4 \| 1 \| 250,000\.00 \| 1h \|/,
  );
  const folder = await makeFolder(t);
  const path = join(folder, 'sheet.html');
  await report(env, '--output', path);
  const page = await readFile(path, 'utf8');
  assertNested(page);
  assert.ok(page.includes('<td>&lt;b&gt;O&#39;DD|&quot;&amp;&lt;/b&gt;_USDT</td>'), page);
  assert.ok(!/<script|javascript:|\son\w+=/i.test(page));
  for (const fact of ['250,000.00', 'history horizon', 'bbbbbbbbbbbb', 'version, configuration']) {
    assert.ok(page.includes(fact) && markdown.includes(fact), fact);
  }
  const timeless = (text: string) => text.replace(/Made [\d :.-]+ UTC/, '').trim();
  assert.equal(timeless(await report(env, '--format', 'html')), timeless(page));
});

test('a month that is none, or to come, is refused', async () => {
  const env = await makeArchive();
  for (const month of ['2026-13', '2026-1', 'june']) {
    const end = await runCommand(['report', '--month', month], env);
    assert.equal(end.code, 2);
    assert.match(end.err, /write a month as 2026-01/);
  }
  const end = await runCommand(['report', '--month', '2099-01'], env);
  assert.equal(end.code, 2);
  assert.match(end.err, /it has not begun/);
  const folder = await runCommand(
    ['report', '--month', '2026-01', '--output', '/nowhere/a.md'],
    env,
  );
  assert.match(folder.err, /cannot write \/nowhere\/a\.md/);
});

test('a daemon is recorded with host, version and settings', async (t) => {
  const url = await makeDatabase('empty');
  const { program, ready } = await startSandbox(['--seed', '7']);
  t.after(() => program.dispose());
  const env = {
    ...{ TAPEKEEP_DATABASE_URL: url, TAPEKEEP_EXCHANGE_URL: ready.url, TAPEKEEP_HTTP_PORT: '0' },
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
  };
  for (const [at, token] of ['first-token-of-the-test', 'other-token-of-the-test'].entries()) {
    const own = { ...env, TAPEKEEP_HTTP_TOKEN: token };
    const daemon = new Program(['start'], { env: own });
    t.after(() => daemon.dispose());
    await daemon.until(async () => {
      const rows = await runSql(url, 'SELECT FROM run').catch(() => []);
      return rows.length > at;
    });
    daemon.kill('SIGTERM');
    assert.equal((await daemon.ended()).code, 0, daemon.dump());
  }
  const month = new Date().toISOString().slice(0, 7);
  const end = await runCommand(['report', '--json', '--month', month], env);
  const { runs } = JSON.parse(end.out) as QualityReport;
  assert.deepEqual(
    runs.map(({ host, changed }) => [host, changed]),
    [
      [hostname(), []],
      [hostname(), []],
    ],
    'a secret is no part of the hash',
  );
  assert.match(runs[0]?.configHash ?? '', /^[0-9a-f]{64}$/);
  assert.notEqual(runs[0]?.endedAt, null);
});
