import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { filesBelow } from '../../../src/archive/cold/folder.js';
import { runSql } from '../../support/postgres/postgres.js';
import { revoke, setCollectFrom } from '../../support/postgres/postgres-rows.js';
import { runCommand } from '../../support/programs/commands.js';
import { Program, startSandbox } from '../../support/programs/program.js';
import { DAYS, openDaysWorld } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** The life of partitions as an operator meets it. */

interface Shown {
  readonly partitions: ReadonlyArray<{
    readonly table: string;
    readonly name: string;
    readonly state: string;
    readonly rows: number | null;
    readonly coldBytes: number | null;
    readonly uri: string | null;
  }>;
}

/** Files have more zeros at the end of a number than a statement over the database alone. */
const exact = (sum: string) => `rtrim(rtrim(${sum}::varchar, '0'), '.')`;
const COUNTS = `select market, count(*) as n, ${exact('sum(amount)')} as a, ${exact('sum(total)')} as t
  from trades group by market order by market`;
const stateList = ({ partitions }: Shown) => partitions.map(({ state }) => state);

test('sealed, moved, asked and brought back by commands', async (t) => {
  const { url, coldDir } = await openDaysWorld(await makeFolder(t));
  const env = {
    TAPEKEEP_DATABASE_URL: url,
    TAPEKEEP_COLD_DIR: coldDir,
    TAPEKEEP_VERIFICATION_ENABLED: 'false',
  };
  const run = (...args: string[]) => runCommand(args, env);
  const look = async () =>
    JSON.parse((await run('partitions', '--kind', 'trades', '--json')).out) as Shown;
  assert.deepEqual(stateList(await look()), ['hot', 'hot', 'hot']);
  const before = (await run('query', '--json', COUNTS)).out;

  await runSql(url, 'ANALYZE trade');
  const due = ['--dry-run', '--kind', 'trades', '--before', DAYS[2]];
  const preview = await run('seal', ...due);
  assert.equal(preview.code, 0, preview.err);
  assert.equal(preview.out.match(/^trade_2026011\d +sealed +~24 /gm)?.length, 2, preview.out);
  assert.doesNotMatch(preview.out, / archived /);
  const leaving = await run('seal', '--archive', ...due);
  assert.match(leaving.out, /^trade_20260114 +sealed .*\ntrade_20260114 +archived /m);
  assert.deepEqual(stateList(await look()), ['hot', 'hot', 'hot'], 'nothing was done');
  const dated = await run('seal', '--dry-run', '--kind', 'trades');
  assert.match(
    dated.out,
    /^trade_20260116: due to be sealed from 2026-01-\d\d \d\d:00:00 on\.$/m,
    dated.out,
  );

  const sealed = await run('seal', '--archive', '--kind', 'trades', '--before', DAYS[2], '--json');
  assert.equal(sealed.code, 0, sealed.err);
  const { partitions, failures } = JSON.parse(sealed.out);
  assert.deepEqual(failures, []);
  assert.deepEqual(
    partitions.map(({ name, became }: { name: string; became: string }) => [name, became]),
    [
      ['trade_20260114', 'sealed'],
      ['trade_20260115', 'sealed'],
      ['trade_20260114', 'archived'],
      ['trade_20260115', 'archived'],
    ],
  );
  assert.deepEqual(stateList(await look()), ['archived', 'archived', 'hot']);
  const again = await run('seal', '--archive', '--kind', 'trades', '--before', DAYS[2]);
  assert.match(again.out, /no partition that ended before that time is left to be sealed or moved/);
  const table = await run('partitions', '--kind', 'trades');
  assert.match(
    table.out,
    /^trade_20260114 +2026-01-14 +2026-01-15 +archived +24 +0 +0 +[\d,]+ +– +–$/m,
  );
  assert.deepEqual(
    await runSql(url, `SELECT count(*)::int AS n FROM trade WHERE traded_at >= '${DAYS[2]}'`),
    [{ n: 24 }],
  );
  const both = await run('query', '--json', COUNTS);
  assert.equal(both.out, before, both.err);
  const doctor = async (dir: string) =>
    (await runCommand(['doctor'], { ...env, TAPEKEEP_COLD_DIR: dir })).out;
  assert.doesNotMatch(await doctor(coldDir), /cold files/);
  assert.match(
    await doctor(join(coldDir, 'elsewhere')),
    /^warning +database +trade_20260114 is in cold files, and .*elsewhere.* cannot be found$/m,
  );
  const marker = join(coldDir, 'archive.json');
  const owner = JSON.parse(await readFile(marker, 'utf8'));
  await writeFile(marker, JSON.stringify({ ...owner, database: 'original', databaseOid: 1 }));
  assert.match(
    await doctor(coldDir),
    /^warning +database +\S+ belongs to the database original .*, and this one is test_/m,
  );
  const adopted = await run('adopt');
  assert.deepEqual([adopted.code, adopted.err], [0, '']);
  assert.match(adopted.out, /belongs to the database test_\w+ now\.$/);
  assert.deepEqual(JSON.parse(await readFile(marker, 'utf8')), owner);

  const span = ['--from', DAYS[1], '--to', '2026-01-15T12:00:00Z'];
  const copied = await run('restore', '--kind', 'trades', ...span);
  assert.match(copied.out, /Their files stay in .*--remove-files deletes them\.$/m);
  assert.match(copied.out, /^trade_20260115 +restored +24 /m);
  const back = await run('restore', '--kind', 'trades', ...span, '--remove-files');
  assert.equal(back.code, 0, back.err);
  assert.match(back.out, /^trade_20260115 +kept +24 .*\n.*its files are deleted\.$/m);
  const told = await look();
  assert.deepEqual(stateList(told), ['archived', 'sealed', 'hot']);
  const moving = { ...env, TAPEKEEP_COLD_ENABLED: 'true', TAPEKEEP_COLD_AFTER: '2d' };
  const planned = await runCommand(['partitions', '--json', '--kind', 'trades'], moving);
  const [, rested] = JSON.parse(planned.out).partitions;
  const restMs = Date.parse(rested.due.archive) - Date.parse(rested.restoredAt);
  assert.equal(restMs, 2 * 86_400_000, 'a daemon leaves it alone for the time of cold.after');
  const short = { ...env, TAPEKEEP_RETENTION_TRADES: '1d' };
  const given = await runCommand(['partitions', '--kind', 'trades'], short);
  assert.match(given.out, /^trade_20260114 .* at next look$/m);
  assert.match(given.out, /^at next look: a daemon .* looks every 10m \(partitions\.every\)$/m);
  assert.match(
    given.out,
    /^trade_20260116 .* – +2026-01-18$/m,
    'it is given up before it is due to be sealed',
  );
  assert.deepEqual(
    told.partitions.map(({ uri, coldBytes }) => [uri === null, coldBytes === null]),
    [
      [false, false],
      [true, true],
      [true, true],
    ],
  );
  const names = await filesBelow(coldDir);
  assert.ok(names.some((name) => name.includes(`date=${DAYS[0]}`)));
  assert.ok(!names.some((name) => name.includes(`date=${DAYS[1]}`)), 'its files are gone');
  assert.equal((await run('query', '--json', COUNTS)).out, before);

  for (const [args, said] of [
    [['restore', '--kind', 'trades', '--from', DAYS[1], '--to', DAYS[0]], /--to/],
    [['restore', '--kind', 'trade_2026', '--from', '1d', '--to', 'now'], /no kind "trade_2026"/],
    [['restore', '--kind', 'trades', '--from', 'yesterday?', '--to', 'now'], /--from/],
    [['seal', '--before', '2099-01-01'], /--before.*lies in the future/],
    [['partitions', '--kind', 'bids'], /no kind "bids"/],
  ] as const) {
    const refused = await run(...args);
    assert.equal(refused.code, 2, `${args.join(' ')}: ${refused.err}`);
    assert.match(refused.err, said);
  }
});

