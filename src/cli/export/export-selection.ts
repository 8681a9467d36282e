import type { ExportPart } from '../../archive/export/export.js';
import type { Span } from '../../kernel/span.js';
import { ALL_MARKETS_ID } from '../../ledger/batch.js';
import { type SeriesKind, tableOfKind } from '../../model/kinds.js';
import { streamsOf } from '../../model/series.js';
import type { KnownStream, Store } from '../../store/index.js';
import { UsageError } from '../failure.js';
import { marketsOf } from '../gaps/gap-selection.js';
import { formatMoment, type Moment } from '../options/moments.js';
import { selectMarkets, selectSpan } from '../options/selection.js';

/** The options by which an export selects rows. */
export interface ExportSelection {
  readonly kind: SeriesKind;
  readonly market?: readonly string[];
  /** Length of candles, seconds. */
  readonly interval?: number;
  /** Length of states, seconds. */
  readonly period?: number;
  readonly from?: Moment;
  readonly to?: Moment;
}

const OPTION_OF: Readonly<Partial<Record<SeriesKind, 'interval' | 'period'>>> = {
  klines: 'interval',
  states: 'period',
};

/**
 * What is to be exported, market by market in the order of their names.
 *
 * @throws UsageError for an unknown market, a length that is not collected, a span that is none
 */
export async function exportParts(
  options: ExportSelection,
  store: Store,
  streams: readonly KnownStream[],
  nowMs: number,
): Promise<{ readonly variantS: number; readonly parts: readonly ExportPart[] }> {
  const bounds = selectSpan(options, nowMs);
  const kind = streamsOf(tableOfKind(options.kind))[0];
  const ofKind = streams.filter((one) => one.kind === kind);
  const known = options.kind === 'tickers' ? await allMarkets(store) : realMarkets(streams);
  const chosen = selectMarkets(options.market, known);
  const isNamed = options.market !== undefined;
  const has = (marketId: number) => marketStreams(ofKind, marketId).length > 0;
  const markets = chosen.filter(({ market, marketId }) => {
    if (isNamed && !has(marketId)) throw nothing(options.kind, market);
    return has(marketId);
  });
  if (markets.length === 0) throw nothing(options.kind, options.market?.[0] ?? 'any market');
  const variantS = chooseVariant(
    options,
    markets.map(({ marketId }) => marketStreams(ofKind, marketId)),
  );
  const parts = markets.flatMap(({ market, marketId }): ExportPart[] => {
    const stream = marketStreams(ofKind, marketId).find(({ variant }) => variant === variantS);
    if (stream === undefined) {
      if (!isNamed) return [];
      throw noSuchLength(options, variantS, marketStreams(ofKind, marketId), market);
    }
    return [
      { market, marketId, stream, span: spanOf(stream, bounds, nowMs, options.kind, market) },
    ];
  });
  return { variantS, parts };
}

function marketStreams(streams: readonly KnownStream[], marketId: number): KnownStream[] {
  return streams.filter((one) => one.marketId === marketId || one.marketId === ALL_MARKETS_ID);
}

function realMarkets(streams: readonly KnownStream[]) {
  return marketsOf(streams).filter(({ marketId }) => marketId !== ALL_MARKETS_ID);
}

async function allMarkets(store: Store) {
  return await store.query<{ market: string; marketId: number }>(
    'SELECT name AS market, market_id AS "marketId" FROM market WHERE market_id <> $1 ORDER BY name',
    [ALL_MARKETS_ID],
  );
}

function nothing(kind: SeriesKind, market: string): UsageError {
  return new UsageError(
    '--kind',
    kind,
    `the archive has none of ${market}; "tapekeep status" lists what it holds`,
  );
}

/** @throws UsageError when there are several and none was named, or one where there are none */
function chooseVariant(
  options: ExportSelection,
  streams: ReadonlyArray<readonly KnownStream[]>,
): number {
  const option = OPTION_OF[options.kind];
  for (const one of ['interval', 'period'] as const) {
    if (options[one] === undefined || one === option) continue;
    const owner = one === 'interval' ? 'klines' : 'states';
    throw new UsageError(`--${one}`, String(options[one]), `only ${owner} have one`);
  }
  if (option === undefined) return 0;
  const asked = options[option];
  const all = streams.flat();
  const lengths = new Set(all.map(({ variant }) => variant));
  if (asked !== undefined) {
    if (!lengths.has(asked)) throw noSuchLength(options, asked, all);
    return asked;
  }
  const [only] = lengths;
  if (lengths.size !== 1 || only === undefined) {
    throw new UsageError(`--${option}`, 'none', `name one of those collected: ${listed(all)}`);
  }
  return only;
}

function noSuchLength(
  { kind }: ExportSelection,
  asked: number,
  streams: readonly KnownStream[],
  market?: string,
): UsageError {
  const of = market === undefined ? '' : ` of ${market}`;
  const advice = `collected${of} are ${listed(streams)} (seconds)`;
  return new UsageError(`--${OPTION_OF[kind] ?? 'kind'}`, String(asked), advice);
}

function listed(streams: readonly KnownStream[]): string {
  return [...new Set(streams.map(({ variant }) => variant))].sort((a, b) => a - b).join(', ');
}

/** What was not said is as far as coverage reaches. */
function spanOf(
  { oldestCoveredMs, newestCoveredMs }: KnownStream,
  bounds: Partial<Span>,
  nowMs: number,
  kind: SeriesKind,
  market: string,
): Span {
  const fromMs = bounds.fromMs ?? oldestCoveredMs;
  const endMs = bounds.toMs ?? newestCoveredMs;
  if (fromMs === null || endMs === null) {
    throw new UsageError('--market', market, `nothing of its ${kind} is covered yet; name a span`);
  }
  // Asked for from a moment on that coverage has not come to: all of it is missing.
  const toMs = bounds.toMs === undefined && endMs <= fromMs ? nowMs : endMs;
  if (toMs > fromMs) return { fromMs, toMs };
  throw new UsageError(
    '--to',
    formatMoment(toMs),
    `${kind} of ${market} are covered from ${formatMoment(fromMs)} on; name --from as well`,
  );
}
