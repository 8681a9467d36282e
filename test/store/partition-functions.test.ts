import assert from 'node:assert/strict';
import test from 'node:test';
import type { StreamRef } from '../../src/model/batch.js';
import type { Store } from '../../src/store/index.js';
import { runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import { miscountedDays } from '../support/postgres/postgres-rows.js';
import { openSql } from '../support/postgres/postgres-server.js';
import {
  DAY_MS,
  FIRST_MS,
  live,
  openSealingWorld,
  tradePartitions,
} from '../support/worlds/sealing-world.js';

/**
 * The functions that a writer may call with the owner's rights, called by hand as a writer: none of
 * them may take rows away that the ledger goes on claiming.
 */

const ROWS = 'SELECT count(*)::int AS n FROM trade';
const rowsOf = async (url: string) => (await runSql<{ n: number }>(url, ROWS))[0]?.n;

/** Rows that the counters know. */
const CLAIMED = `SELECT coalesce(sum(rows), 0)::int AS n FROM rows_by_day WHERE series = 'trade'`;
const claimed = async (url: string) => (await runSql<{ n: number }>(url, CLAIMED))[0]?.n;

async function spansOf(store: Store, streams: readonly StreamRef[]) {
  const found = await Promise.all(streams.map((stream) => store.coveredRanges(stream, 10)));
  return found.map((ranges) => ranges.map(({ span }) => span));
}

test('a partition given up by hand takes the coverage of its rows with it', async (t) => {
  const { store, url, streams } = await openSealingWorld(t);
  await runSql(
    url,
    `INSERT INTO gap (stream_id, market_id, span, state, reason, first_seen_at)
     VALUES ($1, 1, '[2026-01-12, 2026-01-14)', 'open', 'not collected', now());
    `.replace('$1', String(streams[0]?.streamId)),
  );
  await runSql(
    url,
    `INSERT INTO candle_check (market_id, interval_s, span, outcome, detail)
     VALUES (1, 60, '[2026-01-13, 2026-01-15)', 'match', '{}')`,
  );
  const writer = await openSql(await loginAs(url, 'tapekeep_writer'));
  await writer.run('BEGIN');
  await writer.run(`SELECT expire_partition('trade', '2026-01-13')`);
  await writer.run('ROLLBACK');
  assert.equal(await claimed(url), 240);
  const [gone] = await writer.run<{ was: string }>(
    `SELECT expire_partition('trade', '2026-01-13') AS was`,
  );
  await writer.end();
  assert.equal(gone?.was, 'hot');
  assert.equal(await rowsOf(url), 160);
  assert.equal(await claimed(url), 160);
  assert.deepEqual(await miscountedDays(url), []);
  const rest = { fromMs: FIRST_MS + DAY_MS, toMs: FIRST_MS + 3 * DAY_MS };
  assert.deepEqual(await spansOf(store, streams), [[rest], [rest]]);
  for (const stream of streams) assert.deepEqual(await store.gaps(stream, rest.toMs), []);
  assert.deepEqual(await runSql(url, 'SELECT span::text FROM gap'), []);
  assert.deepEqual(
    await runSql(url, `SELECT lower(span) = '2026-01-14' AS is_cut FROM candle_check`),
    [{ is_cut: true }],
  );
});

test('a partition given up before its elders leaves no claim of these', async (t) => {
  const { store, url, streams } = await openSealingWorld(t);
  // The first day is sealed, so that its rows are known, and the second is counted.
  const [first] = await tradePartitions(store);
  const desk = await store.sealing.open(new AbortController().signal);
  if (first === undefined) throw new Error('no partition');
  await desk.beginSeal(first);
  await desk.finishSeal(first, { rows: 80, checksum: 'x' });
  await desk.close();
  const login = await loginAs(url, 'tapekeep_writer');
  await runSql(login, `SELECT expire_partition('trade', '2026-01-14')`);
  const rest = { fromMs: FIRST_MS + 2 * DAY_MS, toMs: FIRST_MS + 3 * DAY_MS };
  assert.deepEqual(await spansOf(store, streams), [[rest], [rest]]);
  assert.deepEqual(await miscountedDays(url), []);
  assert.equal(await claimed(url), 160);
});

test('files are noted only with a manifest that names all rows, and rows leave only for these', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url } = world;
  await live(world);
  const [sealed] = await tradePartitions(store);
  const files = [
    { path: 'a', marketId: 1, rows: 40, bytes: 9, sha256: 'a'.repeat(64) },
    { path: 'b', marketId: 2, rows: 40, bytes: 8, sha256: 'b'.repeat(64) },
  ];
  const whole = {
    ...{ table: 'trade', from: '2026-01-13T00:00:00.000Z', to: '2026-01-14T00:00:00.000Z' },
    ...{ rows: 80, checksum: sealed?.checksum, sha256: 'c'.repeat(64), files },
  };
  const login = await loginAs(url, 'tapekeep_writer');
  const uri = 'manifests/trade/trade_20260113.json';
  const note = (manifest: object, at = uri) =>
    runSql<{ is: boolean }>(login, `SELECT note_files('trade', '2026-01-13', $1, $2) AS is`, [
      ...[at, JSON.stringify(manifest)],
    ]);
  const archive = () =>
    runSql<{ is: boolean }>(login, `SELECT archive_partition('trade', '2026-01-13') AS is`);
  const [one, two] = files;
  const wrong: [RegExp, object, string?][] = [
    [/its path of the manifest 'nowhere'/, whole, 'nowhere'],
    [/the checksum of itself/, { ...whole, sha256: undefined }],
    [/its table/, { ...whole, table: 'depth' }],
    [/its span/, { ...whole, to: '2026-01-15T00:00:00.000Z' }],
    [/the number of rows/, { ...whole, rows: 0, files: [] }],
    [/the number of rows/, { ...whole, files: [one] }],
    [/the rows of a market/, { ...whole, files: [one, { ...two, marketId: 1 }] }],
    [/a file/, { ...whole, files: [one, { ...two, path: '' }] }],
  ];
  for (const [message, manifest, at] of wrong) {
    await assert.rejects(note(manifest, at), { code: '22023', message });
  }
  assert.deepEqual(await note({ ...whole, checksum: 'another' }), [{ is: false }]);
  assert.deepEqual(await archive(), [{ is: false }], 'it has no files');
  assert.equal(await rowsOf(url), 240);
  // A plan of before.
  const asker = await openSql(url);
  t.after(() => asker.end());
  await asker.run(`PREPARE three AS SELECT count(*)::int AS n FROM analytics.trades`);
  assert.deepEqual(await asker.run('EXECUTE three'), [{ n: 240 }]);
  assert.deepEqual(await note(whole), [{ is: true }]);
  assert.deepEqual(await archive(), [{ is: true }]);
  assert.deepEqual(await asker.run('EXECUTE three'), [{ n: 240 }]);
  const [first] = await runSql(
    url,
    `SELECT relkind FROM pg_class WHERE relname = 'trade_20260113'`,
  );
  assert.deepEqual(first, { relkind: 'f' });
  assert.deepEqual(
    await runSql(
      url,
      `SELECT manifest_sha256, cold_bytes::int FROM partition_state WHERE uri = '${uri}'`,
    ),
    [{ manifest_sha256: whole.sha256, cold_bytes: 17 }],
  );
});