test('a daemon seals, moves and gives up by its settings, while it collects', async (t) => {
  const { url } = await openDaysWorld('');
  const dataDir = await makeFolder(t);
  const { program, ready } = await startSandbox(['--seed', '7']);
  t.after(() => program.dispose());
  const startDaemon = (settings: Readonly<Record<string, string>> = {}) => {
    const env = {
      TAPEKEEP_DATABASE_URL: url,
      TAPEKEEP_DATA_DIR: dataDir,
      TAPEKEEP_EXCHANGE_URL: ready.url,
      TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
      TAPEKEEP_HTTP_PORT: '0',
      TAPEKEEP_STREAMS_TRADES_HISTORY: 'none',
      TAPEKEEP_STREAMS_CANDLES_HISTORY: 'none',
      TAPEKEEP_VERIFICATION_ENABLED: 'false',
      TAPEKEEP_PARTITIONS_EVERY: '1s',
      TAPEKEEP_COLD_ENABLED: 'true',
      TAPEKEEP_RETENTION_DEPTH: '30d',
      ...settings,
    };
    const args = ['--log-level', 'info', '--log-format', 'json', 'start'];
    const started = new Program(args, { env });
    t.after(() => started.dispose());
    return started;
  };
  const daemon = startDaemon();
  const lives = () =>
    runSql<{ table: string; states: string }>(
      url,
      `SELECT table_name AS table, string_agg(DISTINCT state, ' ') AS states FROM partition_state
       WHERE upper(span) < '2026-02-02' GROUP BY 1 ORDER BY 1`,
    );
  const wanted = [
    { table: 'depth', states: 'expired' },
    { table: 'kline', states: 'archived' },
    { table: 'kline_revision', states: 'archived' },
    { table: 'market_state', states: 'archived' },
    { table: 'ticker', states: 'archived' },
    { table: 'trade', states: 'archived' },
  ];
  await daemon.until(async () => JSON.stringify(await lives()) === JSON.stringify(wanted));
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
  assert.doesNotMatch(daemon.dump(), /cold_files_missing/);
  const astray = startDaemon({ TAPEKEEP_COLD_DIR: await makeFolder(t) });
  await astray.line((line) => /is in cold files, and .* cannot be found: .*cold\.dir/.test(line));
  astray.kill('SIGTERM');
  assert.equal((await astray.ended()).code, 0, astray.dump());
  const ledger = await runSql(
    url,
    `SELECT s.kind, count(c)::int AS islands FROM stream s
       LEFT JOIN coverage c ON c.stream_id = s.stream_id AND lower(c.span) = '2026-01-14Z'
     WHERE s.kind IN ('depth', 'trades') AND s.market_id IN (1, 2) GROUP BY 1 ORDER BY 1`,
  );
  assert.deepEqual(ledger, [
    { kind: 'depth', islands: 0 },
    { kind: 'trades', islands: 2 },
  ]);
  const asked = await runCommand(
    ['query', '--json', `select count(*) as n from trades where traded_at < '2026-02-01'`],
    { TAPEKEEP_DATABASE_URL: url, TAPEKEEP_COLD_DIR: join(dataDir, 'cold') },
  );
  assert.deepEqual([asked.code, asked.out], [0, '{"n":"72"}'], asked.err);
});

