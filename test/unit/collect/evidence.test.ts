import assert from 'node:assert/strict';
import test from 'node:test';
import { TradeEvidence } from '../../../src/collect/trades/evidence.js';
import type { PageRow } from '../../../src/model/order.js';
import type { PagedEndpoint } from '../../../src/store/index.js';
import { FakeClock } from '../../support/fake-clock.js';
import { FakeTime } from '../../support/fake-time.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

const START_MS = Date.UTC(2026, 0, 1);
const MARGIN_MS = 2000;
const rowAt = (tid: number, atS: number): PageRow => ({ tid, tradedAtS: START_MS / 1000 + atS });

/** One market, seen by every source; times in seconds after the start. */
class World {
  readonly clock = new FakeClock(START_MS);
  readonly time = new FakeTime(this.clock);
  readonly record = new CollectRecord();
  readonly evidence = new TradeEvidence({
    ...{ market: 'A', time: this.time, clock: this.clock, telemetry: this.record },
  });
  #volume = 1;

  get nowS(): number {
    return (this.clock.wallMs() - START_MS) / 1000;
  }

  look(source: 'states' | 'tickers', isTrade: boolean): void {
    this.#volume += isTrade ? 1 : 0;
    const figures = { last: '10', volume: `${this.#volume}`, deal: `${10 * this.#volume}` };
    this.evidence.looked(source, figures, this.time.nowMs());
  }

  /** Whether a page is claimed as far as its own times prove. */
  page(endpoint: PagedEndpoint, tid: number, atS: number): boolean {
    return this.provenS(endpoint, tid, atS) === this.nowS - MARGIN_MS / 1000;
  }

  provenS(endpoint: PagedEndpoint, tid: number, atS: number): number {
    return this.provenOf(endpoint, rowAt(tid, atS), this.nowS);
  }

  /** Of a page that was asked for at a second; without a newest row it is empty. */
  provenOf(endpoint: PagedEndpoint, newest: PageRow | undefined, sentAtS: number): number {
    const sentAtMs = START_MS + sentAtS * 1000;
    const times = { sentAtMs, dateMs: sentAtMs };
    const provenMs = this.evidence.provenUntilMs(endpoint, times, newest, sentAtMs - MARGIN_MS);
    return (provenMs - START_MS) / 1000;
  }
}

test('a trade that states or tickers made certain, and an old page under a fresh date: stale at the next poll', () => {
  for (const [source, provenS] of [
    ['states', 9],
    ['tickers', 5],
  ] as const) {
    const world = new World();
    assert.equal(world.page('historyResult', 1, -20), true);
    world.look(source, false);
    world.clock.advance(10_000);
    world.look(source, false);
    world.clock.advance(1000);
    world.look(source, true);
    assert.equal(
      world.provenS('historyResult', 1, -20),
      provenS,
      'up to where it may have happened',
    );
    assert.equal(world.record.stale.length, 0, 'nothing is claimed of that time yet');
    world.clock.advance(2100);
    assert.equal(world.page('historyResult', 1, -20), false);
    assert.equal(world.page('historyResult', 1, -20), false);
    const reported = world.record.stale.map((one) => [one.source, one.behindMs, one.isFirst]);
    const behindMs = (provenS + 20) * 1000;
    assert.deepEqual(reported, [
      [source, behindMs, true],
      [source, behindMs, false],
    ]);
    assert.equal(world.page('historyResult', 2, 10), true, 'the trade came after all');
  }
});

test('a window that only loses old trades, and figures that stay, are no sign', () => {
  const world = new World();
  world.evidence.looked('states', { last: '10', volume: '9', deal: '90' }, START_MS);
  world.clock.advance(60_000);
  world.evidence.looked('states', { last: '10', volume: '7', deal: '70' }, world.time.nowMs());
  world.clock.advance(60_000);
  assert.equal(world.page('historyResult', 1, -20), true);
});

test('a market that trades on, and a history that is always ten seconds old: held at every poll', () => {
  const world = new World();
  let held = 0;
  for (let second = 0; second < 1200; second += 1) {
    world.clock.advance(1000);
    world.look('states', true);
    if (second > 20 && !world.page('historyResult', second, world.nowS - 10)) held += 1;
  }
  assert.equal(held, 1179, 'also after longer than any patience, because it brings new trades');
});

test('of two endpoints of history the one that lacks the newest trade of the other is stale', () => {
  for (const [one, other] of [
    ['history', 'historyResult'],
    ['historyResult', 'history'],
  ] as const) {
    const world = new World();
    assert.equal(world.page(one, 5, -3), true);
    const row = { tid: 5, tradedAtS: START_MS / 1000 - 3 };
    assert.deepEqual(
      [world.evidence.isShownBy(one, row), world.evidence.isShownBy(other, row)],
      [false, true],
    );
    world.clock.advance(4000);
    assert.equal(world.page(other, 4, -30), false);
    assert.equal(world.record.stale[0]?.source, 'history');
    assert.equal(world.page(other, 5, -3), true);
    assert.equal(world.page(one, 5, -3), true);
  }
});

test('a trade of the last moments that a page does not show: nothing is claimed beyond the look before it', () => {
  const world = new World();
  world.clock.advance(20_000);
  world.look('states', false);
  world.clock.advance(4000);
  world.look('states', true);
  world.clock.advance(500);
  // It happened between 19 s (states are told a second late) and 24 s; times alone would prove 22.5 s.
  assert.equal(world.provenS('historyResult', 1, 10), 19);
  assert.deepEqual(world.record.stale, [], 'a page of the margin before is no stale one');
  assert.equal(world.provenS('historyResult', 2, 24), 22.5);
});

