import assert from 'node:assert/strict';
import test from 'node:test';
import { openArchive } from '../../../src/archive/events/archive.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { askControl } from '../../support/programs/control.js';
import { Program, startSandbox } from '../../support/programs/program.js';

const MARKET = 'BTC_USDT';

test('every trade of the sandbox comes once while its daemon is killed and started again', async (t) => {
  const databaseUrl = await makeDatabase('empty');
  const { program: sandbox, ready } = await startSandbox([
    ...['--run', '--control', '--keep-all', '--seed', '7', '--market', MARKET],
    ...['--no-rate-limit', '--start-offset', '3m'],
  ]);
  t.after(() => sandbox.dispose());
  const start = () => {
    const daemon = new Program(['start'], {
      env: {
        ...{ TAPEKEEP_DATABASE_URL: databaseUrl, TAPEKEEP_EXCHANGE_URL: ready.url },
        ...{ TAPEKEEP_REALTIME_URL: ready.realtimeUrl, TAPEKEEP_HTTP_PORT: '0' },
      },
    });
    t.after(() => daemon.dispose());
    return daemon;
  };
  const stored = async () => {
    const sql = 'SELECT tid::float8 AS id FROM trade ORDER BY tid';
    return (await runSql<{ id: number }>(databaseUrl, sql)).map(({ id }) => id);
  };
  let daemon = start();
  await daemon.page();
  await daemon.until(async () => (await stored().catch(() => [])).length > 0);
  const archive = await openArchive({ databaseUrl });
  t.after(() => archive.close());
  const query = { markets: [MARKET], kinds: ['trades'], gaps: 'ignore' } as const;
  const events = archive.events({ ...query, from: '2020-01-01', follow: true });
  const ids: number[] = [];
  const read = async (count: number) => {
    while (ids.length < count) {
      const { value } = await events.next();
      ids.push(value?.id ?? assert.fail('it has ended'));
    }
  };
  for (const isLast of [false, false, true]) {
    await read(ids.length + 20);
    daemon.kill(isLast ? 'SIGTERM' : 'SIGKILL');
    await daemon.ended();
    if (!isLast) daemon = start();
  }
  const all = await stored();
  await read(all.length);
  assert.deepEqual(
    ids.toSorted((a, b) => a - b),
    all,
  );
  const { text } = await askControl(ready.url, `sandbox/truth?market=${MARKET}`);
  const truth = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { readonly id: number }).id);
  const [oldest = 0, newest = 0] = [all[0], all.at(-1)];
  assert.deepEqual(all.slice(-50), truth.filter((id) => id >= oldest && id <= newest).slice(-50));
  await events.return();
});
