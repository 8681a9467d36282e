import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { runCommand } from '../../support/programs/commands.js';
import { archiveDay } from '../../support/worlds/cold-world.js';
import { DAYS, openDaysWorld } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/**
 * The script of `duckdb-views` in a DuckDB that is not ours: Python's, where it is found with its extension for Postgres
 * (`duckdb` and `duckdb-extension-postgres-scanner` of the same version).
 */

const PYTHON = process.env.TAPEKEEP_TEST_PYTHON ?? 'python3';
const execute = promisify(execFile);

/** Runs the script, then each statement; prints rows as text. */
const ASK = `
import importlib.util, glob, sys, duckdb
place = importlib.util.find_spec('duckdb_extension_postgres_scanner').submodule_search_locations[0]
path, = glob.glob(place + '/extensions/*/postgres_scanner.duckdb_extension')
script = open(sys.argv[1]).read()
assert 'INSTALL postgres;\\nLOAD postgres;' in script
con = duckdb.connect(config={'allow_unsigned_extensions': 'true'})
con.execute(script.replace('INSTALL postgres;\\nLOAD postgres;', f"LOAD '{path}';"))
for sql in sys.argv[2:]:
    for row in con.execute(f'SELECT COLUMNS(*)::VARCHAR FROM ({sql})').fetchall():
        print('|'.join('' if one is None else one for one in row))
`;

const STATEMENTS = [
  'SELECT market, count(*), min(traded_at), max(tid), sum(price), sum(total) FROM trades GROUP BY market ORDER BY market',
  'SELECT market, interval_s, count(*), sum(volume), max(close) FROM klines GROUP BY ALL ORDER BY ALL',
  'SELECT side, count(*), count(DISTINCT level) FROM depth_levels GROUP BY side ORDER BY side',
  'SELECT market, min_amount FROM analytics.markets ORDER BY market',
  `SELECT open_at, open, high, low, close, volume, trades, is_complete FROM candles('BTC_USD', '12 hours', '2026-01-14', '2026-01-17')`,
];

test('the names of the archive in another DuckDB give the answers of query', async (t) => {
  const found = await execute(PYTHON, [
    '-c',
    'import duckdb, duckdb_extension_postgres_scanner; print(duckdb.__version__)',
  ]).catch(() => undefined);
  if (found === undefined) {
    t.skip(`${PYTHON} has no duckdb with duckdb-extension-postgres-scanner`);
    return;
  }
  const place = await openDaysWorld(await makeFolder(t));
  await archiveDay(place, 'trades', DAYS[0]);
  const env = { TAPEKEEP_DATABASE_URL: place.url, TAPEKEEP_COLD_DIR: place.coldDir };
  const script = await runCommand(['duckdb-views'], env);
  assert.equal(script.code, 0, script.err);
  assert.match(script.out, /read_parquet\(\['[^']*kind=trades/);
  const path = join(place.coldDir, 'archive.sql');
  await writeFile(path, script.out);
  const { stdout } = await execute(PYTHON, ['-c', ASK, path, ...STATEMENTS]);
  const expected: string[] = [];
  for (const sql of STATEMENTS) {
    const text = `SELECT COLUMNS(*)::VARCHAR FROM (${sql})`;
    const { code, out, err } = await runCommand(['query', '--json', text], env);
    assert.equal(code, 0, err);
    for (const line of out.trim().split('\n')) {
      const row = JSON.parse(line) as Record<string, string | null>;
      expected.push(
        Object.values(row)
          .map((one) => one ?? '')
          .join('|'),
      );
    }
  }
  assert.ok(expected.length > 10);
  // The script knows no more of rows to come than the precisions of the markets: its types may be wider.
  const shortest = (text: string) =>
    text.replaceAll(/(\.\d*?)0*(?=\||$)/gm, (_, part: string) => (part === '.' ? '' : part));
  assert.equal(shortest(stdout.trim()), shortest(expected.join('\n')));
});
