import type { Latency } from '../../archive/interchange/feed-file.js';
import {
  CONTENTS,
  type Content,
  type InterchangeMarket,
  type InterchangePart,
  type Source,
  type Tool,
} from '../../archive/interchange/request.js';
import type { Span } from '../../kernel/span.js';
import type { SeriesKind } from '../../model/kinds.js';
import type { KnownStream, Store } from '../../store/index.js';
import { UsageError } from '../failure.js';
import { formatMoment, type Moment } from '../options/moments.js';
import { exportParts } from './export-selection.js';

/** The options by which an export for another program selects what it writes. */
export interface InterchangeSelection {
  readonly for: Tool;
  readonly kind?: SeriesKind;
  readonly market?: readonly string[];
  /** Seconds. */
  readonly interval?: number;
  readonly from?: Moment;
  readonly to?: Moment;
  readonly candles?: 'exchange' | 'trades';
  readonly latency?: Latency;
}

export interface SelectedParts {
  readonly content: Content;
  readonly intervalS: number;
  readonly parts: readonly InterchangePart[];
}

/**
 * What is to be written for a program.
 *
 * @throws UsageError for what the program does not take, an unknown market or length, an empty span
 */
export async function interchangeParts(
  options: InterchangeSelection,
  store: Store,
  streams: readonly KnownStream[],
  nowMs: number,
): Promise<SelectedParts> {
  const content = contentOf(options);
  const { market, from, to } = options;
  const selection = {
    ...(market === undefined ? {} : { market }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  };
  const markets = await marketsById(store);
  const select = async (kind: Source['kind'], interval?: number) =>
    await exportParts(
      { ...selection, kind, ...(interval === undefined ? {} : { interval }) },
      ...([store, streams, nowMs] as const),
    );
  const isComputed = options.candles === 'trades';
  const kinds: readonly Source['kind'][] =
    content === 'events'
      ? ['trades', 'depth']
      : content === 'trades' || isComputed
        ? ['trades']
        : ['klines'];
  const found = new Map<number, { span: Span; sources: Source[] }>();
  let variantS = 0;
  for (const kind of kinds) {
    const chosen = await select(kind, kind === 'klines' ? options.interval : undefined);
    variantS = chosen.variantS;
    for (const { marketId, stream, span } of chosen.parts) {
      const before = found.get(marketId);
      const sources = [...(before?.sources ?? []), { kind, stream }];
      found.set(marketId, { span: common(before?.span, span), sources });
    }
  }
  const parts = [...found].flatMap(([marketId, { span, sources }]): InterchangePart[] => {
    const one = markets.get(marketId);
    if (one === undefined || sources.length < kinds.length) return [];
    if (span.toMs > span.fromMs) return [{ market: one, span, sources }];
    throw new UsageError(
      '--market',
      one.name,
      `its ${kinds.join(' and its ')} are covered at different times, up to ${formatMoment(span.toMs)} and from ${formatMoment(span.fromMs)} on; name --from and --to`,
    );
  });
  if (parts.length === 0) {
    throw new UsageError('--for', options.for, `no market has ${kinds.join(' and ')}`);
  }
  const intervalS = content !== 'candles' ? 0 : isComputed ? (options.interval ?? 0) : variantS;
  return { content, intervalS, parts };
}

function common(one: Span | undefined, other: Span): Span {
  if (one === undefined) return other;
  return {
    fromMs: Math.max(one.fromMs, other.fromMs),
    toMs: Math.min(one.toMs, other.toMs),
  };
}

/** @throws UsageError for what the program can not be given, and options that would do nothing */
function contentOf({ for: tool, kind, interval, candles, latency }: InterchangeSelection): Content {
  const allowed = CONTENTS[tool];
  const content: Content | undefined =
    kind === undefined
      ? allowed[0]
      : kind === 'klines'
        ? 'candles'
        : kind === 'trades'
          ? kind
          : undefined;
  if (content === undefined || !allowed.includes(content)) {
    const takes = allowed.includes('events')
      ? 'it takes trades and depth together; leave --kind out'
      : `it takes ${allowed.map((one) => (one === 'candles' ? 'klines' : one)).join(' or ')}`;
    throw new UsageError('--kind', kind ?? 'none', takes);
  }
  if (content !== 'events' && latency !== undefined) {
    throw new UsageError('--latency', tool, 'only hftbacktest has one');
  }
  if (content === 'candles') {
    if (candles === 'trades' && interval === undefined) {
      throw new UsageError('--interval', 'none', 'name the length of the candles, such as 1m');
    }
    return content;
  }
  if (interval !== undefined) {
    throw new UsageError('--interval', String(interval), 'only candles have one');
  }
  if (candles !== undefined) throw new UsageError('--candles', candles, 'no candles are asked for');
  return content;
}

async function marketsById(store: Store): Promise<ReadonlyMap<number, InterchangeMarket>> {
  const rows = await store.query<InterchangeMarket & { readonly marketId: number }>(
    `SELECT market_id AS "marketId", name, stock, money, stock_prec AS "stockPrec",
       money_prec AS "moneyPrec" FROM market`,
    [],
  );
  return new Map(rows.map((row) => [row.marketId, row]));
}
