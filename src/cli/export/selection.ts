import { InvalidArgumentError } from 'commander';
import type { ExportPart } from '../../archive/export/export.js';
import { FORMATS } from '../../archive/export/manifest.js';
import { marketsOf, selectMarkets } from '../../console/api/selection.js';
import { intervalText, parseDuration } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import { formatInstant } from '../../kernel/timestamp.js';
import { isPartOfHistory, type KnownStream, startText } from '../../model/explain.js';
import { nameMeant, SERIES_KINDS, type SeriesKind, tableOfKind } from '../../model/kinds.js';
import { streamsOf } from '../../model/series.js';
import { millisSql, type Store, timestampSql } from '../../store/index.js';
import { flag, ofWords, option, required, type Values } from '../command.js';
import { UsageError } from '../failure.js';
import { streamText } from '../gaps.js';
import { CLAMP, MARKETS, oneOf, SPAN, type Typed, wordArgument } from '../options.js';
import { countOf } from '../output.js';
import { selectSpan } from '../selection.js';

/** @throws InvalidArgumentError */
const exportedKindArgument = ofWords(SERIES_KINDS, (word: string): SeriesKind => {
  return nameMeant(word, SERIES_KINDS) ?? oneOf(word, 'kind', SERIES_KINDS);
});

/** A length as whole seconds: plain seconds, or a duration. */
function lengthArgument(text: string): Typed<number> {
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : (parseDuration(text) ?? 0) / 1000;
  if (Number.isInteger(seconds) && seconds >= 1) return { value: seconds, text };
  throw new InvalidArgumentError('Write a length such as 1m, 1h or 1d.');
}

/** The options of an export. */
export const EXPORT_OPTIONS = {
  kind: required('--kind <kind>', 'what to write', exportedKindArgument),
  market: MARKETS,
  interval: option('--interval <length>', 'length of candles, such as 1m or 1h', lengthArgument),
  period: option('--period <length>', 'length of what states sum up, such as 1d', lengthArgument),
  ...SPAN,
  clamp: CLAMP,
  format: option(
    '--format <format>',
    'form of the file; default: as it ends, csv where it has no ending',
    wordArgument('format', FORMATS),
  ),
  out: option('-o, --out <file>', 'where to; - is standard output', undefined, '-'),
  manifest: option('--manifest <file>', 'where the manifest goes (default: beside the file)'),
  allowGaps: flag('--allow-gaps', 'write what there is of a time range with gaps'),
  sinceLast: flag('--since-last', 'write what was stored since the last export to this file'),
  force: flag('--force', 'replace files that are there'),
};
export type ExportSelection = Values<typeof EXPORT_OPTIONS>;

const OPTION_OF: Readonly<Partial<Record<SeriesKind, 'interval' | 'period'>>> = {
  candles: 'interval',
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
  const isNamed = options.market !== undefined;
  const markets = selectMarkets(options.market, marketsOf(streams), '--market').flatMap(
    ({ market, marketId }) => {
      const own = ofKind.filter((one) => one.marketId === marketId);
      if (isNamed && own.length === 0) throw nothing(options.kind, market);
      return own.length === 0 ? [] : [{ market, marketId, own }];
    },
  );
  if (markets.length === 0) throw nothing(options.kind, options.market?.[0] ?? 'any market');
  const all = markets.flatMap(({ own }) => own);
  const variantS = chooseVariant(options, all);
  const parts: ExportPart[] = [];
  for (const { market, marketId, own } of markets) {
    const stream = own.find(({ variant }) => variant === variantS);
    if (stream === undefined) {
      if (!isNamed) continue;
      throw noSuchLength(options, own, market);
    }
    const within = options.clamp ? await clamped(bounds, stream, store) : bounds;
    const span = spanOf(stream, within, nowMs);
    if (span === undefined) throw nothingYet(options, stream, own, market);
    if (span.toMs <= span.fromMs) {
      const begins = `${options.kind} of ${market} are covered from ${formatInstant(span.fromMs)} on`;
      const to = options.to?.text ?? formatInstant(span.toMs);
      throw new UsageError('--to', to, `${begins}; name --from as well`);
    }
    const place = { market, marketId, span };
    const mismatches = await mismatchNotes(store, place, options.kind, variantS);
    const notes = [...startNotes(stream, span, bounds, nowMs), ...mismatches];
    parts.push({ ...place, stream, notes });
  }
  return { variantS, parts };
}

function nothing(kind: SeriesKind, market: string): UsageError {
  const advice = `the archive has none of ${market}; "tapekeep status" lists what it holds`;
  return new UsageError('--kind', kind, advice);
}

/** @throws UsageError when there are several and none was named, or one where there are none */
function chooseVariant(options: ExportSelection, all: readonly KnownStream[]): number {
  const option = OPTION_OF[options.kind];
  for (const one of ['interval', 'period'] as const) {
    const given = options[one];
    if (given === undefined || one === option) continue;
    const owner = one === 'interval' ? 'candles' : 'states';
    throw new UsageError(`--${one}`, given.text, `only ${owner} have one`);
  }
  if (option === undefined) return 0;
  const asked = options[option];
  const lengths = new Set(all.map(({ variant }) => variant));
  if (asked !== undefined) {
    if (!lengths.has(asked.value)) throw noSuchLength(options, all);
    return asked.value;
  }
  const [only] = lengths;
  if (lengths.size !== 1 || only === undefined) {
    throw new UsageError(`--${option}`, undefined, `name one of those collected: ${listed(all)}`);
  }
  return only;
}

