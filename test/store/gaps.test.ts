import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import { normalizeSpans } from '../../src/kernel/span.js';
import type { StreamRef } from '../../src/model/batch.js';
import type { Gap, GapFilter, Store } from '../../src/store/index.js';
import { inSeconds, type ModelGap, ModelStream, spanOf } from '../support/models/model-ledger.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { claim, marketOf, NOON_S } from '../support/postgres/postgres-rows.js';
import fc from '../support/properties.js';
import { worlds } from '../support/seeds.js';

const END_S = 80;
const REASONS = ['head moved', 'exchange failed', 'walk stalled', 'beyond history'] as const;
const ms = (s: number) => (NOON_S + s) * 1_000;

const stretch = fc
  .tuple(fc.integer({ min: 0, max: END_S - 1 }), fc.integer({ min: 1, max: 25 }))
  .map(([fromS, lengthS]) => [fromS, Math.min(END_S, fromS + lengthS)] as const);
const step = fc.oneof(
  fc.record({ kind: fc.constant('cover' as const), at: stretch }),
  fc.record({ kind: fc.constant('want' as const), at: stretch }),
  fc.record({
    kind: fc.constant('record' as const),
    at: stretch,
    state: fc.constantFrom('open', 'filling', 'filled', 'unfillable'),
    reason: fc.constantFrom(...REASONS),
  }),
  fc.record({
    kind: fc.constant('attempt' as const),
    at: stretch,
    state: fc.constantFrom('open', 'unfillable'),
    reason: fc.constantFrom(...REASONS),
  }),
);
const history = fc.record({
  collectFromS: fc.array(fc.option(fc.integer({ min: 0, max: 40 })), {
    minLength: 3,
    maxLength: 3,
  }),
  steps: fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), step), { maxLength: 25 }),
  untilS: fc.integer({ min: 1, max: END_S }),
  window: stretch,
  limit: fc.integer({ min: 1, max: 6 }),
});

/**
 * The newest gap lies below the first covered range of a stream, and what is expected begins out of
 * sight.
 */
const WANTED_LONG_BEFORE = {
  collectFromS: [null, null, null],
  steps: [
    [0, { kind: 'want', at: [1, 2] }],
    [0, { kind: 'cover', at: [10, END_S] }],
    [1, { kind: 'cover', at: [4, 5] }],
    [1, { kind: 'cover', at: [6, 7] }],
    [1, { kind: 'cover', at: [8, END_S] }],
    [2, { kind: 'cover', at: [0, END_S] }],
  ] as [number, { kind: 'want' | 'cover'; at: [number, number] }][],
  untilS: END_S,
  window: [0, 10] as [number, number],
  limit: 1,
};

/** Without coverage, what is missing lies between two spans of which the exchange shows nothing. */
const OPEN_BEFORE_HISTORY = {
  collectFromS: [null, null, null],
  steps: [
    [2, { kind: 'attempt', at: [0, 3], state: 'unfillable', reason: 'beyond history' }],
    [2, { kind: 'want', at: [0, 1] }],
    [2, { kind: 'record', at: [1, 2], state: 'open', reason: 'head moved' }],
  ] as [
    number,
    (
      | { kind: 'want'; at: [number, number] }
      | {
          kind: 'attempt' | 'record';
          at: [number, number];
          state: 'open' | 'unfillable';
          reason: 'beyond history' | 'head moved';
        }
    ),
  ][],
  untilS: 3,
  window: [0, 1] as [number, number],
  limit: 1,
};

let store: Store;
let url: string;
let streams: StreamRef[];

before(async () => {
  ({ store, url } = await openTestStore({ commitLatencyMs: 0 }, 'file'));
  await store.ensureMarkets([marketOf('A_USDT'), marketOf('B_USDT')], 0);
  streams = [
    await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 }),
    await store.ensureStream({ kind: 'candles', marketId: 1, variant: 60 }),
    await store.ensureStream({ kind: 'trades', marketId: 2, variant: 0 }),
  ];
});

async function play(
  index: number,
  model: ModelStream,
  one: typeof step extends fc.Arbitrary<infer T> ? T : never,
) {
  const stream = streams[index];
  assert.ok(stream !== undefined);
  const [fromS, toS] = one.at;
  const span = spanOf(fromS, toS);
  if (one.kind === 'cover') {
    model.cover(fromS, toS);
    await store.commit({ claims: [claim(stream, fromS, toS)] });
  } else if (one.kind === 'want') {
    model.want(fromS, toS);
    await store.want(stream, span);
  } else if (one.kind === 'record') {
    const { state, reason } = one;
    model.remember(fromS, toS, { state, reason, isAttempt: state === 'filling' });
    await store.recordGap({ stream, span, state, reason, atMs: ms(END_S) });
  } else {
    const { state, reason } = one;
    model.remember(fromS, toS, { state, reason, isAttempt: true });
    const attempt = { stream, span, state, reason, atMs: ms(END_S), isAttempt: true };
    await store.recordGap(attempt);
  }
}

