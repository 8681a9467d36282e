import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { findEmbeddedPostgres, startEmbeddedPostgres } from '../../../src/store/index.js';
import { isCovered } from '../../support/exchanges/recorded.js';
import { judgeClaims } from '../../support/oracle/claims.js';
import { assertConserved } from '../../support/oracle/conserved.js';
import { openSql, quietStoreEvents } from '../../support/postgres/postgres-server.js';
import { Program, startSandbox } from '../../support/programs/program.js';
import { mountSmallDisk } from '../../support/small-disk.js';

/**
 * A disk that is really full, below the daemon's own server: a file system of its own, filled to the
 * last byte. It takes Linux and root to mount one.
 */
const MARKET = 'BTC_USDT';
/** A cluster, its journal, and some minutes of data. */
const DISK_MB = 256;

test('a full disk below the embedded server: intake pauses, and goes on by itself with room', async (t) => {
  const disk = await mountSmallDisk(t, DISK_MB);
  if (disk === undefined) return;
  const dataDir = join(disk.path, 'data');
  const past = ['--start-offset', '10m'];
  const { program: sandbox, ready } = await startSandbox([
    ...['--seed', '5', '--market', MARKET, '--keep-all', '--no-rate-limit', ...past],
  ]);
  t.after(() => sandbox.dispose());
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start'], {
    env: {
      TAPEKEEP_DATA_DIR: dataDir,
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '40',
      TAPEKEEP_HTTP_PORT: '0',
    },
  });
  t.after(() => daemon.dispose());
  const address = await daemon.page();
  const statusOf = async (path: string) => (await fetch(`${address}/${path}`)).status;
  const isReady = async () => (await statusOf('readyz')) === 200;
  await daemon.line((line) => line.includes('"committed"'));
  await daemon.until(isReady);
  const beside = await findEmbeddedPostgres(dataDir, systemClock);
  const url = beside?.url ?? assert.fail('no server');

  await disk.fill();
  t.diagnostic(`${await disk.freeBytes()} bytes free`);
  const filledAtMs = systemClock.wallMs();
  await daemon.line((line) => /No space left on device/.test(line));
  await daemon.until(async () => (await statusOf('readyz')) === 503);
  assert.equal(await statusOf('healthz'), 200, 'a new start would not help');
  const metrics = await (await fetch(`${address}/metrics`)).text();
  assert.match(metrics, /^tapekeep_database_up 0$/m, 'what the alert looks at');
  // What a full disk may do to a server of itself, when its journal finds no room.
  const pidFile = await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8');
  const lost = daemon.line((line) => line.includes('embedded Postgres: lost'));
  const refused = daemon.line((line) => line.includes('embedded Postgres: not started'));
  process.kill(Number(pidFile.split('\n')[0]), 'SIGKILL');
  await lost;
  await Promise.race([refused, daemon.line((line) => line.includes('embedded Postgres: ready'))]);
  assert.equal(await statusOf('readyz'), 503);

  await disk.free();
  const freedAtMs = systemClock.wallMs();
  await daemon.until(isReady);
  const readyAtMs = systemClock.wallMs();
  const isCaughtUp = () =>
    isCovered(url, 'trades', filledAtMs - 1000, readyAtMs).catch(() => false);
  await daemon.until(isCaughtUp);
  t.diagnostic(
    `full for ${freedAtMs - filledAtMs} ms, ready ${readyAtMs - freedAtMs} ms after there was room`,
  );
  assertConserved(await (await fetch(`${address}/metrics`)).text());
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
  const server = await startEmbeddedPostgres({
    ...{ dataDir, clock: systemClock, telemetry: quietStoreEvents() },
  });
  // Before the disk goes, which an after hook would not be.
  await using _stopping = { [Symbol.asyncDispose]: () => server.stop() };
  const archive = await openSql(server.url);
  try {
    const { issued, proven, lies } = await judgeClaims(archive, ready.url, systemClock.wallMs());
    t.diagnostic(`${proven} of ${issued} trades proven`);
    assert.ok(proven > 20 && issued - proven < issued / 4, `${proven} of ${issued}`);
    const told = Object.entries(lies).filter(([, count]) => count > 0);
    assert.deepEqual(told, []);
    // The judge is no yes-man: one row less, one changed and a claim too many are each found.
    await archive.run(`
      WITH picked AS (
             SELECT tid, row_number() OVER (ORDER BY tid) AS n FROM trade t
             WHERE EXISTS (SELECT FROM coverage JOIN stream USING (stream_id)
                           WHERE kind = 'trades' AND span @> t.traded_at) LIMIT 2),
           gone AS (DELETE FROM trade USING picked WHERE trade.tid = picked.tid AND n % 2 = 0)
      UPDATE trade SET price = price + 1 FROM picked WHERE trade.tid = picked.tid AND n % 2 = 1`);
    await archive.run(`
      UPDATE coverage SET span = tstzrange(lower(span), now() + interval '1 h')
      WHERE stream_id = (SELECT min(stream_id) FROM stream WHERE kind = 'tickers')
        AND upper(span) = (SELECT max(upper(span)) FROM coverage c WHERE c.stream_id = coverage.stream_id)`);
    const { lies: found } = await judgeClaims(archive, ready.url, systemClock.wallMs());
    assert.deepEqual(
      ['claimed and not stored', 'stored with other fields', 'claims of the future'].map(
        (name) => found[name],
      ),
      [1, 1, 1],
    );
  } finally {
    await archive.end();
  }
});

const LIMIT = { timeout: 240_000 };
const isWaiting = (line: string) =>
  line.includes('"waiting for the database"') &&
  /the disk of \S+ is full \(\d+ bytes free\)/.test(line);

function startAlone(t: TestContext, dataDir: string, ...args: string[]): Program {
  const env = { TAPEKEEP_DATA_DIR: dataDir, TAPEKEEP_HTTP_PORT: '0' };
  const daemon = new Program(['--log-level', 'debug', '--log-format', 'json', 'start', ...args], {
    env,
  });
  t.after(() => daemon.dispose());
  return daemon;
}

test('a full disk at the start: it waits, says so, and goes on with room', LIMIT, async (t) => {
  const disk = await mountSmallDisk(t, DISK_MB);
  if (disk === undefined) return;
  const dataDir = join(disk.path, 'data');
  const pidOf = async () =>
    Number((await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8')).split('\n')[0]);
  for (const before of ['there is no cluster', 'it was stopped', 'it was killed']) {
    await disk.fill();
    const daemon = startAlone(t, dataDir);
    t.diagnostic(`${before}: ${await daemon.line(isWaiting)}`);
    await disk.free();
    await daemon.line((line) => line.includes('"committed"'));
    const pid = await pidOf();
    daemon.kill(before === 'it was stopped' ? 'SIGKILL' : 'SIGTERM');
    await daemon.ended();
    if (before === 'it was stopped') process.kill(pid, 'SIGKILL');
  }
  await disk.fill();
  const hasty = startAlone(t, dataDir, '--wait-for-database', '2s');
  assert.equal((await hasty.ended()).code, 1, hasty.dump());
  const said = hasty.lines.stderr.at(-1) ?? '';
  t.diagnostic(said);
  assert.match(
    said,
    /^tapekeep: the disk of \S+\/data\S* is full \(\d+ bytes free\): .*; waited 2s/,
  );
  const at = startAlone(t, dataDir, '--wait-for-database', '0');
  assert.equal((await at.ended()).code, 1, at.dump());
  assert.match(at.lines.stderr.at(-1) ?? '', /^tapekeep: the disk of \S+ is full/);
  assert.equal(at.lines.stderr.some(isWaiting), false);
});
