import { isDate } from 'node:util/types';
import { DAY_MS, intervalText, SECOND_US } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import { isoUs } from '../../kernel/timestamp.js';
import type { KnownStream } from '../../model/explain.js';
import { type MergedKind, type SeriesKind, tableOfKind } from '../../model/kinds.js';
import { streamsOf } from '../../model/series.js';
import type { Store } from '../../store/index.js';
import { ArchiveError, BadMomentError } from '../errors.js';
import { millisOf } from '../segments.js';
import {
  type CoverageQuery,
  EVENT_KINDS,
  type EventOrder,
  type EventQuery,
  type GapPolicy,
  type Moment,
  type SpanQuery,
} from './event.js';

/** A market as the archive knows it. */
export interface KnownMarket {
  readonly market: string;
  readonly marketId: number;
}

/** A half-open span of events, UNIX microseconds. */
interface MicrosSpan {
  readonly fromUs: number;
  readonly toUs: number;
}

/** Content of one source of events: a kind, of markets in the order of their names. */
export interface EventSlice extends MicrosSpan {
  readonly kind: MergedKind;
  /** Interval of candles or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  readonly markets: readonly KnownMarket[];
}

/** How much later than the time of its row an event is: candles are known when they close. */
export function shiftUs({ kind, variantS }: Pick<EventSlice, 'kind' | 'variantS'>): number {
  return kind === 'candles' || kind === 'candle_revisions' ? variantS * SECOND_US : 0;
}

/** A stream that covers some of what was asked for. */
export interface PlannedStream {
  readonly stream: KnownStream;
  readonly kind: SeriesKind;
  readonly variantS: number;
  /** Span of the rows' own time. */
  readonly span: Span;
  /** The end of the events, UNIX microseconds. */
  readonly untilUs: number;
}

/** Time beyond the present of which there may be rows: the longest candles close within it. */
const BEYOND_MS = 32 * DAY_MS;

/** A question that can be answered: what is read, and what has to be complete for it. */
export interface EventPlan {
  readonly slices: readonly EventSlice[];
  readonly streams: readonly PlannedStream[];
  readonly order: EventOrder;
  readonly gaps: GapPolicy;
}

const NAMED_MAX = 20;

function listed(names: Iterable<string | number>): string {
  const all = [...new Set(names)];
  const more = all.length > NAMED_MAX ? ` and ${all.length - NAMED_MAX} more` : '';
  return `${all.slice(0, NAMED_MAX).join(', ')}${more}`;
}

/** @throws ArchiveError `bad_moment`, `bad_span` */
export function spanOf({ from, to }: Pick<SpanQuery, 'from' | 'to'>): MicrosSpan {
  const [fromUs, toUs] = [microsOf(from), microsOf(to)];
  if (fromUs < toUs) return { fromUs, toUs };
  const what = fromUs === toUs ? 'is empty' : 'ends before it begins';
  throw new ArchiveError(
    'bad_span',
    `the time range from ${isoUs(fromUs)} to ${isoUs(toUs)} ${what}: "to" is exclusive`,
  );
}

/**
 * The markets of a question.
 *
 * @param known by name
 * @throws ArchiveError `unknown_market`, which lists the known markets
 */
export function marketsOf(
  asked: readonly string[] | undefined,
  known: readonly KnownMarket[],
): readonly KnownMarket[] {
  if (asked === undefined) return known;
  if (asked.length === 0) {
    throw new ArchiveError('bad_option', 'markets is empty: name some, or leave it out for all');
  }
  const unknown = asked.find((name) => !known.some(({ market }) => market === name));
  if (unknown === undefined) return known.filter(({ market }) => asked.includes(market));
  const has = known.length === 0 ? 'no market yet' : listed(known.map(({ market }) => market));
  throw new ArchiveError('unknown_market', `there is no market ${unknown}; the archive has ${has}`);
}

/** @throws ArchiveError `unknown_kind` */
function kindsOf(asked: readonly string[] | undefined): readonly SeriesKind[] {
  if (asked === undefined) return EVENT_KINDS;
  for (const kind of asked) {
    if (EVENT_KINDS.some((one) => one === kind)) continue;
    const text = `there is no kind ${kind}; kinds are ${EVENT_KINDS.join(', ')}`;
    throw new ArchiveError('unknown_kind', text);
  }
  if (asked.length === 0) {
    throw new ArchiveError('bad_option', 'kinds is empty: name some, or leave it out for all');
  }
  return EVENT_KINDS.filter((kind) => asked.includes(kind));
}

/** @throws ArchiveError `bad_option` */
function oneOf<T extends string>(
  name: string,
  given: T | undefined,
  allowed: readonly [T, ...T[]],
): T {
  if (given === undefined) return allowed[0];
  if (allowed.includes(given)) return given;
  throw new ArchiveError('bad_option', `${name} is "${given}": choose of ${allowed.join(', ')}`);
}

/** Streams of one kind that cover a market. */
function marketStreams(
  streams: readonly KnownStream[],
  kind: SeriesKind,
  marketId: number,
): KnownStream[] {
  return streams.filter(
    (one) => one.kind === streamsOf(tableOfKind(kind))[0] && one.marketId === marketId,
  );
}

/**
 * The one stream of a market and kind.
 *
 * @throws ArchiveError `unknown_market`, `unknown_kind`, `not_collected`; `bad_option` where there are
 * several lengths and none was named
 */
export function findStream(
  { market, kind, variantS }: Pick<CoverageQuery, 'market' | 'kind' | 'variantS'>,
  streams: readonly KnownStream[],
  known: readonly KnownMarket[],
): KnownStream {
  const variants = variantS === undefined ? {} : { intervalsS: [variantS], periodsS: [variantS] };
  const query = { markets: [market], kinds: kindsOf([kind]), ...variants };
  const asked = marketsOf(query.markets, known);
  const found = asked.flatMap((one) => chooseStreams(query, kind, one, streams));
  const [stream] = found;
  if (stream === undefined) {
    throw new ArchiveError('not_collected', `no ${kind} of ${market} are collected`);
  }
  if (found.length === 1) return stream;
  const has = listed(found.map(({ variant }) => variant).sort((a, b) => a - b));
  throw new ArchiveError(
    'bad_option',
    `name one length with variantS; ${market} has ${kind} of ${has} seconds`,
  );
}

/** Choice of streams. */
type Choice = Pick<EventQuery, 'markets' | 'kinds' | 'intervalsS' | 'periodsS'>;

/** The lengths of candles or states that are asked for; undefined for all. */
function variantsOf(query: Choice, kind: SeriesKind): readonly number[] | undefined {
  if (kind === 'candles') return query.intervalsS;
  return kind === 'states' ? query.periodsS : undefined;
}

/**
 * Finds what a question is about.
 *
 * @throws ArchiveError naming what the archive has instead
 */
export function planEvents(
  query: EventQuery & Pick<SpanQuery, 'to'>,
  streams: readonly KnownStream[],
  known: readonly KnownMarket[],
): EventPlan {
  const plan = planSlices(query, streams, known);
  checkExtent(plan.streams, spanOf(query), streams);
  return plan;
}

/**
 * Plans all that is stored from a time on. What is expected to be complete ends where coverage does.
 *
 * @throws ArchiveError naming what the archive has instead
 */
export function planFollowing(
  query: EventQuery,
  streams: readonly KnownStream[],
  known: readonly KnownMarket[],
  nowMs: number,
): EventPlan {
  const newestMs = streams.map(({ newestCoveredMs }) => newestCoveredMs ?? 0);
  const toMs = [microsOf(query.from) / 1000, nowMs, ...newestMs].reduce((a, b) => Math.max(a, b));
  // Clocks differ, and candles are known an interval after their time.
  const to = Math.ceil(toMs + BEYOND_MS) * 1000;
  const plan = planSlices({ ...query, to }, streams, known);
  return { ...plan, streams: plan.streams.map(untilCovered) };
}

function untilCovered(planned: PlannedStream): PlannedStream {
  const { newestCoveredMs } = planned.stream;
  const { fromMs } = planned.span;
  const toMs = Math.max(fromMs, Math.min(planned.span.toMs, newestCoveredMs ?? fromMs));
  return endingAt(planned, toMs);
}

/** As much of a planned stream as ends at a time of its rows. */
export function endingAt(planned: PlannedStream, toMs: number): PlannedStream {
  const span = { fromMs: planned.span.fromMs, toMs };
  return { ...planned, span, untilUs: toMs * 1000 + shiftUs(planned) };
}

function planSlices(
  query: EventQuery & Pick<SpanQuery, 'to'>,
  streams: readonly KnownStream[],
  known: readonly KnownMarket[],
): EventPlan {
  const order = oneOf('order', query.order, ['happened', 'received']);
  const gaps = oneOf('gaps', query.gaps, ['throw', 'mark', 'ignore']);
  const span = spanOf(query);
  const markets = marketsOf(query.markets, known);
  const planned: PlannedStream[] = [];
  const slices: EventSlice[] = [];
  for (const kind of kindsOf(query.kinds)) {
    const chosen = markets.flatMap((one) => chooseStreams(query, kind, one, streams));
    const variants = [...new Set(chosen.map(({ variant }) => variant))];
    for (const variantS of variants.sort((a, b) => a - b)) {
      const own = chosen.filter(({ variant }) => variant === variantS);
      const slice = { kind, variantS, ...span };
      slices.push({ ...slice, markets: own });
      for (const stream of own) {
        const span = expectedSpan(slice);
        planned.push({ stream, kind, variantS, span, untilUs: slice.toUs });
      }
    }
  }
  if (slices.length === 0) {
    const names = listed(markets.map(({ market }) => market));
    throw new ArchiveError(
      'not_collected',
      `nothing of the kinds asked for is collected of ${names}`,
    );
  }
  return { slices, streams: planned, order, gaps };
}

/** @throws ArchiveError `not_collected` when kind or length were named, and the market as well */
function chooseStreams(
  query: Choice,
  kind: SeriesKind,
  { market, marketId }: KnownMarket,
  streams: readonly KnownStream[],
): KnownStream[] {
  const all = marketStreams(streams, kind, marketId);
  const asked = variantsOf(query, kind);
  const chosen = asked === undefined ? all : all.filter((one) => asked.includes(one.variant));
  if (query.markets === undefined) return chosen;
  if (all.length === 0 && query.kinds !== undefined) {
    const has = EVENT_KINDS.filter((one) => marketStreams(streams, one, marketId).length > 0);
    throw new ArchiveError(
      'not_collected',
      `no ${kind} of ${market} are collected; there are ${has.length === 0 ? 'none of any kind' : listed(has)}`,
    );
  }
  const missing = asked?.find((one) => !all.some(({ variant }) => variant === one));
  if (missing !== undefined && all.length > 0) {
    const has = listed(all.map(({ variant }) => variant));
    throw new ArchiveError(
      'not_collected',
      `no ${kind} of ${missing} seconds of ${market} are collected; there are ${has}`,
    );
  }
  return chosen;
}

/** The rows that make the events of a span: candles open on a grid, an interval before they are known. */
function expectedSpan(slice: Omit<EventSlice, 'markets'>) {
  const shift = shiftUs(slice);
  const [fromUs, toUs] = [slice.fromUs - shift, slice.toUs - shift];
  if (shift > 0) {
    const onGrid = (us: number) => (Math.ceil(us / shift) * shift) / 1000;
    return { fromMs: onGrid(fromUs), toMs: onGrid(toUs) };
  }
  return millisOf(fromUs, toUs);
}

/** @throws ArchiveError `span_outside_archive` when nothing of it can be there */
function checkExtent(
  planned: readonly PlannedStream[],
  { fromUs, toUs }: MicrosSpan,
  streams: readonly KnownStream[],
): void {
  let [oldest, newest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { stream, kind, variantS } of planned) {
    const shiftMs = shiftUs({ kind, variantS }) / 1000;
    const { oldestCoveredMs, newestCoveredMs } = stream;
    if (oldestCoveredMs === null || newestCoveredMs === null) continue;
    oldest = Math.min(oldest, oldestCoveredMs + shiftMs);
    newest = Math.max(newest, newestCoveredMs + shiftMs);
  }
  if (oldest * 1000 < toUs && newest * 1000 >= fromUs) return;
  const reaches =
    oldest > newest
      ? nothingYet(planned, streams)
      : `what is collected of it reaches from ${isoUs(oldest * 1000)} to ${isoUs(newest * 1000)}`;
  throw new ArchiveError(
    'span_outside_archive',
    `the archive has nothing from ${isoUs(fromUs)} to ${isoUs(toUs)}: ${reaches}`,
  );
}

/** Nothing of what is asked for is covered: which streams that is, and what there is of the same markets. */
function nothingYet(planned: readonly PlannedStream[], streams: readonly KnownStream[]): string {
  const nameOf = (kind: string, variantS: number) =>
    variantS === 0 ? kind : `${kind} of ${intervalText(variantS)}`;
  const asked = new Set(planned.map(({ kind, variantS }) => nameOf(kind, variantS)));
  const ids = new Set(planned.map(({ stream }) => stream.marketId));
  const there = streams.filter((one) => ids.has(one.marketId) && one.newestCoveredMs !== null);
  const has = new Set(there.map(({ kind, variant }) => nameOf(kind, variant)));
  return `no ${[...asked].join(' and ')} are complete yet; there are ${has.size === 0 ? 'none of any kind' : listed([...has].sort())}`;
}

/** A series that is collected of a market. */
export interface CollectedSeries {
  /** Kind of the series. */
  readonly kind: SeriesKind;
  /** Interval of candles or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** First instant that is covered, UNIX microseconds; null while nothing is. */
  readonly oldestUs: number | null;
  /** End of what is covered, UNIX microseconds; null while nothing is. */
  readonly newestUs: number | null;
}

/** A market, and what the archive has of it. */
export interface MarketContents {
  /** Name of the market. */
  readonly market: string;
  /** Collected streams, by kind and then by length. */
  readonly series: readonly CollectedSeries[];
}

const MARKETS = `
  SELECT name AS market, market_id AS "marketId" FROM market
  ORDER BY name COLLATE "C"`;

/** All markets that the archive ever saw, by name. */
export async function readMarkets(store: Pick<Store, 'query'>): Promise<KnownMarket[]> {
  return await store.query<KnownMarket>(MARKETS);
}

const micros = (ms: number | null) => (ms === null ? null : ms * 1000);

/** All markets with what is collected of each. */
export async function describeMarkets(
  store: Pick<Store, 'query' | 'inspection'>,
): Promise<MarketContents[]> {
  const streams = await store.inspection.streams();
  return (await readMarkets(store)).map(({ market, marketId }) => ({
    market,
    series: EVENT_KINDS.flatMap((kind) =>
      marketStreams(streams, kind, marketId).map((stream) => ({
        kind,
        variantS: stream.variant,
        oldestUs: micros(stream.oldestCoveredMs),
        newestUs: micros(stream.newestCoveredMs),
      })),
    ),
  }));
}

const FORM =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$/;
/** Microseconds of 1973: what is less was meant to be milliseconds or seconds. */
const LEAST_US = 1e14;

/**
 * An instant as whole UNIX microseconds.
 *
 * @throws BadMomentError for text that is no instant, and for numbers that are not microseconds of a
 * year between 1973 and 2255
 */
export function microsOf(time: Moment): number {
  if (typeof time === 'number') {
    if (time < LEAST_US) throw new BadMomentError(String(time));
    return exact(time, String(time));
  }
  if (typeof time !== 'string') {
    // Programs without types may leave it out.
    if (!isDate(time)) throw new BadMomentError(String(time));
    const ms = time.getTime();
    if (Number.isNaN(ms)) throw new BadMomentError('an invalid Date');
    return exact(ms * 1000, time.toISOString());
  }
  const [, day, minutes = '00:00', seconds = '00', fraction = '', zone = 'Z'] =
    FORM.exec(time.trim()) ?? [];
  if (day === undefined) throw new BadMomentError(JSON.stringify(time));
  const offset = zone.length === 3 ? `${zone}:00` : zone;
  const ms = Date.parse(`${day}T${minutes}:${seconds}${offset}`);
  const isDay = new Date(Date.parse(`${day}T00:00Z`)).toJSON()?.slice(0, 10) === day;
  if (Number.isNaN(ms) || !isDay) throw new BadMomentError(JSON.stringify(time));
  return exact(ms * 1000 + Number(fraction.padEnd(6, '0')), time);
}

/** Integers are exact up to the year 2255. */
function exact(us: number, given: string): number {
  if (Number.isSafeInteger(us)) return us;
  throw new BadMomentError(given);
}

/** The Date of UNIX microseconds; what is less than a millisecond is cut off. */
export function dateOf(us: number): Date {
  return new Date(Math.floor(us / 1000));
}