type Listed = ModelGap & { readonly streamId: number };

function told(gap: Gap): Listed {
  const { streamId, state, reason, attempts } = gap;
  return { ...inSeconds(gap), streamId, state, reason, attempts };
}

function newestFirst(a: Listed, b: Listed): number {
  return b.toS - a.toS || b.fromS - a.fromS || a.streamId - b.streamId;
}

function modelGaps(models: readonly ModelStream[], fromS: number, untilS: number): Listed[] {
  return models
    .flatMap((model, index) => {
      const streamId = streams[index]?.streamId ?? 0;
      return model.gaps(fromS, untilS).map((gap) => ({ ...gap, streamId }));
    })
    .sort(newestFirst);
}

test('gaps are what a naive ledger of seconds says, in any window and to any limit', async () => {
  await fc.assert(
    fc.asyncProperty(history, async ({ collectFromS, steps, untilS, window, limit }) => {
      await runSql(url, 'TRUNCATE coverage, gap, wanted');
      const models = streams.map(() => new ModelStream());
      for (const [index, model] of models.entries()) {
        const fromS = collectFromS[index] ?? null;
        model.collectFromS = fromS;
        await runSql(
          url,
          'UPDATE stream SET collect_from = to_timestamp($2) WHERE stream_id = $1',
          [streams[index]?.streamId, fromS === null ? null : NOON_S + fromS],
        );
      }
      for (const [index, one] of steps) await play(index, models[index] ?? new ModelStream(), one);

      const all = modelGaps(models, 0, untilS);
      const list = async (filter: GapFilter) =>
        (await store.listGaps({ ...filter, hasLag: true }, ms(untilS))).map(told);
      assert.deepEqual(await list({ limit: 1_000 }), all);
      assert.deepEqual(await list({ limit }), all.slice(0, limit));
      const open = all.filter(({ state }) => state === 'open').slice(0, limit);
      assert.deepEqual(await list({ states: ['open'], limit }), open);
      const horizon = all.filter(({ reason }) => reason === 'beyond history').slice(0, limit);
      assert.deepEqual(await list({ reasons: ['beyond history'], limit }), horizon);
      const cut = modelGaps(models.slice(0, 2), window[0], Math.min(untilS, window[1]));
      const ofMarket = { marketIds: [1], span: spanOf(...window), limit: 1_000 };
      assert.deepEqual(await list(ofMarket), cut);

      for (const [index, model] of models.entries()) {
        const stream = streams[index];
        assert.ok(stream !== undefined);
        const spans = normalizeSpans(
          model.gaps(0, untilS).map((gap) => spanOf(gap.fromS, gap.toS)),
        );
        assert.deepEqual(await store.gaps(stream, ms(untilS)), spans);
        const ranges = await store.coveredRanges(stream, 1_000);
        for (let s = window[0]; s < window[1]; s += 1) {
          const isIn = ranges.some(({ span }) => span.fromMs <= ms(s) && ms(s) < span.toMs);
          assert.equal(isIn, model.isCovered(s));
        }
      }
      const reached = all.flatMap((gap) => {
        const index = streams.findIndex(({ streamId }) => streamId === gap.streamId);
        const model = models[index] ?? new ModelStream();
        const toS = Math.min(gap.toS, countedToS(model, streams[index]?.variant ?? 0, untilS));
        const isBefore = isBeforeHistory(gap, model);
        return gap.fromS < toS ? [{ gap: { ...gap, toS }, isBefore }] : [];
      });
      const withoutLag = await store.listGaps({ limit: 1_000 }, ms(untilS));
      assert.deepEqual(withoutLag.map(told), reached.map(({ gap }) => gap).sort(newestFirst));
      const counted = reached.flatMap(({ gap, isBefore }) => (isBefore ? [] : [gap]));
      assert.deepEqual(sumsOf(await store.gapTotals(ms(untilS))), sumsOf(joined(counted)));
      const known = new Map((await store.statusRows(ms(untilS))).map((row) => [row.streamId, row]));
      for (const [index, model] of models.entries()) {
        const row = known.get(streams[index]?.streamId ?? 0);
        const { coveredS, gapS, unfillableS, openGaps, openS, ...rest } =
          row ?? assert.fail('no such stream');
        const { beforeHistoryS, gapsWithinHistory, neverAskedS } = rest;
        const before = { beforeHistoryS, gapsWithinHistory, neverAskedS };
        const told = { coveredS, gapS, unfillableS, openGaps, openS, ...before };
        assert.deepEqual(told, modelStatus(model, streams[index]?.variant ?? 0, untilS));
      }
    }),
    { numRuns: worlds(60), examples: [[WANTED_LONG_BEFORE], [OPEN_BEFORE_HISTORY]] },
  );
});

/**
 * What is newer than all that is covered or remembered of a stream is lag; where there is neither, the candle
 * that ended less than a minute ago, or not yet.
 */
