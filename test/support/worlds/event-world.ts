import type { ArchiveEvent } from '../../../src/archive/events/event.js';
import type { Random } from '../../../src/kernel/random.js';
import type { Batch, CoverageClaim, StreamRef } from '../../../src/model/batch.js';
import type { Store } from '../../../src/store/index.js';
import { openTestStore } from '../postgres/postgres.js';

export const EVENT_DAY_MS = 86_400_000;
/** Midnight before the world's two days. */
export const EVENT_START_MS = Date.UTC(2026, 0, 15);
export const EVENT_MARKETS = ['AAA_USD', 'BBB_USD', 'CCC_USD'] as const;

const INTERVALS = [60, 300];
const PERIODS = [60, 86_400];
/** Rows stand close to midnight, so that both days and the border between them are seen. */
const MIDNIGHT_MS = EVENT_START_MS + EVENT_DAY_MS;
const MINUTES = 20;

/** An archive with every kind of event, in which every rule of their order matters. */
export interface EventWorld {
  readonly store: Store;
  readonly url: string;
  readonly streams: readonly StreamRef[];
  /** All events in the order of happening and in that of receipt, worked out from the rows' figures. */
  readonly happened: readonly ArchiveEvent[];
  readonly received: readonly ArchiveEvent[];
}

const spanOfAll = {
  fromMs: MIDNIGHT_MS - (MINUTES / 2) * 60_000,
  toMs: MIDNIGHT_MS + (MINUTES / 2) * 60_000,
};
export const EVENT_SPAN = {
  from: new Date(spanOfAll.fromMs),
  to: new Date(spanOfAll.toMs),
};

const ORDER = ['candle', 'trade', 'state', 'ticker', 'depth'];

function sortKey(event: ArchiveEvent): (number | string)[] {
  const variant =
    event.kind === 'candle' ? event.intervalS : event.kind === 'state' ? event.periodS : 0;
  const number =
    event.kind === 'trade'
      ? event.id
      : event.kind === 'state'
        ? event.seq
        : event.kind === 'candle'
          ? event.revision
          : 0;
  return [ORDER.indexOf(event.kind), variant, event.market, event.atUs, number];
}

function byKeys(timeOf: (event: ArchiveEvent) => number) {
  return (a: ArchiveEvent, b: ArchiveEvent) => {
    const [x, y] = [
      [timeOf(a), ...sortKey(a)],
      [timeOf(b), ...sortKey(b)],
    ];
    for (const [index, one] of x.entries()) {
      const other = y[index] ?? 0;
      if (one !== other) return one < other ? -1 : 1;
    }
    return 0;
  };
}

/** Drops the zeros at the end that a decimal of the world may have. */
const short = (text: string) =>
  text.includes('.') ? text.replace(/0+$/, '').replace(/\.$/, '') : text;

/**
 * Makes the world; the same seed makes the same.
 *
 * @param isShort whether decimals are stored without zeros at their ends, as no file keeps them
 * @param databaseUrl where it is made; a new database when left out
 */