function noSuchLength(
  options: ExportSelection,
  streams: readonly KnownStream[],
  market?: string,
): UsageError {
  const of = market === undefined ? '' : ` of ${market}`;
  const advice = `collected${of} are ${listed(streams)}`;
  const option = OPTION_OF[options.kind] ?? 'interval';
  return new UsageError(`--${option}`, options[option]?.text, advice);
}

function listed(streams: readonly KnownStream[]): string {
  const lengths = [...new Set(streams.map(({ variant }) => variant))].sort((a, b) => a - b);
  return lengths.map(intervalText).join(', ');
}

/** Where coverage begins and ends within a span. */
const COVERED_WITHIN = `
  SELECT ${millisSql('min(greatest(lower(c.span), lower(asked.span)))')} AS "fromMs",
         ${millisSql('max(least(upper(c.span), upper(asked.span)))')} AS "toMs"
  FROM coverage c, (
    SELECT tstzrange(${timestampSql('$3')}, ${timestampSql('$4')}) AS span) asked
  WHERE c.market_id = $1 AND c.stream_id = $2 AND c.span && asked.span`;

/** The bounds, moved in to coverage; as they are where none of it lies between them. */
async function clamped(
  bounds: Partial<Span>,
  { marketId, streamId }: KnownStream,
  store: Store,
): Promise<Partial<Span>> {
  const { fromMs = null, toMs: endMs = null } = bounds;
  const [found] = await store.query<{ fromMs: number | null; toMs: number | null }>(
    COVERED_WITHIN,
    [marketId, streamId, fromMs, endMs],
  );
  if (typeof found?.fromMs !== 'number' || typeof found.toMs !== 'number') return bounds;
  return { fromMs: found.fromMs, toMs: found.toMs };
}

/** What was not said is as far as coverage reaches; undefined where there is none. */
function spanOf(
  { oldestCoveredMs, newestCoveredMs }: KnownStream,
  bounds: Partial<Span>,
  nowMs: number,
): Span | undefined {
  const fromMs = bounds.fromMs ?? oldestCoveredMs;
  const endMs = bounds.toMs ?? newestCoveredMs;
  if (fromMs === null || endMs === null) return undefined;
  // Asked for from a time on that coverage has not reached: all of it is missing.
  return { fromMs, toMs: bounds.toMs === undefined && endMs <= fromMs ? nowMs : endMs };
}

/** Slots that a note counts at most. */
const MISMATCHES_MAX = 1000;

/** What is whole need not be right: candles or trades are wrong where they contradict each other. */
async function mismatchNotes(
  store: Pick<Store, 'checks'>,
  { market, marketId, span }: Pick<ExportPart, 'market' | 'marketId' | 'span'>,
  kind: SeriesKind,
  variantS: number,
): Promise<readonly string[]> {
  if (kind !== 'trades' && kind !== 'candles') return [];
  const all = await store.checks.mismatches({ marketId, span }, MISMATCHES_MAX);
  const found = all.filter(({ intervalS }) => kind === 'trades' || intervalS === variantS);
  if (found.length === 0) return [];
  const slots = `${found.length < MISMATCHES_MAX ? '' : 'at least '}${countOf(found.length, 'slot')}`;
  return [
    `Candles and trades of ${market} contradict each other in ${slots} of this time range: "tapekeep verify" names them.`,
  ];
}

/** A file that begins where its stream does, and was to begin earlier, may lack what the exchange has. */
function startNotes(
  stream: KnownStream,
  { fromMs }: Span,
  { fromMs: askedMs = Number.NEGATIVE_INFINITY }: Partial<Span>,
  nowMs: number,
): readonly string[] {
  const isCut = askedMs < fromMs && fromMs === stream.oldestCoveredMs;
  return isCut && isPartOfHistory(stream)
    ? [`${streamText(stream)}: ${startText(stream, nowMs)}.`]
    : [];
}

/** Nothing of a stream is covered: what there is instead. */
function nothingYet(
  options: ExportSelection,
  { variant }: KnownStream,
  all: readonly KnownStream[],
  market: string,
): UsageError {
  const { kind } = options;
  const option = OPTION_OF[kind];
  if (option === undefined) {
    return new UsageError('--kind', kind, `none of ${market} are collected yet`);
  }
  const there = all.filter(({ newestCoveredMs }) => newestCoveredMs !== null);
  const others = there.length === 0 ? '' : `; there are some of ${listed(there)}`;
  return new UsageError(
    `--${option}`,
    options[option]?.text ?? intervalText(variant),
    `no ${kind.slice(0, -1)} of ${intervalText(variant)} of ${market} is complete yet${others}`,
  );
}
