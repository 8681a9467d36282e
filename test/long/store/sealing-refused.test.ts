import assert from 'node:assert/strict';
import fs, { mkdir, readFile, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { constants } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { filesBelow, SCRATCH_FOLDER } from '../../../src/archive/cold/folder.js';
import { readColdManifest } from '../../../src/archive/cold/manifest.js';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import type { LifeReport } from '../../../src/archive/sealing/life.js';
import { AbortedError } from '../../../src/kernel/errors.js';
import type { Span } from '../../../src/kernel/span.js';
import { matchRow } from '../../../src/model/check-results.js';
import { runSql } from '../../support/postgres/postgres.js';
import { revoke } from '../../support/postgres/postgres-rows.js';
import { openSql } from '../../support/postgres/postgres-server.js';
import {
  allTrades,
  bringBack,
  DAY_MS,
  FIRST_MS,
  live,
  openSealingWorld,
  preview,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';

const COLD = { coldAfterMs: DAY_MS };
const statesOf = async (world: Parameters<typeof live>[0]) =>
  (await tradePartitions(world.store)).map(({ state }) => state);

test('what has not settled is not sealed, and it is said why', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url, streams } = world;
  const [stream] = streams;
  assert.ok(stream !== undefined);
  const gap = { fromMs: FIRST_MS + DAY_MS, toMs: FIRST_MS + DAY_MS + 60_000 };
  await runSql(url, 'UPDATE stream SET collect_from = $1', [new Date(FIRST_MS)]);
  await revoke(store, stream, gap, { reason: 'suspect', note: '', atMs: FIRST_MS });
  const notes = async () => (await live(world)).outcomes.map(({ note }) => note);
  assert.deepEqual(await notes(), [
    null,
    'an open gap of trades of BTC_USDT from 2026-01-14 00:00:00 on',
    null,
  ]);
  await store.recordGap({
    ...{ stream, span: gap, state: 'unfillable', reason: 'beyond history', atMs: FIRST_MS },
  });
  assert.deepEqual(await notes(), [
    'incomplete: trades of BTC_USDT from 2026-01-14 00:00:00 to 2026-01-14 00:01:00 are missing',
  ]);

  // A candle that nobody has held against the trades.
  const other = await openSealingWorld(t);
  const kline = await other.store.ensureStream({ kind: 'candles', marketId: 1, variant: 3600 });
  const span = { fromMs: FIRST_MS + DAY_MS, toMs: FIRST_MS + DAY_MS + 3_600_000 };
  await other.store.commit({ claims: [{ stream: kline, span, evidence: {} }] });
  const report = await live(other);
  assert.deepEqual(
    report.outcomes.map(({ note }) => note),
    [
      null,
      'candles 1h of BTC_USDT are not verified yet from 2026-01-14 00:00:00 on, which a running daemon does within minutes',
      null,
    ],
  );
  await other.store.checks.record(1, 3600, [matchRow(span)]);
  assert.deepEqual(
    (await live(other)).outcomes.map(({ became }) => became),
    ['sealed'],
  );
});

test('rows of a day of which nothing is expected are not all of it, which is said', async (t) => {
  const world = await openSealingWorld(t);
  const secondMs = FIRST_MS + DAY_MS;
  await runSql(world.url, 'UPDATE coverage SET span = span * tstzrange($1, NULL)', [
    new Date(secondMs),
  ]);
  await runSql(world.url, 'UPDATE stream SET collect_from = $1', [new Date(secondMs)]);
  const notWhole =
    /^incomplete: trades of BTC_USDT from 2026-01-13 00:00:00 to 2026-01-14 00:00:00 are missing/;
  for (const look of [preview, live]) {
    const { outcomes } = await look(world, { isChosen: ({ span }) => span.fromMs === FIRST_MS });
    assert.deepEqual(
      outcomes.map(({ became }) => became),
      ['sealed'],
    );
    assert.match(outcomes[0]?.note ?? '', notWhole, look.name);
  }
});

