import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { type ArchiveOptions, openArchive } from '../../../src/archive/events/archive.js';
import { marketOf } from '../../support/postgres/postgres-rows.js';
import { runCommand } from '../../support/programs/commands.js';
import { S3StandIn } from '../../support/s3/s3-stand-in.js';
import { CREDENTIALS } from '../../support/s3/versitygw.js';
import { DAYS, openDaysWorld, WHOLE } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** Two equal archives, one with a folder and one with a bucket: whatever reads or changes them gives the same. */

/** Markets whose rows were received at the same times in both. */
const MARKETS = ['BTC_USD', "it's/odd"];
/** A market without rows yet. */
const QUIET = 'ETH_USD';
const STATEMENTS = [
  'SELECT market, side, count(*) AS n, sum(price)::varchar AS p, sum(total)::varchar AS t FROM trades GROUP BY ALL ORDER BY ALL',
  'SELECT * FROM klines ORDER BY ALL',
  'SELECT * FROM depth_levels ORDER BY ALL',
  'SELECT * FROM states ORDER BY ALL',
  "SELECT * FROM candles('BTC_USD', '1 hour', '2026-01-14', '2026-01-17')",
];
const EXPORTS = [
  ...(['trades', 'depth', 'tickers'] as const).map((kind) => ['--kind', kind]),
  ['--kind', 'candles', '--interval', '1m'],
  ['--kind', 'states', '--period', '1m'],
];
const FORMATS = ['csv', 'ndjson', 'parquet'];

interface World {
  readonly url: string;
  /** Options of the library. */
  readonly place: ArchiveOptions;
  run(...args: string[]): ReturnType<typeof runCommand>;
}

/** An archive whose first two days are in files. */
async function openWorld(t: TestContext, bucket?: S3StandIn): Promise<World> {
  const dataDir = await makeFolder(t, 'data');
  const { url, store } = await openDaysWorld(join(dataDir, 'cold'));
  await store.ensureMarkets([marketOf(QUIET)], WHOLE.fromMs);
  const env = {
    ...{ ...CREDENTIALS, TAPEKEEP_DATABASE_URL: url, TAPEKEEP_DATA_DIR: dataDir },
    ...{ TAPEKEEP_COLD_ENABLED: 'true', TAPEKEEP_VERIFICATION_ENABLED: 'false' },
    ...(bucket && {
      ...{ TAPEKEEP_COLD_URL: 's3://archive/one', TAPEKEEP_COLD_ENDPOINT: bucket.endpoint },
      TAPEKEEP_COLD_PATH_STYLE: 'true',
    }),
  };
  const run: World['run'] = (...args) => runCommand(args, env);
  const sealed = await run('seal', '--archive', '--before', DAYS[2]);
  assert.equal(sealed.code, 0, sealed.err + sealed.out);
  assert.match((await run('partitions')).out, /archived/);
  const at = { url: 's3://archive/one', cacheDir: join(dataDir, 'library') };
  const place = bucket
    ? { databaseUrl: url, bucket: { ...at, endpoint: bucket.endpoint, pathStyle: true } }
    : { databaseUrl: url, coldDir: join(dataDir, 'cold') };
  return { url, place, run };
}

/** What commands and the library give, by name. */
async function readAll(t: TestContext, { run, place }: World): Promise<Map<string, string>> {
  const given = new Map<string, string>();
  for (const sql of STATEMENTS) {
    const { out, err, code } = await run('query', '--json', sql);
    assert.equal(code, 0, err);
    assert.ok(out.length > 100, sql);
    given.set(sql, out);
  }
  const folder = await makeFolder(t, 'exports');
  const markets = MARKETS.flatMap((market) => ['--market', market]);
  for (const kind of EXPORTS) {
    for (const format of FORMATS) {
      const out = join(folder, `${kind[1]}.${format}`);
      const { err, code } = await run('export', ...kind, ...markets, '--clamp', '--out', out);
      assert.equal(code, 0, err);
      given.set(`${kind.join(' ')} ${format}`, (await readFile(out)).toString('latin1'));
    }
  }
  const verified = await run('verify', '--json');
  assert.match(verified.out, /"slots"/, verified.err);
  given.set('verify', `${verified.code} ${verified.out}`);
  const archive = await openArchive(place);
  try {
    const span = { from: new Date(WHOLE.fromMs), to: new Date(WHOLE.toMs), markets: MARKETS };
    for (const order of ['happened', 'received'] as const) {
      const lines: string[] = [];
      for await (const event of archive.events({ ...span, order, gaps: 'mark' })) {
        lines.push(JSON.stringify(event, (_, one) => (typeof one === 'bigint' ? `${one}` : one)));
      }
      assert.ok(lines.length > 200, `${lines.length} events`);
      given.set(`events, ${order}`, lines.join('\n'));
    }
  } finally {
    await archive.close();
  }
  return given;
}

