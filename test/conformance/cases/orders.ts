import type { ResultOf } from '../../../src/contract/endpoints.js';
import { ERROR_MESSAGES } from '../../../src/contract/error-shapes.js';
import {
  addDecimals,
  compareDecimals,
  decimalSign,
  divideDecimals,
  equalDecimals,
  multiplyDecimals,
  subtractDecimals,
} from '../../../src/kernel/decimal.js';
import { readByClient } from '../client-reading.js';
import { type Case, type Context, known, requireChanges } from '../context.js';
import type { Answer } from '../exchange-probe.js';
import { judgeRefusal } from '../judge.js';
import { Findings, Skip } from '../outcome.js';
import { post } from '../signed-post.js';
import { judgeSigned } from './signed.js';

/** Placing orders, and what follows from it. Only where accounts may be changed. */

type Created = ResultOf<'orderNew'>;
type Balances = ResultOf<'balances'>;

async function rulesOf(context: Context) {
  const markets = await known(context, 'markets', {});
  const rules = markets.find(({ name }) => name === context.market);
  if (rules === undefined) throw new Skip(`${context.market} is not listed`);
  return rules;
}

/** A small order to buy, far below the market, so that it rests. */
export async function restingOrder(context: Context) {
  const { market } = context;
  const { stockPrec, moneyPrec, minAmount } = await rulesOf(context);
  const { bids } = await known(context, 'depth', { market, limit: 1000 });
  const best = bids
    .map(([price]) => price)
    .toSorted(compareDecimals)
    .at(-1);
  if (best === undefined) throw new Skip('there are no bids to stay below');
  const price = divideDecimals(best, '2', moneyPrec);
  const amount = decimalSign(minAmount) > 0 ? minAmount : divideDecimals('1', '1', stockPrec);
  return { market, price, amount, side: 'buy' } as const;
}

export function isBlocked({ status, json }: Answer): boolean {
  const { message } = (json ?? {}) as { message?: unknown };
  return status === 400 && message === ERROR_MESSAGES.operationBlocked;
}

async function balancesOf(context: Context): Promise<Balances> {
  return readByClient('balances', await post(context, 'balances', {}));
}

interface Placing {
  readonly order: Awaited<ReturnType<typeof restingOrder>>;
  /** The refusal, where the pair is blocked; the case that placed judges everything else. */
  readonly blocked: Answer | undefined;
  readonly created: Created | undefined;
  readonly findings: Findings;
  readonly before: Balances;
  readonly after: Balances;
}

const placings = new WeakMap<Context, Promise<Placing>>();

/** One order a run is placed, by the typed client; all cases look at the same one. */
function placing(context: Context): Promise<Placing> {
  requireChanges(context);
  const known = placings.get(context) ?? place(context);
  placings.set(context, known);
  return known;
}

async function place(context: Context): Promise<Placing> {
  const order = await restingOrder(context);
  const findings = new Findings();
  const before = await balancesOf(context);
  let created: Created | undefined;
  try {
    created = (await judgeSigned('orderNew', order, context, findings)).data;
  } catch (error) {
    const answer = context.client.lastAnswer;
    if (answer !== undefined && isBlocked(answer)) {
      return { order, blocked: answer, created, findings, before, after: before };
    }
    const [, money = ''] = context.market.split('_');
    const cost = multiplyDecimals(order.price, order.amount);
    const isShort = compareDecimals(before[money]?.available ?? '0', cost) < 0;
    throw isShort ? new Skip(`the account has less than ${cost} ${money}`) : error;
  }
  return { order, blocked: undefined, created, findings, before, after: await balancesOf(context) };
}

/** Blocks the pair, or ends that, where the exchange is a sandbox that can be steered. */
async function steer({ probe, market }: Context, what: 'block' | 'unblock'): Promise<boolean> {
  const path = `/sandbox/markets/${what}`;
  const body = Buffer.from(JSON.stringify({ market }));
  const headers = { 'content-type': 'application/json' };
  const request = { endpoint: what, method: 'POST', path, headers, body } as const;
  return (await probe.send(request)).status === 200;
}

/** @throws Skip where the pair cannot be blocked from here */
async function orderWhileBlocked(context: Context): Promise<Answer> {
  const order = await restingOrder(context);
  if (!context.isSandbox || !(await steer(context, 'block'))) {
    throw new Skip(`${context.market} takes orders`);
  }
  try {
    return await post(context, 'orderNew', order);
  } finally {
    await steer(context, 'unblock');
  }
}

async function created(context: Context) {
  const placed = await placing(context);
  if (placed.created === undefined) throw new Skip(`${context.market} takes no orders now`);
  return { ...placed, created: placed.created };
}

