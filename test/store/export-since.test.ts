import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { runSql } from '../support/postgres/postgres.js';
import { claim, NOON_S, trade } from '../support/postgres/postgres-rows.js';
import { runCommand } from '../support/programs/commands.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import { makeFolder, openTradeArchive, readCsv } from '../support/worlds/export-world.js';

/** Exports that go on where the last one ended. */

const late = { receivedAtMs: (NOON_S + 500) * 1000 };

test('files that continue each other have every row once, late ones and archived ones too', async (t) => {
  const { store, url } = await openTradeArchive({
    A_B: [trade(1, 1), trade(5, 5)],
    C_D: [trade(3, 3)],
  });
  const folder = await makeFolder(t);
  const coldDir = join(folder, 'cold');
  const run = (...args: readonly string[]) =>
    runCommand(['export', '--kind', 'trades', ...args], {
      TAPEKEEP_DATABASE_URL: url,
      TAPEKEEP_COLD_DIR: coldDir,
    });
  const out = join(folder, 'all.csv');
  const since = async (path: string) => {
    const { code, err } = await run('--out', out, '--since-last');
    assert.equal(code, 0, err);
    return (await readCsv(join(folder, path))).slice(1).map(([market, , id]) => `${market} ${id}`);
  };
  const ab = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  // Stored, but not covered yet.
  await store.commit({ trades: [trade(7, 107)] });
  assert.equal((await run('--out', out)).code, 0);
  await store.commit({ trades: [trade(2, 2, late), trade(5, 5, late), trade(6, 101)] });
  await store.commit({ trades: [trade(8, 99, { ...late, marketId: 2 })] });
  await store.commit({ claims: [claim(ab, 100, 110)] });
  assert.deepEqual(await since('all.1.csv'), ['A_B 2', 'A_B 6', 'A_B 7', 'C_D 8']);
  assert.deepEqual(await since('all.2.csv'), []);

  await store.commit({ trades: [trade(4, 4, late), trade(9, 108)] });
  await archiveDay({ store, url, coldDir }, 'trades', '2026-01-15');
  assert.deepEqual(await since('all.3.csv'), ['A_B 4', 'A_B 9']);
  const told = JSON.parse(await readFile(`${join(folder, 'all.3.csv')}.manifest.json`, 'utf8'));
  assert.deepEqual(
    [told.continues, told.rows, told.markets[0].lateFrom, told.markets[0].from],
    ['all.2.csv', 2, '2026-01-15T12:00:00.000Z', '2026-01-15T12:01:50.000Z'],
  );
});

test('refuses by name what cannot be continued', async (t) => {
  const { url, store } = await openTradeArchive({ A_B: [trade(1, 1)], C_D: [trade(3, 3)] });
  const folder = await makeFolder(t);
  const out = join(folder, 'all.csv');
  const run = (...args: readonly string[]) =>
    runCommand(['export', '--out', out, ...args], { TAPEKEEP_DATABASE_URL: url });
  const refused = async (message: RegExp, ...args: readonly string[]) => {
    const { code, err } = await run('--since-last', ...args);
    assert.equal(code, 2, err);
    assert.match(err, message);
  };
  const trades = ['--kind', 'trades'];
  await refused(
    /there is no .*all\.csv\.manifest\.json; export without --since-last first/,
    ...trades,
  );
  assert.equal((await run(...trades)).code, 0);
  await refused(/leave out --from, --to and --manifest/, ...trades, '--from', '2026-01-15');
  await refused(
    /it has the markets A_B, C_D, not A_B; export the whole range again/,
    ...trades,
    '--market',
    'A_B',
  );
  await store
    .ensureStream({ kind: 'tickers', marketId: 1, variant: 0 })
    .then((stream) => store.commit({ claims: [claim(stream, 0, 100)] }));
  await refused(/it has trades, not tickers/, '--kind', 'tickers');
  await runSql(url, 'SELECT restart_journal()');
  await refused(
    /the journal no longer has all changes since it; export the whole range again/,
    ...trades,
  );
  await writeFile(`${out}.manifest.json`, '{}');
  await refused(/not one of an export that can be continued/, ...trades);
});
