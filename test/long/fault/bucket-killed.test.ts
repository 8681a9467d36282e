import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '../../../src/kernel/random.js';
import type { DepthRow } from '../../../src/model/batch.js';
import { openTestStore, runSql } from '../../support/postgres/postgres.js';
import { marketOf } from '../../support/postgres/postgres-rows.js';
import { runCommand } from '../../support/programs/commands.js';
import { Program } from '../../support/programs/program.js';
import { type S3Request, S3StandIn } from '../../support/s3/s3-stand-in.js';
import { CREDENTIALS } from '../../support/s3/versitygw.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** An archiving that is killed while a file of several parts is on its way into a bucket. */

const DAY = '2026-01-14';
const NEXT = '2026-01-15';
const START_MS = Date.parse(`${DAY}T00:00:00Z`);
const DAY_MS = 86_400_000;
const ROWS = 6_000;
const LEVELS = 100;
const BATCH = 500;
/** Files beyond it go in parts. */
const PART_BYTES = 8 * 1024 * 1024;

/** Numbers that no compression makes small. */
function numbers(random: () => number): string[] {
  return Array.from({ length: LEVELS }, () => (1 + random() * 1e5).toFixed(8));
}

/** A day of order books that fills a file of some parts. */
async function openWorld() {
  const { store, url } = await openTestStore();
  await runSql(url, `UPDATE partition_policy SET width = 'day'`);
  await store.ensureMarkets([marketOf('BTC_USDT')], START_MS);
  const stream = await store.ensureStream({ kind: 'depth', marketId: 1, variant: 0 });
  const random = seededRandom(42);
  for (let at = 0; at < ROWS; at += BATCH) {
    const depths = Array.from({ length: BATCH }, (_, n): DepthRow => {
      const observedAtMs = START_MS + (at + n) * 10_000;
      const bids = { bidPrices: numbers(random), bidAmounts: numbers(random) };
      const asks = { askPrices: numbers(random), askAmounts: numbers(random) };
      return { ...{ marketId: 1, observedAtMs, receivedAtMs: observedAtMs }, ...bids, ...asks };
    });
    await store.commit({ depths });
  }
  const span = { fromMs: START_MS, toMs: START_MS + DAY_MS };
  await store.commit({ claims: [{ stream, span, evidence: {} }] });
  await store.stop();
  return url;
}

/** Requests at which the program is killed. */
const KILLS: Readonly<Record<string, (request: S3Request) => boolean>> = {
  'before the first part': ({ method, query }) => method === 'POST' && query.has('uploads'),
  'within the parts': ({ method, query }) => method === 'PUT' && query.get('partNumber') === '2',
  'at the end of the upload': ({ method, query }) => method === 'POST' && query.has('uploadId'),
  'while it is read back': ({ method, key }) => method === 'GET' && key.includes('kind=depth'),
  'at the manifest': ({ method, key }) => method === 'PUT' && key.includes('manifests/'),
};

test('killed while a file of several parts is uploaded', { timeout: 600_000 }, async (t) => {
  const url = await openWorld();
  const store = await S3StandIn.start(t);
  const env = {
    ...{ ...CREDENTIALS, TAPEKEEP_DATABASE_URL: url, TAPEKEEP_DATA_DIR: await makeFolder(t) },
    ...{ TAPEKEEP_COLD_ENABLED: 'true', TAPEKEEP_COLD_URL: 's3://archive/one' },
    ...{ TAPEKEEP_COLD_ENDPOINT: store.endpoint, TAPEKEEP_COLD_PATH_STYLE: 'true' },
    TAPEKEEP_VERIFICATION_ENABLED: 'false',
  };
  const run = (...args: string[]) => runCommand(args, env);
  const sums = async () =>
    (
      await run(
        ...['query', '--json'],
        `SELECT count(*) AS n, sum(list_sum(bid_prices))::varchar AS b, max(observed_at)::varchar AS t FROM depth`,
      )
    ).out;
  const stateOf = async () => {
    const rows = await runSql<{ state: string }>(
      url,
      "SELECT state FROM partition_state WHERE table_name = 'depth' AND lower(span) = $1::timestamptz",
      [DAY],
    );
    return rows[0]?.state;
  };
  const before = await sums();
  assert.match(before, new RegExp(`"n":"?${ROWS}`));
  const archive = ['seal', '--archive', '--kind', 'depth', '--before', NEXT];
  for (const [name, isFatal] of Object.entries(KILLS)) {
    let running: Program | undefined;
    store.fault = (request) => {
      if (running === undefined || !isFatal(request)) return undefined;
      running.kill('SIGKILL');
      return 'lost response';
    };
    running = new Program(archive, { env });
    assert.equal((await running.ended()).signal, 'SIGKILL', `${name}: ${running.dump()}`);
    running = undefined;
    store.fault = () => undefined;
    assert.notEqual(await stateOf(), 'archived', name);
    await runSql(
      url,
      `SELECT pg_advisory_lock(token), pg_advisory_unlock(token) FROM exclusive_lock WHERE name = 'sealing'`,
    );
    assert.equal(await sums(), before, name);
    t.diagnostic(`${name}: ${store.openUploads} uploads left, ${store.objects.size} objects`);
  }
  // What belongs to other programs stays.
  store.beginUpload('one/of another program');
  const left = store.openUploads;
  assert.ok(left > 1, 'parts were left behind');
  const whole = await run(...archive, '--json');
  assert.equal(whole.code, 0, whole.err);
  assert.equal(await stateOf(), 'archived');
  assert.equal(store.openUploads, 1);
  const files = [...store.objects].filter(([key]) => key.endsWith('.parquet'));
  assert.equal(files.length, 1);
  assert.ok((files[0]?.[1].bytes.length ?? 0) > PART_BYTES, 'it took several parts');
  assert.equal(await sums(), before);
});
