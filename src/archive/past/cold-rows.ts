import type { DepthRow, KlineRow, StateRow, TickerRow, TradeRow } from '../../ledger/batch.js';
import type { MergedKind, SeriesSlice } from '../../store/index.js';

/** Rows of files, as the database's statements would have brought them. */

type Fields = Readonly<Record<string, unknown>>;

const text = (fields: Fields, name: string) => String(fields[name]);
const optional = (fields: Fields, name: string) =>
  fields[name] === null || fields[name] === undefined ? null : String(fields[name]);
const list = (fields: Fields, name: string) => (fields[name] as unknown[]).map(String);

const MOMENT = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?/;

/** A moment of the text forms (UTC) as UNIX microseconds. */
export function microsOf(moment: string): number {
  const [, day, time, fraction = ''] = MOMENT.exec(moment) ?? [];
  return Date.parse(`${day}T${time}Z`) * 1000 + Number(fraction.padEnd(6, '0'));
}

const millis = (fields: Fields, name: string) => microsOf(text(fields, name)) / 1000;

function tradeOf(fields: Fields, marketId: number): TradeRow {
  const executedAt = optional(fields, 'executed_at');
  return {
    marketId,
    tid: Number(fields.tid),
    tradedAtS: millis(fields, 'traded_at') / 1000,
    executedAtUs: executedAt === null ? null : microsOf(executedAt),
    price: text(fields, 'price'),
    amount: text(fields, 'amount'),
    total: text(fields, 'total'),
    side: text(fields, 'side') as TradeRow['side'],
    receivedAtMs: millis(fields, 'received_at'),
  };
}

function klineOf(fields: Fields, marketId: number): KlineRow {
  const figure = (name: string) => text(fields, name);
  return {
    marketId,
    intervalS: Number(fields.interval_s),
    openAtS: millis(fields, 'open_at') / 1000,
    ...{ open: figure('open'), close: figure('close'), high: figure('high'), low: figure('low') },
    ...{ volume: figure('volume'), amount: figure('amount') },
    receivedAtMs: millis(fields, 'received_at'),
  };
}

/** A version of a candle that was the newest from one moment to another. */
export interface FormerKline extends Omit<KlineRow, 'receivedAtMs'> {
  readonly knownFromMs: number;
  readonly knownToMs: number;
}

function formerKlineOf(fields: Fields, marketId: number): FormerKline {
  const { receivedAtMs: knownFromMs, ...candle } = klineOf(
    { ...fields, received_at: fields.known_from },
    marketId,
  );
  return { ...candle, knownFromMs, knownToMs: millis(fields, 'known_to') };
}

function observed(fields: Fields, marketId: number) {
  return {
    marketId,
    observedAtMs: millis(fields, 'observed_at'),
    receivedAtMs: millis(fields, 'received_at'),
  };
}

function tickerOf(fields: Fields, marketId: number): TickerRow {
  const figure = (name: string) => text(fields, name);
  return {
    ...observed(fields, marketId),
    atMs: millis(fields, 'at'),
    ...{ bid: figure('bid'), ask: figure('ask'), open: figure('open'), high: figure('high') },
    ...{ low: figure('low'), last: figure('last'), volume: figure('volume') },
    ...{ deal: figure('deal'), change: figure('change') },
  };
}

function depthOf(fields: Fields, marketId: number): DepthRow {
  return {
    ...observed(fields, marketId),
    ...{ bidPrices: list(fields, 'bid_prices'), bidAmounts: list(fields, 'bid_amounts') },
    ...{ askPrices: list(fields, 'ask_prices'), askAmounts: list(fields, 'ask_amounts') },
  };
}

function stateOf(fields: Fields, marketId: number): StateRow {
  const figure = (name: string) => text(fields, name);
  return {
    ...observed(fields, marketId),
    periodS: Number(fields.period_s),
    seq: Number(fields.seq),
    origin: text(fields, 'origin') as StateRow['origin'],
    ...{ last: figure('last'), open: figure('open'), close: figure('close') },
    ...{ high: figure('high'), low: figure('low'), deal: figure('deal') },
    volume: figure('volume'),
    change: optional(fields, 'change'),
    sessionId: Number(fields.session_id),
  };
}

const READERS = {
  trades: tradeOf,
  klines: klineOf,
  kline_revisions: formerKlineOf,
  tickers: tickerOf,
  depth: depthOf,
  states: stateOf,
} as const satisfies Readonly<Record<MergedKind, (fields: Fields, id: number) => object>>;

export type PastKind = keyof typeof READERS;
export type RowOf<K extends PastKind> = ReturnType<(typeof READERS)[K]>;

/** Rows of the form `json`, piece by piece, as objects. */
export async function* rowsOf<K extends PastKind>(
  pieces: AsyncIterable<Buffer>,
  slice: SeriesSlice & { readonly kind: K },
): AsyncGenerator<RowOf<K>> {
  const read = READERS[slice.kind] as (fields: Fields, marketId: number) => RowOf<K>;
  const decoder = new TextDecoder();
  let rest = '';
  for await (const piece of pieces) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line !== '') yield read(JSON.parse(line) as Fields, slice.marketId);
    }
  }
}
