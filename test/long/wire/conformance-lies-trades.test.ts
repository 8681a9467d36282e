import { test } from 'node:test';
import {
  at,
  type Lie,
  listOf,
  type Row,
  tellLies,
} from '../../support/conformance/conformance-liar.js';

const lies: readonly Lie[] = [
  {
    name: 'a total that is not price times amount',
    where: /history\?.*limit=1000/,
    bend: ({ rows }) => {
      at(rows, 5).total = '1';
    },
    found: ['history.totals', 'trades.views'],
  },
  {
    name: 'two trades in the wrong order',
    where: /history\/result\?.*limit=1000/,
    bend: ({ rows }) => {
      rows.splice(20, 2, at(rows, 21), at(rows, 20));
    },
    found: ['historyResult.order'],
  },
  {
    name: 'a trade told twice',
    where: /history\?.*limit=1000/,
    bend: ({ rows }) => {
      rows.splice(7, 1, at(rows, 6));
    },
    found: ['history.order'],
  },
  {
    name: 'a second that is not that of the time',
    where: /history\/result\?.*limit=1000/,
    bend: ({ rows }) => {
      for (const row of rows) row.date = Number(row.date) - 1;
    },
    found: ['kline.sums', 'trades.views'],
  },
  {
    name: 'a trade that is missing between two pages',
    where: /history\/result\?.*limit=10$/,
    bend: ({ rows }) => {
      rows.shift();
    },
    found: ['historyResult.since.overlap'],
  },
  {
    name: 'since without any meaning',
    where: /history\/result\?.*since=1&limit=1$/,
    bend: ({ rows }) => {
      at(rows, 0).tid = 5;
    },
    found: ['historyResult.since.meaning'],
  },
  {
    name: 'a candle off the grid',
    where: /GET.*kline\?.*interval=60/,
    bend: ({ rows }) => {
      const kline = listOf(rows.kline);
      if (kline.length > 20) (kline[3] as Row).time = Number(kline[3]?.time) + 1;
    },
    found: ['kline.grid'],
  },
  {
    name: 'an end that is not inclusive',
    where: /GET.*kline/,
    bend: ({ rows }) => {
      if ('kline' in rows) rows.kline = listOf(rows.kline).filter(({ time }) => time !== rows.end);
    },
    found: ['kline.end', 'kline.sums'],
  },
  {
    name: 'a candle whose volume is not that of its trades',
    where: /GET.*kline\?.*interval=60/,
    bend: ({ rows }) => {
      for (const candle of listOf(rows.kline)) candle.volume = '0.5';
    },
    found: ['kline.sums'],
  },
  {
    name: 'a highest price below the close',
    where: /GET.*kline\?.*interval=60/,
    bend: ({ rows }) => {
      for (const candle of listOf(rows.kline)) candle.highest = '1';
    },
    found: ['kline.prices'],
  },
];

test('lies about trades and candles are found by the cases that look there, and by no others', (t) =>
  tellLies(t, lies));
