import assert from 'node:assert/strict';
import test from 'node:test';
import { FillReview, type StreamFiller } from '../../../src/collect/review.js';
import type { Span } from '../../../src/kernel/span.js';
import { FakeClock } from '../../support/fake-clock.js';

const span = { fromMs: 0, toMs: 1000 };
const NOTHING = {
  ...{ wanted: [], suspects: [], due: [], candlesInFiles: [] },
  expired: { trades: null, candles: null },
};
const DUE = { attempts: 3, nextAttemptAtMs: null };

class Filler implements StreamFiller {
  readonly calls: string[] = [];
  readonly streamId: number;
  isFailing = false;

  constructor(streamId: number) {
    this.streamId = streamId;
  }

  backfill({ fromMs, toMs }: Span): void {
    this.calls.push(`want ${fromMs} ${toMs}`);
  }

  async invalidate({ fromMs, toMs }: Span): Promise<void> {
    this.calls.push(`doubt ${fromMs} ${toMs}`);
    if (this.isFailing) throw new Error('no database');
  }

  retry({ fromMs, toMs }: Span): void {
    this.calls.push(`retry ${fromMs} ${toMs}`);
  }

  keepFrom(ms: number): void {
    if (Number.isFinite(ms)) this.calls.push(`keep ${ms}`);
  }

  leaveOut(spans: readonly Span[]): void {
    for (const { fromMs, toMs } of spans) this.calls.push(`leave ${fromMs} ${toMs}`);
  }
}

test('each request goes to the collector of its stream, and those of nobody are left alone', async () => {
  const [walker, candles] = [new Filler(1), new Filler(2)];
  const review = new FillReview(new FakeClock());
  const requests = {
    ...NOTHING,
    wanted: [
      { streamId: 1, marketId: 1, span },
      { streamId: 9, marketId: 1, span },
    ],
    suspects: [{ gapId: 5, streamId: 2, span }],
    due: [
      { gapId: 6, streamId: 1, span, ...DUE },
      { gapId: 7, streamId: 9, span, ...DUE },
    ],
  };
  const own = { trades: walker, candles: [candles] };
  const units = [own, { trades: new Filler(3), candles: [] }];
  assert.deepEqual([...(await review.review(requests, units))], [own]);
  assert.deepEqual(walker.calls, ['want 0 1000', 'retry 0 1000']);
  assert.deepEqual(candles.calls, ['doubt 0 1000']);
  assert.equal((await review.review(NOTHING, units)).size, 0);
});

test('a doubt that failed is not repeated at once while the archive asks for it, and later it is', async () => {
  const clock = new FakeClock();
  const [filler, review] = [new Filler(1), new FillReview(clock)];
  const units = [{ trades: filler, candles: [] }];
  const requests = { ...NOTHING, suspects: [{ gapId: 5, streamId: 1, span }] };
  filler.isFailing = true;
  await assert.rejects(review.review(requests, units), /no database/);
  filler.isFailing = false;
  clock.advance(59_000);
  assert.equal((await review.review(requests, units)).size, 0);
  clock.advance(1000);
  await review.review(requests, units);
  assert.equal(filler.calls.length, 2);
});

test('a doubt that was acted upon and is raised again is passed on at once', async () => {
  const [filler, review] = [new Filler(1), new FillReview(new FakeClock())];
  const units = [{ trades: filler, candles: [] }];
  const requests = { ...NOTHING, suspects: [{ gapId: 5, streamId: 1, span }] };
  await review.review(requests, units);
  assert.equal((await review.review(requests, units)).size, 1);
  assert.equal(filler.calls.length, 2);
});

test('one failed doubt does not keep the others from being passed on', async () => {
  const [failing, other] = [new Filler(1), new Filler(2)];
  failing.isFailing = true;
  const requests = {
    ...NOTHING,
    suspects: [
      { gapId: 1, streamId: 1, span },
      { gapId: 2, streamId: 2, span },
    ],
  };
  const units = [failing, other].map((trades) => ({ trades, candles: [] }));
  await assert.rejects(new FillReview(new FakeClock()).review(requests, units), /no database/);
  assert.equal(other.calls.length, 1);
});

test('a gap that is due is passed on once for each try, and at once when somebody asks again', async () => {
  const clock = new FakeClock();
  const [filler, review] = [new Filler(1), new FillReview(clock)];
  const units = [{ trades: filler, candles: [] }];
  const ask = async (attempts: number, nextAttemptAtMs: number | null) => {
    const due = [{ gapId: 5, streamId: 1, span, attempts, nextAttemptAtMs }];
    return (await review.review({ ...NOTHING, due }, units)).size;
  };
  assert.equal(await ask(2, 700), 1);
  assert.equal(await ask(2, 700), 0, 'it has been told');
  assert.equal(await ask(2, null), 1, 'a person has ended the pause');
  assert.equal(await ask(3, null), 1, 'it was tried, and a person asks again');
  clock.advance(60_000);
  assert.equal(await ask(3, null), 1, 'nothing came of it');
  await review.review(NOTHING, units);
  assert.equal(await ask(3, null), 1, 'it was settled, and a person asks again');
  assert.deepEqual(
    filler.calls,
    Array.from({ length: 5 }, () => 'retry 0 1000'),
  );
});

test('what rows are kept and what is in files is said to all collectors of the kind, whatever is asked for', async () => {
  const [walker, candles] = [new Filler(1), new Filler(2)];
  const units = [{ trades: walker, candles: [candles] }];
  const review = new FillReview(new FakeClock());
  const touched = await review.review(
    { ...NOTHING, expired: { trades: 5000, candles: 7000 }, candlesInFiles: [span] },
    units,
  );
  assert.deepEqual(walker.calls, ['keep 5000']);
  assert.deepEqual([candles.calls, touched.size], [['keep 7000', 'leave 0 1000'], 0]);
});
