import { obtain } from '../../../kernel/bounded.js';
import { DAY_MS, intervalText } from '../../../kernel/durations.js';
import { TapekeepError } from '../../../kernel/errors.js';
import { nearestName } from '../../../kernel/nearest.js';
import { floorToMs, type Span } from '../../../kernel/span.js';
import { isoMs, isoSpan } from '../../../kernel/timestamp.js';
import {
  type Condition,
  conditionOf,
  dayCondition,
  sumPieces,
} from '../../../model/day-conditions.js';
import type { KnownStream } from '../../../model/explain.js';
import { SERIES, tableOfStream } from '../../../model/series.js';
import type { Store, StreamName, StreamPiece } from '../../../store/index.js';
import type { Answer, Handlers, Input } from '../endpoints.js';
import { type LeftOut, pieceDocument, readSurroundings } from '../pieces.js';

/** Needs of the answers about days. */
export interface DayDeps {
  /** The archive. @throws TapekeepError while it is not open */
  readonly store: () => Store;
  /** Exchange time. */
  readonly nowMs: () => number;
  readonly leftOut: LeftOut;
}

/** Days of one answer. */
const DAYS_MAX = 1100;
const YEAR_DAYS = 365;
/** Pieces that a day lists; its sums count all. */
const PIECES_MAX = 2000;

const LETTERS = {
  available: 'a',
  degraded: 'd',
  pending: 'p',
  missing: 'm',
} as const satisfies Readonly<Record<Condition, string>>;

const dateOf = (ms: number) => isoMs(ms).slice(0, 10);
const refused = (message: string) => new TapekeepError('usage', message);

/** Answers about the conditions of days. */
export function dayHandlers(deps: DayDeps): Pick<Handlers, 'days' | 'day'> {
  return {
    days: async (input, signal) => await daysOf(deps, input, signal),
    day: async (input, signal) => await dayOf(deps, input, signal),
  };
}

async function daysOf(
  { store: open, nowMs: now }: DayDeps,
  { kind, variant: asked, market, search, limit, offset, ...bounds }: Input<'days'>,
  signal: AbortSignal,
): Promise<Answer<'days'>> {
  const { inspection } = open();
  const nowMs = now();
  const { fromMs, count } = daysAsked(bounds, nowMs);
  const all = await inspection.streamNames([kind]);
  const variant = asked ?? Math.min(...all.map((one) => one.variant));
  const text = search?.toLowerCase();
  const meant = all.filter(
    (one) =>
      one.variant === variant &&
      (market?.includes(one.market) ?? true) &&
      (text === undefined || one.market.toLowerCase().includes(text)),
  );
  const shown = meant.slice(offset, offset + limit);
  signal.throwIfAborted();
  const span = { fromMs, toMs: fromMs + count * DAY_MS };
  const choice = { marketIds: shown.map(({ marketId }) => marketId), kind, variant };
  const pieces = shown.length === 0 ? [] : await inspection.streamPieces(choice, span, nowMs);
  const own = byStream(pieces);
  return {
    ...{ kind, from: dateOf(fromMs), days: count, total: meant.length },
    rows: shown.map((stream) =>
      rowOf(stream, own.get(stream.streamId) ?? [], fromMs, count, nowMs),
    ),
  };
}

/** @throws TapekeepError for days in the wrong order, or too many of them */
function daysAsked({ from, to }: Pick<Input<'days'>, 'from' | 'to'>, nowMs: number) {
  const lastMs = to === undefined ? floorToMs(nowMs, DAY_MS) : Date.parse(to);
  const fromMs = from === undefined ? lastMs - (YEAR_DAYS - 1) * DAY_MS : Date.parse(from);
  const count = (lastMs - fromMs) / DAY_MS + 1;
  if (count >= 1 && count <= DAYS_MAX) return { fromMs, count };
  throw refused(
    count < 1
      ? `from ${dateOf(fromMs)} is after to ${dateOf(lastMs)}: write the earlier day first`
      : `${count} days were asked for, at most ${DAYS_MAX} are answered: ask for fewer at a time`,
  );
}

function byStream(pieces: readonly StreamPiece[]): Map<number, StreamPiece[]> {
  const found = new Map<number, StreamPiece[]>();
  for (const one of pieces) obtain(found, one.streamId, () => []).push(one);
  return found;
}

/** Year of one market, as it is drawn. */
function rowOf(
  { market, variant }: StreamName,
  pieces: readonly StreamPiece[],
  fromMs: number,
  count: number,
  nowMs: number,
): Answer<'days'>['rows'][number] {
  const { sums, mismatches } = sumPieces(pieces, fromMs, DAY_MS, count);
  const missing: [number, number][] = [];
  let conditions = '';
  for (const [at, day] of sums.entries()) {
    const hasEnded = fromMs + (at + 1) * DAY_MS <= nowMs;
    const condition = conditionOf(day, mismatches[at] ?? 0, hasEnded);
    conditions += condition === null ? '-' : LETTERS[condition];
    const missingMs = day.openMs + day.unfillableMs;
    if (missingMs > 0) missing.push([at, Math.ceil(missingMs / 1000)]);
  }
  return { market, variant, conditions, missing };
}

