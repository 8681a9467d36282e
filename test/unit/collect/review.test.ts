import assert from 'node:assert/strict';
import test from 'node:test';
import { FillReview, type HoleFiller } from '../../../src/collect/review.js';
import type { Span } from '../../../src/kernel/span.js';
import { FakeClock } from '../../support/fake-clock.js';

const span = { fromMs: 0, toMs: 1000 };
const NOTHING = { wanted: [], suspects: [], due: [] };

class Filler implements HoleFiller {
  readonly calls: string[] = [];
  readonly streamId: number;
  isFailing = false;

  constructor(streamId: number) {
    this.streamId = streamId;
  }

  want({ fromMs, toMs }: Span): void {
    this.calls.push(`want ${fromMs} ${toMs}`);
  }

  async doubt({ fromMs, toMs }: Span): Promise<void> {
    this.calls.push(`doubt ${fromMs} ${toMs}`);
    if (this.isFailing) throw new Error('no database');
  }

  retry({ fromMs, toMs }: Span): void {
    this.calls.push(`retry ${fromMs} ${toMs}`);
  }
}

test('each request goes to the collector of its stream, and those of nobody are left alone', async () => {
  const [walker, candles] = [new Filler(1), new Filler(2)];
  const review = new FillReview(new FakeClock());
  const requests = {
    wanted: [
      { streamId: 1, span },
      { streamId: 9, span },
    ],
    suspects: [{ gapId: 5, streamId: 2, span }],
    due: [
      { gapId: 6, streamId: 1, span },
      { gapId: 7, streamId: 9, span },
    ],
  };
  const units = [{ walkers: [walker], candles: [candles] }];
  assert.equal(await review.review(requests, units), true);
  assert.deepEqual(walker.calls, ['want 0 1000', 'retry 0 1000']);
  assert.deepEqual(candles.calls, ['doubt 0 1000']);
  assert.equal(await review.review(NOTHING, units), false);
});

test('a doubt that failed is not repeated at once while the archive asks for it, and later it is', async () => {
  const clock = new FakeClock();
  const [filler, review] = [new Filler(1), new FillReview(clock)];
  const units = [{ walkers: [filler], candles: [] }];
  const requests = { ...NOTHING, suspects: [{ gapId: 5, streamId: 1, span }] };
  filler.isFailing = true;
  await assert.rejects(review.review(requests, units), /no database/);
  filler.isFailing = false;
  clock.advance(59_000);
  assert.equal(await review.review(requests, units), false);
  clock.advance(1000);
  await review.review(requests, units);
  assert.equal(filler.calls.length, 2);
});

test('a doubt that was acted upon and is raised again is passed on at once', async () => {
  const [filler, review] = [new Filler(1), new FillReview(new FakeClock())];
  const units = [{ walkers: [filler], candles: [] }];
  const requests = { ...NOTHING, suspects: [{ gapId: 5, streamId: 1, span }] };
  await review.review(requests, units);
  assert.equal(await review.review(requests, units), true);
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
  const units = [{ walkers: [failing, other], candles: [] }];
  await assert.rejects(new FillReview(new FakeClock()).review(requests, units), /no database/);
  assert.equal(other.calls.length, 1);
});