test('a day that began before its history is sealed, and not without a word', async (t) => {
  const world = await openSealingWorld(t);
  const beginsMs = FIRST_MS + 3_600_000;
  const late = [new Date(FIRST_MS), new Date(beginsMs)];
  // Nobody knows how much was before.
  await runSql(
    world.url,
    'UPDATE coverage SET span = tstzrange($2, upper(span)) WHERE lower(span) = $1',
    late,
  );
  await runSql(world.url, 'DELETE FROM trade WHERE traded_at < $1', late.slice(1));
  await runSql(
    world.url,
    `UPDATE rows_by_day r SET (rows, timed) = (
       SELECT count(*), count(executed_at) FROM trade t
       WHERE (traded_at AT TIME ZONE 'UTC')::date = r.day AND t.market_id = r.market_id)
     WHERE series = 'trade'`,
  );
  // As long as a walk goes on down into the day, or will come to it, it is not final.
  const reached = '2026-01-13T01:00:00.000Z';
  for (const look of [preview, live]) {
    const { outcomes } = await look(world, { isChosen: ({ span }) => span.fromMs === FIRST_MS });
    assert.deepEqual(
      outcomes.map(({ became, note }) => [became, note]),
      [
        [
          'kept',
          `the walk back through the history of trades of BTC_USDT has not come to its start, and may bring more from before ${reached}: collect on, then seal it`,
        ],
      ],
      look.name,
    );
  }
  const begins = 'UPDATE stream SET collect_from = $1';
  await runSql(world.url, begins, late.slice(1));
  const before = 'trades of BTC_USDT from 2026-01-13 00:00:00 to 2026-01-13 01:00:00 are missing';
  const said = [
    ['sealed', `incomplete: ${before}, and parts of other streams (1)`],
    ['sealed', null],
    ['sealed', null],
  ];
  for (const look of [preview, live]) {
    const { outcomes } = await look(world);
    const notes = outcomes.map(({ became, note }) => [became, note]);
    assert.deepEqual(notes, said, look.name);
  }
});

test('a partition with other rows than were counted is not sealed', async (t) => {
  const world = await openSealingWorld(t);
  await runSql(world.url, 'DELETE FROM trade WHERE tid = 1003');
  const { outcomes } = await live(world);
  assert.deepEqual(
    outcomes.map(({ became }) => became),
    ['sealed', 'kept', 'sealed'],
  );
  assert.match(outcomes[1]?.note ?? '', /40 rows of BTC_USDT were stored .* there are 39/);
});

test('rows that were changed behind the seal are not archived', async (t) => {
  const world = await openSealingWorld(t);
  await live(world);
  const sql = await openSql(world.url);
  await sql.run('SET session_replication_role = replica');
  await sql.run("UPDATE trade SET amount = '3.00000001' WHERE tid = 5");
  await sql.end();
  const { failures, outcomes } = await live(world, { rules: COLD });
  assert.deepEqual(
    failures.map(({ partition, error }) => [partition, error.code]),
    [['trade_20260113', 'cold_mismatch']],
  );
  assert.equal(outcomes.length, 2);
  assert.deepEqual(await statesOf(world), ['sealed', 'archived', 'archived']);
});

test('files that are not what was written are named, and nothing changes', async (t) => {
  const world = await openSealingWorld(t);
  const { url, coldDir, store } = world;
  const before = await allTrades(url);
  await live(world, { rules: COLD });
  const [first, second, third] = await tradePartitions(store);
  const fileOf = async (partition: typeof first) => {
    const manifest = await readColdManifest(new FolderStorage(coldDir), partition?.uri ?? '');
    return join(coldDir, manifest.files[0]?.path ?? '');
  };
  const [altered, cut] = [await fileOf(first), await fileOf(second)];
  const [whole, cutWhole] = [await readFile(altered), await readFile(cut)];
  const wrong = Buffer.from(whole);
  wrong.writeUInt8((wrong[64] ?? 0) ^ 0xff, 64);
  await writeFile(altered, wrong);
  await truncate(cut, 100);
  const manifest = join(coldDir, third?.uri ?? '');
  const text = await readFile(manifest, 'utf8');
  await writeFile(manifest, text.replace('"rows": 80', '"rows": 81'));
  const { failures, outcomes } = await bringBack(world);
  assert.deepEqual(outcomes, []);
  assert.deepEqual(
    failures.slice(0, 3).map(({ error }) => error.code),
    ['cold_damaged', 'cold_damaged', 'cold_damaged'],
  );
  assert.ok(failures[0]?.error.message.includes(altered), 'the file is named');
  assert.match(failures[0]?.error.message ?? '', /its sha256 is [0-9a-f]{64} and not/);
  assert.deepEqual(await statesOf(world), ['archived', 'archived', 'archived']);
  await writeFile(altered, whole);
  await writeFile(cut, cutWhole);
  await writeFile(manifest, text);
  assert.deepEqual((await bringBack(world)).failures, []);
  assert.deepEqual(await allTrades(url), before);
});

