import {
  compareDecimals,
  equalDecimals,
  multiplyDecimals,
  roundDecimal,
  subtractDecimals,
} from '../../../src/kernel/decimal.js';
import { type Case, type Context, known } from '../context.js';
import { type Findings, Skip } from '../outcome.js';
import { pageOf } from './resources.js';
import { idsOf, SKIP_PARAM, sinceMode, type TradesName } from './since-mode.js';

/** A trade of either endpoint in one form; `atS` is exact only where the endpoint says so. */
interface TradeView {
  readonly id: number;
  readonly atS: number;
  readonly price: string;
  readonly amount: string;
  readonly total: string;
  readonly type: string;
}

async function pageFrom(context: Context, name: TradesName): Promise<TradeView[]> {
  if (name === 'historyResult') {
    const page = await known(context, name, pageOf(context, 1000));
    return page.map(({ tid, date, ...rest }) => ({ id: tid, atS: date, ...rest }));
  }
  const page = await known(context, name, { market: context.market, lastId: 0, limit: 1000 });
  return page.map(({ time, ...rest }) => ({ atS: time, ...rest }));
}

async function tradesFrom(context: Context, name: TradesName): Promise<TradeView[]> {
  const trades = await pageFrom(context, name);
  if (trades.length === 0) throw new Skip(`${context.market} has no trades`);
  return trades;
}

function judgeOrder(trades: readonly TradeView[], findings: Findings): void {
  for (const [index, trade] of trades.entries()) {
    const newer = trades[index - 1];
    if (newer === undefined) continue;
    findings.check(newer.id > trade.id, `trade ${trade.id} comes after ${newer.id}`);
    findings.check(newer.atS >= trade.atS, `trade ${newer.id} is older than ${trade.id} after it`);
  }
}

function judgeTotal({ id, price, amount, total }: TradeView, findings: Findings): void {
  const exact = multiplyDecimals(price, amount);
  if (equalDecimals(exact, total)) return;
  const places = total.split('.')[1]?.length ?? 0;
  const off = subtractDecimals(exact, total).replace('-', '');
  const step = places === 0 ? '1' : `0.${'0'.repeat(places - 1)}1`;
  const text = `trade ${id}: total ${total}, price times amount is ${exact}`;
  if (equalDecimals(roundDecimal(exact, places), total) || compareDecimals(off, step) < 0) {
    findings.differs('roundedTotals', text);
  } else {
    findings.fail(text);
  }
}

/** Of a burst more trades may come between two requests than a small page holds. */
const OVERLAP_TRIES = 3;

async function judgeOverlap(context: Context, name: TradesName, findings: Findings) {
  if ((await sinceMode(context, name)) !== 'skip') throw new Skip('ids cannot be paged by number');
  for (let left = OVERLAP_TRIES - 1; left >= 0; left -= 1) {
    if (await isOverlapJudged(context, name, findings, left === 0)) return;
  }
}

/** @returns false where a page did not hold the last trade before it, and may not count as a failure yet */
async function isOverlapJudged(
  context: Context,
  name: TradesName,
  findings: Findings,
  isLastTry: boolean,
): Promise<boolean> {
  const size = 10;
  const whole = await idsOf(context, name, 0, 4 * size);
  let skip = 0;
  let last: number | undefined;
  const seen: number[] = [];
  for (let page = 0; page < 4; page += 1) {
    const ids = await idsOf(context, name, skip, size);
    const at = last === undefined ? 0 : ids.indexOf(last);
    const isHeld = at >= 0;
    if (!isHeld && !isLastTry) return false;
    findings.check(
      isHeld,
      `page ${page + 1} does not contain trade ${last}, the last one before it`,
    );
    if (!isHeld || ids.length < 2) break;
    seen.push(...ids.slice(last === undefined ? 0 : at + 1));
    last = ids.at(-1);
    skip += ids.length - 1;
  }
  const isFalling = seen.every((id, index) => index === 0 || (seen[index - 1] ?? 0) > id);
  findings.check(isFalling, 'ids do not fall from page to page');
  // Whatever arrived meanwhile is newer than the one page that was taken before.
  const deepest = seen.at(-1) ?? Number.POSITIVE_INFINITY;
  const lost = whole.filter((id) => id >= deepest && !seen.includes(id));
  findings.check(lost.length === 0, `trades ${lost.slice(0, 5)} are in one page, but not in four`);
  return true;
}

/** Under `id` exactly the trades with a greater id come. */
async function judgeMode(context: Context, name: TradesName, findings: Findings) {
  const mode = await sinceMode(context, name);
  if (mode === 'skip') return;
  if (mode === 'neither') {
    findings.fail(`${SKIP_PARAM[name]}=1 neither skips one trade nor is an id`);
    return;
  }
  findings.differs('idMode', `${SKIP_PARAM[name]}=1 gives the newest trade`);
  const ids = await idsOf(context, name, 0, 10);
  const bound = ids.at(-1) ?? 0;
  const newer = await idsOf(context, name, bound, 50);
  findings.check(
    newer.every((id) => id > bound),
    `ids of ${bound} and below came`,
  );
}

function casesOf(name: TradesName): Case[] {
  const skipName = SKIP_PARAM[name];
  return [
    {
      id: `${name}.order`,
      title: `${name}: newest first, ids and times fall`,
      run: async (context, findings) => judgeOrder(await tradesFrom(context, name), findings),
    },
    {
      id: `${name}.totals`,
      title: `${name}: total is price times amount`,
      async run(context, findings) {
        for (const trade of await tradesFrom(context, name)) judgeTotal(trade, findings);
      },
    },
    {
      id: `${name}.${skipName}.meaning`,
      title: `${name}: ${skipName} is the number of newest trades to skip`,
      run: (context, findings) => judgeMode(context, name, findings),
    },
    {
      id: `${name}.${skipName}.overlap`,
      title: `${name}: pages that overlap by one trade show the same trade`,
      run: (context, findings) => judgeOverlap(context, name, findings),
    },
    {
      id: `${name}.${skipName}.beyond`,
      title: `${name}: skipping more than there is gives nothing`,
      async run(context, findings) {
        if ((await sinceMode(context, name)) !== 'skip') throw new Skip('nothing is skipped here');
        const ids = await idsOf(context, name, 2 ** 31, 5);
        findings.check(ids.length === 0, `${ids.length} trades after skipping 2^31`);
      },
    },
  ];
}

export const tradeCases: readonly Case[] = [
  ...casesOf('history'),
  ...casesOf('historyResult'),
  {
    id: 'trades.views',
    title: 'history and history/result show the same trades, date is the whole second of time',
    async run(context, findings) {
      const exact = new Map(
        (await tradesFrom(context, 'history')).map((trade) => [trade.id, trade]),
      );
      let compared = 0;
      for (const trade of await tradesFrom(context, 'historyResult')) {
        const other = exact.get(trade.id);
        if (other === undefined) continue;
        compared += 1;
        findings.check(Math.floor(other.atS) === trade.atS, `trade ${trade.id}: another time`);
        for (const field of ['price', 'amount', 'total'] as const) {
          const isSame = equalDecimals(other[field], trade[field]);
          findings.check(isSame, `trade ${trade.id}: ${field} ${other[field]}, ${trade[field]}`);
        }
        findings.check(other.type === trade.type, `trade ${trade.id}: another type`);
      }
      if (compared === 0) throw new Skip('no trade was in both answers');
    },
  },
];
