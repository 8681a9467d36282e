import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { runCommand } from '../support/programs/commands.js';
import { Program } from '../support/programs/program.js';
import { repositoryPath } from '../support/repository/repository.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import { DAYS, openDaysWorld } from '../support/worlds/days-world.js';
import { makeFolder } from '../support/worlds/export-world.js';

/** What a person meets who asks an archive in SQL. */

function run(env: Readonly<Record<string, string>>, ...args: string[]) {
  return runCommand(args, env);
}

test('one statement over hot and cold, in each form', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  await archiveDay(place, 'trades', DAYS[0]);
  const env = { TAPEKEEP_DATABASE_URL: place.url, TAPEKEEP_COLD_DIR: place.coldDir };
  const query = (...args: string[]) => run(env, 'query', ...args);
  const sql = `select market, tid, price, traded_at from trades where traded_at < '2026-01-15 00:00:01Z' order by market, tid desc limit 2`;
  const table = await query(sql);
  assert.equal(table.code, 0, table.err);
  assert.match(
    table.out,
    /^market +tid +price +traded_at\nBTC_USD +1042 +99\.50* +2026-01-15T00:00:00\.000Z\n.*\n\(2 rows\)$/,
  );
  const csv = await query('--format', 'csv', sql);
  assert.match(
    csv.out,
    /^market,tid,price,traded_at\r\nBTC_USD,1042,99\.50*,2026-01-15T00:00:00\.000Z\r\n/,
  );
  const json = await query('--json', sql);
  const [row] = json.out.split('\n').map((line) => JSON.parse(line));
  assert.deepEqual([row.market, row.tid, Number(row.price)], ['BTC_USD', '1042', 99.5]);

  const path = join(place.coldDir, 'ask.sql');
  await writeFile(path, 'select count(*) from trades');
  const narrowed = await query(
    '--json',
    '--file',
    path,
    '--market',
    'BTC_USD',
    '--to',
    '2026-01-15',
  );
  assert.equal(narrowed.out, '{"count":"12"}');
  // No database is there to be asked.
  const nowhere = { TAPEKEEP_DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
  const alone = await run(nowhere, 'query', '--cold', place.coldDir, '--json', '--file', path);
  assert.deepEqual([alone.code, alone.out], [0, '{"count":"24"}'], alone.err);
});

const BUSY = 'select count(*) from range(1000000000000)';

/** What a statement is told that only the database itself could answer. */
const ELSEWHERE =
  /^tapekeep: [^\n]*; use "tapekeep psql" for other tables and views of the database$/;