test('a transaction that keeps its snapshot reads rows that have been archived since', async (t) => {
  const world = await openSealingWorld(t);
  await live(world);
  const [{ name: market } = assert.fail('a market')] = await runSql<{ name: string }>(
    world.url,
    'SELECT name FROM market WHERE market_id = 1',
  );
  const reader = await openSql(world.url);
  const ask = (from: string, to: string) =>
    reader.run(`SELECT count(*) FROM analytics.trades('${market}', '${from}', '${to}')`);
  // It has looked at no series yet, so that nothing keeps their partitions where they are.
  await reader.run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM market');
  await live(world, { rules: COLD });
  assert.deepEqual(await statesOf(world), ['archived', 'archived', 'archived']);
  const counted = await ask('2026-01-13', '2026-01-14');
  assert.deepEqual(counted, [{ count: '40' }]);
  await reader.run('COMMIT');
  assert.deepEqual(await ask('2026-01-13', '2026-01-14'), counted);
  await reader.end();
});

test('readers are not disturbed: the switch waits for them, and gives up soon', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url } = world;
  const before = await allTrades(url);
  await live(world);
  const snapshot = await store.snapshot();
  const waiting = await live(world, { rules: COLD });
  assert.deepEqual(
    waiting.outcomes.map(({ became }) => became),
    ['kept'],
    'who holds one partition holds all',
  );
  assert.match(waiting.outcomes[0]?.note ?? '', /^it is in use by process \d+ \(tapekeep/);
  await snapshot.close();

  // Somebody has read one day, and keeps its transaction open.
  const reader = await openSql(named(url, 'a notebook'));
  await reader.run('BEGIN');
  await reader.run(
    "SELECT count(*) FROM trade WHERE traded_at >= '2026-01-14' AND traded_at < '2026-01-15'",
  );
  const { outcomes } = await live(world, { rules: COLD });
  assert.deepEqual(
    outcomes.map(({ became }) => became),
    ['kept'],
  );
  assert.match(outcomes[0]?.note ?? '', /^it is in use by process \d+ \(a notebook, user/);
  assert.deepEqual(await statesOf(world), ['sealed', 'sealed', 'sealed']);
  await reader.run('COMMIT');
  await reader.end();
  await live(world, { rules: COLD });
  assert.deepEqual(await statesOf(world), ['archived', 'archived', 'archived']);
  assert.deepEqual(await allTrades(url), before);
});

test('what is in use names who has it, and what to do', async (t) => {
  const world = await openSealingWorld(t);
  const reader = await openSql(world.url);
  await reader.run('BEGIN; SELECT count(*) FROM trade_20260114');
  const writer = await openSql(named(world.url, 'night job'));
  await writer.run("BEGIN; LOCK TABLE trade_20260114 IN ROW EXCLUSIVE MODE; SELECT 'a secret'");
  const [{ pid } = { pid: 0 }] = await writer.run<{ pid: number }>(
    'SELECT pg_backend_pid() AS pid',
  );
  const { outcomes } = await live(world);
  assert.deepEqual(
    outcomes.map(({ became }) => became),
    ['sealed', 'kept', 'sealed'],
  );
  const since = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ';
  const doing = `night job, user \\w+, idle in transaction since ${since}: "SELECT pg_backend_pid\\(\\) AS pid"`;
  const rest = `try again when that has ended, or end it: SELECT pg_terminate_backend\\(${pid}\\)`;
  assert.match(
    outcomes[1]?.note ?? '',
    new RegExp(
      `^it is in use by process ${pid} \\(${doing}\\), and stays as it is for now: ${rest}$`,
    ),
  );
  await writer.run('COMMIT');
  await writer.end();
  await reader.run('COMMIT');
  await reader.end();
  await live(world);
  assert.deepEqual(await statesOf(world), ['sealed', 'sealed', 'sealed']);
});

