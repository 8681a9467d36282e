import assert from 'node:assert/strict';
import { cp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { filesBelow } from '../../../src/archive/cold/folder.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { isThere } from '../../../src/kernel/folders.js';
import { usualMarket } from '../../../src/sandbox/markets.js';
import { findEmbeddedPostgres, migrate } from '../../../src/store/index.js';
import { judgeClaims } from '../../support/oracle/claims.js';
import {
  asSuperuser,
  makeTempDir,
  type OpenSql,
  openSql,
  runSql,
  withDatabase,
} from '../../support/postgres/postgres-server.js';
import { BareServer, removeServer } from '../../support/postgres/standby.js';
import { runCommand } from '../../support/programs/commands.js';
import { Program, startSandbox } from '../../support/programs/program.js';
import { S3StandIn } from '../../support/s3/s3-stand-in.js';
import { CREDENTIALS, startVersitygw } from '../../support/s3/versitygw.js';
import { mountSmallDisk } from '../../support/small-disk.js';
import { openDaysWorld } from '../../support/worlds/days-world.js';

/** An archive that is backed up while it is in use, and what is recovered from the backup. */

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** Long enough for a day that ended an hour ago, which is archived as soon as its trades are there: up to 26 hours. */
const sinceMidnightMs = systemClock.wallMs() % DAY_MS;
const pastMs = sinceMidnightMs + (sinceMidnightMs < 80 * MINUTE_MS ? DAY_MS : 0) + 30 * MINUTE_MS;
const PAST = ['--start-offset', `${Math.ceil((pastMs + 30 * MINUTE_MS) / MINUTE_MS)}m`];
/** Trades of that time: the later in the day, the fewer a second. */
const TRADES = 6000;
/** Trades per second of a market whose activity is 1. */
const BUSIEST_PER_S = 1.7;
const SETTINGS = {
  TAPEKEEP_STREAMS_TRADES_HISTORY: `${Math.ceil(pastMs / MINUTE_MS)}m`,
  TAPEKEEP_STREAMS_TRADES_EXACT_TIMES: 'false',
  TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '3600',
  TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '50',
  TAPEKEEP_VERIFICATION_ENABLED: 'false',
  TAPEKEEP_PARTITIONS_EVERY: '1s',
  TAPEKEEP_PARTITIONS_SEAL_AFTER: '1h',
  TAPEKEEP_COLD_ENABLED: 'true',
  TAPEKEEP_COLD_AFTER: '1h',
  TAPEKEEP_HTTP_PORT: '0',
};

async function makeDir(t: TestContext): Promise<string> {
  const dir = await makeTempDir();
  t.after(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** A server of the user's own. It ends before its folder goes, into which it writes. */
async function startBare(t: TestContext, make: (folder: string) => Promise<BareServer>) {
  const dir = await makeTempDir();
  const server = await make(dir);
  t.after(() => removeServer(server));
  t.after(() => rm(dir, { recursive: true, force: true }));
  return { dir, server };
}

/** A daemon with its own Postgres, at a sandbox that remembers all that it issued. */
async function startWorld(t: TestContext, past: readonly string[] = PAST) {
  const dir = await makeDir(t);
  const dataDir = join(dir, 'data');
  const usual = usualMarket('BTC_USDT');
  const perS = TRADES / (pastMs / 1000);
  const activity = past === PAST ? perS / BUSIEST_PER_S : usual.activity;
  const markets = join(dir, 'markets.json');
  await writeFile(markets, JSON.stringify([{ ...usual, activity }]));
  const all = ['--markets-file', markets, '--keep-all', '--no-rate-limit', ...past];
  const { program: sandbox, ready } = await startSandbox(['--seed', '5', ...all]);
  t.after(() => sandbox.dispose());
  const exchange = {
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
  };
  const env = { ...SETTINGS, ...exchange, TAPEKEEP_DATA_DIR: dataDir };
  // Nothing leaves Postgres before a test wants it to.
  const { daemon, sql } = await startDaemon(t, { ...env, TAPEKEEP_COLD_AFTER: '1000d' });
  return { dir, dataDir, daemon, sandboxUrl: ready.url, exchange, env, sql };
}

async function startDaemon(t: TestContext, env: typeof SETTINGS & { TAPEKEEP_DATA_DIR: string }) {
  const dataDir = env.TAPEKEEP_DATA_DIR;
  const start = ['--log-level', 'debug', '--log-format', 'json', 'start'];
  const daemon = new Program(start, { env });
  t.after(() => daemon.dispose());
  await daemon.line((line) => line.includes('"committed"'));
  const found = await findEmbeddedPostgres(dataDir, systemClock);
  const sql = await openSql(await asSuperuser(found?.url ?? assert.fail('no server'), dataDir));
  t.after(() => sql.end());
  return { daemon, sql };
}

type World = Awaited<ReturnType<typeof startWorld>>;

const ROWS = 'SELECT market_id AS m, tid::text FROM trade ORDER BY 1, trade.tid';
const namesOf = (rows: readonly { m: number; tid: string }[]) =>
  rows.map(({ m, tid }) => `${m} ${tid}`);

async function states(sql: OpenSql): Promise<string[]> {
  const rows = await sql.run<{ state: string }>(
    "SELECT state FROM partition_state WHERE table_name = 'trade' ORDER BY span",
  );
  return rows.map(({ state }) => state);
}

async function stop(daemon: Program): Promise<void> {
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());
}

/** Serves a recovered archive with its archived rows, and holds it against what the exchange issued. */
async function judge(t: TestContext, world: World, dataDir: string): Promise<string[]> {
  const env = { ...world.env, TAPEKEEP_DATA_DIR: dataDir };
  const db = new Program(['db'], { env });
  t.after(() => db.dispose());
  await db.line((line) => line.startsWith('database '));
  const found = await findEmbeddedPostgres(dataDir, systemClock);
  const sql = await openSql(found?.url ?? assert.fail('no server'));
  try {
    const claims = await judgeClaims(sql, world.sandboxUrl, systemClock.wallMs());
    t.diagnostic(`${claims.proven} of ${claims.issued} trades proven, ${claims.missing} missing`);
    assert.deepEqual(
      Object.entries(claims.lies).filter(([, count]) => count > 0),
      [],
    );
    return namesOf(await sql.run<{ m: number; tid: string }>(ROWS));
  } finally {
    await sql.end();
    await stop(db);
  }
}

test('an archive that collects and archives meanwhile is recovered as it was', async (t) => {
  const world = await startWorld(t);
  const { dir, dataDir, env } = world;
  const backupDir = join(dir, 'backup');
  // Its history is walked through.
  await world.daemon.until(async () => (await world.sql.run(ROWS)).length > TRADES / 2);
  const before = namesOf(await world.sql.run<{ m: number; tid: string }>(ROWS));
  const first = await runCommand(['backup', backupDir, '--json'], env);
  assert.equal(first.code, 0, first.err);
  const told = JSON.parse(first.out);
  t.diagnostic(`${told.files} files, ${told.bytes} bytes, journal ${JSON.stringify(told.journal)}`);
  const recovered = join(dir, 'recovered');
  const there = { ...env, TAPEKEEP_DATA_DIR: recovered };
  const back = await runCommand(['recover', backupDir, '--deep', '--json'], there);
  assert.equal(back.code, 0, back.err + back.out);
  const after = new Set(await judge(t, world, recovered));
  assert.deepEqual(
    before.filter((name) => !after.has(name)),
    [],
  );

  await world.sql.end();
  await stop(world.daemon);
  const { daemon, sql } = await startDaemon(t, env);
  // A day is sealed, and moves into files.
  const isLeaving = async () => (await states(sql)).some((state) => state !== 'hot');
  await daemon.until(isLeaving);
  const moving = join(dir, 'moving');
  const meanwhile = await runCommand(['backup', moving, '--with-files'], env);
  assert.equal(meanwhile.code, 0, meanwhile.err);
  const moved = { ...env, TAPEKEEP_DATA_DIR: join(dir, 'moved') };
  const either = await runCommand(['recover', moving, '--deep'], moved);
  assert.equal(either.code, 0, either.err + either.out);
  t.diagnostic(either.out);

  await daemon.until(async () => (await states(sql)).includes('archived'));
  const refused = await runCommand(['backup', backupDir], env);
  assert.equal(refused.code, 2);
  assert.match(refused.err, /it holds the backup of 20\S+Z; --replace makes a new one/);
  const [counted] = await sql.run<{ rows: string }>(
    `SELECT sum(rows)::text AS rows FROM rows_by_day WHERE series = 'trade'`,
  );
  const whole = await runCommand(['backup', backupDir, '--with-files', '--replace'], env);
  assert.equal(whole.code, 0, whole.err);
  assert.match(whole.out, /^Cold files of 1 partition: 1 file, 1 MB, copied\.$/m);
  assert.equal((await readdir(backupDir)).length, 2, 'the earlier one is gone');
  await stop(daemon);

  const second = join(dir, 'second');
  const elsewhere = { ...env, TAPEKEEP_DATA_DIR: second };
  const full = await runCommand(['recover', backupDir, '--deep'], elsewhere);
  assert.equal(full.code, 0, full.err + full.out);
  assert.match(
    full.out,
    /^Cold files of 1 partition: 1 are as they were, 2 came from the backup\.$/m,
  );
  assert.match(full.out, /cold is only read until "tapekeep adopt" gives it to this archive\.$/m);
  const all = await judge(t, world, second);
  assert.ok(all.length >= Number(counted?.rows), `${all.length} of ${counted?.rows}`);
  assert.equal(new Set(all).size, all.length, 'nothing twice');
  const over = await runCommand(['recover', backupDir], elsewhere);
  assert.equal(over.code, 1, over.err);
  assert.match(over.err, /there is an archive in \S+second, and nothing was changed/);

  // With the folder of the original it only reads, until it is given it.
  const shared = { ...elsewhere, TAPEKEEP_COLD_DIR: join(dataDir, 'cold') };
  assert.match(
    (await runCommand(['doctor'], shared)).out,
    /this one is tapekeep .* recovered copy/,
  );
  assert.equal((await runCommand(['adopt'], shared)).code, 0);
  assert.doesNotMatch((await runCommand(['doctor'], shared)).out, /recovered copy/);
  const original = await runCommand(['doctor'], env);
  assert.match(original.out, /belongs to the database tapekeep .* recovered copy/);

  await damage(t, { backupDir, dir, env });
});

/** Loses and alters files of a backup, and of the folder of cold files. */
async function damage(
  t: TestContext,
  { backupDir, dir, env }: { backupDir: string; dir: string; env: Record<string, string> },
) {
  const bad = join(dir, 'bad');
  const run = (await readdir(backupDir)).find((name) => name.startsWith('tapekeep-')) ?? '';
  const recover = async (to: string) =>
    await runCommand(['recover', bad], { ...env, TAPEKEEP_DATA_DIR: join(dir, to) });
  await cp(backupDir, bad, { recursive: true });
  await rm(join(bad, run, 'postgres/PG_VERSION'));
  const altered = join(bad, run, 'postgres/global/pg_control');
  const bytes = await readFile(altered);
  bytes[100] = (bytes[100] ?? 0) ^ 1;
  await writeFile(altered, bytes);
  const lost = await recover('third');
  assert.equal(lost.code, 1, lost.out);
  assert.match(
    lost.err,
    /nothing was recovered: postgres\/PG_VERSION is missing; postgres\/global\/pg_control is altered\./,
  );
  assert.ok(!(await isThere(join(dir, 'third/postgres'))));

  await rm(bad, { recursive: true });
  await cp(backupDir, bad, { recursive: true });
  const cold = (await filesBelow(join(bad, run, 'cold'))).filter((name) =>
    name.endsWith('.parquet'),
  );
  await rm(join(bad, run, 'cold', cold[0] ?? ''));
  const part = await recover('fourth');
  assert.equal(part.code, 7, part.err);
  const day = /date=(\d{4}-\d\d-\d\d)/.exec(cold[0] ?? '')?.[1] ?? '';
  assert.match(part.out, new RegExp(`^Missing: cold/${cold[0]} is missing in the backup`, 'm'));
  assert.match(
    part.out,
    new RegExp(
      `^Missing: trade_${day.replaceAll('-', '')} \\(${day}T00:00:00\\S+ to \\S+\\): 1 of 1 files`,
      'm',
    ),
  );

  const text = await readFile(join(bad, 'backup.json'), 'utf8');
  await writeFile(join(bad, 'backup.json'), text.replace('"tapekeep": "', '"tapekeep": "9'));
  const forged = await recover('fifth');
  assert.equal(forged.code, 1);
  assert.match(forged.err, /backup\.json does not match its own checksum/);
  t.diagnostic('lost, altered and forged files were named');
}

/** Resolves when the server keeps the journal for a backup, or keeps it no more. */
async function backupMode(sql: OpenSql, isOn: boolean): Promise<void> {
  const look = "SELECT FROM pg_replication_slots WHERE slot_name LIKE 'tapekeep_backup_%'";
  while ((await sql.run(look)).length > 0 !== isOn);
}

test('a backup that is killed, or whose disk is full, is none', async (t) => {
  const world = await startWorld(t, ['--start-offset', '10m']);
  const { dir, daemon, env, sql } = world;
  const backupDir = join(dir, 'backup');
  const killed = new Program(['backup', backupDir], { env });
  t.after(() => killed.dispose());
  await backupMode(sql, true);
  killed.kill('SIGKILL');
  await killed.ended();
  assert.ok(!(await isThere(join(backupDir, 'backup.json'))));
  await backupMode(sql, false);
  const nothing = await runCommand(['recover', backupDir], {
    ...env,
    TAPEKEEP_DATA_DIR: join(dir, 'none'),
  });
  assert.equal(nothing.code, 1);
  assert.match(nothing.err, /is no backup, or one that was interrupted: it has no backup\.json/);

  const stopped = new Program(['backup', backupDir], { env });
  t.after(() => stopped.dispose());
  await backupMode(sql, true);
  stopped.kill('SIGINT');
  assert.equal((await stopped.ended()).code, 130, stopped.dump());
  assert.match(stopped.text('stderr'), /stopped; nothing of this backup is left/);
  assert.deepEqual(await readdir(backupDir), []);

  const small = await mountSmallDisk(t, 16);
  if (small !== undefined) {
    const refused = await runCommand(['backup', join(small.path, 'backup')], env);
    assert.equal(refused.code, 1);
    assert.match(
      refused.err,
      /up to [\d,]+ MB are needed \(database [\d,]+ MB\), and 17 MB are free on the disk of .*: nothing was copied/,
    );
  }
  const disk = await mountSmallDisk(t, 256);
  if (disk !== undefined) {
    const place = join(disk.path, 'backup');
    const filling = new Program(['backup', place], { env });
    t.after(() => filling.dispose());
    await backupMode(sql, true);
    await disk.fill();
    assert.equal((await filling.ended()).code, 1, filling.dump());
    assert.match(filling.text('stderr'), /the disk of \S+ is full: nothing of this backup is left/);
    assert.deepEqual(await readdir(place), []);
    await disk.free();
    const again = await runCommand(['backup', place], env);
    assert.equal(again.code, 0, again.err);
    const beside = { ...env, TAPEKEEP_DATA_DIR: join(small?.path ?? '', 'data') };
    const cramped = await runCommand(['recover', place], beside);
    assert.equal(cramped.code, 1);
    assert.match(
      cramped.err,
      /up to [\d,]+ MB are needed \(database [\d,]+ MB\), and 17 MB are free/,
    );
    assert.deepEqual(await readdir(beside.TAPEKEEP_DATA_DIR), []);
  }
  await writeFile(join(dir, 'mine'), 'of somebody');
  const other = await runCommand(['backup', dir], env);
  assert.equal(other.code, 2);
  assert.match(other.err, /it is not empty \(\w+\); name an empty folder/);

  // The archive never noticed.
  const at = daemon.lines.stderr.length;
  await daemon.line(
    (line) => daemon.lines.stderr.indexOf(line) >= at && line.includes('"committed"'),
  );
  await stop(daemon);
});

const PLACE = 's3://archive/backups/monday';
const bucketAt = (endpoint: string) => [PLACE, '--endpoint', endpoint, '--path-style'];

test('a backup in a bucket is recovered as it was, and one that broke off is none', async (t) => {
  const world = await startWorld(t, ['--start-offset', '10m']);
  const { dir, daemon, sql } = world;
  const store = await S3StandIn.start(t);
  store.pageSize = 1000;
  const at = bucketAt(store.endpoint);
  const env = { ...world.env, ...CREDENTIALS };
  const there = (name: string) => ({ ...env, TAPEKEEP_DATA_DIR: join(dir, name) });
  const keys = () => [...store.objects.keys()];
  const assertNone = async () => {
    assert.ok(!keys().includes('backups/monday/backup.json'));
    const none = await runCommand(['recover', ...at], there('none'));
    assert.equal(none.code, 1);
    assert.match(
      none.err,
      /monday is no backup, or one that was interrupted: it has no backup\.json/,
    );
  };
  const untilWritten = async (program: Program) =>
    await program.until(async () => keys().some((key) => key.endsWith('/PG_VERSION')));

  const killed = new Program(['backup', ...at], { env });
  t.after(() => killed.dispose());
  await untilWritten(killed);
  killed.kill('SIGKILL');
  await killed.ended();
  await assertNone();
  store.objects.clear();

  const stopped = new Program(['backup', ...at], { env });
  t.after(() => stopped.dispose());
  await untilWritten(stopped);
  stopped.kill('SIGINT');
  assert.equal((await stopped.ended()).code, 130, stopped.dump());
  assert.match(stopped.text('stderr'), /stopped; nothing of this backup is left/);
  assert.deepEqual([keys(), store.openUploads], [[], 0]);

  store.quota = 12_000_000;
  const full = await runCommand(['backup', ...at], env);
  assert.equal(full.code, 1, full.err);
  assert.match(full.err, /the store of s3:\S+ has no space left: nothing of this backup is left/);
  assert.deepEqual([keys(), store.openUploads], [[], 0]);
  store.quota = Number.POSITIVE_INFINITY;
  store.ignoresConditions = true;
  const careless = await runCommand(['backup', ...at], env);
  assert.match(careless.err, /ignores conditional writes/);
  store.ignoresConditions = false;

  // What a killed one left goes when another is whole.
  const left = 'backups/monday/tapekeep-0123456789ab/postgres/PG_VERSION';
  store.objects.set(left, { bytes: Buffer.from('18'), etag: '"1"' });
  store.beginUpload('backups/monday/tapekeep-ba9876543210/archive.dump');
  const before = namesOf(await sql.run<{ m: number; tid: string }>(ROWS));
  const made = await runCommand(['backup', ...at, '--with-files', '--json'], env);
  assert.equal(made.code, 0, made.err);
  assert.ok(!keys().includes(left));
  assert.equal(store.openUploads, 0);
  assert.equal(store.objects.size, JSON.parse(made.out).files + 1);
  const refused = await runCommand(['backup', ...at], env);
  assert.equal(refused.code, 2);
  assert.match(refused.err, /it holds the backup of 20\S+Z; --replace .* or name another prefix/);
  const first = keys();
  // Of two at a time one is there, and it is whole.
  const both = await Promise.all(
    [0, 1].map(async () => {
      const one = new Program(['backup', ...at, '--replace'], { env });
      t.after(() => one.dispose());
      return { code: (await one.ended()).code, said: one.text('stderr') };
    }),
  );
  assert.ok(both.some(({ code }) => code === 0));
  for (const { code, said } of both) {
    if (code !== 0) assert.match(said, /another tapekeep made a backup there meanwhile/);
  }
  assert.deepEqual(
    keys().filter((key) => first.includes(key)),
    ['backups/monday/backup.json'],
  );
  assert.equal(new Set(keys().map((key) => key.split('/')[2])).size, 2);
  const back = await runCommand(['recover', ...at, '--deep'], there('recovered'));
  assert.equal(back.code, 0, back.err + back.out);
  const after = new Set(await judge(t, world, join(dir, 'recovered')));
  assert.deepEqual(
    before.filter((name) => !after.has(name)),
    [],
  );

  const [control, version] = ['global/pg_control', 'postgres/PG_VERSION'].map(
    (end) => keys().find((key) => key.endsWith(end)) ?? '',
  );
  store.objects.delete(version ?? '');
  store.fault = ({ method, key }) =>
    method === 'GET' && key === control ? 'other bytes' : undefined;
  const lost = await recoverInto('damaged');
  assert.equal(lost.code, 1, lost.out);
  assert.match(
    lost.err,
    /nothing was recovered: postgres\/PG_VERSION is missing; postgres\/global\/pg_control is altered\./,
  );
  assert.ok(!(await isThere(join(dir, 'damaged/postgres'))));
  store.fault = () => ({ status: 503, code: 'ServiceUnavailable' });
  const away = await recoverInto('away');
  assert.match(away.err, /the store answers 503/);
  await stop(daemon);

  async function recoverInto(name: string) {
    return await runCommand(['recover', ...at], there(name));
  }
});

test('a backup in a bucket of versitygw is recovered as it was', async (t) => {
  const endpoint = await startVersitygw(t);
  if (endpoint === undefined) return;
  const world = await startWorld(t, ['--start-offset', '10m']);
  const env = { ...world.env, ...CREDENTIALS };
  const before = namesOf(await world.sql.run<{ m: number; tid: string }>(ROWS));
  for (const more of [[], ['--replace']]) {
    const made = await runCommand(['backup', ...bucketAt(endpoint), ...more], env);
    assert.equal(made.code, 0, made.err);
    t.diagnostic(made.out);
  }
  const refused = await runCommand(['backup', ...bucketAt(endpoint)], env);
  assert.equal(refused.code, 2, refused.err);
  const recovered = join(world.dir, 'recovered');
  const there = { ...env, TAPEKEEP_DATA_DIR: recovered };
  const back = await runCommand(['recover', ...bucketAt(endpoint), '--deep'], there);
  assert.equal(back.code, 0, back.err + back.out);
  const after = new Set(await judge(t, world, recovered));
  assert.deepEqual(
    before.filter((name) => !after.has(name)),
    [],
  );
  await stop(world.daemon);
});

const PROGRAMS = '/usr/lib/postgresql/15/bin';

test('another Postgres is backed up by its pg_dump, and refused without', async (t) => {
  if (!(await isThere(join(PROGRAMS, 'initdb')))) return t.skip(`no Postgres in ${PROGRAMS}`);
  const { dir, server } = await startBare(t, (folder) => BareServer.makeOf(PROGRAMS, folder));
  for (const name of ['first', 'second', 'third'])
    await runSql(server.url, `CREATE DATABASE ${name}`);
  const url = withDatabase(server.url, 'first');
  await migrate({ databaseUrl: url });
  const { store, coldDir } = await openDaysWorld(join(dir, 'data/cold'), url);
  const env = {
    TAPEKEEP_DATABASE_URL: url,
    TAPEKEEP_DATA_DIR: join(dir, 'data'),
    TAPEKEEP_VERIFICATION_ENABLED: 'false',
  };
  const sealed = await runCommand(
    ['seal', '--archive', '--kind', 'trades', '--before', '2026-01-16'],
    env,
  );
  assert.equal(sealed.code, 0, sealed.err + sealed.out);
  const counts = [
    'query',
    '--json',
    'select market, count(*) as n, sum(total)::varchar as t from trades group by 1 order by 1',
  ];
  const before = await runCommand(counts, env);
  const backupDir = join(dir, 'backup');
  const made = await runCommand(['backup', backupDir, '--with-files'], env);
  assert.equal(made.code, 0, made.err);
  assert.match(made.out, /^Backup in \S+: 1 file, .* a dump\.$/m);

  const other = { ...env, TAPEKEEP_DATABASE_URL: withDatabase(server.url, 'second') };
  const there = { ...other, TAPEKEEP_DATA_DIR: join(dir, 'other') };
  const embedded = await runCommand(['recover', backupDir], { TAPEKEEP_DATA_DIR: join(dir, 'x') });
  assert.equal(embedded.code, 2);
  assert.match(embedded.err, /database\.url is missing; this backup is a dump of pg_dump/);
  const full = await runCommand(['recover', backupDir], env);
  assert.equal(full.code, 1);
  assert.match(full.err, /the database \S+first is not empty, and nothing was changed/);
  const back = await runCommand(['recover', backupDir, '--deep', '--adopt'], there);
  assert.equal(back.code, 0, back.err + back.out);
  assert.match(
    back.out,
    /^Cold files of 2 partitions: 4 are as they were, 6 came from the backup\.$/m,
  );
  assert.match(back.out, /other\/cold belongs to this archive now\.$/m);
  assert.equal((await runCommand(counts, there)).out, before.out);

  const bucket = await S3StandIn.start(t);
  const at = bucketAt(bucket.endpoint);
  const sent = await runCommand(['backup', ...at, '--with-files'], { ...env, ...CREDENTIALS });
  assert.equal(sent.code, 0, sent.err);
  const third = {
    ...{ ...env, ...CREDENTIALS, TAPEKEEP_DATA_DIR: join(dir, 'third') },
    TAPEKEEP_DATABASE_URL: withDatabase(server.url, 'third'),
  };
  const dump = [...bucket.objects].find(([key]) => key.endsWith('.dump'));
  const [key, whole] = dump ?? assert.fail('no dump');
  bucket.objects.set(key, { ...whole, bytes: whole.bytes.subarray(1) });
  const damaged = await runCommand(['recover', ...at], third);
  assert.equal(damaged.code, 1);
  assert.match(damaged.err, /nothing was recovered: archive\.dump is missing or altered/);
  bucket.objects.set(key, whole);
  // Cold files that were copied stay.
  await rm(third.TAPEKEEP_DATA_DIR, { recursive: true });
  const fetched = await runCommand(['recover', ...at, '--deep', '--adopt'], third);
  assert.equal(fetched.code, 0, fetched.err + fetched.out);
  assert.match(fetched.out, /: 4 are as they were, 6 came from the backup\.$/m);
  assert.equal((await runCommand(counts, third)).out, before.out);
  assert.ok(!(await readdir(third.TAPEKEEP_DATA_DIR)).some((name) => name.endsWith('.dump')));
  assert.equal((await stat(coldDir)).isDirectory(), true);
  await store.stop();

  const missing = await runCommand(['backup', join(dir, 'again')], { ...env, PATH: dir });
  assert.equal(missing.code, 1);
  assert.match(missing.err, /pg_dump is not installed here: install the client programs/);
});

test('a pg_dump that is older than the server is refused by its version', async (t) => {
  const { dir, server } = await startBare(t, (folder) => BareServer.make(folder));
  await runSql(server.url, 'CREATE DATABASE newer');
  const url = withDatabase(server.url, 'newer');
  await migrate({ databaseUrl: url });
  const tool = join(dir, 'pg_dump');
  await writeFile(tool, '#!/bin/sh\necho "pg_dump (PostgreSQL) 15.18 (Debian 15.18-0)"\n', {
    mode: 0o755,
  });
  const env = { TAPEKEEP_DATABASE_URL: url, TAPEKEEP_DATA_DIR: dir };
  const path = `${dir}:${process.env.PATH}`;
  const refused = await runCommand(['backup', join(dir, 'backup')], { ...env, PATH: path });
  assert.equal(refused.code, 1);
  assert.match(
    refused.err,
    /pg_dump \(PostgreSQL\) 15\.18 .* is older than the server \(18\.\d+\), and cannot dump it: .*pgBackRest/,
  );
});
