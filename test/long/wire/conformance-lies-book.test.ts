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
    name: 'a name that is not made of its currencies',
    where: /markets/,
    bend: ({ rows }) => {
      at(rows, 0).stock = 'XYZ';
    },
    found: ['markets.names', 'products.markets'],
  },
  {
    name: 'milliseconds for seconds',
    where: /tickers/,
    bend: ({ rows }) => {
      for (const entry of Object.values(rows) as Row[]) entry.at = Number(entry.at) * 1000;
    },
    found: ['tickers.at'],
  },
  {
    name: 'a change of another sign',
    where: /ticker\b/,
    bend: ({ rows }) => {
      rows.change = '55';
    },
    found: ['ticker.change', 'ticker.tickers'],
  },
  {
    name: 'a price as a number',
    where: /GET.*ticker\?market=BTC_USDT/,
    bend: ({ rows }) => {
      rows.last = 1.5;
    },
    found: ['ticker.change', 'ticker.fields', 'ticker.prices', 'ticker.reply', 'ticker.tickers'],
  },
  {
    name: 'bids in no order',
    where: /GET.*depth.*limit=1000/,
    bend: ({ body }) => {
      listOf(body.bids).splice(3, 2, listOf(body.bids)[4] as Row, listOf(body.bids)[3] as Row);
    },
    found: ['depth.bids'],
  },
  {
    name: 'a crossed book',
    where: /GET.*depth.*limit=1000/,
    bend: ({ body }) => {
      listOf(body.bids).unshift(['99999999', '1'] as unknown as Row);
    },
    found: ['depth.crossed'],
  },
  {
    name: 'an order of the other side',
    where: /GET.*book\?.*side=sell&offset=0&limit=1000/,
    bend: ({ rows }) => {
      (listOf(rows.orders)[2] as Row).side = 'buy';
    },
    found: ['book.rows.sell'],
  },
  {
    name: 'an offset that is not obeyed',
    where: /GET.*book\?.*offset=4/,
    bend: ({ rows }) => {
      listOf(rows.orders).shift();
    },
    found: ['book.paging'],
  },
];

test('lies about markets, tickers and the book are found by the cases that look there', (t) =>
  tellLies(t, lies));
