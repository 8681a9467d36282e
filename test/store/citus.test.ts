import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { SERIES_TABLES } from '../../src/model/series.js';
import { commandTagsUsed } from '../support/postgres/command-tags.js';
import { copyTargets, cutReferences } from '../support/postgres/cut-statements.js';
import { makeDatabase, openTestStore, runSql } from '../support/postgres/postgres.js';
import { trade } from '../support/postgres/postgres-rows.js';
import { BTC } from '../support/worlds/store-world.js';

/**
 * Rules by which the archive can be spread over a Citus cluster (architecture, Scale). There is none
 * here: what a cluster would refuse is looked for in the catalog and in the source.
 */

const ROOT = join(import.meta.dirname, '../..');
const SCRIPT = readFileSync(join(ROOT, 'sql/citus/01_distribute.sql'), 'utf8');

/** The tables named in an array constant of the script. */
function tablesOf(constant: string): string[] {
  const [, list = ''] =
    new RegExp(`${constant} CONSTANT text\\[\\] := ARRAY\\[([^\\]]*)\\]`).exec(SCRIPT) ?? [];
  return [...list.matchAll(/'(\w+)'/g)].map(([, name = '']) => name);
}
const COPIED = tablesOf('copied');
const CUT = tablesOf('cut');
/** Kept by one node: nothing is joined with them, and they have no market. */
const LOCAL = [
  'quarantine',
  'quarantine_count',
  'tapekeep_migration',
  'exclusive_lock',
  'reader_lock',
  'writer_commit',
  'server_timeline',
  'journal_end',
  'writer_beat',
  'writer_standby',
  'journal',
  'incident',
  'run',
];

interface Rule {
  readonly table: string;
  readonly name: string;
  readonly columns: readonly string[] | null;
}

const UNIQUE = `
  SELECT t.relname AS table, i.relname AS name, array_agg(a.attname::text) AS columns
  FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
  LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (x.indkey)
  WHERE t.relname = ANY ($1::text[]) AND (x.indisunique OR x.indisexclusion)
  GROUP BY 1, 2`;
const KEYS = `
  SELECT t.relname AS table, f.relname AS target FROM pg_constraint k
  JOIN pg_class t ON t.oid = k.conrelid JOIN pg_class f ON f.oid = k.confrelid
  WHERE k.contype = 'f' AND k.conparentid = 0 AND t.relnamespace = 'public'::regnamespace`;

async function keysWithoutMarket(url: string): Promise<string[]> {
  const rules = await runSql<Rule>(url, UNIQUE, [CUT]);
  assert.ok(rules.length >= CUT.length - SERIES_TABLES.length);
  return rules
    .filter(({ columns }) => columns?.includes('market_id') !== true)
    .map(({ name }) => name);
}

async function keysToCutTables(url: string): Promise<string[]> {
  const keys = await runSql<{ table: string; target: string }>(url, KEYS);
  assert.ok(keys.length > 5);
  return keys
    .filter(({ table, target }) => !COPIED.includes(target) && !LOCAL.includes(table))
    .map(({ table, target }) => `${table} → ${target}`);
}

test('every table is copied, cut or local, and what is cut has a market', async () => {
  const url = await makeDatabase();
  const tables = await runSql<{ name: string; has_market: boolean; is_parent: boolean }>(
    url,
    `SELECT c.relname AS name, c.relkind = 'p' AS is_parent, EXISTS (
       SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'market_id'
         AND a.attnotnull AND a.atttypid = 'int4'::regtype) AS has_market
     FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
       AND NOT c.relispartition`,
  );
  const names = tables.map(({ name }) => name).sort();
  assert.deepEqual([...COPIED, ...CUT, ...LOCAL].sort(), names);
  for (const { name, has_market: hasMarket, is_parent: isParent } of tables) {
    if (CUT.includes(name)) assert.ok(hasMarket, name);
    if (isParent) assert.ok(CUT.includes(name), `${name} has partitions and is not cut`);
  }
  for (const table of SERIES_TABLES) assert.ok(CUT.includes(table), table);
});

test('each key of a cut table holds the market, and foreign keys lead to copied tables', async () => {
  const url = await makeDatabase();
  assert.deepEqual(await keysWithoutMarket(url), []);
  assert.deepEqual(await keysToCutTables(url), []);
  // What must be noticed.
  await runSql(url, 'CREATE UNIQUE INDEX planted_key ON gap (gap_id)');
  await runSql(
    url,
    'ALTER TABLE candle_check ADD CONSTRAINT planted EXCLUDE USING gist (span WITH &&)',
  );
  assert.deepEqual((await keysWithoutMarket(url)).sort(), ['planted', 'planted_key']);
  await runSql(
    url,
    `ALTER TABLE candle_check ADD COLUMN gap_id bigint,
       ADD FOREIGN KEY (gap_id, market_id) REFERENCES gap (gap_id, market_id)`,
  );
  assert.deepEqual(await keysToCutTables(url), ['candle_check → gap']);
});

