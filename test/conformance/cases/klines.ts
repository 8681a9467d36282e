import type { ResultOf } from '../../../src/contract/endpoints.js';
import { DOCUMENTED_INTERVALS_S } from '../../../src/contract/limits.js';
import {
  addDecimals,
  compareDecimals,
  decimalSign,
  equalDecimals,
} from '../../../src/kernel/decimal.js';
import { type Case, type Context, known } from '../context.js';
import { Skip } from '../outcome.js';
import { pageOf, recentMinutes } from './resources.js';

type Reply = ResultOf<'kline'>;
type CandleRow = Reply['kline'][number];

/** Minutes up to the newest trade, in one reply. */
async function minutes(context: Context, count = 60): Promise<Reply> {
  const span = await recentMinutes(context, count);
  return known(context, 'kline', { market: context.market, ...span, interval: 60 });
}

async function candles(context: Context, count = 60): Promise<CandleRow[]> {
  const { kline } = await minutes(context, count);
  if (kline.length < 3) throw new Skip('fewer than three candles');
  return kline;
}

/** A candle with neighbours, that is closed. */
async function middle(context: Context): Promise<CandleRow> {
  const rows = await candles(context);
  const row = rows[Math.floor(rows.length / 2)];
  if (row === undefined) throw new Skip('no candle');
  return row;
}

interface Sums {
  volume: string;
  amount: string;
  close: string;
}

/** Sums of the trades of each minute that the newest page covers wholly, by the minute's start. */
async function sumsByMinute(context: Context): Promise<Map<number, Sums>> {
  const page = await known(context, 'historyResult', pageOf(context, 1000));
  const newest = page[0]?.date ?? 0;
  const oldest = page.at(-1)?.date ?? 0;
  const sums = new Map<number, Sums>();
  for (const { date, amount, total, price } of page.toReversed()) {
    const minute = date - (date % 60);
    // The oldest minute may have begun before the page; the newest one may not be over.
    if (minute <= oldest || minute + 120 > newest) continue;
    const sum = sums.get(minute) ?? { volume: '0', amount: '0', close: price };
    sum.volume = addDecimals(sum.volume, amount);
    sum.amount = addDecimals(sum.amount, total);
    sum.close = price;
    sums.set(minute, sum);
  }
  return sums;
}