const gets = ({ done }: S3StandIn) => done.filter((one) => /^GET .*\.parquet$/.test(one)).length;

function assertSame(bucket: Map<string, string>, folder: Map<string, string>): void {
  assert.deepEqual([...bucket.keys()], [...folder.keys()]);
  for (const [name, text] of folder) assert.equal(bucket.get(name), text, name);
}

test('what reads, imports and restores gives from a bucket what it gives from a folder', async (t) => {
  Object.assign(process.env, CREDENTIALS);
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
  const store = await S3StandIn.start(t);
  const worlds = [await openWorld(t), await openWorld(t, store)] as const;
  const both = async (work: (world: World) => Promise<string>) => {
    const [folder, bucket] = [await work(worlds[0]), await work(worlds[1])];
    assert.equal(bucket, folder);
    return folder;
  };
  const all = async () => {
    const [folder, bucket] = [await readAll(t, worlds[0]), await readAll(t, worlds[1])];
    assertSame(bucket, folder);
    return folder;
  };
  const first = await all();
  const read = gets(store);
  assert.ok(read > 0);
  assertSame(await readAll(t, worlds[1]), first);
  assert.equal(gets(store), read, 'warm, nothing is fetched again');

  // Rows that archived files have already, others, and those of a market that gets files.
  const csv = join(await makeFolder(t), 'trades.csv');
  const heading = 'market,tid,price,amount,total,side,executed_at';
  const known = first.get('--kind trades csv') ?? '';
  await writeFile(csv, known);
  const importing =
    (...more: string[]) =>
    async ({ run }: World) => {
      const { code, out, err } = await run('import', csv, '--kind', 'trades', '--json', ...more);
      return `${code} ${out} ${err.replaceAll(/[\d:T.-]+Z/g, '')}`;
    };
  assert.match(await both(importing('--columns', 'time=traded_at')), /"stored":0,.*"duplicate":72/);
  await writeFile(csv, known.replace(/61837\.63/g, '61837.64'));
  assert.match(
    await both(importing('--columns', 'time=traded_at')),
    /is archived, and \d+ rows of the file are not in it/,
  );
  const quiet = Array.from({ length: 9 }, (_, n) =>
    [QUIET, 1 + n, `10.${n}`, '2', `${20 + (2 * n) / 10}`, 'buy', `${DAYS[0]}T0${n}:00:00Z`].join(),
  );
  await writeFile(csv, [heading, ...quiet, ''].join('\n'));
  const whole = ['--complete-from', DAYS[0], '--complete-to', DAYS[1]];
  assert.match(await both(importing(...whole)), /"stored":9/);
  assert.ok(
    [...store.objects.keys()].some((key) => key.includes(`market=${QUIET}/date=${DAYS[0]}`)),
    'a file came into the bucket',
  );
  const imported = await all();
  assert.match(imported.get(STATEMENTS[0] ?? '') ?? '', /ETH_USD/);

  const restored = await both(async ({ run }) => {
    const span = ['--from', DAYS[0], '--to', DAYS[1]];
    const { code, err } = await run('restore', '--kind', 'trades,depth', ...span);
    assert.equal(code, 0, err);
    const { partitions } = JSON.parse((await run('partitions', '--json')).out) as {
      readonly partitions: readonly { name: string; state: string; rows: number }[];
    };
    return partitions.map(({ name, state, rows }) => `${name} ${state} ${rows}`).join();
  });
  assert.match(restored, /sealed/);
  await all();
  for (const { run } of worlds) {
    const again = await run('seal', '--archive', '--before', DAYS[2]);
    assert.equal(again.code, 0, again.err);
  }
  assertSame(await readAll(t, worlds[1]), imported);
});