test('partitions have one level', async () => {
  const url = await makeDatabase();
  for (const table of SERIES_TABLES) {
    await runSql(url, `SELECT make_partition('${table}', '2026-01-15')`);
  }
  const deeper = await runSql(
    url,
    `SELECT relname FROM pg_class WHERE relispartition AND relkind = 'p'`,
  );
  assert.deepEqual(deeper, []);
});

test('no statement of the store relies on the count in an answer to INSERT', () => {
  const dir = join(ROOT, 'src/store');
  const files = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  assert.ok(files.length > 30);
  for (const name of files) {
    assert.deepEqual(commandTagsUsed(readFileSync(join(dir, name), 'utf8')), [], name);
  }
  const sql = readdirSync(join(ROOT, 'sql'), { recursive: true, encoding: 'utf8' });
  for (const name of sql.filter((one) => one.endsWith('.sql'))) {
    const text = readFileSync(join(ROOT, 'sql', name), 'utf8');
    assert.doesNotMatch(text, /GET\s+(CURRENT\s+)?DIAGNOSTICS/i, name);
    assert.doesNotMatch(text, /INSERT\s[^;]*;\s*(IF|RETURN|WHILE)\s+(NOT\s+)?FOUND/i, name);
  }
});

test('a use of the count is noticed, whatever it looks like', () => {
  const planted = [
    `const { rowCount } = await client.query('INSERT INTO t VALUES (1)');`,
    `const done = await client.query(INSERT); if (done.rowCount === 1) go();`,
    `return (await pool.query('INSERT INTO t VALUES (1)')).rowCount ?? 0;`,
    `const { rows, rowCount: stored } = await this.#client.query(sql, values);`,
    `client.query(sql).then((done) => done.rowCount);`,
    `const found = await client.query('SELECT 1 INTO t'); let n; ({ rowCount: n } = found);`,
  ];
  for (const source of planted) assert.equal(commandTagsUsed(source).length, 1, source);
  const innocent = [
    `const rowCount = parts.reduce((sum, island) => sum + island.rowCount, 0);`,
    `const found = await client.query('SELECT FROM pg_database'); if (found.rowCount === 0) go();`,
    `const { rows } = await client.query(sql); return rows.length;`,
  ];
  for (const source of innocent) assert.deepEqual(commandTagsUsed(source), [], source);
});

/** Sources whose statements a cluster is asked; on one, partitions are not sealed (see below). */
const ASKED = 'store';
const ASKED_FILES = ['archive/block-source.ts', 'archive/past-facts.ts'];
const SEALING = 'store/sealing/';

function askedSources(): { readonly name: string; readonly source: string }[] {
  const names = readdirSync(join(ROOT, 'src', ASKED), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `${ASKED}/${name.replaceAll('\\', '/')}`);
  const found = [...names, ...ASKED_FILES];
  assert.ok(found.length > 40);
  return found.map((name) => ({ name, source: readFileSync(join(ROOT, 'src', name), 'utf8') }));
}

/**
 * References without a market, by file: no more may come. `stream` are bound to a stream, which has one
 * market: right by themselves, but a cluster has to ask all of its nodes, and may refuse them within
 * another statement. `none` are asked of all nodes, or bound by what is put in at their end.
 */
const LOOSE: Readonly<Record<string, { readonly stream?: number; readonly none?: number }>> = {
  'store/checks/inputs.ts': { stream: 3 },
  'store/completeness/gaps.ts': { stream: 11, none: 2 },
  'store/completeness/ledger.ts': { stream: 7, none: 4 },
  'store/completeness/revocation.ts': { stream: 1 },
  'store/reading/inspection.ts': { stream: 2, none: 1 },
  'store/writer/final-partitions.ts': { stream: 2 },
  'store/writer/trade-rows.ts': { none: 1 },
  'store/writer/commit-number.ts': { none: 1 },
};

test('each table that is cut is asked with its market, but where it is known not to be', () => {
  let bound = 0;
  for (const { name, source } of askedSources()) {
    if (name.startsWith(SEALING)) continue;
    const references = cutReferences(source, CUT);
    bound += references.filter((one) => one.bound === 'market').length;
    for (const how of ['stream', 'none'] as const) {
      const loose = references.filter((one) => one.bound === how);
      const told = loose.map(({ table, line }) => `${table} in line ${line}`).join(', ');
      assert.ok(loose.length <= (LOOSE[name]?.[how] ?? 0), `${name}, bound to ${how}: ${told}`);
    }
  }
  assert.ok(bound > 60, `${bound}`);
});

