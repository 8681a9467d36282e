import assert from 'node:assert/strict';
import test from 'node:test';
import { runSql } from '../support/postgres/postgres.js';
import { revoke } from '../support/postgres/postgres-rows.js';
import { runCommand } from '../support/programs/commands.js';
import { DAYS, openDaysWorld } from '../support/worlds/days-world.js';
import { makeFolder } from '../support/worlds/export-world.js';

/** What commands say of time that retention gave up: what, until when, and that it is no gap. */

const MARKET = ['--market', 'BTC_USD'];
const LIMIT = '2026-01-15 00:00:00';
const UNCOMPARED = `trades before ${LIMIT} are expired, so the candles there cannot be compared`;
/** Eight hours, of which the trades of the first four are given up. */
const ACROSS = ['--from', `${DAYS[0]}T20:00:00Z`, '--to', `${DAYS[1]}T04:00:00Z`];

/** Three days in which nobody traded, so that all of it is proven; the trades of the first are given up. */
async function giveUp(t: Parameters<typeof makeFolder>[0]) {
  const { store, url, coldDir } = await openDaysWorld(await makeFolder(t));
  await runSql(url, 'DELETE FROM trade; DELETE FROM kline');
  const run = (...args: string[]) =>
    runCommand(args, { TAPEKEEP_DATABASE_URL: url, TAPEKEEP_COLD_DIR: coldDir });
  const expire = (table: string, day: string) =>
    runSql(url, `SELECT expire_partition('${table}', '${day}')`);
  return { store, url, run, expire };
}

test('verify names candles whose trades are given up, and judges the others', async (t) => {
  const { run, expire } = await giveUp(t);
  const whole = await run('verify', ...MARKET);
  assert.equal(whole.code, 0, whole.out);
  assert.doesNotMatch(whole.out, /Not judged/);
  await expire('trade', DAYS[0]);
  const plain = await run('verify', ...MARKET);
  assert.equal(plain.code, 0, plain.out);
  assert.deepEqual(plain.out.split('\n').slice(-2), [
    `Not judged: ${UNCOMPARED}.`,
    'Proven: candles and stored trades agree (2,928 slots).',
  ]);
  const { expired } = JSON.parse((await run('verify', ...MARKET, '--json')).out);
  assert.deepEqual(expired, { kind: 'trades', until: `${DAYS[1]}T00:00:00.000Z` });

  const named = await run('verify', ...MARKET, ...ACROSS);
  assert.equal(named.code, 6, named.err);
  assert.equal(
    named.out,
    [
      'BTC_USD',
      '  candles of 1m, 480 slots: 240 match, 0 do not, 240 unproven',
      '  candles of 1h, 8 slots: 4 match, 0 do not, 4 unproven',
      `  UNPROVEN 2026-01-14 20:00:00 – ${LIMIT} (1m): ${UNCOMPARED}`,
      `  UNPROVEN 2026-01-14 20:00:00 – ${LIMIT} (1h): ${UNCOMPARED}`,
      'Not proven: BTC_USD.',
    ].join('\n'),
  );
  const later = await run('verify', ...MARKET, '--from', DAYS[1], '--to', DAYS[2]);
  assert.equal(later.code, 0, later.out);
  assert.doesNotMatch(later.out, /expired/);

  // Where nothing is left of either, nothing is left out.
  await expire('kline', DAYS[0]);
  assert.doesNotMatch((await run('verify', ...MARKET)).out, /Not judged/);
  await expire('kline', DAYS[1]);
  assert.match(
    (await run('verify', ...MARKET)).out,
    /^Not judged: candles before 2026-01-16 00:00:00 are expired, so the trades there cannot/m,
  );
});