test('one at a time, stopped at any time, and in a folder of its own', async (t) => {
  const world = await openSealingWorld(t);
  const stopping = new AbortController();
  await assert.rejects(
    live(world, {
      rules: COLD,
      signal: stopping.signal,
      onStep: async (step) => {
        if (step === 'seal: count') {
          await assert.rejects(live(world), { code: 'sealing_busy', action: 'retry' });
        }
        if (step === 'archive: verify') stopping.abort(new AbortedError());
      },
    }),
    { code: 'aborted' },
  );
  assert.deepEqual(await statesOf(world), ['sealed', 'sealed', 'sealed']);
  await runSql(
    world.url,
    `SELECT pg_advisory_lock(token), pg_advisory_unlock_all() FROM exclusive_lock
     WHERE name = 'sealing'`,
  );
  await live(world, { rules: COLD });
  assert.deepEqual(await statesOf(world), ['archived', 'archived', 'archived']);
  const names = await filesBelow(world.coldDir);
  assert.equal(names.length, 3 + 6 + 1, 'manifests, data and the marker; nothing of the first try');

  const other = await openSealingWorld(t);
  await other.store.claimArchive({
    name: 'x',
    baseUrl: 'http://x',
    isSandbox: true,
    identity: null,
  });
  await live(other);
  const stranger = { store: other.store, coldDir: world.coldDir };
  assert.deepEqual(await refusalOf(live(stranger, { rules: COLD })), ['cold_refused']);
  assert.deepEqual(await filesBelow(world.coldDir), names);
});

/** What a run reports of its cold folder. */
async function refusalOf(run: Promise<LifeReport>): Promise<string[]> {
  return (await run).failures.map(({ error }) => error.code);
}

test('nothing more is moved into files while the folder of those that there are is away', async (t) => {
  const world = await openSealingWorld(t);
  const dayOf =
    (n: number) =>
    ({ span }: { span: Span }) =>
      span.fromMs === FIRST_MS + n * DAY_MS;
  await live(world, { rules: COLD, isChosen: dayOf(0) });
  const away = `${world.coldDir}.away`;
  await rename(world.coldDir, away);
  t.after(() => rm(away, { recursive: true, force: true }));
  for (const isMountPoint of [false, true]) {
    if (isMountPoint) await mkdir(world.coldDir);
    const { outcomes, failures } = await live(world, { rules: COLD });
    assert.deepEqual(
      outcomes.map(({ became }) => became),
      isMountPoint ? [] : ['sealed', 'sealed'],
      'what was done before is reported all the same',
    );
    const [refused, ...more] = failures;
    assert.equal(refused?.error.code, 'cold_missing');
    assert.match(
      refused?.error.message ?? '',
      /holds no cold files of this archive, and trade_20260113 should be there: mount/,
    );
    assert.deepEqual(more, []);
    assert.deepEqual(await filesBelow(world.coldDir).catch(() => []), []);
  }
  assert.deepEqual(await statesOf(world), ['archived', 'sealed', 'sealed']);
  const nothingDue = { rules: { ...COLD, coldAfterMs: 365 * DAY_MS } };
  assert.deepEqual(await refusalOf(live(world, nothingDue)), ['cold_missing']);
  // What cannot even be looked at is a failure of the round like others.
  await rm(world.coldDir, { recursive: true });
  await symlink(world.coldDir, world.coldDir);
  assert.deepEqual(await refusalOf(live(world, { rules: COLD })), ['cold_refused']);
  await rm(world.coldDir);
  await rename(away, world.coldDir);
  await live(world, { rules: COLD, isChosen: dayOf(1) });
  assert.deepEqual(await statesOf(world), ['archived', 'archived', 'sealed']);

  // Lost for good, they leave with a retention that gives up their time, and the folder begins anew.
  await rm(world.coldDir, { recursive: true });
  const first = { ...COLD, retentionMs: { trade: 3 * DAY_MS } };
  const partly = await live(world, { rules: first, nowMs: FIRST_MS + 4.5 * DAY_MS });
  assert.deepEqual(
    partly.outcomes.map(({ became }) => became),
    ['expired'],
  );
  assert.deepEqual(
    partly.failures.map(({ error }) => error.code),
    ['cold_missing'],
    'once',
  );
  const nowMs = FIRST_MS + 4.5 * DAY_MS;
  const { failures } = await live(world, {
    nowMs,
    rules: { coldAfterMs: DAY_MS, retentionMs: { trade: 2 * DAY_MS } },
  });
  assert.deepEqual(failures, []);
  assert.deepEqual(await statesOf(world), ['expired', 'expired', 'archived']);
});

