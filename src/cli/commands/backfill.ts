import { partitionSpans } from '../../archive/sealing/plan.js';
import { MarketList } from '../../collect/markets.js';
import type { Config } from '../../config/schema.js';
import { expiredOf } from '../../console/api/gaps.js';
import { marketsOf, type NamedMarket, selectMarkets } from '../../console/api/selection.js';
import { expiredText } from '../../console/status-document.js';
import { obtain } from '../../kernel/bounded.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { type Instant, refuseEmptySpan, resolveInstant } from '../../kernel/instants.js';
import { nearestName } from '../../kernel/nearest.js';
import { floorToMs, isEmptySpan, normalizeSpans, overlapOf, type Span } from '../../kernel/span.js';
import { formatInstant, formatSpan } from '../../kernel/timestamp.js';
import { CandleGrid } from '../../model/candle-grid.js';
import type { KnownStream, Piece } from '../../model/explain.js';
import { type StreamKind, seriesOf, tableOfStream } from '../../model/series.js';
import type { Store } from '../../store/index.js';
import { command, flag, option, required } from '../command.js';
import { UsageError } from '../failure.js';
import { type Filling, filling } from '../fill/filling.js';
import { assertCollected, fill } from '../fill/outcome.js';
import { restoreAdvice } from '../life.js';
import {
  FILLED_KINDS,
  fetchedKindsArgument,
  gather,
  instantArgument,
  JSON_DOCUMENT,
} from '../options.js';
import { countOf, printable } from '../output.js';

type StreamTask = KnownStream & { readonly span: Span };

/** Gaps whose pauses are ended at once. */
const RETRIED_MAX = 10_000;

/** Asks for a span of the past, whatever is collected anyway, and sees to it that it is filled. */
export default command({
  options: {
    market: required('-m, --market <name>', 'the market; may be repeated', gather),
    from: required('--from <time>', 'begin, or this long back, such as 7d', instantArgument),
    to: option('--to <time>', 'end (default: now)', instantArgument),
    kinds: option('--kind, --kinds <list>', 'only this kind (default: both)', fetchedKindsArgument),
    again: flag('--again', 'also retry unfillable gaps'),
    json: JSON_DOCUMENT,
  },
  help: `
  tapekeep backfill --market BTC_USDT --from 2026-01-01 --to 2026-02-01
  tapekeep backfill --market BTC_USDT --market ETH_USDT --from 30d --kinds candles

A running daemon does the work; without one this command does. Ctrl-C stops it, and the same command
continues. Exit code 0: all of the range is covered. Exit code 7: some is not, with the reason.`,
  needs: filling('any'),
  async run(filling, { market, from, to, kinds = FILLED_KINDS, again, json }) {
    const { store, session, signal } = filling;
    const knownNowMs = await store.exchangeNowMs();
    // Reported before the exchange is asked, where that is possible.
    if (knownNowMs !== null) spanOf({ from, to }, Math.floor(knownNowMs));
    const isOwn = await filling.begin();
    signal.throwIfAborted();
    const nowMs = await filling.nowMs();
    const { span, isCut } = spanOf({ from, to }, nowMs);
    const chosen = await chooseMarkets(filling, market, kinds);
    const wanted = wantedOf(session.config, kinds);
    // Makes the streams that the archive does not know yet.
    await filling.open(chosen.flatMap(({ market }) => wanted.map((one) => ({ market, ...one }))));
    const known = await store.inspection.streams();
    const streams = known.filter((one) =>
      wanted.some(({ kind, variant }) => kind === one.kind && variant === one.variant),
    );
    if (isCut)
      filling.say(
        `--to lies in the future of the exchange; the time range ends now, ${formatInstant(nowMs)}.`,
      );
    const tasks = tasksOf(session.config, chosen, streams, span, nowMs);
    if (tasks.length === 0) {
      return await fill(filling, 'Nothing to do: no candle of this time is complete yet.', json);
    }
    await refuseExpired(store, tasks, { from, again, nowMs });
    for (const task of tasks) await store.want(task, task.span);
    const marketIds = chosen.map(({ marketId }) => marketId);
    await store.retryGaps(
      { marketIds, kinds: FILLED_KINDS, span, limit: RETRIED_MAX },
      nowMs,
      again,
    );
    if (isOwn) filling.say('No daemon writes to this archive: this program does the work itself.');
    const names = chosen.map(({ market }) => printable(market)).join(', ');
    filling.say(`Filling ${formatSpan(span)} of ${names}, ${countOf(tasks.length, 'stream')}.`);
    return await fill(filling, tasks, json);
  },
});

/** @throws UsageError */
function spanOf(
  { from, to }: { readonly from: Instant; readonly to: Instant | undefined },
  nowMs: number,
): { span: Span; isCut: boolean } {
  const fromMs = floorToMs(resolveInstant(from, nowMs), SECOND_MS);
  const givenToMs = to === undefined ? nowMs : floorToMs(resolveInstant(to, nowMs), SECOND_MS);
  const begin = { name: '--from', given: from, atMs: fromMs };
  refuseEmptySpan(begin, { name: "the exchange's time now", given: undefined, atMs: nowMs });
  refuseEmptySpan(begin, { name: '--to', given: to, atMs: givenToMs });
  if (fromMs < 0) throw new UsageError('--from', from.text, 'it must not be before 1970');
  return { span: { fromMs, toMs: Math.min(givenToMs, nowMs) }, isCut: givenToMs > nowMs };
}

