import { deepEqual, equal, match } from 'node:assert/strict';
import { appendFile, rename } from 'node:fs/promises';
import { test } from 'node:test';
import { runSql } from '../support/postgres/postgres.js';
import { message, RawClient, summaryOf } from '../support/postgres/serve-client.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import { DAY, makeForeign, openServedWorld, TextClient } from '../support/worlds/served-world.js';

const WIDE = 'traded_at, tid, executed_at, received_at, market_id, side, price, amount, total';
/** More rows than the buffers between two sockets hold. */
const MANY = 150_000;

async function begin(client: RawClient, sql: string): Promise<void> {
  for (const one of ['BEGIN', `DECLARE c1 CURSOR FOR ${sql}`]) {
    equal((await client.ask(one)).code, undefined);
  }
}

test('a file that is missing or was altered is named, and others answer', async (t) => {
  const { url, files } = await openServedWorld(t, { rows: 400 });
  const client = await TextClient.open(t, url);
  const [file = '', other = ''] = files;
  const count = 'SELECT count(*) FROM f_trade WHERE market_id = ';
  deepEqual(await client.ask(`${count} 1`), [['200']]);

  await rename(file, `${file}.away`);
  const missing = (await client.ask(`${count} 1`)) as { code: string; message: string };
  equal(missing.code, '58P01');
  match(missing.message, new RegExp(file));
  deepEqual(await client.ask(`${count} 2`), [['200']], 'the other market');
  deepEqual(await client.ask(`${count} ANY (ARRAY[2, 9])`), [['200']], 'a list without it');
  const later = "SELECT count(*) FROM f_trade WHERE traded_at >= '2026-01-14 00:00:01Z'";
  deepEqual(await client.ask(later), [['0']], 'another time');
  deepEqual(await client.ask('SELECT count(*) FROM f_ticker'), [['300']], 'another series');
  await rename(`${file}.away`, file);
  deepEqual(await client.ask(`${count} 1`), [['200']], 'it is back');

  await appendFile(other, 'x');
  const altered = (await client.ask(`${count} 2`)) as { code: string; message: string };
  equal(altered.code, 'XX001');
  match(altered.message, new RegExp(other));
  deepEqual(await client.ask(`${count} 1`), [['200']]);
});

test('a partition with hot and archived days is pruned, ordered and analysed', async (t) => {
  const { url } = await openServedWorld(t, { rows: 400 });
  await runSql(
    url,
    `CREATE TABLE days (LIKE l_trade) PARTITION BY RANGE (traded_at);
     ALTER TABLE days ATTACH PARTITION f_trade FOR VALUES FROM ('${DAY}Z') TO ('2026-01-14Z');
     CREATE TABLE days_hot PARTITION OF days FOR VALUES FROM ('2026-01-14Z') TO ('2026-01-15Z');
     INSERT INTO days_hot SELECT traded_at + interval '1 day', tid + 400, NULL, received_at, market_id, side, price, amount, total FROM l_trade;
     CREATE TABLE l_days AS TABLE l_trade; INSERT INTO l_days TABLE days_hot`,
  );
  const client = await TextClient.open(t, url);
  for (const sql of [
    'SELECT * FROM @ ORDER BY traded_at DESC, tid DESC LIMIT 420',
    'SELECT market_id, side, count(*), sum(price * amount), avg(price) FROM @ GROUP BY 1, 2 ORDER BY 1, 2',
    'SELECT * FROM @ WHERE market_id = 2 AND price > 100 ORDER BY traded_at, tid',
    "SELECT date_trunc('hour', traded_at) AS h, max(price), min(price) FROM @ GROUP BY 1 ORDER BY 1",
    'SELECT count(*) FROM @',
  ]) {
    const [found, wanted] = [sql.replace('@', 'days'), sql.replace('@', 'l_days')];
    deepEqual(await client.ask(found), await client.ask(wanted), sql);
  }
  for (const one of ['ANALYZE days', 'ANALYZE f_depth', 'VACUUM ANALYZE f_ticker']) {
    deepEqual(await client.ask(one), [], one);
  }
  deepEqual(
    await client.ask(
      "SELECT reltuples FROM pg_class WHERE relname IN ('f_trade', 'f_depth') ORDER BY 1",
    ),
    [['200'], ['400']],
  );
  const insert = await client.ask(`INSERT INTO days SELECT * FROM l_trade LIMIT 1`);
  match((insert as { message: string }).message, /does not allow inserts/);
});

