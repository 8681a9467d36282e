import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import pg from 'pg';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { DAYS, openDaysWorld } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** The zones of process, shell, database and session: what is stored and printed is as in UTC. */

const MAIN = join(import.meta.dirname, '../../../dist/cli/main.js');
/** Half an hour off all others, with days that begin at 13:00 UTC in January. */
const ZONE = 'Australia/Lord_Howe';

const SPAN = ['--from', DAYS[0], '--to', '2026-01-17'];
const BTC = ['--market', 'BTC_USD', ...SPAN];
const COMMANDS = [
  ['partitions', '--json'],
  ['gaps', 'list', '--json', ...SPAN],
  ['export', '--kind', 'trades', ...BTC],
  ['export', '--kind', 'candles', '--interval', '1h', ...BTC],
  [
    ...['query', '--json'],
    `SELECT market, traded_at, date_trunc('day', traded_at) AS day, traded_at::date AS date FROM trades ORDER BY ALL`,
  ],
  ['query', '--json', `SELECT * FROM candles('BTC_USD', '1d', '${DAYS[0]}', '2026-01-17')`],
];
const AFTER_ARCHIVING = COMMANDS.slice(2);

/** When something was done, and how large it became. */
const PASSING = /"(at|asOf|sealedAt|archivedAt|bytes|coldBytes|seconds)":("[^"]*"|[\d.]+),?/g;

interface Place {
  readonly databaseUrl: string;
  readonly coldDir: string;
  readonly zone: string;
}

async function runIn({ databaseUrl, coldDir, zone }: Place, args: readonly string[]) {
  const env = {
    ...{ PATH: process.env.PATH, TZ: zone, PGTZ: zone, PGOPTIONS: `-c TimeZone=${zone}` },
    TAPEKEEP_DATABASE_URL: databaseUrl,
    TAPEKEEP_COLD_DIR: coldDir,
    TAPEKEEP_VERIFICATION_ENABLED: 'false',
  };
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...args], { env });
  return stdout.replaceAll(coldDir, 'COLD').replaceAll(PASSING, '');
}

/** All that is printed, before and after a day has moved into files. */
async function outputsIn(place: Place): Promise<string[]> {
  const outputs: string[] = [];
  const print = async (commands: readonly (readonly string[])[]) => {
    for (const command of commands) outputs.push(await runIn(place, command));
  };
  await print(COMMANDS);
  await print([['seal', '--archive', '--kind', 'trades', '--before', DAYS[1], '--json']]);
  await print(AFTER_ARCHIVING);
  return outputs;
}

test('no zone changes partitions, candles or outputs', { timeout: 300_000 }, async (t) => {
  const before = process.env.TZ;
  t.after(() => {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  });
  const outputs: string[][] = [];
  for (const zone of ['UTC', ZONE]) {
    process.env.TZ = zone;
    const databaseUrl = await makeDatabase();
    const name = new URL(databaseUrl).pathname.slice(1);
    await runSql(databaseUrl, `ALTER DATABASE ${name} SET timezone = '${zone}'`);
    const coldDir = await makeFolder(t, zone.replaceAll('/', '-'));
    await openDaysWorld(coldDir, databaseUrl);
    const [shown] = await runSql<{ TimeZone: string }>(databaseUrl, 'SHOW timezone');
    assert.equal(shown?.TimeZone, zone, 'the database has this zone');
    outputs.push(await outputsIn({ databaseUrl, coldDir, zone }));
  }
  const [inUtc = [], inZone = []] = outputs;
  for (const [at, text] of inUtc.entries()) {
    assert.notEqual(text, '');
    assert.deepEqual(inZone[at]?.split('\n'), text.split('\n'), `output ${at}`);
  }
});

test("the zone of an analyst's session changes no slot and no candle", async (t) => {
  const { url } = await openDaysWorld(await makeFolder(t));
  const answers: unknown[][] = [];
  for (const zone of ['UTC', ZONE]) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    t.after(() => client.end());
    await client.query(`SET timezone = '${zone}'`);
    const rows: unknown[] = [];
    for (const [from, to] of [
      [DAYS[0], '2026-01-17'],
      ['2026-04-03', '2026-04-07'],
      ['2026-10-02', '2026-10-06'],
    ]) {
      const span = `'${from}T00:00Z', '${to}T00:00Z'`;
      for (const sql of [
        `SELECT extract(epoch FROM open_at) AS at FROM analytics.slots('1 day', ${span})`,
        `SELECT to_jsonb(c) - 'open_at' AS c, extract(epoch FROM open_at) AS at
         FROM analytics.candles('BTC_USD', '1 day', ${span}) c`,
        `SELECT to_jsonb(c) - 'at' AS c FROM analytics.completeness('BTC_USD', '${from}') c`,
      ]) {
        rows.push((await client.query(sql)).rows);
      }
    }
    answers.push(rows);
  }
  assert.deepEqual(answers[1], answers[0]);
});
