import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import test, { type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { systemClock } from '../../../src/kernel/clock.js';
import { systemRandom } from '../../../src/kernel/random.js';
import { makeDatabase, quietStoreEvents, runSql } from '../../support/postgres/postgres.js';
import { BTC } from '../../support/worlds/store-world.js';

/**
 * docs/adding-a-series.md, followed to the letter in a copy of the source: its entry, its migration and its
 * collector are all that the new rows need.
 */

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../../..');
const COPIED = ['src', 'sql', 'config', 'package.json', 'tsconfig.json', 'tsconfig.build.json'];
const REGISTRY = 'src/model/series.ts';
const END_OF_ENTRIES = '} as const satisfies';

const DAY_MS = 86_400_000;
const DAY = "WHERE observed_at < '2026-01-16'";
const FIRST_MS = Date.UTC(2026, 0, 15);

/** A copy of the source with the three pieces of the page in their places, built. */
async function followPage(t: TestContext): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'tapekeep-series-test-'));
  t.after(() => rm(copy, { recursive: true, force: true }));
  for (const name of COPIED) await cp(join(ROOT, name), join(copy, name), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  const page = await readFile(join(ROOT, 'docs/adding-a-series.md'), 'utf8');
  const [entry, migration, collector] = [
    ...page.matchAll(/^```(?:typescript|sql)\n(.*?)^```$/gms),
  ].map(([, text = '']) => text);
  assert.ok(entry !== undefined && migration !== undefined && collector !== undefined);
  const registry = await readFile(join(copy, REGISTRY), 'utf8');
  assert.equal(registry.split(END_OF_ENTRIES).length, 2, REGISTRY);
  await writeFile(
    join(copy, REGISTRY),
    registry.replace(END_OF_ENTRIES, `${entry}${END_OF_ENTRIES}`),
  );
  const numbers = (await readdir(join(copy, 'sql'))).map((name) => Number.parseInt(name, 10) || 0);
  const next = String(Math.max(...numbers) + 1).padStart(4, '0');
  await writeFile(join(copy, `sql/${next}_quote.sql`), migration);
  await writeFile(join(copy, 'src/collect/quotes.ts'), collector);
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
  await run(process.execPath, [compiler, '-p', 'tsconfig.build.json'], { cwd: copy }).catch(
    ({ stdout }) => assert.fail(`the page does not compile:\n${stdout}`),
  );
  return copy;
}

interface Quote {
  readonly marketId: number;
  readonly observedAtMs: number;
  readonly receivedAtMs: number;
  readonly bid: string;
  readonly ask: string;
  readonly bidAmount: string;
  readonly askAmount: string;
}

/** Decimals that no float holds. */
function quoteAt(second: number): Quote {
  const observedAtMs = FIRST_MS + second * 1000;
  return {
    ...{ marketId: 1, observedAtMs, receivedAtMs: observedAtMs + 7 },
    ...{ bid: `61837.${'63'.repeat(8)}${second % 10}1`, ask: '61838.2' },
    ...{ bidAmount: '0.000000000000000001', askAmount: `${second + 1}.5` },
  };
}

test('the page about adding a series is all that a new series needs', async (t) => {
  const copy = await followPage(t);
  const module = async (path: string) => await import(pathToFileURL(join(copy, path)).href);
  const url = await makeDatabase('empty');
  const coldDir = join(copy, 'cold');
  const env = {
    ...{ PATH: process.env.PATH, TAPEKEEP_DATABASE_URL: url, TAPEKEEP_COLD_DIR: coldDir },
    TAPEKEEP_VERIFICATION_ENABLED: 'false',
  };
  const command = async (...args: string[]) =>
    (await run(process.execPath, ['dist/cli/main.js', ...args], { cwd: copy, env })).stdout;
  await command('migrate');

  const { openStore } = await module('dist/store/index.js');
  const { storeQuotes } = await module('dist/collect/quotes.js');
  const store = await openStore({
    ...{ databaseUrl: url, clock: systemClock, random: systemRandom },
    telemetry: quietStoreEvents(),
  });
  const quotes = Array.from({ length: 100 }, (_, second) => quoteAt(second));
  try {
    await store.ensureMarkets([BTC], FIRST_MS);
    const stream = await store.ensureStream({ kind: 'quotes', marketId: 1, variant: 0 });
    await storeQuotes(store, stream, quotes);
    await storeQuotes(store, stream, quotes.slice(10, 20));
    // A day can leave the database when others have followed.
    await storeQuotes(store, stream, [400_000, 400_001].map(quoteAt));
  } finally {
    await store.stop();
  }
  assert.deepEqual(
    await runSql(url, `SELECT count(*)::int AS rows, max(bid)::text AS bid FROM quote ${DAY}`),
    [{ rows: 100, bid: quoteAt(9).bid }],
  );

  const span = ['--from', '2026-01-15T00:00:00Z', '--to', '2026-01-15T00:01:39Z'];
  const exported = async () =>
    await command('export', '--kind', 'quote', '--market', 'BTC_USDT', ...span, '--out', '-');
  const asked = async () =>
    await command(
      ...['query', '--json'],
      `select count(*) as n, max(bid)::varchar as bid, min(ask_amount) = 1.5 as is_exact from quotes where market = 'BTC_USDT' and observed_at < '2026-01-16'`,
    );
  const { openArchive } = await module('dist/index.js');
  const replayed = async () => {
    const archive = await openArchive({ databaseUrl: url, coldDir });
    const found: unknown[] = [];
    try {
      const query = {
        from: new Date(FIRST_MS),
        to: new Date(FIRST_MS + 99_000),
        kinds: ['quotes'],
      };
      for await (const { kind, market, atUs, row } of archive.events(query)) {
        assert.deepEqual([kind, market, atUs], ['quotes', 'BTC_USDT', row.observedAtMs * 1000]);
        found.push(row);
      }
    } finally {
      await archive.close();
    }
    return found;
  };
  const check = async (where: string) => {
    assert.deepEqual(await replayed(), quotes.slice(0, 99), where);
    const answer = JSON.parse(await asked());
    assert.deepEqual(
      [Number(answer.n), answer.bid, answer.is_exact],
      [100, quoteAt(9).bid, true],
      where,
    );
    const [heading, ...lines] = (await exported()).trimEnd().split('\r\n');
    assert.equal(heading, 'market,observed_at,bid,ask,bid_amount,ask_amount,received_at');
    assert.equal(lines.length, 99, where);
    assert.ok(lines[0]?.includes(`,${quoteAt(0).bid},61838.2,`), lines[0]);
  };
  await check('in the database');
  await command('export', '--kind', 'quotes', ...span, '--out', join(copy, 'quotes.parquet'));

  const until = new Date(FIRST_MS + DAY_MS).toISOString();
  await command('seal', '--archive', '--before', until);
  const states = await runSql(
    url,
    `SELECT state FROM partition_state WHERE table_name = 'quote' AND span @> '2026-01-15'::timestamptz`,
  );
  assert.deepEqual(states, [{ state: 'archived' }]);
  await check('in files');
  await command('restore', '--kind', 'depth', '--from', '2026-01-15', '--to', until);
  assert.deepEqual(await runSql(url, `SELECT count(*)::int AS rows FROM quote ${DAY}`), [
    { rows: 100 },
  ]);
  await check('restored');
});