test('a statement can be cancelled, and its connection goes on', async (t) => {
  const { endpoint, url } = await openServedWorld(t, { rows: MANY });
  const { client, last } = await RawClient.login(t, endpoint.address.port);
  await begin(client, `SELECT ${WIDE} FROM cold.trade_20260113`);
  const key = last.find(({ type }) => type === 'K')?.body ?? Buffer.alloc(8);
  // Nobody reads: the statement waits for its reader.
  client.socket.pause();
  client.send(message('Q', Buffer.from(`FETCH ${MANY} FROM c1\0`)));
  const canceller = await RawClient.open(t, endpoint.address.port);
  canceller.send(Buffer.from([0, 0, 0, 16, 4, 210, 22, 46]), key);
  deepEqual(await canceller.until(), [], 'a request to cancel is not answered');
  client.socket.resume();
  const cancelled = summaryOf(await client.until('Z'));
  equal(cancelled.code, '57014');
  equal((await client.ask('ROLLBACK')).status, 'I');
  deepEqual((await client.ask('SELECT count(*) FROM cold.trade_20260113')).tags, ['SELECT 1']);

  const local = await TextClient.open(t, url);
  await local.ask("SET statement_timeout = '20ms'");
  const late = await local.ask('SELECT count(*) FROM f_trade a, l_trade b WHERE a.price < b.price');
  equal((late as { code: string }).code, '57014');
  await local.ask('SET statement_timeout = 0');
  deepEqual(await local.ask('SELECT count(*) FROM f_trade'), [[String(MANY)]]);
});

test('a reader that takes nothing is ended, and others go on', async (t) => {
  const ended: string[] = [];
  const { endpoint } = await openServedWorld(t, {
    rows: MANY,
    limits: { stallMs: 300, loginMs: 300 },
    telemetry: {
      rowsSent: () => undefined,
      statementRefused: () => undefined,
      connectionEnded: ({ message: text }) => void ended.push(text),
    },
  });
  const { client } = await RawClient.login(t, endpoint.address.port);
  const { client: other } = await RawClient.login(t, endpoint.address.port);
  await begin(client, `SELECT ${WIDE} FROM cold.trade_20260113`);
  client.socket.pause();
  client.send(message('Q', Buffer.from(`FETCH ${MANY} FROM c1\0`)));
  for (let at = 0; at < 20 && ended.length === 0; at += 1) {
    equal((await other.ask('SELECT sum(price * amount) FROM cold.trade_20260113')).letters, 'TDCZ');
  }
  match(ended.join(), /the reader took no rows/);
});

test('the end of the endpoint is told to every connection', async (t) => {
  const { endpoint, url } = await openServedWorld(t, { rows: MANY });
  const { client: idle } = await RawClient.login(t, endpoint.address.port);
  const { client } = await RawClient.login(t, endpoint.address.port);
  await begin(client, `SELECT ${WIDE} FROM cold.trade_20260113`);
  client.socket.pause();
  client.send(message('Q', Buffer.from(`FETCH ${MANY} FROM c1\0`)));
  const closed = endpoint.close();
  client.socket.resume();
  equal(summaryOf(await client.until()).code, '57P01');
  equal(summaryOf(await idle.until()).code, '57P01');
  await closed;
  await endpoint.close();
  const local = await TextClient.open(t, url);
  const answer = (await local.ask('SELECT count(*) FROM f_trade')) as { code: string };
  equal(answer.code, '08001');
  deepEqual(await local.ask('SELECT count(*) FROM l_trade'), [[String(MANY)]]);
});

test('numbers of any length are read, and refused where they are reckoned with', async (t) => {
  const { store, url, coldDir } = await openServedWorld(t, { rows: 100 });
  await runSql(
    url,
    `SELECT make_partition('ticker', '2026-01-14Z');
     INSERT INTO ticker (observed_at, at, received_at, market_id, bid, ask, high, low, last, volume)
     SELECT timestamptz '2026-01-14Z' + n * interval '1 minute', timestamptz '2026-01-14Z', timestamptz '2026-01-14Z', 1 + n % 2,
       CASE n WHEN 4 THEN 123456789012345678901234567890.0123456789012345 ELSE n + 0.5 END, n, n, n, n, n
     FROM generate_series(1, 10) n;
     CREATE TABLE l_long AS SELECT observed_at, market_id, trim_scale(bid) AS bid FROM ticker WHERE observed_at >= '2026-01-14Z'`,
  );
  await makeForeign(url, 'long', 'ticker_20260114');
  await archiveDay({ store, url, coldDir }, 'tickers', '2026-01-14');
  const client = await TextClient.open(t, url);
  for (const sql of [
    'SELECT * FROM @long ORDER BY observed_at',
    'SELECT count(bid), count(*) FROM @long WHERE bid IS NOT NULL',
    'SELECT bid, bid * 2 FROM @long WHERE market_id = 2 AND bid > 3 ORDER BY observed_at',
  ]) {
    deepEqual(
      await client.ask(sql.replace('@', 'f_')),
      await client.ask(sql.replace('@', 'l_')),
      sql,
    );
  }
  const { code } = (await client.ask('SELECT sum(bid) FROM f_long')) as { code: string };
  equal(code, '0A000');
});