export const klineCases: readonly Case[] = [
  {
    id: 'kline.echo',
    title: 'kline echoes market, start, end and interval',
    async run(context, findings) {
      const span = await recentMinutes(context);
      const { market, start, end, interval, kline } = await minutes(context);
      findings.check(market === context.market, `market is ${market}`);
      findings.check(start === span.start && end === span.end, `span is ${start} to ${end}`);
      findings.check(interval === 60, `interval is ${interval}`);
      const isOurs = kline.every((row) => row.market === context.market);
      findings.check(isOurs, 'candles of another market');
    },
  },
  {
    id: 'kline.grid',
    title: 'candles begin on the grid of the interval, ascending, inside the span',
    async run(context, findings) {
      const { kline, start, end } = await minutes(context);
      for (const [index, { time }] of kline.entries()) {
        findings.check(time % 60 === 0, `candle ${time} is off the grid`);
        findings.check(time >= start && time <= end, `candle ${time} is outside the span`);
        const earlier = kline[index - 1]?.time ?? Number.NEGATIVE_INFINITY;
        findings.check(earlier < time, `candle ${time} comes after ${earlier}`);
      }
      if (kline.length === 0) throw new Skip('no candles');
    },
  },
  {
    id: 'kline.end',
    title: 'start and end are both inclusive',
    async run(context, findings) {
      const { market } = context;
      const { time } = await middle(context);
      const span = { market, start: time, end: time, interval: 60 };
      const times = (await known(context, 'kline', span)).kline.map((row) => row.time);
      findings.check(times.length === 1 && times[0] === time, `[${times}] instead of [${time}]`);
      const wider = { ...span, start: time - 60 };
      const last = (await known(context, 'kline', wider)).kline.at(-1)?.time;
      findings.check(last === time, `a span up to ${time} ends with ${last}`);
    },
  },
  {
    id: 'kline.start.unaligned',
    title: 'a start off the grid is moved to it, down or up',
    async run(context, findings) {
      const { market } = context;
      const { time } = await middle(context);
      const span = { market, start: time + 1, end: time + 300, interval: 60 };
      const first = (await known(context, 'kline', span)).kline[0]?.time;
      if (first === undefined) throw new Skip('no candle in the next five minutes');
      findings.check(first % 60 === 0 && first >= time, `the first candle is ${first}`);
    },
  },
  {
    id: 'kline.prices',
    title: 'lowest and highest enclose open and close',
    async run(context, findings) {
      for (const { time, open, close, highest, lowest } of await candles(context)) {
        for (const price of [open, close]) {
          const isInside =
            compareDecimals(lowest, price) <= 0 && compareDecimals(price, highest) <= 0;
          findings.check(isInside, `candle ${time}: ${price} is not in ${lowest} to ${highest}`);
        }
      }
    },
  },
  {
    id: 'kline.opens',
    title: 'a candle opens with its first trade',
    async run(context, findings) {
      const rows = (await candles(context)).filter(({ volume }) => decimalSign(volume) > 0);
      const pairs = rows.slice(1).map((row, index) => [rows[index], row] as const);
      const close = pairs.filter(([before, row]) => before && row.time - before.time === 60);
      const carried = close.filter(([before, row]) => equalDecimals(before?.close ?? '', row.open));
      if (close.length < 5) throw new Skip('fewer than five candles in a row');
      if (carried.length === close.length) findings.differs('previousCloseOpens');
    },
  },
  {
    id: 'kline.empty',
    title: 'minutes without trades are left out',
    async run(context, findings) {
      const empty = (await candles(context)).filter(({ volume }) => decimalSign(volume) === 0);
      const [first] = empty;
      if (first) findings.differs('filledCandles', `candle ${first.time} has no volume`);
    },
  },
  {
    id: 'kline.sums',
    title: 'volume, amount and close of closed candles are those of their trades',
    async run(context, findings) {
      const sums = await sumsByMinute(context);
      if (sums.size === 0) throw new Skip('no whole minute in the newest page of trades');
      const start = Math.min(...sums.keys());
      const end = Math.min(Math.max(...sums.keys()), start + 999 * 60);
      const { market } = context;
      const { kline } = await known(context, 'kline', { market, start, end, interval: 60 });
      const byTime = new Map(kline.map((row) => [row.time, row]));
      for (const [minute, sum] of sums) {
        if (minute > end) continue;
        const row = byTime.get(minute);
        if (!findings.check(row !== undefined, `no candle ${minute} although it has trades`))
          continue;
        for (const field of ['volume', 'amount', 'close'] as const) {
          const isSame = row !== undefined && equalDecimals(row[field], sum[field]);
          findings.check(
            isSame,
            `candle ${minute}: ${field} ${row?.[field]}, trades ${sum[field]}`,
          );
        }
      }
    },
  },
  ...DOCUMENTED_INTERVALS_S.map(
    (interval): Case => ({
      id: `kline.interval.${interval}`,
      title: `candles of ${interval} seconds are offered`,
      async run(context, findings) {
        const { market } = context;
        const { end } = await recentMinutes(context);
        const last = end - (end % interval);
        const span = { market, start: last - 10 * interval, end: last, interval };
        const reply = await known(context, 'kline', span);
        findings.check(reply.interval === interval, `interval is ${reply.interval}`);
        // Days may follow the server's time zone (field notes, kline).
        const gridS = Math.min(interval, 3600);
        const isOff = reply.kline.some(({ time }) => time % gridS !== 0);
        findings.check(!isOff, 'candles are off their grid');
        findings.check(reply.kline.length <= 11, `${reply.kline.length} candles in 11 intervals`);
      },
    }),
  ),
];
