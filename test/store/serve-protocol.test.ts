import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { test } from 'node:test';
import { cstring, message, RawClient, summaryOf } from '../support/postgres/serve-client.js';
import { openServedWorld } from '../support/worlds/served-world.js';

const TRADES = 'SELECT tid FROM cold.trade_20260113';

test('whoever is not postgres_fdw is refused, and others go on', async (t) => {
  const { endpoint } = await openServedWorld(t, {
    limits: { loginMs: 1000, messageBytes: 100_000, connections: 6 },
    rows: 100,
  });
  const { port } = endpoint.address;
  const { client: other } = await RawClient.login(t, port);

  await t.test('other programs and garbage at the start', async () => {
    const greetings = [
      Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
      Buffer.from([0, 0, 0, 4, 1, 2, 3, 4]),
      Buffer.alloc(64, 0xff),
      randomBytes(4096),
      Buffer.from([0, 0, 0, 8, 0, 2, 0, 0]),
    ];
    for (const bytes of greetings) {
      const client = await RawClient.open(t, port);
      client.send(bytes);
      const all = await client.until();
      ok(all.length <= 1, 'it is told at most one thing');
      client.socket.destroy();
    }
  });
  await t.test('one that says nothing is ended', async () => {
    const client = await RawClient.open(t, port);
    deepEqual(await client.until(), []);
  });
  await t.test('wrong user, password, database and parameters', async () => {
    const cases = [
      [{ password: 'wrong' }, '28P01'],
      [{ user: 'postgres' }, '28P01'],
      [{ database: 'a-restored-copy' }, '3D000'],
      [{ application_name: '2 elsewhere' }, '3D000'],
      [{ application_name: 'psql' }, '3D000'],
      [{ client_encoding: 'LATIN1' }, '22023'],
      [{ options: '-c work_mem=1TB' }, '0A000'],
      [{ replication: 'database' }, '0A000'],
    ] as const;
    for (const [given, code] of cases) {
      const { client, first, last } = await RawClient.login(t, port, given);
      const all = first?.type === 'E' ? [first] : last;
      equal(summaryOf(all).code, code, JSON.stringify(given));
      deepEqual(await client.until(), [], 'the connection ends');
    }
  });
  await t.test('encryption is declined, and the connection goes on', async () => {
    const client = await RawClient.open(t, port);
    client.send(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
    const [answer] = (await once(client.socket, 'data')) as [Buffer];
    equal(answer.toString(), 'N');
    client.socket.destroy();
  });
  await t.test('messages that are too long, unknown or malformed', async () => {
    const bodies = [
      Buffer.from([0x51, 0x7f, 0xff, 0xff, 0xff]),
      Buffer.from([0x51, 0, 0, 0, 1]),
      message('Q', Buffer.from('SELECT 1')),
      message('z'),
      message('F', Buffer.alloc(8)),
      message('d', Buffer.from('1\n')),
      message('B', Buffer.from([0, 0, 0x7f, 0xff])),
      message('Q', Buffer.alloc(200_000, 0x20)),
    ];
    for (const bytes of bodies) {
      const { client } = await RawClient.login(t, port);
      client.send(bytes);
      const { letters, code } = summaryOf(await client.until());
      deepEqual([letters, code], ['E', '08P01'], bytes.subarray(0, 9).toString('hex'));
    }
  });
  await t.test('more connections than there may be', async () => {
    const all = [];
    for (let at = 0; at < 5; at += 1) all.push((await RawClient.login(t, port)).client);
    const client = await RawClient.open(t, port);
    equal(summaryOf(await client.until()).code, '53300');
    for (const one of all) one.socket.destroy();
  });
  deepEqual((await other.ask(TRADES)).tags, ['SELECT 100']);
});

test('statements that no foreign table needs are refused one by one', async (t) => {
  const events: string[] = [];
  const { endpoint } = await openServedWorld(t, {
    rows: 100,
    limits: { cursors: 3 },
    telemetry: {
      rowsSent: ({ rows }) => void events.push(`${rows} rows`),
      statementRefused: ({ sqlstate }) => void events.push(sqlstate),
      connectionEnded: ({ sqlstate }) => void events.push(`ended ${sqlstate}`),
    },
  });
  const { client } = await RawClient.login(t, endpoint.address.port);
  const refusals = {
    'DELETE FROM cold.trade_20260113': '25006',
    'INSERT INTO cold.trade_20260113 VALUES (1)': '25006',
    'UPDATE cold.trade_20260113 SET tid = 1': '25006',
    'TRUNCATE cold.trade_20260113': '25006',
    'CREATE TABLE x (a int)': '25006',
    'COPY cold.trade_20260113 TO STDOUT': '25006',
    [`COPY (${TRADES}) TO PROGRAM 'id'`]: '25006',
    'DO $$BEGIN END$$': '25006',
    [`${TRADES}; ${TRADES}`]: '0A000',
    [`EXPLAIN ${TRADES}`]: '0A000',
    'SHOW ALL': '0A000',
    'LISTEN x': '0A000',
    "SET work_mem = '1TB'": '22023',
    "SET timezone = 'Europe/Berlin'": '22023',
    'SET LOCAL extra_float_digits = 3': '22023',
    'SELECT 1': '0A000',
    'SELECT version()': '0A000',
    'SELECT * FROM cold.trade_20260113': '0A000',
    'SELECT tid FROM cold.trade_20300101': '42P01',
    'SELECT tid FROM trade_20260113': '42P01',
    'SELECT tid FROM pg_catalog.pg_class': '42P01',
    'SELECT nothing FROM cold.trade_20260113': '42703',
    [`${TRADES} UNION ALL ${TRADES}`]: '0A000',
    [`WITH x AS (${TRADES}) SELECT tid FROM x`]: '0A000',
    [`SELECT tid FROM (${TRADES}) x`]: '0A000',
    "SELECT tid FROM cold.trade_20260113, read_csv('/etc/passwd')": '0A000',
    "SELECT tid FROM read_text('/etc/passwd')": '0A000',
    "SELECT read_text('/etc/passwd') FROM cold.trade_20260113": '0A000',
    'SELECT tid FROM cold.trade_20260113 WHERE tid IN (SELECT 1)': '0A000',
    "SELECT tid FROM cold.trade_20260113 WHERE price = '1'' OR ''1'": '22023',
    "SELECT tid FROM cold.trade_20260113 WHERE tid::float8 = '1'' OR ''1'::numeric": '22023',
    "SELECT tid FROM cold.trade_20260113 WHERE tid::float8 = '1'' OR ''1'": '22023',
    "SELECT tid FROM cold.trade_20260113 WHERE traded_at = '2026''; DROP'": '0A000',
    [`SELECT tid FROM cold.trade_20260113 WHERE ${'NOT ('.repeat(3000)}true${')'.repeat(3000)}`]:
      undefined,
    SELEC: '42601',
    'SELECT tid FROM cold.trade_20260113 WHERE': '42601',
    [`DECLARE c1 CURSOR FOR ${TRADES}`]: '25P01',
    'FETCH 1 FROM c1': '34000',
    'SAVEPOINT s': '25P01',
    'PREPARE x AS SELECT 1': '0A000',
    "PREPARE TRANSACTION 'x'": '0A000',
  };
  for (const [sql, code] of Object.entries(refusals)) {
    const answer = await client.ask(sql);
    match(answer.letters, /E?Z$/, sql);
    if (code !== undefined) equal(answer.code, code, sql);
    equal(answer.status, 'I', sql);
  }
  equal(events.filter((one) => one === '25006').length, 8);

  await t.test('a transaction, its cursors and savepoints', async () => {
    const steps = [
      ['START TRANSACTION ISOLATION LEVEL REPEATABLE READ', 'START TRANSACTION', 'T'],
      [`DECLARE c1 CURSOR FOR ${TRADES} ORDER BY tid ASC NULLS LAST`, 'DECLARE CURSOR', 'T'],
      ['FETCH 3 FROM c1', 'FETCH 3', 'T'],
      ['SAVEPOINT s2', 'SAVEPOINT', 'T'],
      [`DECLARE c2 CURSOR FOR ${TRADES}`, 'DECLARE CURSOR', 'T'],
      ['FETCH 1000 FROM c2', 'FETCH 100', 'T'],
      ['FETCH 1000 FROM c2', 'FETCH 0', 'T'],
      ['MOVE BACKWARD ALL IN c2', 'MOVE 0', 'T'],
      ['FETCH 7 FROM c2', 'FETCH 7', 'T'],
      [`DECLARE c3 CURSOR FOR ${TRADES}`, 'DECLARE CURSOR', 'T'],
      [`DECLARE c4 CURSOR FOR ${TRADES}`, '54000', 'E'],
      ['FETCH 1 FROM c1', '25P02', 'E'],
      ['ROLLBACK TO SAVEPOINT s2; RELEASE SAVEPOINT s2', 'ROLLBACK,RELEASE', 'T'],
      ['FETCH 200 FROM c1', 'FETCH 97', 'T'],
      ['FETCH 1 FROM c2', '34000', 'E'],
      ['ABORT TRANSACTION', 'ROLLBACK', 'I'],
      ['DISCARD ALL', 'DISCARD ALL', 'I'],
      ['DEALLOCATE ALL', 'DEALLOCATE ALL', 'I'],
      ['', '', 'I'],
    ] as const;
    for (const [sql, wanted, status] of steps) {
      const answer = await client.ask(sql);
      deepEqual([answer.code ?? answer.tags.join(), answer.status], [wanted, status], sql);
    }
  });
  await t.test('fetches of any size bring each row once, in order', async () => {
    await client.ask('BEGIN');
    await client.ask(`DECLARE c1 CURSOR FOR ${TRADES} ORDER BY tid ASC NULLS LAST`);
    const tids: number[] = [];
    for (const count of [5, 5, 5, 5, 2, 1, 5, 30, 1, 200]) {
      client.send(message('Q', cstring(`FETCH ${count} FROM c1`)));
      const rows = (await client.until('Z')).filter(({ type }) => type === 'D');
      tids.push(...rows.map(({ body }) => Number(body.toString('utf8', 6))));
    }
    deepEqual(
      tids,
      Array.from({ length: 100 }, (_, at) => at + 1),
    );
    await client.ask('COMMIT');
  });
  await t.test('the extended protocol passes over all after an error', async () => {
    const parse = (name: string, sql: string) =>
      message('P', cstring(name), cstring(sql), Buffer.from([0, 0]));
    const bind = (format: number) =>
      message('B', cstring(''), cstring(''), Buffer.from([0, 0, 0, 0, 0, 1, 0, format]));
    const run = message('E', cstring(''), Buffer.alloc(4));
    const about = message('D', Buffer.from('P\0'));
    client.send(parse('', TRADES), bind(0), about, run, message('S'));
    match(summaryOf(await client.until('Z')).letters, /^12TD{100}CZ$/);
    client.send(parse('named', TRADES), bind(0), about, run, message('S'));
    deepEqual(summaryOf(await client.until('Z')).letters, 'EZ');
    client.send(parse('', TRADES), bind(1), about, run, message('S'));
    deepEqual(summaryOf(await client.until('Z')).letters, '1EZ');
    client.send(run, message('S'));
    equal(summaryOf(await client.until('Z')).code, '34000');
  });
});
