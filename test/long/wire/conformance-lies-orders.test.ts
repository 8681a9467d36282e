import { test } from 'node:test';
import { startJudgedLive } from '../../support/conformance/conformance.js';
import { type Lie, listOf, tellLies } from '../../support/conformance/conformance-liar.js';

const isRefusal = (body: unknown) => (body as { success?: unknown }).success === false;

const lies: readonly Lie[] = [
  {
    name: 'an amount that is neither left nor executed',
    where: /order\/new/,
    bend: ({ rows, body }) => {
      if (!isRefusal(body)) rows.left = '0.00001';
    },
    found: ['orderNew.active', 'orderNew.signed'],
  },
  {
    name: 'a price as a number',
    where: /order\/new/,
    bend: ({ rows, body }) => {
      if (!isRefusal(body)) rows.price = 31_000;
    },
    found: ['orderNew.active', 'orderNew.blocked', 'orderNew.freeze', 'orderNew.signed'],
  },
  {
    name: 'an order of another market',
    where: /order\/new/,
    bend: ({ rows, body }) => {
      if (!isRefusal(body)) rows.market = 'ETH_BTC';
    },
    found: ['orderNew.active', 'orderNew.blocked', 'orderNew.freeze', 'orderNew.signed'],
  },
  {
    name: 'an active order that is kept secret',
    where: /v1\/orders/,
    bend: ({ rows }) => {
      if (Array.isArray(rows.result)) rows.result = [];
    },
    found: ['orderNew.active'],
  },
  {
    name: 'another default limit',
    where: /v1\/orders/,
    bend: ({ rows }) => {
      if (rows.limit === 50) rows.limit = 100;
    },
    found: ['orders.limit.default'],
  },
  {
    name: 'an active order without its side',
    where: /v1\/orders/,
    bend: ({ rows }) => {
      for (const row of listOf(rows.result)) delete row.side;
    },
    found: [
      ...['orderNew.active', 'orders.limit.1', 'orders.limit.default', 'orders.signed'],
      'orders.limit.asText',
    ],
  },
  {
    name: 'money that is not frozen',
    where: /balances/,
    bend: ({ rows, body }) => {
      if (!isRefusal(body)) rows.USDT = { available: '1000', freeze: '0' };
    },
    found: ['orderNew.freeze'],
  },
  {
    name: 'a balance without what is frozen',
    where: /balances/,
    bend: ({ rows, body }) => {
      if (!isRefusal(body)) rows.USDT = { available: '1000' };
    },
    found: [
      ...['balances.signed', 'orderNew.active', 'orderNew.blocked', 'orderNew.freeze'],
      ...['orderNew.funds.money', 'orderNew.funds.stock', 'orderNew.signed'],
    ],
  },
  {
    name: 'an order for nothing that is taken',
    where: /order\/new/,
    bend: (told) => {
      if (!isRefusal(told.body)) return;
      told.status = 200;
      told.body = { code: 200, success: true, message: '', result: {} };
    },
    found: [
      ...['amount', 'market', 'price', 'side'].flatMap((field) =>
        ['missing', 'malformed', 'empty'].map((kind) => `orderNew.${field}.${kind}`),
      ),
      ...['amount', 'price'].flatMap((field) =>
        ['negative', 'text', 'zero'].map((kind) => `orderNew.${field}.${kind}`),
      ),
      ...['amount.least', 'funds.money', 'funds.stock', 'market.unknown', 'side.unknown'].map(
        (rule) => `orderNew.${rule}`,
      ),
      ...['auth.required.orderNew', 'orderNew.blocked', 'orderNew.signed.nothing'],
    ],
  },
];

test('lies about orders and balances are found by the cases that look there', async (t) => {
  const live = await startJudgedLive(t);
  await tellLies(t, lies, live, { market: 'BTC_USDT' });
});