export async function makeEventWorld(
  random: Random,
  isShort = false,
  databaseUrl?: string,
): Promise<EventWorld> {
  const { store, url } = await openTestStore(databaseUrl === undefined ? {} : { databaseUrl });
  await store.claimArchive({ name: 'test', baseUrl: 'http://x', isSandbox: false, identity: null });
  const written = (batch: Rows): Rows => (isShort ? shortRows(batch) : batch);
  const prec = { stock: 'X', money: 'USD', stockPrec: 8, moneyPrec: 8, feePrec: 4 };
  const markets = [...EVENT_MARKETS].map((name) => ({ name, ...prec, minAmount: '0' }));
  // Ids do not follow the names.
  await store.ensureMarkets(markets.slice(1), spanOfAll.fromMs);
  const { ids } = await store.ensureMarkets(markets, spanOfAll.fromMs);
  const streams: StreamRef[] = [];
  const add = async (kind: StreamRef['kind'], marketId: number, variant: number) =>
    streams.push(await store.ensureStream({ kind, marketId, variant }));
  const events: ArchiveEvent[] = [];
  const superseded: ArchiveEvent[] = [];
  const draw = (below: number) => Math.floor(random() * below);
  const decimal = () => `${1 + draw(500)}.${['5', '50', '00', '00000001', '0'][draw(5)]}`;
  let tid = 10;
  for (const market of EVENT_MARKETS) {
    const marketId = ids.get(market) ?? 0;
    await add('trades', marketId, 0);
    await add('depth', marketId, 0);
    await add('tickers', marketId, 0);
    for (const intervalS of INTERVALS) await add('candles', marketId, intervalS);
    for (const periodS of PERIODS) await add('states', marketId, periodS);
    const batch = emptyBatch();
    const old = emptyBatch();
    for (let minute = 0; minute < MINUTES; minute += 1) {
      const minuteMs = spanOfAll.fromMs + minute * 60_000;
      for (let trade = 0; trade < 6; trade += 1) {
        // Few seconds and few microseconds, so that many are equal.
        const tradedAtS = minuteMs / 1000 + draw(4) * 13;
        const isExact = draw(4) > 0;
        const executedAtUs = isExact ? tradedAtS * 1_000_000 + draw(3) * 250_000 : null;
        const receivedAtMs = draw(3) === 0 ? spanOfAll.toMs + 3_600_000 : tradedAtS * 1000 + 300;
        const [price, amount] = [decimal(), decimal()];
        const total = draw(2) === 0 ? '7.70' : multiplied(price, amount);
        const side = draw(2) === 0 ? 'buy' : 'sell';
        tid += 1 + draw(2);
        batch.trades.push({
          ...{ marketId, tid, tradedAtS, executedAtUs, price, amount, total, side, receivedAtMs },
        });
        events.push({
          ...{ kind: 'trade', market, id: tid, side, isExactTime: isExact },
          ...{ price: short(price), amount: short(amount), total: short(total) },
          atUs: executedAtUs ?? tradedAtS * 1_000_000 + 999_999,
          receivedAtUs: receivedAtMs * 1000,
        });
      }
      const observedAtMs = minuteMs + draw(2) * 13_000 + 250;
      const seenMs = observedAtMs + 60;
      const bidPrices = draw(5) === 0 ? [] : [decimal(), '0.10'];
      const askPrices = [decimal()];
      const bidAmounts = bidPrices.map(decimal);
      const askAmounts = askPrices.map(decimal);
      batch.depths.push({
        ...{ marketId, observedAtMs, receivedAtMs: seenMs },
        ...{ bidPrices, bidAmounts, askPrices, askAmounts },
      });
      const side = (prices: string[], amounts: string[]) =>
        prices.map((one, at) => [short(one), short(amounts[at] ?? '')] as const);
      const seen = { market, atUs: observedAtMs * 1000, receivedAtUs: seenMs * 1000 };
      events.push({
        ...{ kind: 'depth', ...seen },
        ...{ bids: side(bidPrices, bidAmounts), asks: side(askPrices, askAmounts) },
      });
      const prices = { bid: decimal(), ask: decimal(), open: '1.0', high: '3', low: '1' };
      const rest = { last: decimal(), volume: '10.50', quoteVolume: '20', change: '-1.50' };
      const ticker = { ...prices, ...rest };
      batch.tickers.push({
        ...{ marketId, observedAtMs, atMs: minuteMs, receivedAtMs: seenMs, ...ticker },
      });
      events.push({ kind: 'ticker', ...seen, tickerAtUs: minuteMs * 1000, ...shortAll(ticker) });
      for (const periodS of PERIODS) {
        const figures = { last: decimal(), open: '1.10', close: '2', high: '3', low: '1.0' };
        const state = { ...figures, quoteVolume: '5.50', volume: decimal() };
        for (const seq of [0, 1]) {
          const origin = seq === 0 ? 'query' : 'update';
          const change = seq === 0 ? '2.50' : null;
          batch.states.push({
            ...{ marketId, periodS, observedAtMs, seq, receivedAtMs: seenMs, ...state },
            ...{ change, origin, sessionId: 7 },
          });
          events.push({
            ...{ kind: 'state', ...seen, periodS, origin, ...shortAll(state) },
            ...{ change: change === null ? null : short(change), seq, sessionId: 7 },
          });
        }
      }
      for (const intervalS of INTERVALS) {
        const openAtS = minuteMs / 1000 - intervalS;
        if (openAtS % intervalS !== 0) continue;
        const figures = {
          open: '1.0',
          high: '3.10',
          low: '1',
          close: decimal(),
          volume: decimal(),
        };
        const candle = { ...figures, quoteVolume: '9.90' };
        const isRevised = draw(3) === 0;
        const receivedAtMs = minuteMs + (isRevised ? 3_600_000 : 2000);
        const made = { market, atUs: minuteMs * 1000, openAtUs: openAtS * 1_000_000, intervalS };
        if (isRevised) {
          const first = { ...candle, close: '1.50' };
          old.klines.push({
            marketId,
            intervalS,
            openAtS,
            receivedAtMs: minuteMs + 2000,
            ...first,
          });
          superseded.push({
            ...{ kind: 'candle', ...made, revision: 0, ...shortAll(first) },
            receivedAtUs: (minuteMs + 2000) * 1000,
          });
        }
        batch.klines.push({ marketId, intervalS, openAtS, receivedAtMs, ...candle });
        events.push({
          ...{ kind: 'candle', ...made, revision: isRevised ? 1 : 0, ...shortAll(candle) },
          receivedAtUs: receivedAtMs * 1000,
        });
      }
    }
    await store.commit(written(old));
    await store.commit(written(batch));
  }
  await store.commit({ claims: streams.map(claimWhole) });
  return {
    ...{ store, url, streams },
    happened: events.toSorted(byKeys((one) => one.atUs)),
    received: [...events, ...superseded].sort(byKeys((one) => one.receivedAtUs)),
  };
}

function claimWhole(stream: StreamRef): CoverageClaim {
  const backMs = stream.kind === 'candles' ? stream.variant * 1000 : 0;
  const span = { fromMs: spanOfAll.fromMs - backMs, toMs: spanOfAll.toMs };
  return { stream, span, evidence: { made: 'for the test' } };
}

type Mutable<T> = T extends readonly (infer Row)[] ? Row[] : never;
type Rows = {
  [Kind in 'trades' | 'klines' | 'tickers' | 'depths' | 'states']: Mutable<
    NonNullable<Batch[Kind]>
  >;
};

function emptyBatch(): Rows {
  return { trades: [], klines: [], tickers: [], depths: [], states: [] };
}

function shortAll<T extends Readonly<Record<string, string>>>(fields: T): T {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, short(value)]),
  ) as T;
}

function shortRows(batch: Rows): Rows {
  const keep = (_: string, value: unknown) =>
    typeof value === 'string' && /^-?\d+\.\d+$/.test(value) ? short(value) : value;
  return JSON.parse(JSON.stringify(batch, keep)) as Rows;
}

/** Exact product of two decimals, by whole numbers. */
function multiplied(a: string, b: string): string {
  const scale = (text: string) => text.split('.')[1]?.length ?? 0;
  const whole = (text: string) => BigInt(text.replace('.', ''));
  const digits = (whole(a) * whole(b)).toString().padStart(scale(a) + scale(b) + 1, '0');
  const point = digits.length - scale(a) - scale(b);
  return `${digits.slice(0, point)}.${digits.slice(point)}`;
}