test('a statement of each kind is answered, and mistakes are named', async () => {
  const { url } = await openAnalystWorld();
  const env = { TAPEKEEP_DATABASE_URL: url };
  const hour = `'BTC_USDT', '1 hour', '2026-01-15 12:00:00Z', '2026-01-15 13:00:00Z'`;
  for (const [args, code, said] of [
    [['select count(*) as n from trades'], 0, /^ *n\n10$/m],
    [['select count(*) as n from analytics.trades'], 0, /^ *n\n10$/m],
    [['select count(*) as n from depth'], 0, /^n\n4$/m],
    [['values (1, null)'], 0, /^ *1\s*$/m],
    [['table trades limit 1'], 0, /^BTC_USDT /m],
    [[`select typeof(max(vwap)) as type from vwap(${hour})`], 0, /^type\nDOUBLE$/m],
    [[`select typeof(max(vwap)) as type from analytics.vwap(${hour})`], 0, /^type\nDOUBLE$/m],
    [
      [`select * from vwap('BTCUSDT', ${hour.slice(12)})`],
      2,
      /^tapekeep: the statement is refused: [^\n]*nearest name is BTC_USDT$/,
    ],
    [['-- how many\nselect count(*) as n from trades'], 0, /^ *n\n10$/m],
    [
      [
        '--json',
        `select 'NaN'::float8 as a, ['-Infinity'::float8, 1.5] as b, 'Infinity'::float4 as c`,
      ],
      0,
      /^\{"a":"NaN","b":\["-Infinity",1\.5\],"c":"Infinity"\}$/m,
    ],
    [['--format', 'csv', `select '-Infinity'::float8 as a, '-1+1' as b`], 0, /^-Infinity,'-1\+1$/m],
    [
      [
        ...['--format', 'csv'],
        `select -interval 1 second a, interval 3 hour - interval 1 day b, -interval 13 month c, '-' d,
           -interval '0.25 s' e, '-1 day+1' f`,
      ],
      0,
      /^-00:00:01,-1 day 03:00:00,-1 year -1 month,'-,-00:00:00\.25,'-1 day\+1$/m,
    ],
    [['--json', `select 1e400 > 1 as n from trades limit 1`], 0, /^\{"n":true\}$/m],
    [['--json', "select 'a\\x00'::blob as b"], 0, /"\\\\x6100"/],
    [['--json', '--how many?\nselect count(*)::text as n from trades'], 0, /^\{"n":"10"\}$/m],
    [['--josn', 'select 1'], 2, /unknown option '--josn'/],
    [['select nothing from trades'], 2, /"nothing" not found/],
    [
      ['select nothing,\n price from trades'],
      2,
      /"nothing" not found.*\n[\s\S]*\nLINE 1: select nothing,\n {15}\^$/,
    ],
    [
      ["select * from vwapp('BTC_USDT')"],
      2,
      /refused: there is no function vwapp here: did you mean vwap\(…\)\?\n\nLINE 1: select \* from vwapp/,
    ],
    ...(['depth_at', 'analytics.Completeness'] as const).map(
      (name) =>
        [
          [`select * from ${name}('BTC_USDT', now())`],
          2,
          new RegExp(
            `refused: there is no function ${name} here: use "tapekeep psql" for functions of the database\n\nLINE 1`,
          ),
        ] as const,
    ),
    [
      ['select cuont(*) from trades'],
      2,
      /there is no function cuont here: did you mean count\(…\)\?\n/,
    ],
    [
      ['select kind,\n sum(length) from gaps group by kind'],
      2,
      /refused: DuckDB sums no lengths: write sum\(epoch\(…\)\) .*\n\nLINE 2: {2}sum\(length\)/,
    ],
    [['select sum(epoch(length)) from gaps'], 0, /sum/],
    [['pivot trades on side using count(*)'], 2, /name them, as in PIVOT trades ON side IN/],
    [['from tradez limit 1'], 2, /no table tradez here; did you mean trades\?/],
    [["(pivot tradez on side in ('buy') using sum(amount))"], 2, /no table tradez here/],
    [['select * from tikers'], 2, /no table tikers here; did you mean tickers\?/],
    ...(['trade', 'gap', 'stream', 'balance', 'analytics.partitions'] as const).map(
      (name) => [[`select * from ${name}`], 2, ELSEWHERE] as const,
    ),
    [['select * from trades, stream'], 2, ELSEWHERE],
    [['--from', '1h', 'select * from trade'], 2, /no table trade here; did you mean trades\?/],
    [
      ["select 'é', max(at) from trades"],
      2,
      /at or near "\)"\n\nLINE 1: select 'é', max\(at\) from trades\n {26}\^$/,
    ],
    ...(['explain select * from trades', 'delete from trades', 'reset all'] as const).map(
      (sql) => [[sql], 2, /query runs one SELECT and nothing else; use "tapekeep psql"/] as const,
    ),
    [['--timeout', '1500ms', BUSY], 1, /longer than 1.5 s.*--timeout/],
    [['--timeout', '0s', 'select 1'], 2, /Write a duration above 0/],
    [['--cold', '/nowhere', 'select * from trades'], 2, /\/nowhere is no place of cold partitions/],
    [['--cold', 'select 1'], 2, /write the statement.*"select 1" was taken as the place of --cold/],
  ] as const) {
    const end = await run(env, 'query', ...args);
    assert.equal(end.code, code, `${args.join(' ')} ${end.err}`);
    assert.match(code === 0 ? end.out : end.err, said);
    assert.doesNotMatch(end.err, /EXPLAIN \(FORMAT/);
  }
});

test('a statement that DuckDB cannot stop ends with its process', async () => {
  const { url } = await openAnalystWorld();
  // One value that takes hours and little memory: within a value DuckDB asks nobody whether to go on.
  const endless = `select levenshtein(repeat('x', 3000000), repeat('y', 3000000))`;
  // A machine under load may not have come to the statement itself by the first limit.
  for (const limit of [8, 24, 72]) {
    const args = ['query', '--timeout', `${limit}s`, endless];
    const program = new Program(args, { env: { TAPEKEEP_DATABASE_URL: url } });
    const { code, signal } = await program.ended();
    const said = program.text('stderr');
    assert.match(said, new RegExp(`longer than ${limit} s`));
    if (code === 1) continue;
    assert.equal(signal, 'SIGKILL');
    assert.match(said, /cannot be stopped, so the process is killed/);
    return;
  }
  assert.fail('each was stopped');
});

/** The lines that a terminal shows in the end of what was written to it. */
function shownBy(written: string): string[] {
  return written.split('\n').map((line) => {
    const shown = line.replace(/\r$/, '').split('\u001b[2K').at(-1) ?? '';
    return shown.split('\r').at(-1) ?? '';
  });
}

test('on a terminal the progress of a query leaves nothing beside its answer', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  await archiveDay(place, 'trades', DAYS[0]);
  const env = {
    PATH: process.env.PATH ?? '',
    TAPEKEEP_DATABASE_URL: place.url,
    TAPEKEEP_COLD_DIR: place.coldDir,
  };
  const main = join(repositoryPath, 'dist/cli/main.js');
  const sql = "select count(*) as n from trades where market in ('BTC_USD', 'NONE')";
  // Both streams are one file, in the order of their writes.
  const path = join(place.coldDir, 'written');
  const file = await open(path, 'w');
  const isTerminal = 'data:text/javascript,process.stderr.isTTY=true';
  spawnSync(process.execPath, ['--import', isTerminal, main, 'query', sql], {
    stdio: ['ignore', file.fd, file.fd],
    env,
  });
  await file.close();
  const written = [await readFile(path, 'utf8')];
  const script = spawnSync(
    'script',
    ['-qec', `'${process.execPath}' '${main}' query "${sql}"`, '/dev/null'],
    { encoding: 'utf8', env },
  );
  if (script.error === undefined) written.push(script.stdout);
  else t.diagnostic('not seen on a real pseudo-terminal: there is no "script" here');
  for (const one of written) {
    assert.match(one, /reading trades from the database …/);
    assert.deepEqual(shownBy(one), [
      ' n',
      '36',
      '(1 row)',
      'tapekeep: the archive has no market NONE',
      '',
    ]);
  }
});

test('an answer is never held whole, in any form', async (t) => {
  const cold = await makeFolder(t);
  await mkdir(join(cold, 'manifests'));
  const env = { PATH: process.env.PATH ?? '' };
  const hook =
    'data:text/javascript,process.on("exit",()=>console.error(process.resourceUsage().maxRSS))';
  const peakMb = (...args: string[]) => {
    const main = join(repositoryPath, 'dist/cli/main.js');
    const stdio = ['ignore', 'ignore', 'pipe'] as const;
    const given = ['--import', hook, main, 'query', ...args];
    const { status, stderr } = spawnSync(process.execPath, given, {
      ...{ env, encoding: 'utf8', stdio: [...stdio] },
    });
    assert.equal(status, 0, stderr);
    return Number(stderr.trim().split('\n').at(-1)) / 1024;
  };
  // 800 MB of text, of which DuckDB makes 2,048 rows together.
  const long = "select i, repeat('x', 20000) || i as t from range(40000) t(i)";
  for (const format of ['csv', 'json', 'table']) {
    const peak = peakMb('--format', format, '--cold', cold, long);
    t.diagnostic(`${format}: ${peak.toFixed(0)} MB`);
    assert.ok(peak < 900, `${format}: ${peak} MB`);
  }
});