test('a partition is sealed with its rows, and comes back with them, or not at all', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url } = world;
  const [hot] = await tradePartitions(store);
  if (hot === undefined) throw new Error('no partition');
  const login = await loginAs(url, 'tapekeep_writer');
  await runSql(login, `SELECT begin_seal('trade', '2026-01-13')`);
  await assert.rejects(
    runSql(login, `SELECT finish_seal('trade', '2026-01-13', 0, 'none')`),
    /trade_20260113 has 80 rows and is not sealed with 0/,
  );
  await runSql(login, `SELECT reopen_partition('trade_20260113')`);
  await live(world, { rules: { coldAfterMs: DAY_MS } });
  const [archived] = await tradePartitions(store);
  assert.equal(archived?.state, 'archived');
  await runSql(login, `SELECT begin_restore('trade', '2026-01-13')`);
  await runSql(login, `SELECT index_restored('trade', '2026-01-13')`);
  const back = `SELECT finish_restore('trade', '2026-01-13', '${archived?.checksum}', 'again')`;
  await assert.rejects(
    runSql(login, back),
    /trade_20260113 stays archived: the rows that came back/,
  );
  assert.equal((await tradePartitions(store))[0]?.state, 'archived');
});

test('partitions are made for times that an exchange can have', async (t) => {
  const { store, url } = await openSealingWorld(t);
  const login = await loginAs(url, 'tapekeep_writer');
  const before = await store.sealing.partitions();
  for (const at of ['294000-01-01', '2008-12-31', '1970-01-01', 'infinity', '-infinity']) {
    await assert.rejects(runSql(login, `SELECT make_partition('trade', '${at}')`), {
      code: '22008',
      message: /^no partition of trade is made for .*: market data are of 2009-01-01/,
    });
  }
  await assert.rejects(runSql(login, `SELECT make_partition('trade', NULL)`), { code: '22008' });
  assert.deepEqual(await store.sealing.partitions(), before);
  const [made] = await runSql<{ made: string }>(
    login,
    `SELECT make_partition('trade', now() + interval '1 year') AS made`,
  );
  assert.match(made?.made ?? '', /^trade_\d{8}$/);
});