function judgeCreated(row: Created, { order }: Pick<Placing, 'order'>, findings: Findings): void {
  findings.check(row.market === order.market, `market is ${row.market}`);
  findings.check(row.side === order.side, `side is ${row.side}`);
  findings.check(row.type === 'limit', `type is ${row.type}`);
  findings.check(equalDecimals(row.price, order.price), `price is ${row.price}`);
  findings.check(equalDecimals(row.amount, order.amount), `amount is ${row.amount}`);
  const whole = addDecimals(row.left, row.dealStock);
  const text = `left ${row.left} and dealStock ${row.dealStock} are not ${row.amount}`;
  findings.check(equalDecimals(whole, row.amount), text);
}

/** A well-formed order that cannot be; `make` changes the resting one. */
function impossible(
  id: string,
  title: string,
  make: (order: Placing['order'], context: Context) => Promise<object> | object,
): Case {
  return {
    id: `orderNew.${id}`,
    title,
    async run(context, findings) {
      requireChanges(context);
      const order = await restingOrder(context);
      const changed = { ...order, ...(await make(order, context)) };
      const answer = await post(context, 'orderNew', changed);
      if (isBlocked(answer)) throw new Skip(`${context.market} takes no orders now`);
      judgeRefusal('orderNew', answer, findings);
    },
  };
}

export const orderCases: readonly Case[] = [
  {
    id: 'orderNew.signed',
    title: 'order/new creates a limit order and answers with its fields',
    async run(context, findings) {
      const placed = await created(context);
      findings.include(placed.findings);
      judgeCreated(placed.created, placed, findings);
    },
  },
  {
    id: 'orderNew.active',
    title: 'a created order is among the active ones, as it was told',
    async run(context, findings) {
      const { created: row } = await created(context);
      if (decimalSign(row.left) === 0) throw new Skip('the order was finished at once');
      const { market } = context;
      const answer = await post(context, 'orders', { market, offset: 0, limit: 50 });
      const { result, total } = readByClient('orders', answer);
      findings.check(total >= result.length, `total ${total} with ${result.length} orders`);
      const active = result.find(({ id }) => id === row.orderId);
      if (!findings.check(active !== undefined, `no order ${row.orderId}`) || !active) return;
      const { id: _id, ...shown } = active;
      const { orderId: _orderId, ...told } = row;
      for (const [field, value] of Object.entries(told)) {
        const other = shown[field as keyof typeof shown];
        const isSame =
          other === value ||
          (/^-?[\d.]+$/.test(String(value)) && equalDecimals(String(other), String(value)));
        findings.check(isSame, `${field} was ${value}, is ${other}`);
      }
    },
  },
  {
    id: 'orderNew.freeze',
    title: 'an order to buy freezes price times amount',
    async run(context, findings) {
      const { created: row, before, after } = await created(context);
      if (!equalDecimals(row.left, row.amount)) throw new Skip('the order was executed at once');
      const [, money = ''] = context.market.split('_');
      const cost = multiplyDecimals(row.price, row.amount);
      const grown = (field: 'freeze' | 'available') =>
        subtractDecimals(after[money]?.[field] ?? '0', before[money]?.[field] ?? '0');
      const [frozen, taken] = [grown('freeze'), grown('available')];
      findings.check(equalDecimals(frozen, cost), `freeze grew by ${frozen} for ${cost}`);
      const isTaken = equalDecimals(taken, subtractDecimals('0', cost));
      findings.check(isTaken, `available changed by ${taken} for ${cost}`);
    },
  },
  {
    id: 'orderNew.blocked',
    title: 'where orders are not taken the answer is operation blocked',
    async run(context, findings) {
      const { blocked } = await placing(context);
      const answer = blocked ?? (await orderWhileBlocked(context));
      judgeRefusal('orderNew', answer, findings, { message: ERROR_MESSAGES.operationBlocked });
    },
  },
  impossible(
    'amount.least',
    'an amount below minAmount is refused',
    async ({ amount }, context) => {
      const { minAmount, stockPrec } = await rulesOf(context);
      if (decimalSign(minAmount) === 0) throw new Skip('there is no least amount');
      return { amount: divideDecimals(amount, '2', stockPrec) };
    },
  ),
  impossible('funds.money', 'an order beyond the funds is refused', async ({ price }, context) => {
    const { money, stockPrec } = await rulesOf(context);
    const { available = '0' } = (await balancesOf(context))[money] ?? {};
    const most = divideDecimals(available, price, stockPrec);
    return { amount: addDecimals(multiplyDecimals(most, '2'), '1') };
  }),
  impossible(
    'funds.stock',
    'an order for stock that is not there is refused',
    async (_order, context) => {
      const { stock } = await rulesOf(context);
      const { asks } = await known(context, 'depth', { market: context.market, limit: 1000 });
      const { available = '0' } = (await balancesOf(context))[stock] ?? {};
      const [price = '1'] = asks
        .map(([level]) => level)
        .toSorted(compareDecimals)
        .slice(-1);
      return { side: 'sell', price, amount: addDecimals(available, '1') };
    },
  ),
];