test('gaps whose time has left are not filled, and it is said what would bring them back', async (t) => {
  const { url, coldDir, store } = await openDaysWorld(await makeFolder(t));
  const { program, ready } = await startSandbox(['--seed', '7', '--market', 'BTC_USD']);
  t.after(() => program.dispose());
  const env = {
    TAPEKEEP_DATABASE_URL: url,
    TAPEKEEP_COLD_DIR: coldDir,
    TAPEKEEP_DATA_DIR: coldDir,
    TAPEKEEP_VERIFICATION_ENABLED: 'false',
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
  };
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const at = (moment: string) => Date.parse(moment);
  const [gone, across] = [
    { fromMs: at(`${DAYS[0]}T10:00Z`), toMs: at(`${DAYS[0]}T10:01Z`) },
    { fromMs: at(`${DAYS[1]}T23:58Z`), toMs: at(`${DAYS[2]}T00:02Z`) },
  ];
  await setCollectFrom(store, stream.streamId, at(`${DAYS[0]}T00:00Z`));
  for (const span of [gone, across]) {
    await revoke(store, stream, span, { reason: 'suspect', note: '', atMs: span.toMs });
    const given = { stream, span, state: 'unfillable', reason: 'beyond history' } as const;
    await store.recordGap({ ...given, atMs: span.toMs });
  }
  const moved = await runCommand(
    ['seal', '--archive', '--kind', 'trades', '--before', DAYS[2]],
    env,
  );
  assert.equal(moved.code, 0, moved.err + moved.out);
  const fill = async (...args: string[]) => {
    const only = ['--market', 'BTC_USD', '--kind', 'trades', '--to', '2026-01-16T12:00:00Z'];
    const filling = new Program(['gaps', 'fill', '--again', ...only, ...args], { env });
    t.after(() => filling.dispose());
    // What is asked for is older than this exchange, so that it would be tried for long.
    const begun = filling.line((line) => line.startsWith('Filling ')).catch(() => undefined);
    if ((await begun) !== undefined) filling.kill('SIGINT');
    const { code } = await filling.ended();
    return { code, out: filling.text('stdout'), err: filling.text('stderr') };
  };
  const LEFT_OUT = /Not filled: 1 gap of trades; .*archived or expired; "tapekeep restore" returns/;
  const none = await fill('--to', `${DAYS[0]}T12:00:00Z`);
  assert.deepEqual([none.code, none.out], [7, 'Nothing to fill.'], none.err);
  assert.match(none.err, LEFT_OUT);
  const json = await fill('--to', `${DAYS[0]}T12:00:00Z`, '--json');
  assert.deepEqual(
    [json.code, JSON.parse(json.out)],
    [7, { isWhole: false, message: 'Nothing to fill.' }],
  );
  // Of the other one a part can still be filled.
  const part = await fill();
  assert.match(part.err, LEFT_OUT);
  assert.match(part.err, /^Filling 1 gap of trades\.$/m);
  const span = ['--from', DAYS[0], '--to', DAYS[1]];
  assert.equal((await runCommand(['restore', '--kind', 'trades', ...span], env)).code, 0);
  const back = await fill('--to', `${DAYS[0]}T12:00:00Z`);
  assert.doesNotMatch(back.err, LEFT_OUT);
  assert.match(back.err, /^Filling 1 gap of trades\.$/m);
  // Of what retention gave up there is no gap that could be named.
  await runSql(url, `SELECT expire_partition('trade', '${DAYS[0]}')`);
  const expired = await fill('--from', DAYS[0], '--to', `${DAYS[0]}T12:00:00Z`);
  assert.equal(expired.out, 'Nothing to fill.');
  assert.match(
    expired.err,
    new RegExp(`^Expired: trades before ${DAYS[1]} 00:00:00\\. No gap`, 'm'),
  );
  const kept = await fill('--from', DAYS[1], '--to', `${DAYS[1]}T12:00:00Z`);
  assert.equal(kept.out, 'Nothing to fill.');
  assert.doesNotMatch(kept.err, /Expired/);
  const lost = await runCommand(['restore', '--kind', 'trades', ...span], env);
  assert.equal(lost.code, 0, lost.err);
  assert.match(
    lost.out,
    /^Nothing to do: no partition of this time range is archived; 1 partition of it is expired /,
  );
});