test('a join past the market is noticed, whatever it looks like', () => {
  for (const [text, expected] of [
    ['SELECT 1 FROM trade WHERE market_id = $1', ['market']],
    ['SELECT 1 FROM trade t JOIN kline k USING (market_id, x)', ['market', 'market']],
    ['SELECT 1 FROM trade t JOIN kline k ON k.open_at = t.traded_at', ['none', 'none']],
    [
      'SELECT 1 FROM stream s, LATERAL (SELECT 1 FROM coverage c WHERE c.stream_id = s.stream_id) x',
      ['stream'],
    ],
    [
      'SELECT 1 FROM trade t, LATERAL (SELECT 1 FROM kline k WHERE k.open_at = t.at) x WHERE t.market_id = 1',
      ['market', 'none'],
    ],
    [
      'SELECT 1 FROM gap g WHERE g.market_id = 1 AND EXISTS (SELECT FROM coverage c WHERE c.span && g.span)',
      ['market', 'none'],
    ],
    ['UPDATE gap SET state = $1 WHERE gap_id = $2', ['none']],
    ['DELETE FROM wanted w USING stream s WHERE s.stream_id = w.stream_id', ['stream']],
    ['INSERT INTO trade (market_id, tid) SELECT 1, 2', ['market']],
  ] as const) {
    const found = cutReferences(`const sql = \`${text}\`;`, CUT).map((one) => one.bound);
    assert.deepEqual(found, expected, text);
  }
});

test('rows are copied into tables and stages, never into a partition by its name', () => {
  const targets = (isSealing: boolean) =>
    askedSources()
      .filter(({ name }) => name.startsWith(SEALING) === isSealing)
      .flatMap(({ source }) => copyTargets(source))
      .sort();
  assert.deepEqual(targets(false), ['stageOf(shape)', 'table']);
  // Restoring does so, and is refused on a cluster.
  assert.deepEqual(targets(true), ['name']);
});

/**
 * A server that knows the words but not the deeds: functions of the extension's names that write down
 * what they were asked. Shows that the script is sound SQL, that it is repeatable, and that all foreign
 * keys are there again afterwards.
 */
test('the script asks for each table once, and leaves all keys in place', async () => {
  const url = await makeDatabase();
  await runSql(
    url,
    `CREATE TABLE pg_dist_partition (logicalrelid regclass PRIMARY KEY, colocated_with text);
     CREATE FUNCTION create_reference_table(one text) RETURNS void LANGUAGE sql AS
       'INSERT INTO pg_dist_partition VALUES (one::regclass, NULL)';
     CREATE FUNCTION create_distributed_table(one text, by_column text, colocate_with text)
       RETURNS void LANGUAGE sql AS
       'INSERT INTO pg_dist_partition VALUES (one::regclass, by_column || '' '' || colocate_with)'`,
  );
  const script = SCRIPT.replace('CREATE EXTENSION IF NOT EXISTS citus;', '');
  assert.notEqual(script, SCRIPT);
  const keys = () =>
    runSql(
      url,
      `SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE contype = 'f' ORDER BY 1, 2`,
    );
  const before = await keys();
  await runSql(url, script);
  await runSql(url, script);
  assert.deepEqual(await keys(), before);
  const asked = await runSql<{ name: string; colocated_with: string | null }>(
    url,
    'SELECT logicalrelid::text AS name, colocated_with FROM pg_dist_partition',
  );
  const copied = asked.filter((one) => one.colocated_with === null).map(({ name }) => name);
  assert.deepEqual(copied.sort(), [...COPIED].sort());
  for (const { name, colocated_with: how } of asked) {
    if (CUT.includes(name)) {
      assert.equal(how, `market_id ${name === 'trade' ? 'default' : 'trade'}`, name);
    }
  }
  assert.equal(asked.length, COPIED.length + CUT.length);
});

test('what a cluster cannot do is refused by name, and the rest goes on', async () => {
  const { store, url } = await openTestStore();
  await runSql(
    url,
    `CREATE TABLE pg_dist_partition (logicalrelid regclass PRIMARY KEY);
     INSERT INTO pg_dist_partition VALUES ('trade')`,
  );
  // Sealing, archiving, restoring and retention all begin here.
  await assert.rejects(store.sealing.open(new AbortController().signal), {
    code: 'sealing_refused',
    action: 'fatal',
    message:
      /distributed over a Citus cluster, where partitions are not sealed, archived or expired/,
  });
  assert.deepEqual(await store.sealing.partitions(), []);
  await store.ensureMarkets([BTC], 0);
  await store.commit({ trades: [trade(1, 0)] });
  assert.deepEqual(
    (await store.sealing.partitions()).map(({ table, state }) => [table, state]),
    [['trade', 'hot']],
  );
  // With the extension alone nothing is spread yet.
  await runSql(url, 'TRUNCATE pg_dist_partition');
  await (await store.sealing.open(new AbortController().signal)).close();
});