test('an endpoint that lacks what the other shows of the last moments is claimed up to its own rows', () => {
  const world = new World();
  world.clock.advance(20_000);
  assert.equal(world.provenS('history', 5, 19), 18);
  world.clock.advance(500);
  assert.equal(world.provenS('historyResult', 3, 12), 12);
  assert.deepEqual(world.record.stale, []);
});

test('one row of a wrong time, or an id that only looks newer, holds nothing', () => {
  const world = new World();
  world.page('history', 1_000_000, 72_000);
  world.page('history', 1_000_000, -86_400);
  world.clock.advance(4000);
  assert.equal(world.page('historyResult', 4, -30), true);
});

test('a source that is wrong holds coverage for a bounded time only', () => {
  const world = new World();
  for (const patienceS of [120, 3600]) {
    const source = patienceS === 120 ? 'tickers' : 'states';
    world.look(source, false);
    world.clock.advance(10_000);
    world.look(source, true);
    world.clock.advance(5000);
    assert.equal(world.page('historyResult', 7, -20), false);
    world.clock.advance(patienceS * 1000);
    assert.equal(world.page('historyResult', 7, -20), false);
    world.clock.advance(1);
    assert.equal(world.page('historyResult', 7, -20), true, source);
    assert.equal(world.page('historyResult', 8, world.nowS), true);
    world.clock.advance(60_000);
  }
});

test('of one second each source counts by itself: where one has lost its patience, another holds on', () => {
  const world = new World();
  world.look('tickers', false);
  world.clock.advance(10_000);
  world.look('tickers', true);
  world.evidence.pushed(rowAt(2, -5));
  world.clock.advance(3000);
  assert.equal(world.provenS('historyResult', 1, -20), -20);
  world.clock.advance(121_000);
  assert.equal(world.provenS('historyResult', 1, -20), -20);
});

test('a jump of the clock forgets what was seen before it', () => {
  const world = new World();
  world.look('states', false);
  world.clock.advance(10_000);
  world.look('states', true);
  world.time.jumps = 1;
  world.clock.advance(5000);
  assert.equal(world.page('historyResult', 1, -20), true);
});

test('a pushed trade of the second after that of the newest row ends the claim before it', () => {
  const world = new World();
  world.clock.advance(20_000);
  world.evidence.pushed(rowAt(2, 11));
  assert.equal(world.provenS('historyResult', 1, 10), 11);
  assert.equal(world.provenS('historyResult', 2, 11), 18, 'the page shows it');
});

test('a page is stale from the moment on at which a trade that it lacks was seen, less the margin', () => {
  const world = new World();
  world.clock.advance(20_000);
  world.evidence.pushed(rowAt(2, 19));
  world.clock.advance(1999);
  assert.equal(world.provenS('historyResult', 1, 10), 19);
  world.clock.advance(1);
  assert.equal(world.provenS('historyResult', 1, 10), 10);
});

test('an old page is stale however many trades a second are seen elsewhere', () => {
  for (const perS of [1, 25]) {
    const world = new World();
    for (let trade = 0; trade < 30 * perS; trade += 1) {
      world.clock.advance(1000 / perS);
      world.evidence.pushed(rowAt(100 + trade, Math.floor(world.nowS)));
    }
    assert.equal(world.provenS('historyResult', 1, 5), 5, `${perS} a second`);
    assert.equal(world.record.stale.length, 1);
  }
});

test('states are told a second late at the pace of the exchange, at no pace earlier than that', () => {
  for (const [pace, provenS] of [
    [4, 16],
    [0.5, 19],
  ] as const) {
    const world = new World();
    world.time.pace = pace;
    world.clock.advance(20_000);
    world.look('states', false);
    world.clock.advance(1000);
    world.look('states', true);
    world.clock.advance(1500);
    assert.equal(world.provenS('historyResult', 1, 10), provenS);
  }
});

test('a page without rows is held against what is seen elsewhere, and shows nothing itself', () => {
  const world = new World();
  world.clock.advance(20_000);
  assert.equal(world.provenOf('history', undefined, 20), 18);
  assert.equal(world.evidence.isShownBy('historyResult', rowAt(1, 19)), false);
  world.provenS('historyResult', 1, 19);
  world.clock.advance(4000);
  assert.equal(world.provenOf('history', undefined, 24), -START_MS / 1000, 'nothing at all');
  assert.deepEqual(
    world.record.stale.map(({ behindMs }) => behindMs),
    [null],
  );
});

test('the other endpoint is no measure for a page that was asked for before, nor with a row of the future', () => {
  const world = new World();
  world.clock.advance(20_000);
  world.provenS('history', 5, 20);
  assert.equal(world.evidence.isShownBy('historyResult', rowAt(5, 20)), true);
  assert.equal(world.evidence.isShownBy('historyResult', rowAt(4, 20)), false);
  assert.equal(world.provenOf('historyResult', rowAt(4, 12), 19.999), 17.999);
  assert.equal(world.provenOf('historyResult', rowAt(4, 12), 20), 12);
  const other = new World();
  other.provenS('history', 6, 72_000);
  other.clock.advance(4000);
  assert.equal(other.page('historyResult', 4, -30), true);
});

test('of one second the higher id is newer, and a trade of the moment that is claimed makes no page stale', () => {
  const world = new World();
  world.clock.advance(20_000);
  world.provenS('history', 5, 19);
  world.clock.advance(1000);
  assert.equal(world.provenS('historyResult', 3, 12), 12);
  assert.deepEqual(world.record.stale, []);
  world.clock.advance(1000);
  assert.equal(world.provenS('historyResult', 4, 19), 19);
  assert.equal(world.record.stale.length, 1);
});