test('what tidying is refused takes nothing from the report of the round, whatever Node calls it', async (t) => {
  // Node has no name for what a network file system says of a handle that its server forgot.
  const errno = -constants.errno.ESTALE;
  const stale = Object.assign(new Error(), { errno, code: `Unknown system error ${errno}` });
  for (const [error, said] of [
    [Object.assign(new Error(), { code: 'EHOSTDOWN' }), /cannot be read or written \(EHOSTDOWN\)/],
    [stale, /cannot be read or written \(ESTALE\)/],
  ] as const) {
    const world = await openSealingWorld(t);
    await mkdir(join(world.coldDir, SCRATCH_FOLDER));
    const removal = t.mock.method(fs, 'rm', () => Promise.reject(error));
    syncBuiltinESMExports();
    const report = live(world);
    await report.catch(() => undefined);
    removal.mock.restore();
    syncBuiltinESMExports();
    const { outcomes, failures } = await report;
    assert.deepEqual(
      outcomes.map(({ became }) => became),
      ['sealed', 'sealed', 'sealed'],
    );
    assert.deepEqual(
      failures.map((one) => one.error.code),
      ['cold_refused'],
    );
    assert.match(failures[0]?.error.message ?? '', said);
  }
});

test('what was restored is left alone for a while, and goes again without being asked twice', async (t) => {
  const world = await openSealingWorld(t);
  await live(world, { rules: COLD });
  await bringBack(world);
  const resting = { ...COLD, restMs: DAY_MS };
  assert.deepEqual((await live(world, { rules: resting })).outcomes, []);
  const { outcomes } = await live(world, { rules: COLD });
  assert.equal(outcomes.filter(({ became }) => became === 'archived').length, 3);
  await bringBack(world, {}, true);
  assert.deepEqual(await filesBelow(world.coldDir), ['archive.json']);
});

test('files of what is back already are deleted when its rows were seen, and not before', async (t) => {
  const world = await openSealingWorld(t);
  await live(world, { rules: COLD });
  await bringBack(world);
  const files = await filesBelow(world.coldDir);
  assert.equal(files.length, 3 + 6 + 1);
  assert.deepEqual((await bringBack(world)).outcomes, [], 'nothing is to be done unasked');
  const sql = await openSql(world.url);
  await sql.run('SET session_replication_role = replica');
  await sql.run("UPDATE trade SET amount = '3.00000001' WHERE tid = 5");
  const one = { isChosen: ({ name }: { name: string }) => name !== 'trade_20260115' };
  const refused = await bringBack(world, one, true);
  assert.deepEqual(
    refused.failures.map(({ partition, error }) => [partition, error.code]),
    [['trade_20260113', 'cold_mismatch']],
  );
  assert.match(refused.failures[0]?.error.message ?? '', /its files stay/);
  const left = await filesBelow(world.coldDir);
  const days = ['date=2026-01-13', 'date=2026-01-14', 'date=2026-01-15'];
  assert.deepEqual(
    days.map((day) => left.some((name) => name.includes(day))),
    [true, false, true],
  );
  await sql.run("UPDATE trade SET amount = '3.0' WHERE tid = 5");
  await sql.end();
  // Of the one between them there are none, and nothing says that there were.
  const { outcomes } = await bringBack(world, {}, true);
  assert.deepEqual(
    outcomes.map(({ note }) => /were counted again; its files are deleted/.test(note ?? '')),
    [true, true],
  );
  assert.deepEqual(await filesBelow(world.coldDir), ['archive.json']);
  assert.equal((await allTrades(world.url)).length, 240);
});

/** The address with the name that the server shows of whoever uses it. */
function named(url: string, application: string): string {
  const address = new URL(url);
  address.searchParams.set('application_name', application);
  return address.href;
}
