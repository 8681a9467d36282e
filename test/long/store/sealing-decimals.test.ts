import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { DuckSession, literal } from '../../../src/archive/parquet/session.js';
import { openReading } from '../../../src/archive/reading.js';
import { multiplyDecimals } from '../../../src/kernel/decimal.js';
import type { Store } from '../../../src/store/index.js';
import { describeParquet } from '../../support/parquet-facts.js';
import { openTestStore } from '../../support/postgres/postgres.js';
import { trade } from '../../support/postgres/postgres-rows.js';
import { askRows } from '../../support/worlds/asking.js';
import { standInForCold } from '../../support/worlds/cold-stand-in.js';
import { makeFolder, readCsv, runExport } from '../../support/worlds/export-world.js';
import {
  allTrades,
  bringBack,
  DAY_MS,
  FIRST_MS,
  live,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';
import { BTC } from '../../support/worlds/store-world.js';

/** Prices and amounts of single days, in the order of days. */
const DAYS: Readonly<Record<string, ReadonlyArray<readonly [price: string, amount: string]>>> = {
  // What the market's precisions say, although the first days have fewer digits.
  PEPE_USDT: [
    ['1.5', '20000000000'],
    ['0.0000123456', '1'],
    ['2', '99999999999.5'],
    ['0.1', '1'],
  ],
  // More than they say, from one day on; and in the end more than any type has.
  BTC_USDT: [
    ['61837.63', '0.02'],
    ['61837.630000000001', '0.00000001'],
    ['61838', '3'],
    [`0.${'1'.repeat(30)}`, '1'],
  ],
};
const MARKETS = Object.keys(DAYS);

test('a whole folder reads exactly in one piece, however digits grow', async (t) => {
  const { store } = await openTestStore();
  const pepe = { ...BTC, name: 'PEPE_USDT', moneyPrec: 10, stockPrec: 0 };
  await store.ensureMarkets([BTC, pepe], FIRST_MS);
  const trades = MARKETS.flatMap((name, index) =>
    (DAYS[name] ?? []).map(([price, amount], day) => {
      const tradedAtS = (FIRST_MS + day * DAY_MS) / 1000;
      const marketId = name === BTC.name ? 1 : 2;
      return trade(10 * index + day + 1, 0, { marketId, tradedAtS, price, amount, total: '7' });
    }),
  );
  await store.commit({ trades });
  const coldDir = await makeFolder(t, 'cold');
  assert.deepEqual(
    (await live({ store, coldDir }, { rules: { coldAfterMs: DAY_MS } })).failures,
    [],
  );
  assert.ok((await tradePartitions(store)).every(({ state }) => state === 'archived'));

  const duck = await DuckSession.open(await makeFolder(t, 'spill'));
  t.after(() => duck.close());
  const typesOf = async (market: string) => {
    const files = await duck.rows(
      'looking',
      `SELECT file FROM glob('${coldDir}/kind=trades/market=${market}/**/*.parquet') ORDER BY file`,
    );
    const types: (string | undefined)[][] = [];
    for (const [file] of files) {
      const { columns } = await describeParquet(duck, String(file));
      types.push(
        ['price', 'amount', 'total'].map(
          (name) => columns.find((one) => one.name === name)?.sqlType,
        ),
      );
    }
    return types;
  };
  const [small, total, middle] = ['DECIMAL(18,8)', 'DECIMAL(18,10)', 'DECIMAL(30,12)'];
  assert.deepEqual(await typesOf('PEPE_USDT'), [
    [total, middle, total],
    [total, middle, total],
    [total, middle, total],
    [total, middle, total],
  ]);
  assert.deepEqual(await typesOf('BTC_USDT'), [
    [small, small, total],
    [middle, small, total],
    [middle, small, total],
    ['VARCHAR', small, total],
  ]);

  const read = async (paths: string, more: string) =>
    await duck.rows(
      'reading all',
      `SELECT market, rtrim(rtrim(price::VARCHAR, '0'), '.'), rtrim(rtrim(amount::VARCHAR, '0'), '.')
       FROM read_parquet(${literal(`${coldDir}/kind=trades/${paths}`)}, hive_partitioning = true${more})
       ORDER BY market, traded_at`,
    );
  const wanted = (name: string) => {
    const trimmed = (text: string) =>
      (text.includes('.') ? text : `${text}.`).replace(/\.?0*$/, '');
    return (DAYS[name] ?? []).map(([price, amount]) => [name, trimmed(price), trimmed(amount)]);
  };
  assert.deepEqual(
    await read('*/*/*.parquet', ', union_by_name = true'),
    [...MARKETS].sort().flatMap(wanted),
  );
  // Where nothing grew not even that is needed.
  assert.deepEqual(await read('market=PEPE_USDT/*/*.parquet', ''), wanted('PEPE_USDT'));
});

/** A market that gets more digits by the day, up to more than a product has; the last day stays hot. */
const GROWING = [
  ['61837.63', '0.02'],
  ['61837.630000000001', '3.00000001'],
  ['61837.630000000000000001', '3'],
  ['61837.630000000000000001', '3.000000000000000001'],
  ['9.5', '100.123456789012345678'],
] as const;
const TOO_LONG = 4;
const trimmed = (text: unknown) =>
  String(text)
    .replace(/(\.\d*?)0+$/, '$1')
    .replace(/\.$/, '');

test('files of few digits and of many, and the database, are one: asked, exported, brought back', async (t) => {
  const { store, url } = await openTestStore();
  const { ids } = await store.ensureMarkets([{ ...BTC, moneyPrec: 2 }], FIRST_MS);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const span = { fromMs: FIRST_MS, toMs: FIRST_MS + GROWING.length * DAY_MS };
  const trades = GROWING.map(([price, amount], day) =>
    trade(day + 1, 0, {
      ...{ tradedAtS: (FIRST_MS + day * DAY_MS) / 1000, price, amount },
      total: multiplyDecimals(price, amount),
    }),
  );
  await store.commit({ trades, claims: [{ stream, span, evidence: {} }] });
  await store.ensureMarkets([{ ...BTC, moneyPrec: 18, stockPrec: 18 }], FIRST_MS + DAY_MS);
  const before = await allTrades(url);
  await standInForCold(url);
  const coldDir = await makeFolder(t, 'cold');
  const place = { store, coldDir };
  const isChosen = ({ span: one }: { span: { toMs: number } }) => one.toMs < span.toMs;
  const moved = await live(place, { rules: { coldAfterMs: DAY_MS }, isChosen });
  assert.deepEqual(moved.failures, []);
  assert.deepEqual(await allTrades(url), before);

  const ask = (sql: string) => askBoth(place, sql);
  const rowOf = ([price, amount]: readonly [string, string]) => [price, amount];
  assert.deepEqual(
    await ask('SELECT price, amount FROM trades ORDER BY tid'),
    GROWING.map((row) => rowOf(row)),
  );
  const fitting = GROWING.filter((_, at) => at + 1 !== TOO_LONG);
  assert.deepEqual(
    await ask(`SELECT total FROM trades WHERE tid <> ${TOO_LONG} ORDER BY tid`),
    fitting.map(([price, amount]) => [trimmed(multiplyDecimals(price, amount))]),
  );
  await assert.rejects(ask('SELECT sum(total) FROM trades'), {
    code: 'usage',
    message: /the total 185512\.890\d{33} has more digits than a number has here; tapekeep export/,
  });
  assert.deepEqual(await ask('SELECT max(price), min(price), sum(price) FROM trades'), [
    ['61837.630000000001', '9.5', '247360.020000000001000002'],
  ]);
  await assert.rejects(ask('SELECT sum(price * amount) FROM trades'), {
    message: /a result has more than 38 digits .*the column total.*price::DECIMAL/,
  });

  const path = `${await makeFolder(t)}/all.csv`;
  const part = { market: BTC.name, marketId: ids.get(BTC.name) ?? 0, stream, span, notes: [] };
  await runExport({ store, kind: 'trades', parts: [part], format: 'csv', path, coldDir });
  const [, ...lines] = await readCsv(path);
  assert.deepEqual(
    lines.map((line) => line.slice(5, 8)),
    GROWING.map(([price, amount]) => [price, amount, multiplyDecimals(price, amount)]),
  );
  assert.deepEqual((await bringBack(place)).failures, []);
  assert.deepEqual(await allTrades(url), before);
});

/** Asks the database and files. */
async function askBoth(
  place: { readonly store: Store; readonly coldDir: string },
  sql: string,
): Promise<string[][]> {
  const reading = await openReading(place.store, { cold: new FolderStorage(place.coldDir) });
  try {
    return await askOf(reading, place.coldDir, sql);
  } finally {
    await reading.close();
  }
}

/** Asks files alone. */
function askFiles(coldDir: string, sql: string): Promise<string[][]> {
  return askOf(null, coldDir, sql);
}

async function askOf(
  reading: Awaited<ReturnType<typeof openReading>> | null,
  coldDir: string,
  sql: string,
): Promise<string[][]> {
  const { rows } = await askRows(sql, reading, coldDir);
  return rows.map((row) => row.map(trimmed));
}

test('the sums of the page on cold files are exact for a market of many digits as well', async (t) => {
  const { store } = await openTestStore();
  const pepe = { ...BTC, name: 'PEPE_BTC', moneyPrec: 12, stockPrec: 10 };
  await store.ensureMarkets([BTC, pepe], FIRST_MS);
  const trades = [
    ['61837.63', '0.00012345', undefined],
    ['61838.1', '2', '7.1'],
    ['0.000000012345', '12345.0123456789', undefined],
    ['0.000000000007', '3', undefined],
  ].map(([price = '', amount = '', total], at) =>
    trade(at + 1, 0, {
      ...{ marketId: at < 2 ? 1 : 2, tradedAtS: FIRST_MS / 1000 + at, price, amount },
      total: total ?? multiplyDecimals(price, amount),
    }),
  );
  await store.commit({ trades });
  const coldDir = await makeFolder(t, 'cold');
  await live({ store, coldDir }, { rules: { coldAfterMs: DAY_MS } });
  assert.ok((await tradePartitions(store)).every(({ state }) => state === 'archived'));
  const duck = await DuckSession.open(await makeFolder(t, 'spill'));
  t.after(() => duck.close());
  const page = await readFile(
    new URL('../../../docs/guides/cold-files.md', import.meta.url),
    'utf8',
  );
  const recipe = /duckdb\.sql\("""(.*?)"""\)/s.exec(page)?.[1] ?? assert.fail('no recipe');
  const sums = async (market: string) => {
    const sql = recipe.replace('data/cold', coldDir).replace('BTC_USDT', market);
    const rows = await duck.rows('as the page says', sql);
    return rows.map((row) => row.slice(1).map(trimmed));
  };
  assert.deepEqual(await sums('BTC_USDT'), [['2', '14.7338554235']]);
  assert.deepEqual(await sums('PEPE_BTC'), [['2', '0.0001523991984074060205']]);
});

test('digits that no number has are an error where they are met, never another number', async (t) => {
  const { store } = await openTestStore();
  await store.ensureMarkets([BTC], FIRST_MS);
  const prices = ['9', '100', `0.${'1'.repeat(30)}`, '61837.63'];
  const trades = prices.map((price, at) =>
    trade(at + 1, 0, {
      ...{ tradedAtS: (FIRST_MS + (at < 3 ? 0 : DAY_MS)) / 1000 + at, price },
      total: multiplyDecimals(price, '2'),
    }),
  );
  await store.commit({ trades });
  const coldDir = await makeFolder(t, 'cold');
  await live({ store, coldDir }, { rules: { coldAfterMs: DAY_MS } });
  const ask = (sql: string) => askFiles(coldDir, sql);
  assert.deepEqual(await ask('SELECT max(price), min(price) FROM trades WHERE tid <> 3'), [
    ['61837.63', '9'],
  ]);
  assert.deepEqual(await ask('SELECT count(*), sum(amount) FROM trades'), [['4', '8']]);
  await assert.rejects(ask('SELECT max(price) FROM trades'), {
    code: 'usage',
    message: /the price 0\.1{30} has more digits than a number has here; tapekeep export/,
  });
});

test('the product of a price and an amount has room, however small the types of the files', async (t) => {
  const { store } = await openTestStore();
  await store.ensureMarkets([BTC], FIRST_MS);
  const trades = [
    ['61837.63', '3.5'],
    ['9999999999.99999999', '9999999999.99999999'],
  ].map(([price = '', amount = ''], at) =>
    trade(at + 1, 0, {
      ...{ tradedAtS: FIRST_MS / 1000, price, amount, total: multiplyDecimals(price, amount) },
    }),
  );
  await store.commit({ trades });
  const coldDir = await makeFolder(t, 'cold');
  await live({ store, coldDir }, { rules: { coldAfterMs: DAY_MS } });
  assert.deepEqual(
    await askFiles(coldDir, 'SELECT price * amount, total FROM trades ORDER BY tid'),
    trades.map(({ total }) => [trimmed(total), trimmed(total)]),
  );
});

test('levels of a book are exact, although one side has many more digits than the other', async (t) => {
  const { store } = await openTestStore();
  await store.ensureMarkets([BTC], FIRST_MS);
  const bid = `0.${'1'.repeat(30)}`;
  const books = { bidPrices: [bid], bidAmounts: ['1'], askPrices: ['61838.10'], askAmounts: [bid] };
  const times = { observedAtMs: FIRST_MS, receivedAtMs: FIRST_MS };
  await store.commit({ depths: [{ marketId: 1, ...times, ...books }] });
  const place = { store, coldDir: await makeFolder(t, 'cold') };
  assert.deepEqual(
    await askBoth(place, 'SELECT side, price, amount FROM depth_levels ORDER BY 1'),
    [
      ['ask', '61838.1', bid],
      ['bid', bid, '1'],
    ],
  );
});