async function dayOf(
  { store: open, nowMs: now, leftOut }: DayDeps,
  { market, kind, day, variant }: Input<'day'>,
  signal: AbortSignal,
): Promise<Answer<'day'>> {
  const store = open();
  const { inspection } = store;
  const nowMs = now();
  const name = await streamNamed(store, market, kind, variant);
  const fromMs = Date.parse(day);
  const span = { fromMs, toMs: fromMs + DAY_MS };
  const [stream] = await inspection.streams(name.streamId);
  if (stream === undefined) throw refused(`no ${kind} of ${market} are collected`);
  signal.throwIfAborted();
  const days = await inspection.days({ market, kind }, span, nowMs);
  const known = days.find((one) => one.variant === stream.variant);
  const pieces = await inspection.pieces(stream, span, nowMs);
  const { reasons } = dayCondition(stream, pieces, known?.mismatches ?? 0, fromMs, nowMs);
  const around = await readSurroundings(store, stream, nowMs, leftOut);
  signal.throwIfAborted();
  return {
    ...{ market, kind, variant: stream.variant, day },
    ...{ condition: known?.condition ?? null, reasons: [...reasons] },
    changedAt: known?.changedAtMs == null ? null : isoMs(known.changedAtMs),
    ...{ expectedS: known?.expectedS ?? 0, coveredS: known?.coveredS ?? 0, rows: known?.rows ?? 0 },
    pieces: pieces.slice(0, PIECES_MAX).map((piece) => pieceDocument(stream, piece, around)),
    checks: await checksOf(store, stream, span),
    sessions: (await inspection.sessions(stream, span)).map(sessionDocument),
    commands: commandsOf(stream, span),
  };
}

/** @throws TapekeepError naming the nearest market, or the intervals that there are */
async function streamNamed(
  { inspection }: Store,
  market: string,
  kind: Input<'day'>['kind'],
  variant: number | undefined,
): Promise<StreamName> {
  const ofKind = await inspection.streamNames([kind]);
  const own = ofKind.filter((one) => one.market === market);
  const found = variant === undefined ? own[0] : own.find((one) => one.variant === variant);
  if (found !== undefined) return found;
  if (own.length > 0) {
    const there = own.map((one) => one.variant).join(', ');
    throw refused(`no ${kind} of ${variant} seconds are collected: write one of ${there}`);
  }
  const nearest = nearestName(market, new Set(ofKind.map((one) => one.market)));
  const advice = nearest === undefined ? '/api/v1/markets lists all' : `did you mean ${nearest}?`;
  throw refused(`no ${kind} of a market ${JSON.stringify(market)} are collected; ${advice}`);
}

/** Candles of a day by what holding the trades against them gave. */
async function checksOf(
  { inspection }: Store,
  { marketId, kind, variant }: KnownStream,
  span: Span,
): Promise<Answer<'day'>['checks']> {
  if (kind !== 'trades' && kind !== 'candles') return [];
  const counts = await inspection.checkCounts(span, marketId);
  return counts
    .filter(({ intervalS }) => kind === 'trades' || intervalS === variant)
    .map(({ intervalS, verified, mismatches }) => ({
      ...{ intervalS, verified: Math.floor(verified), mismatches },
      unchecked: Math.max(0, Math.round(DAY_MS / 1000 / intervalS - verified) - mismatches),
    }));
}

function sessionDocument({
  connectedAtMs,
  closedAtMs,
  closeCode,
  reason,
}: Awaited<ReturnType<Store['inspection']['sessions']>>[number]) {
  return {
    from: isoMs(connectedAtMs),
    to: closedAtMs === null ? null : isoMs(closedAtMs),
    what: 'real-time connection',
    reason: closeCode === null ? reason : `${closeCode}${reason ? ` ${reason}` : ''}`,
  };
}

/** Text as a shell takes it: names of markets come from the exchange. */
const quoted = (text: string) =>
  /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

function commandsOf({ market, kind, variant }: KnownStream, span: Span): Answer<'day'>['commands'] {
  const { from, to } = isoSpan(span);
  const name = quoted(market);
  const range = `--from ${from} --to ${to}`;
  const series = SERIES[tableOfStream(kind)];
  const length =
    variant === 0 ? '' : ` --${kind === 'states' ? 'period' : 'interval'} ${intervalText(variant)}`;
  const file = `${market.replaceAll(/[^\w.-]/g, '_')}-${kind}-${from.slice(0, 10)}.parquet`;
  const isChecked = kind === 'trades' || kind === 'candles';
  return [
    ...(series.isFetchable
      ? [
          {
            what: 'Fetch what is missing',
            command: `tapekeep gaps fill --market ${name} --kinds ${kind} ${range}`,
          },
        ]
      : []),
    {
      what: 'Explain this time',
      command: `tapekeep gaps explain ${name} ${kind} ${from}`,
    },
    ...(isChecked
      ? [
          {
            what: 'Compare trades with candles',
            command: `tapekeep verify --market ${name} ${range}`,
          },
        ]
      : []),
    {
      what: 'Write this day to a file',
      command: `tapekeep export --kind ${series.kind} --market ${name}${length} ${range} --allow-gaps --out ${file}`,
    },
  ];
}