/** Parts in files that are named, of each kind. */
const NAMED_MAX = 5;

/** A candle that is open at the begin is asked for as well, and lies where it opened: what is stored shows where that is. */
async function fromOpening(store: Store, { span, ...stream }: StreamTask): Promise<Span> {
  const [top] = await store.coveredRanges(stream, 1);
  const grid = new CandleGrid(stream.variant * SECOND_MS, top?.span.toMs);
  return { ...span, fromMs: grid.floor(span.fromMs) };
}

/**
 * Rows of that time are refused by the archive: fetching them would never end.
 *
 * @param asked `again`: what was given up is asked for, too
 * @throws UsageError
 */
async function refuseExpired(
  store: Store,
  tasks: readonly StreamTask[],
  asked: { readonly from: Instant; readonly again: boolean; readonly nowMs: number },
): Promise<void> {
  const { from, again, nowMs } = asked;
  const away = new Map<StreamKind, Span[]>();
  const expired = new Map(expiredOf(await store.inspection.streams()));
  for (const kind of new Set(tasks.map((task) => task.kind))) {
    const own = tasks.filter((task) => task.kind === kind);
    const keptFromMs = expired.get(kind);
    if (keptFromMs !== undefined && own.some(({ span }) => span.fromMs < keptFromMs)) {
      const why = `${expiredText([kind, keptFromMs])} are expired and not collected again: start there, or later`;
      throw new UsageError('--from', from.text, why);
    }
    const files = await partitionSpans(store, kind, 'archived');
    const lacking: Span[] = [];
    for (const task of own) {
      const wanted = kind === 'candles' ? await fromOpening(store, task) : task.span;
      for (const { state, span: part } of await store.inspection.pieces(task, wanted, nowMs)) {
        if (state === 'covered' || (!again && isSettled(state))) continue;
        lacking.push(...files.map((one) => overlapOf(one, part)));
      }
    }
    const found = lacking.filter((one) => !isEmptySpan(one));
    obtain(away, seriesOf(tableOfStream(kind)).kind, () => []).push(...found);
  }
  const named = [...away].flatMap(([kind, all]) => {
    const spans = normalizeSpans(all);
    const left = spans.length - NAMED_MAX;
    return [
      ...spans
        .slice(0, NAMED_MAX)
        .map((one) => `${kind} of ${formatSpan(one)} (${restoreAdvice(kind, one)})`),
      ...(left > 0 ? [`${countOf(left, 'more part')} of ${kind}`] : []),
    ];
  });
  if (named.length === 0) return;
  const why = `nothing can be added to what is in files and is not whole: ${named.join('; ')}; or leave that time out`;
  throw new UsageError('--from', from.text, why);
}

/** Returns true if a part is fetched only when a person says so. */
const isSettled = (state: Piece['state']) => state === 'unfillable' || state === 'before history';

/** @throws UsageError naming the nearest market */
async function chooseMarkets(
  filling: Filling,
  names: readonly string[],
  kinds: readonly StreamKind[],
): Promise<NamedMarket[]> {
  const { own, session, store } = filling;
  if (own === undefined) {
    const known = await store.inspection.streams();
    const chosen = selectMarkets(names, marketsOf(known), '--market');
    const wanted = wantedOf(session.config, kinds);
    for (const { market, marketId } of chosen) {
      assertCollected(session.config, market, wanted);
      if (known.some((one) => one.marketId === marketId && one.delistedAtMs !== null)) {
        throw new UsageError('--market', market, 'the exchange does not list it now');
      }
    }
    return chosen;
  }
  const { exchange } = own;
  const time = session.exchangeTime;
  const telemetry = session.telemetry.collect;
  // A person has named them: they count whatever else is listed.
  const max = Number.POSITIVE_INFINITY;
  const list = new MarketList({ exchange, archive: store, time, telemetry, wanted: [], max });
  await list.refresh(filling.signal);
  return [...new Set(names)].map((market) => {
    const marketId = list.collected.get(market);
    if (marketId !== undefined) return { market, marketId };
    const nearest = nearestName(market, list.collected.keys());
    const advice = nearest === undefined ? '' : ` Did you mean ${printable(nearest)}?`;
    throw new UsageError('--market', market, `the exchange does not list it.${advice}`);
  });
}

/** The streams that are wanted of each market: trades, and candles of all lengths. */
function wantedOf(
  { streams: { candles } }: Config,
  kinds: readonly StreamKind[],
): Pick<KnownStream, 'kind' | 'variant'>[] {
  return [
    ...(kinds.includes('trades') ? [{ kind: 'trades', variant: 0 } as const] : []),
    ...(kinds.includes('candles') ? candles.intervalsS : []).map(
      (variant) => ({ kind: 'candles', variant }) as const,
    ),
  ];
}

/** One task a stream. Of candles only those are asked for that are final by now. */
function tasksOf(
  { streams: { candles } }: Config,
  markets: readonly NamedMarket[],
  streams: readonly KnownStream[],
  span: Span,
  nowMs: number,
): StreamTask[] {
  return markets.flatMap(({ marketId }) =>
    streams
      .filter((stream) => stream.marketId === marketId)
      .flatMap((stream): StreamTask[] => {
        if (stream.kind !== 'candles') return [{ ...stream, span }];
        const finalToMs = floorToMs(nowMs - candles.grace, stream.variant * 1000);
        const toMs = Math.min(span.toMs, finalToMs);
        return span.fromMs < toMs ? [{ ...stream, span: { ...span, toMs } }] : [];
      }),
  );
}