test('of files with candles whose trades are given up it is not said that they could be judged', async (t) => {
  const { url, run, expire } = await giveUp(t);
  await expire('trade', DAYS[0]);
  await runSql(
    url,
    `UPDATE partition_state SET state = 'archived'
     WHERE table_name = 'kline' AND lower(span) = '${DAYS[0]}Z'`,
  );
  const plain = await run('verify', ...MARKET);
  assert.doesNotMatch(plain.out, /tapekeep restore/);
  assert.match(plain.out, new RegExp(`^Not judged: ${UNCOMPARED}\\.$`, 'm'));
  const named = await run('verify', ...MARKET, ...ACROSS);
  assert.doesNotMatch(named.out, /in cold files/);
  assert.match(named.out, new RegExp(`\\(1h\\): ${UNCOMPARED}$`, 'm'));
});

test('status, gaps and an export name what is given up, and its true limit', async (t) => {
  const { url, run, expire } = await giveUp(t);
  await runSql(
    url,
    `INSERT INTO archive (name, base_url, is_sandbox, identity)
     VALUES ('A', 'http://a.test', true, 'replay-1')`,
  );
  const { out: plain } = await run('status');
  assert.match(plain, /^Archive of A \(replay\)/);
  assert.doesNotMatch(plain, /Expired/);
  await expire('trade', DAYS[0]);
  await expire('depth', DAYS[1]);
  const said = `Expired: depth before 2026-01-16 00:00:00, trades before ${LIMIT}. No gap and no share counts that time.`;
  for (const args of [['status'], ['status', '--summary'], ['gaps']]) {
    const { out } = await run(...args);
    const [line = '', ...more] = out.split('\n').filter((one) => one.startsWith('Expired'));
    assert.deepEqual([line.split(/: |, |\. /).sort(), more], [said.split(/: |, |\. /).sort(), []]);
  }
  const { archive } = JSON.parse((await run('status', '--json', '--kind', 'trades,states')).out);
  const untilOf = archive.kinds.map(({ kind, expiredUntilMs }: Record<string, unknown>) => [
    ...[kind, expiredUntilMs],
  ]);
  assert.deepEqual(untilOf.sort(), [
    ['states', null],
    ['trades', Date.parse(DAYS[1])],
  ]);
  const gaps = async (...args: string[]) =>
    JSON.parse((await run('gaps', '--json', ...args)).out).expired;
  const trades = { kind: 'trades', until: `${DAYS[1]}T00:00:00.000Z` };
  assert.deepEqual(await gaps(...ACROSS, '--kind', 'trades,candles'), [trades]);
  assert.deepEqual(await gaps('--from', DAYS[1], '--kind', 'trades,candles'), []);
  const asked = await run('gaps', ...ACROSS, '--kind', 'trades');
  assert.match(asked.out, new RegExp(`^No gaps of that sort\\.\\nExpired: trades before ${LIMIT}`));

  const within = ['--from', `${DAYS[0]}T13:00:00Z`, '--to', `${DAYS[0]}T20:00:00Z`];
  const refused = await run('export', ...MARKET, '--kind', 'trades', ...within);
  assert.match(
    refused.err,
    new RegExp(`^  Expired: retention deletes all before ${LIMIT}\\.$`, 'm'),
  );
});

test('each length of candles is explained', async (t) => {
  const { store, run } = await giveUp(t);
  const stream = await store.ensureStream({ kind: 'candles', marketId: 1, variant: 3600 });
  const [fromMs = 0, toMs = 0] = [20, 22].map((hour) => Date.parse(`${DAYS[0]}T${hour}:00Z`));
  await revoke(store, stream, { fromMs, toMs }, { reason: 'suspect', note: '', atMs: toMs });
  const explain = (kind: string) => run('gaps', 'explain', 'BTC_USD', kind, '2026-01-14T20:30:00Z');
  const candles = await explain('candles');
  assert.match(candles.out, /^Gap \d+: candles 1h of BTC_USD$/m);
  assert.match(candles.out, /^candles 1m of BTC_USD\n.*\n {2}covered\n {2}Nothing is missing\.$/m);
});