function countedToS(model: ModelStream, intervalS: number, untilS: number): number {
  const newestS = Array.from({ length: END_S }, (_, s) => s).findLast(
    (s) => model.isCovered(s) || model.isRemembered(s),
  );
  if (newestS !== undefined) return newestS + 1;
  return intervalS === 0 ? END_S : Math.floor((untilS - 60) / intervalS) * intervalS;
}

function coveredSeconds(model: ModelStream): number[] {
  return Array.from({ length: END_S }, (_, s) => s).filter((s) => model.isCovered(s));
}

/** Seconds between covered ones that are neither covered nor a gap. */
function neverAskedS(model: ModelStream, untilS: number): number {
  const [oldestS = untilS, newestS = 0] = [0, -1].map((at) => coveredSeconds(model).at(at));
  const isGap = (s: number) =>
    model.gaps(0, untilS).some(({ fromS, toS }) => fromS <= s && s < toS);
  return Array.from({ length: untilS }, (_, s) => s).filter(
    (s) => s > oldestS && s < newestS && !model.isCovered(s) && !isGap(s),
  ).length;
}

function isBeforeHistory(
  { reason, fromS }: Pick<ModelGap, 'reason' | 'fromS'>,
  model: ModelStream,
) {
  return reason === 'beyond history' && fromS < (coveredSeconds(model)[0] ?? END_S);
}

/** What the status says of a stream. */
function modelStatus(model: ModelStream, intervalS: number, untilS: number) {
  const isBefore = (gap: ModelGap) => isBeforeHistory(gap, model);
  const gaps = model.gaps(0, Math.min(untilS, countedToS(model, intervalS, untilS)));
  const open = gaps.filter((gap) => gap.state !== 'unfillable' && !isBefore(gap));
  const lengthS = (parts: readonly ModelGap[]) =>
    parts.reduce((sum, { fromS, toS }) => sum + toS - fromS, 0);
  const count = (parts: readonly ModelGap[]) =>
    normalizeSpans(parts.map(({ fromS, toS }) => spanOf(fromS, toS))).length;
  return {
    coveredS: coveredSeconds(model).length,
    beforeHistoryS: lengthS(gaps.filter(isBefore)),
    neverAskedS: neverAskedS(model, untilS),
    gapsWithinHistory: count(gaps.filter((gap) => !isBefore(gap))),
    gapS: lengthS(gaps),
    unfillableS: lengthS(gaps.filter((gap) => gap.state === 'unfillable' && !isBefore(gap))),
    openGaps: count(open),
    openS: lengthS(open),
  };
}

interface Sum {
  readonly streamId: number;
  readonly state: string;
  readonly reason: string;
  readonly count: number;
  readonly lengthMs: number;
  readonly oldestMs: number;
}

function sumsOf(sums: readonly Sum[]): Sum[] {
  return sums
    .map(({ streamId, state, reason, count, lengthMs, oldestMs }) => {
      return { streamId, state, reason, count, lengthMs, oldestMs };
    })
    .sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
}

/** Totals of listed gaps; those that touch count as one. */
function joined(gaps: readonly Listed[]): Sum[] {
  const groups = new Map<string, Listed[]>();
  for (const gap of gaps) {
    const state = gap.state === 'unfillable' ? gap.state : 'open';
    const key = JSON.stringify([gap.streamId, state, gap.reason]);
    groups.set(key, [...(groups.get(key) ?? []), gap]);
  }
  return [...groups].map(([key, members]) => {
    const [streamId, state, reason] = JSON.parse(key) as [number, string, string];
    const spans = normalizeSpans(members.map(({ fromS, toS }) => spanOf(fromS, toS)));
    const lengthMs = spans.reduce((sum, span) => sum + span.toMs - span.fromMs, 0);
    return {
      streamId,
      state,
      reason,
      count: spans.length,
      lengthMs,
      oldestMs: spans[0]?.fromMs ?? 0,
    };
  });
}

test('a gap that reaches far back is told whole, however few are asked for', async () => {
  await runSql(url, 'TRUNCATE coverage, gap, wanted; UPDATE stream SET collect_from = NULL');
  const [quiet, , busy] = streams;
  assert.ok(quiet !== undefined && busy !== undefined);
  const busyClaims = Array.from({ length: 12 }, (_, n) => claim(busy, 20 + 3 * n, 22 + 3 * n));
  await store.commit({ claims: [claim(quiet, 0, 5), claim(quiet, 60, END_S), ...busyClaims] });
  const [lag, ...gaps] = (await store.listGaps({ limit: 3, hasLag: true }, ms(END_S))).map(told);
  assert.deepEqual([lag?.streamId, lag?.fromS, lag?.toS], [busy.streamId, 55, END_S]);
  assert.deepEqual(
    gaps.map(({ streamId, fromS, toS }) => [streamId, fromS, toS]),
    [
      [quiet.streamId, 5, 60],
      [busy.streamId, 52, 53],
    ],
  );
});
