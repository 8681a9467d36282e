import { type EndpointName, endpoints, type ResultOf } from '../../../src/contract/endpoints.js';
import { readBody } from '../../../src/contract/error-shapes.js';
import { PAGE_LIMIT } from '../../../src/contract/limits.js';
import { decimalSign } from '../../../src/kernel/decimal.js';
import { readByClient } from '../client-reading.js';
import { type Case, type Context, fresh, known } from '../context.js';
import type { Query } from '../exchange-probe.js';
import { judgeRefusal } from '../judge.js';
import { Skip } from '../outcome.js';
import { goodQuery, publicNames, recentMinutes } from './resources.js';
import { sinceMode } from './since-mode.js';

type LimitedName = 'history' | 'historyResult' | 'depth' | 'book';

function isLimited(name: EndpointName): name is LimitedName {
  return 'limit' in endpoints[name].params.shape;
}

const limited = publicNames.filter(isLimited);

/** Rows of a page; of the depth, levels of its longer side. */
function countOf(name: LimitedName, result: ResultOf<LimitedName>): number {
  if (Array.isArray(result)) return result.length;
  if ('orders' in result) return result.orders.length;
  if ('asks' in result) return Math.max(result.asks.length, result.bids.length);
  throw new Error(`${name} has no rows to count`);
}

async function queryOf(name: LimitedName, context: Context, limit?: number | string) {
  const { limit: _limit, ...rest } = await goodQuery(name, context);
  return (limit === undefined ? rest : { ...rest, limit }) as Query;
}

const idOf = (row: unknown) => {
  const { id, tid } = row as { id?: number; tid?: number };
  return id ?? tid;
};

/** How many rows there are to be had, at least; undefined when that cannot be known. */
async function available(name: LimitedName, context: Context): Promise<number | undefined> {
  if (name === 'depth') return undefined;
  const page = await known(context, name, await queryOf(name, context, PAGE_LIMIT.max));
  if (!Array.isArray(page)) return 'total' in page ? page.total : undefined;
  if (page.length === PAGE_LIMIT.max) return page.length;
  // A page that is not full may be the whole history, or a capped page: one trade deeper tells.
  if ((await sinceMode(context, name as 'history' | 'historyResult')) === 'id') return undefined;
  const skip = name === 'history' ? 'lastId' : 'since';
  const deeper = await known(context, name, {
    ...(await queryOf(name, context, 1)),
    [skip]: page.length,
  });
  // A trade that came between the two moved the last one of the page there.
  const seen = new Set(page.map(idOf));
  return page.length + (deeper as typeof page).filter((row) => !seen.has(idOf(row))).length;
}

/**
 * Whether there are trades older than those of a page: of ids nothing deeper can be asked for, but
 * candles tell of it.
 */
async function isOlderTraded(rows: readonly unknown[], context: Context): Promise<boolean> {
  const oldest = rows.at(-1) as { date?: number; time?: number } | undefined;
  const oldestS = Math.floor(oldest?.date ?? oldest?.time ?? 0);
  if (oldestS < 3600) return false;
  const end = oldestS - (oldestS % 60) - 60;
  const span = { market: context.market, start: end - 59 * 60, end, interval: 60 };
  const { kline } = await known(context, 'kline', span);
  return kline.some(({ volume }) => decimalSign(volume) > 0);
}

async function judgePage(
  name: LimitedName,
  context: Context,
  findings: Parameters<Case['run']>[1],
  limit: number,
  asked: number | undefined,
): Promise<void> {
  const before = await available(name, context);
  const page = await known(context, name, await queryOf(name, context, asked));
  const rows = countOf(name, page);
  findings.check(rows <= limit, `${rows} rows where ${limit} are the most`);
  const after = await available(name, context);
  // What came or went meanwhile the page need not have.
  const there = before === undefined || after === undefined ? undefined : Math.min(before, after);
  const isShort = there === undefined && Array.isArray(page) && rows > 0 && rows < limit;
  if (isShort && (await isOlderTraded(page, context))) {
    const text = `${rows} rows although candles tell of older trades`;
    if (limit > PAGE_LIMIT.default) findings.differs('pageCap', text);
    else findings.fail(text);
  }
  if (there === undefined || rows > limit) return;
  if (rows < Math.min(limit, there)) {
    const text = `${rows} rows although ${there} or more are there`;
    if (rows > 0 && limit > PAGE_LIMIT.default) findings.differs('pageCap', text);
    else findings.fail(text);
  }
}

