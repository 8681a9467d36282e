import type { Side } from '../../../src/contract/values.js';
import { compareDecimals, equalDecimals } from '../../../src/kernel/decimal.js';
import { type Case, type Context, fresh, known } from '../context.js';
import { type Findings, Skip } from '../outcome.js';

/** Whether prices go in one direction without repeating: 1 rising, -1 falling, 0 neither. */
function directionOf(prices: readonly string[]): 1 | -1 | 0 {
  const steps = prices.slice(1).map((price, index) => compareDecimals(price, prices[index] ?? ''));
  if (steps.every((step) => step > 0)) return 1;
  return steps.every((step) => step < 0) ? -1 : 0;
}

async function depthPrices(context: Context) {
  const { asks, bids } = await known(context, 'depth', { market: context.market, limit: 1000 });
  return { asks: asks.map(([price]) => price), bids: bids.map(([price]) => price) };
}

function judgeRows(
  rows: readonly {
    id: number;
    side: string;
    market: string;
    price: string;
    amount: string;
    left: string;
  }[],
  { market }: Context,
  side: Side,
  findings: Findings,
): void {
  const ids = new Set(rows.map(({ id }) => id));
  findings.check(ids.size === rows.length, 'an order comes twice');
  for (const [index, row] of rows.entries()) {
    findings.check(row.side === side, `order ${row.id} is of side ${row.side}`);
    findings.check(row.market === market, `order ${row.id} is of market ${row.market}`);
    findings.check(
      compareDecimals(row.left, row.amount) <= 0,
      `order ${row.id}: left above amount`,
    );
    const before = rows[index - 1];
    if (before === undefined) continue;
    const step = compareDecimals(row.price, before.price);
    const isWorse = side === 'sell' ? step >= 0 : step <= 0;
    findings.check(isWorse, `order ${row.id} is better than ${before.id} before it`);
  }
}

function bookCase(side: Side): Case {
  return {
    id: `book.rows.${side}`,
    title: `book lists ${side} orders, each once, best price first`,
    async run(context, findings) {
      const query = { market: context.market, side, offset: 0, limit: 1000 };
      const { orders, total, offset, limit } = await known(context, 'book', query);
      findings.check(
        offset === 0 && limit === 1000,
        `offset ${offset} and limit ${limit} are told`,
      );
      findings.check(total >= orders.length, `total ${total} with ${orders.length} orders`);
      judgeRows(orders, context, side, findings);
    },
  };
}

export const bookCases: readonly Case[] = [
  {
    id: 'depth.asks',
    title: 'asks are sorted, lowest price first, each price once',
    async run(context, findings) {
      const { asks } = await depthPrices(context);
      if (asks.length < 2) throw new Skip('fewer than two asks');
      findings.check(directionOf(asks) === 1, `asks are not rising: ${asks.slice(0, 3)}`);
    },
  },
  {
    id: 'depth.bids',
    title: 'bids are sorted, highest price first, each price once',
    async run(context, findings) {
      const { bids } = await depthPrices(context);
      if (bids.length < 2) throw new Skip('fewer than two bids');
      const direction = directionOf(bids);
      if (direction === 1) findings.differs('bidsAscending');
      else findings.check(direction === -1, `bids are not sorted: ${bids.slice(0, 3)}`);
    },
  },
  {
    id: 'depth.crossed',
    title: 'the best bid is below the best ask',
    async run(context, findings) {
      const { asks, bids } = await depthPrices(context);
      const bid = bids.toSorted(compareDecimals).at(-1);
      const ask = asks.toSorted(compareDecimals)[0];
      if (bid === undefined || ask === undefined) throw new Skip('one side is empty');
      findings.check(compareDecimals(bid, ask) < 0, `bid ${bid} is not below ask ${ask}`);
    },
  },
  bookCase('buy'),
  bookCase('sell'),
  {
    id: 'book.paging',
    title: 'offset skips orders of the same list',
    async run(context, findings) {
      const { market } = context;
      const page = async (offset: number, limit: number) => {
        const { orders } = await fresh(context, 'book', { market, side: 'sell', offset, limit });
        return orders.map(({ id }) => id);
      };
      // The list may change between two requests: what is the same before and after did not.
      for (let attempt = 0; attempt < 3; attempt += 1) {
        const before = await page(0, 10);
        const part = await page(4, 6);
        const after = await page(0, 10);
        if (String(before) !== String(after)) continue;
        if (before.length < 6) throw new Skip('fewer than six orders');
        findings.check(
          String(part) === String(before.slice(4)),
          `[${part}], not a part of [${before}]`,
        );
        return;
      }
      throw new Skip('the book changed too fast to compare two pages');
    },
  },
  {
    id: 'book.beyond',
    title: 'an offset beyond the end gives no orders',
    async run(context, findings) {
      const query = { market: context.market, side: 'sell', offset: 1_000_000, limit: 5 };
      const { orders } = await known(context, 'book', query);
      findings.check(orders.length === 0, `${orders.length} orders after skipping a million`);
    },
  },
  {
    id: 'depth.book',
    title: 'the best ask of the depth is that of the book',
    async run(context, findings) {
      const { market } = context;
      const best = async () => (await fresh(context, 'depth', { market, limit: 1 })).asks[0]?.[0];
      for (let attempt = 0; attempt < 3; attempt += 1) {
        const before = await best();
        const { orders } = await fresh(context, 'book', { market, side: 'sell', limit: 1 });
        const [order] = orders;
        if (before === undefined || order === undefined) throw new Skip('there are no asks');
        if (before !== (await best())) continue;
        findings.check(equalDecimals(before, order.price), `depth ${before}, book ${order.price}`);
        return;
      }
      throw new Skip('the book changed too fast to compare two answers');
    },
  },
];
