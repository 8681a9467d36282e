import { MarketList } from '../../collect/markets.js';
import type { Config } from '../../config/schema.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { nearestName } from '../../kernel/nearest.js';
import { floorToMs, type Span } from '../../kernel/span.js';
import type { StreamKind } from '../../model/series.js';
import type { KnownStream, Store } from '../../store/index.js';
import type { ExitCode } from '../exit-codes.js';
import { UsageError } from '../failure.js';
import { assertCollected } from '../fill/collected.js';
import type { FillTask } from '../fill/task.js';
import { type FillCommandOptions, type FillDesk, withFilling } from '../fill/with-filling.js';
import { marketsOf } from '../gaps/gap-selection.js';
import { formatMoment, type Moment, resolveMoment } from '../options/moments.js';
import { selectMarkets } from '../options/selection.js';
import { printable } from '../output/printable.js';

export interface BackfillOptions extends FillCommandOptions {
  readonly market: readonly string[];
  readonly from: Moment;
  /** Default: now. */
  readonly to?: Moment;
  /** `trades` brings the exact times along. */
  readonly kinds?: readonly StreamKind[];
  /** Also tries again what was given up. */
  readonly again?: boolean;
}

const KINDS: readonly StreamKind[] = ['trades', 'kline'];
/** Gaps whose pauses are ended at once. */
const RETRIED_MAX = 10_000;

interface ChosenMarket {
  readonly market: string;
  readonly marketId: number;
}

/**
 * Asks for a span of the past, whatever is collected anyway, and sees to it that it is filled.
 *
 * @throws UsageError for an unknown market and for a span that is none
 */
export async function backfillCommand(options: BackfillOptions): Promise<ExitCode> {
  return await withFilling(options, 'any', async (desk) => {
    const { filling, store, session, say, signal } = desk;
    const knownNowMs = await store.exchangeNowMs();
    // Told before the exchange is asked, where that is possible.
    if (knownNowMs !== null) spanOf(options, Math.floor(knownNowMs));
    const isOwn = await filling.begin();
    signal.throwIfAborted();
    const nowMs = await filling.nowMs();
    const { span, isCut } = spanOf(options, nowMs);
    const kinds = options.kinds ?? KINDS;
    const chosen = await chooseMarkets(desk, options.market, kinds);
    if (isOwn) await openStreams(desk, chosen, kinds);
    const streams = await store.inspection.streams();
    if (isCut)
      say(`--to lies in the future of the exchange; the span ends now, ${formatMoment(nowMs)}.`);
    const tasks = tasksOf(session.config, chosen, kinds, streams, span, nowMs);
    if (tasks.length === 0) {
      return 'Nothing to do: no candle of this time is complete yet.';
    }
    for (const { stream, span: wanted } of tasks) await store.want(stream, wanted);
    await endPauses(store, chosen, span, nowMs, options.again === true);
    if (isOwn) say('No daemon writes to this archive: this program does the work itself.');
    const names = chosen.map(({ market }) => printable(market)).join(', ');
    say(
      `Filling ${formatMoment(span.fromMs)} – ${formatMoment(span.toMs)} of ${names}, ${tasks.length} streams.`,
    );
    return tasks;
  });
}

/** @throws UsageError */
function spanOf({ from, to }: BackfillOptions, nowMs: number): { span: Span; isCut: boolean } {
  const fromMs = floorToMs(resolveMoment(from, nowMs), SECOND_MS);
  const givenToMs = to === undefined ? nowMs : floorToMs(resolveMoment(to, nowMs), SECOND_MS);
  const shown = new Date(fromMs).toISOString();
  if (fromMs >= nowMs) {
    const now = new Date(nowMs).toISOString();
    throw new UsageError('--from', shown, `it lies in the future: the exchange's time is ${now}`);
  }
  if (fromMs >= givenToMs) {
    const end = new Date(givenToMs).toISOString();
    throw new UsageError('--from', shown, `it must be before --to, ${end}`);
  }
  if (fromMs < 0) throw new UsageError('--from', shown, 'it must not be before 1970');
  return { span: { fromMs, toMs: Math.min(givenToMs, nowMs) }, isCut: givenToMs > nowMs };
}

/** @throws UsageError naming the nearest market */
async function chooseMarkets(
  { filling, store, session, signal }: FillDesk,
  names: readonly string[],
  kinds: readonly StreamKind[],
): Promise<ChosenMarket[]> {
  const { own } = filling;
  if (own === undefined) {
    const known = marketsOf(await store.inspection.streams());
    const chosen = selectMarkets(names, known);
    for (const { market } of chosen) assertCollected(session.config, market, kinds);
    return chosen;
  }
  const { exchange, time } = own;
  const telemetry = session.telemetry.collect;
  // A person has named them: they count whatever else is listed.
  const max = Number.POSITIVE_INFINITY;
  const list = new MarketList({ exchange, archive: store, time, telemetry, wanted: [], max });
  await list.refresh(signal);
  return [...new Set(names)].map((market) => {
    const marketId = list.collected.get(market);
    if (marketId !== undefined) return { market, marketId };
    const nearest = nearestName(market, list.collected.keys());
    const advice = nearest === undefined ? '' : ` Did you mean ${printable(nearest)}?`;
    throw new UsageError('--market', market, `the exchange does not list it.${advice}`);
  });
}

/** Makes the streams that the archive does not know yet. */
async function openStreams(
  { filling, session }: FillDesk,
  markets: readonly ChosenMarket[],
  kinds: readonly StreamKind[],
): Promise<void> {
  const { trades, klines } = session.config.streams;
  const isTrades = kinds.includes('trades');
  for (const { market, marketId } of markets) {
    await filling.own?.worker.prepare({
      ...{ market, marketId, trades: isTrades, times: isTrades && trades.exactTimes },
      intervalsS: kinds.includes('kline') ? klines.intervalsS : [],
    });
  }
}

/** One task a stream. Of candles only those are asked for that are final by now. */
function tasksOf(
  { streams: settings }: Config,
  markets: readonly ChosenMarket[],
  kinds: readonly StreamKind[],
  streams: readonly KnownStream[],
  span: Span,
  nowMs: number,
): FillTask[] {
  const { trades, klines } = settings;
  return markets.flatMap(({ market, marketId }) =>
    streams
      .filter((stream) => stream.marketId === marketId)
      .flatMap((stream): FillTask[] => {
        const { kind, variant } = stream;
        if (kind === 'kline') {
          if (!kinds.includes('kline') || !klines.intervalsS.includes(variant)) return [];
          const finalToMs = floorToMs(nowMs - klines.grace, variant * 1000);
          const toMs = Math.min(span.toMs, finalToMs);
          return span.fromMs < toMs ? [{ market, stream, span: { ...span, toMs } }] : [];
        }
        const isWanted = kind === 'trades' || (kind === 'times' && trades.exactTimes);
        return isWanted && kinds.includes('trades') ? [{ market, stream, span }] : [];
      }),
  );
}

async function endPauses(
  store: Store,
  markets: readonly ChosenMarket[],
  span: Span,
  nowMs: number,
  isUnfillableToo: boolean,
): Promise<void> {
  const marketIds = markets.map(({ marketId }) => marketId);
  const kinds = ['trades', 'times', 'kline'] as const;
  const filter = { marketIds, kinds, span, limit: RETRIED_MAX };
  await store.retryGaps(filter, nowMs, isUnfillableToo);
}