/** A limit beyond the bounds: refused, or at least not obeyed. */
async function judgeBeyond(
  name: LimitedName,
  context: Context,
  findings: Parameters<Case['run']>[1],
  limit: number | string,
): Promise<void> {
  const answer = await context.probe.get(name, await queryOf(name, context, limit));
  const isLarge = typeof limit === 'number' && limit > PAGE_LIMIT.max;
  const reading = readBody(answer.json, endpoints[name].envelope);
  if (isLarge && answer.status === 200 && reading.kind === 'success') {
    const rows = countOf(name, readByClient(name, answer));
    findings.check(rows <= PAGE_LIMIT.max, `${rows} rows for limit=${limit}`);
    findings.differs('pageCap', `limit=${limit} is not refused, but capped`);
    return;
  }
  judgeRefusal(name, answer, findings);
}

const { default: usual, min, max } = PAGE_LIMIT;

const pageCases = limited.flatMap((name): Case[] => [
  {
    id: `${name}.limit.default`,
    title: `${endpoints[name].path} gives ${usual} rows without a limit`,
    run: (context, findings) => judgePage(name, context, findings, usual, undefined),
  },
  ...[min, max].map(
    (limit) =>
      ({
        id: `${name}.limit.${limit}`,
        title: `${endpoints[name].path} obeys limit=${limit}`,
        run: (context, findings) => judgePage(name, context, findings, limit, limit),
      }) satisfies Case,
  ),
  ...[max + 1, 0, -1, 'ten'].map(
    (limit) =>
      ({
        id: `${name}.limit.${limit}`,
        title: `${endpoints[name].path} refuses limit=${limit}`,
        run: (context, findings) => judgeBeyond(name, context, findings, limit),
      }) satisfies Case,
  ),
]);

export const limitCases: readonly Case[] = [
  ...pageCases,
  {
    id: 'history.lastId.default',
    title: 'history without lastId skips nothing',
    async run(context, findings) {
      const { market } = context;
      // The head may move between two requests: what is the same before and after did not.
      const head = () => fresh(context, 'history', { market, lastId: 0, limit: 1 });
      for (let attempt = 0; attempt < 3; attempt += 1) {
        const [before] = await head();
        const [bare] = await fresh(context, 'history', { market, limit: 1 });
        const [after] = await head();
        if (before?.id !== after?.id) continue;
        findings.check(bare?.id === before?.id, `trade ${bare?.id} instead of ${before?.id}`);
        return;
      }
      throw new Skip('trades came too fast to compare two answers');
    },
  },
  {
    id: 'book.offset.default',
    title: `book without offset and limit echoes 0 and ${usual}`,
    async run(context, findings) {
      const { market } = context;
      const { offset, limit } = await known(context, 'book', { market, side: 'buy' });
      findings.check(offset === 0, `offset is ${offset}`);
      findings.check(limit === usual, `limit is ${limit}`);
    },
  },
  {
    id: 'kline.interval.default',
    title: 'kline without interval gives minutes',
    async run(context, findings) {
      const { market } = context;
      const reply = await known(context, 'kline', { market, ...(await recentMinutes(context)) });
      findings.check(reply.interval === 60, `interval is ${reply.interval}`);
      const isOff = reply.kline.some(({ time }) => time % 60 !== 0);
      findings.check(!isOff, 'candles do not begin on whole minutes');
    },
  },
];
