import assert from 'node:assert/strict';
import test from 'node:test';
import { createExchangeClock } from '../../../src/client/exchange-clock.js';
import { DAY_MS } from '../../../src/kernel/durations.js';
import { seededRandom } from '../../../src/kernel/random.js';
import type { ClockDispute } from '../../../src/observe/events.js';
import { FakeClock } from '../../support/fake-clock.js';
import fc from '../../support/properties.js';
import { worlds } from '../../support/seeds.js';

const RESOLUTION_MS = 1000;

/** An exchange with a clock of its own, asked over a line with latency. */
class SimulatedExchange {
  readonly clock = new FakeClock();
  readonly told: Array<{ offsetMs: number; pace: number }> = [];
  readonly disputes: ClockDispute[] = [];
  readonly estimate = createExchangeClock({
    clock: this.clock,
    telemetry: {
      exchangeClock: (event) => this.told.push(event),
      exchangeClockDisputed: (event) => this.disputes.push(event),
    },
  });
  #baseMs: number;
  #pace: number;

  constructor(startMs: number, pace = 1) {
    this.#baseMs = startMs;
    this.#pace = pace;
  }

  get pace(): number {
    return this.#pace;
  }

  nowMs(): number {
    return this.#baseMs + this.#pace * this.clock.monotonicMs();
  }

  seek(startMs: number, pace = this.#pace): void {
    this.#pace = pace;
    this.#baseMs = startMs - pace * this.clock.monotonicMs();
  }

  ask(thereMs = 20, backMs = 20, staleMs = 0): void {
    const sentMonotonicMs = this.clock.monotonicMs();
    this.clock.advance(thereMs);
    const shownMs = this.nowMs() - staleMs;
    const dateMs = Math.floor(shownMs / RESOLUTION_MS) * RESOLUTION_MS;
    this.clock.advance(backMs);
    this.estimate.observe({
      dateMs,
      sentMonotonicMs,
      receivedMonotonicMs: this.clock.monotonicMs(),
      resolutionMs: RESOLUTION_MS,
    });
  }

  askEvery(gapMs: number, times: number): void {
    for (let asked = 0; asked < times; asked += 1) {
      this.ask();
      this.clock.advance(gapMs);
    }
  }

  /** How far what may be claimed reaches into the future; less than none while nothing may. */
  aheadOfTruthMs(): number {
    const { untilMs = Number.NEGATIVE_INFINITY } = this.estimate.lived ?? {};
    return untilMs - 1 - this.nowMs();
  }

  sinceMs(): number {
    return this.estimate.lived?.sinceMs ?? Number.NaN;
  }

  /** Positive when the estimate is ahead of the truth. */
  errorMs(): number {
    return this.estimate.nowMs() - this.nowMs();
  }
}

const LAST_YEAR = Date.UTC(2024, 4, 17, 9, 30, 12, 345);

test('before any answer the local clock is used, and it says so', () => {
  const exchange = new SimulatedExchange(LAST_YEAR);
  assert.equal(exchange.estimate.isSynced, false);
  assert.equal(exchange.estimate.nowMs(), exchange.clock.wallMs());
  assert.equal(exchange.estimate.offsetMs, 0);
  exchange.ask();
  assert.equal(exchange.estimate.isSynced, true);
});

test('an exchange within two seconds of this machine: the local clock as it is', () => {
  for (const skewMs of [-1900, -500, 0, 700, 1900]) {
    const exchange = new SimulatedExchange(new FakeClock().wallMs() + skewMs);
    exchange.askEvery(700, 10);
    assert.equal(exchange.estimate.nowMs(), exchange.clock.wallMs(), `skew ${skewMs}`);
    assert.equal(exchange.estimate.offsetMs, 0);
    assert.equal(exchange.estimate.pace, 1);
  }
});

test('an exchange that is further off is followed, and the offset told', () => {
  const exchange = new SimulatedExchange(new FakeClock().wallMs() - 90_000);
  exchange.askEvery(700, 20);
  assert.equal(exchange.estimate.pace, 1);
  assert.ok(Math.abs(exchange.estimate.offsetMs + 90_000) < 300, `${exchange.estimate.offsetMs}`);
  assert.ok(exchange.errorMs() <= 0 && exchange.errorMs() > -300, `${exchange.errorMs()}`);
  assert.ok(Math.abs((exchange.told.at(-1)?.offsetMs ?? 0) + 90_000) < 1100);
});

test('any pace from half to hundredfold: behind within bounds, never ahead beyond one', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.double({ min: 0.5, max: 100, noNaN: true }), fc.constantFrom(0.5, 1, 2, 20, 100)),
      fc.integer({ min: LAST_YEAR, max: LAST_YEAR + 10 ** 9 }),
      fc.array(
        fc.record({
          gapMs: fc.integer({ min: 100, max: 1500 }),
          thereMs: fc.integer({ min: 0, max: 100 }),
          backMs: fc.integer({ min: 0, max: 100 }),
        }),
        { minLength: 24, maxLength: 80 },
      ),
      (pace, startMs, asks) => {
        const exchange = new SimulatedExchange(startMs, pace);
        for (const [index, { gapMs, thereMs, backMs }] of asks.entries()) {
          exchange.ask(thereMs, backMs);
          exchange.clock.advance(gapMs);
          if (index < 20) continue;
          // Ahead: one unit of the Date header if the pace was snapped to 1 or is not proven to be
          // slower yet, and what a wrong pace adds since the last answer.
          const tooFast = Math.max(0, Math.min(1, 1 / pace - 1)) * pace;
          const aheadMs = RESOLUTION_MS + 200 * pace + tooFast * gapMs;
          const behindMs = (RESOLUTION_MS + 200 * pace) * (1 + gapMs / 4000) + 0.06 * gapMs * pace;
          const errorMs = exchange.errorMs();
          assert.ok(errorMs <= (pace < 1.05 ? aheadMs : 0), `ahead by ${errorMs} ms`);
          assert.ok(errorMs >= -behindMs - 1, `behind by ${-errorMs} ms`);
        }
        const snapped = Math.abs(pace - 1) <= 0.05;
        const error = Math.abs(exchange.estimate.pace / (snapped ? 1 : pace) - 1);
        assert.ok(error <= 0.25, `pace ${exchange.estimate.pace} for ${pace}`);
      },
    ),
    { numRuns: worlds(300) },
  );
});

test('a tape at twentyfold pace is followed over minutes with a steady pace', () => {
  const exchange = new SimulatedExchange(LAST_YEAR, 20);
  exchange.askEvery(1000, 60);
  assert.ok(Math.abs(exchange.estimate.pace - 20) < 0.2, `${exchange.estimate.pace}`);
  exchange.ask();
  assert.ok(exchange.errorMs() <= 0 && exchange.errorMs() > -1500, `${exchange.errorMs()}`);
  const before = exchange.estimate.nowMs();
  exchange.clock.advance(500);
  const passedMs = exchange.estimate.nowMs() - before;
  assert.ok(passedMs > 9800 && passedMs <= 10_000, `${passedMs}`);
});

test('a seek or restart is followed once most answers of some seconds say so, one alone moves nothing', () => {
  for (const [jumpMs, pace] of [
    [-3_600_000, 1],
    [86_400_000, 1],
    [-7200_000, 20],
    [600_000, 20],
  ] as const) {
    const exchange = new SimulatedExchange(LAST_YEAR, pace);
    exchange.askEvery(1000, 20);
    exchange.ask(20, 20, 300_000);
    assert.ok(Math.abs(exchange.errorMs()) < 2500 * pace, 'one stale answer moves nothing');
    exchange.askEvery(1000, 3);
    exchange.seek(exchange.nowMs() + jumpMs);
    exchange.askEvery(1000, 8);
    assert.ok(Math.abs(exchange.errorMs()) > 100_000, 'answers of eight seconds are no proof');
    // Ahead, a trade of the new time is the second source; behind, it takes longer.
    if (jumpMs > 0) exchange.estimate.witness(exchange.nowMs() - 100);
    else exchange.askEvery(1000, 20);
    exchange.ask();
    const errorMs = exchange.errorMs();
    assert.ok(errorMs <= 0 && errorMs > -2500 * pace, `jump ${jumpMs}: ${errorMs} ms`);
    assert.equal(exchange.estimate.jumps, 1);
    const sinceMs = exchange.nowMs() - exchange.sinceMs();
    assert.ok(sinceMs >= 0 && sinceMs < 25_000 * pace, 'nothing was lived before it');
  }
});

test('a tape that ends or is held is followed within seconds, and nothing is claimed beyond the second of its end', () => {
  for (const pace of [1, 2, 5, 20, 60]) {
    for (const gapMs of [60, 160, 460, 960]) {
      const exchange = new SimulatedExchange(LAST_YEAR, pace);
      exchange.askEvery(gapMs, Math.ceil(20_000 / gapMs));
      assert.ok(exchange.aheadOfTruthMs() > -3000 * pace, `pace ${pace}, every ${gapMs} ms`);
      exchange.seek(exchange.nowMs(), 0);
      for (let second = 1; second <= 15; second += 1) {
        exchange.askEvery(gapMs, Math.ceil(1000 / gapMs));
        const text = `pace ${pace}, every ${gapMs} ms, ${second} s held`;
        assert.ok(
          exchange.aheadOfTruthMs() < RESOLUTION_MS,
          `${exchange.aheadOfTruthMs()} ms: ${text}`,
        );
        if (second > 10) assert.ok(exchange.errorMs() < 1000, `${exchange.errorMs()} ms: ${text}`);
      }
    }
  }
});

test('a tape that is fast, or was held before it settled, settles within seconds', () => {
  for (const pace of [10, 60]) {
    const exchange = new SimulatedExchange(LAST_YEAR, pace);
    // So many answers fall into its first moment that they look like a line of real pace.
    exchange.askEvery(10, 120);
    assert.ok(exchange.aheadOfTruthMs() > -2500 * pace, `pace ${pace}`);
  }
  for (const heldTimes of [3, 6, 12, 25, 50]) {
    const exchange = new SimulatedExchange(LAST_YEAR, 0);
    exchange.askEvery(60, heldTimes);
    exchange.seek(exchange.nowMs(), 1);
    exchange.askEvery(60, 60);
    const aheadMs = exchange.aheadOfTruthMs();
    assert.ok(aheadMs > -2500 && aheadMs <= 1000, `held for ${heldTimes} answers: ${aheadMs} ms`);
  }
});

test('the first answers of a fast tape contradict nothing, as close together as they come', () => {
  for (const pace of [2, 5, 20, 100]) {
    const exchange = new SimulatedExchange(LAST_YEAR, pace);
    exchange.askEvery(5, 3);
    exchange.askEvery(700, 30);
    assert.ok(Math.abs(exchange.estimate.pace - pace) < pace / 20, `${exchange.estimate.pace}`);
    assert.deepEqual([exchange.disputes, exchange.estimate.isDisputed], [[], false]);
    exchange.seek(exchange.nowMs() + 3_600_000);
    exchange.askEvery(700, 5);
    assert.ok(exchange.disputes.length > 0, `a seek at pace ${pace} is reported`);
  }
});

test('a fast tape that ends contradicts nothing, however often it is asked', () => {
  for (const pace of [2, 5, 10, 20, 100]) {
    for (const gapMs of [50, 200, 700, 2000]) {
      const exchange = new SimulatedExchange(LAST_YEAR, pace);
      exchange.askEvery(gapMs, 20_000 / gapMs);
      exchange.seek(exchange.nowMs(), 0);
      const text = `pace ${pace}, asked every ${gapMs} ms`;
      exchange.askEvery(gapMs, 60_000 / gapMs);
      assert.deepEqual([exchange.disputes, exchange.estimate.isDisputed], [[], false], text);
      assert.ok(exchange.estimate.pace < 0.1, `${text}: ${exchange.estimate.pace}`);
      exchange.seek(exchange.nowMs() - 3_600_000);
      exchange.askEvery(gapMs, 10);
      assert.ok(exchange.disputes.length > 0, `${text}: another time is reported`);
    }
  }
});

test('a change of pace is followed', () => {
  const exchange = new SimulatedExchange(LAST_YEAR, 20);
  exchange.askEvery(1000, 20);
  exchange.seek(exchange.nowMs(), 5);
  exchange.askEvery(1000, 30);
  assert.ok(Math.abs(exchange.estimate.pace - 5) < 0.2, `${exchange.estimate.pace}`);
  assert.ok(exchange.errorMs() <= 0 && exchange.errorMs() > -2000, `${exchange.errorMs()}`);
});

/** Exchanges of the present, whose time the wall clock shares, and of another time. */
const BEGINS = [new FakeClock().wallMs(), LAST_YEAR];

test('a clock that runs ahead for some seconds, in every answer, moves nothing and is reported once', () => {
  for (const startMs of BEGINS) {
    for (const [aheadMs, seconds] of [
      [60_000, 8],
      [3_600_000, 8],
      [86_400_000, 8],
      [3_600_000, 500],
      [-60_000, 8],
      [-3_600_000, 8],
    ] as const) {
      const exchange = new SimulatedExchange(startMs);
      exchange.askEvery(250, 40);
      for (let asked = 0; asked < seconds * 4; asked += 1) {
        exchange.ask(20, 20, -aheadMs);
        exchange.clock.advance(210);
        assert.ok(
          exchange.aheadOfTruthMs() < RESOLUTION_MS,
          `${aheadMs}: ${exchange.aheadOfTruthMs()} ms`,
        );
      }
      exchange.askEvery(250, 60);
      assert.equal(exchange.estimate.jumps, 0);
      assert.ok(exchange.aheadOfTruthMs() > -1500, 'and what is lived goes on');
      const [dispute, ...others] = exchange.disputes;
      assert.deepEqual(others, []);
      assert.equal(dispute?.isFollowed, false);
      const differenceMs = (dispute?.toMs ?? 0) - (dispute?.fromMs ?? 0);
      assert.ok(Math.abs(differenceMs - aheadMs) < 2100, `${differenceMs}`);
    }
  }
});

test('some answers that are wrong, few or half of them: nothing of the future is lived, and time goes on', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...BEGINS),
      fc.constantFrom(-86_400_000, -3_600_000, -60_000, 10_000, 60_000, 3_600_000, 86_400_000),
      fc.oneof(fc.double({ min: 0.05, max: 0.34, noNaN: true }), fc.constant('in turns' as const)),
      fc.integer(),
      (startMs, offMs, share, seed) => {
        const exchange = new SimulatedExchange(startMs);
        const random = seededRandom(seed);
        let highestMs = 0;
        for (let asked = 0; asked < 400; asked += 1) {
          const isWrong = share === 'in turns' ? asked % 2 === 0 : random() < share;
          exchange.ask(20, 20, isWrong ? -offMs : 0);
          exchange.clock.advance(160);
          // Trades go on: without them a start amid wrong answers stays behind for minutes.
          if (asked % 10 === 0) exchange.estimate.witness(exchange.nowMs() - 500);
          const aheadMs = exchange.aheadOfTruthMs();
          assert.ok(aheadMs <= 0, `answer ${asked}: ${aheadMs} ms ahead`);
          highestMs = Math.max(highestMs, exchange.nowMs() + aheadMs);
        }
        // A third of them wrong, by chance one after the other, hold it up for longer. Of two truths in turns
        // the earlier one may be the right one.
        const lateMs = 25_000 + (share === 'in turns' && offMs < 0 ? -offMs : 0);
        const behindMs = exchange.nowMs() - highestMs;
        assert.ok(behindMs < lateMs, `${behindMs} ms behind`);
      },
    ),
    {
      numRuns: 60,
      examples: [
        [1715938212345, -86_400_000, 0.23805777588859203, -1645038918],
        [1767225600000, -86_400_000, 0.3311907660681755, 1134784839],
        // Eight wrong ones in a row among the first.
        [1715938212345, 86_400_000, 0.22331937076523903, 1624864045],
      ],
    },
  );
});

test('answers of an earlier time hold up what may be claimed; the present goes on by the line in use', () => {
  const exchange = new SimulatedExchange(new FakeClock().wallMs());
  exchange.askEvery(700, 10);
  assert.equal(exchange.estimate.isDisputed, false);
  const startMs = exchange.nowMs();
  for (let asked = 0; asked < 40; asked += 1) {
    exchange.ask(20, 20, asked % 2 === 0 ? 3_600_000 : 0);
    exchange.clock.advance(160);
  }
  const { untilMs = 0, presentMs = 0 } = exchange.estimate.lived ?? {};
  assert.ok(untilMs < startMs - 3_500_000, 'nothing is claimed beyond the earlier time');
  assert.equal(presentMs, exchange.clock.wallMs() + 1);
  assert.equal(exchange.estimate.isDisputed, true);
  exchange.askEvery(250, 60);
  assert.equal(exchange.estimate.isDisputed, false, 'the answers agree again');
});

test('after a start nothing is lived before several answers agree; then all since the start', () => {
  const near = new SimulatedExchange(new FakeClock().wallMs() + 300);
  near.askEvery(100, 2);
  assert.equal(near.estimate.lived, undefined);
  near.ask();
  assert.ok(near.aheadOfTruthMs() > -1500, 'three of them, and the wall clock');

  const far = new SimulatedExchange(LAST_YEAR);
  far.askEvery(500, 5);
  assert.equal(far.estimate.lived, undefined, 'without the wall clock it takes seconds');
  far.askEvery(500, 3);
  assert.ok(Math.abs(far.sinceMs() - LAST_YEAR) < 1500, 'since the process began');
  assert.ok(far.aheadOfTruthMs() <= 0 && far.aheadOfTruthMs() > -1500);
});

/** Asks 20 times in 8 s an exchange whose Date is a minute ahead from the start on. */
function startInLie(startMs: number): SimulatedExchange {
  const exchange = new SimulatedExchange(startMs);
  for (let asked = 0; asked < 20; asked += 1) {
    exchange.ask(20, 20, -60_000);
    exchange.clock.advance(400);
  }
  return exchange;
}

test('a start in the midst of a lie: back to the truth, with a jump, as soon as most answers agree', () => {
  const exchange = startInLie(LAST_YEAR);
  assert.ok(exchange.aheadOfTruthMs() > 50_000, 'what nothing contradicts is believed');
  exchange.askEvery(400, 15);
  assert.ok(exchange.aheadOfTruthMs() <= 0, 'held at once');
  exchange.askEvery(400, 30_000 / 440);
  assert.equal(exchange.estimate.jumps, 1);
  assert.ok(Math.abs(exchange.errorMs()) < 1500);
  assert.equal(exchange.disputes.at(-1)?.isFollowed, true);
});

test('a start in the midst of a lie that is ahead of the wall clock: nothing is claimed of it', () => {
  const exchange = startInLie(BEGINS[0] ?? 0);
  assert.equal(exchange.estimate.lived, undefined);
  exchange.askEvery(400, 4);
  assert.ok(exchange.aheadOfTruthMs() <= 0, 'the wall clock says the same as the answers');
  assert.notEqual(exchange.estimate.lived, undefined);
  assert.equal(exchange.estimate.jumps, 0);
});

test('a machine that slept: the wall clock is the second source, and nothing of the sleep was lived', () => {
  const exchange = new SimulatedExchange(new FakeClock().wallMs());
  exchange.askEvery(250, 40);
  exchange.clock.stepWall(3_600_000);
  exchange.seek(exchange.nowMs() + 3_600_000);
  const wokeMs = exchange.nowMs();
  exchange.askEvery(250, 24);
  assert.equal(exchange.estimate.jumps, 1);
  assert.ok(Math.abs(exchange.errorMs()) < 1500, `${exchange.errorMs()}`);
  assert.ok(exchange.sinceMs() >= wokeMs - 1500);
});

test('an exchange whose time is moved for good is followed after ten minutes against the wall clock', () => {
  const exchange = new SimulatedExchange(new FakeClock().wallMs());
  exchange.askEvery(1000, 30);
  exchange.seek(exchange.nowMs() + 60_000);
  exchange.askEvery(1000, 500);
  assert.equal(exchange.estimate.jumps, 0);
  assert.ok(exchange.errorMs() < -50_000);
  exchange.askEvery(1000, 120);
  assert.equal(exchange.estimate.jumps, 1);
  assert.ok(Math.abs(exchange.errorMs()) < 1500);
});

test('answers without a date: the local clock, by the monotonic one; its steps move nothing by themselves', () => {
  const exchange = new SimulatedExchange(LAST_YEAR);
  const { estimate, clock } = exchange;
  const ask = (times: number) => {
    for (let asked = 0; asked < times; asked += 1) {
      const sentMs = clock.monotonicMs();
      clock.advance(20);
      estimate.observeUndated(sentMs, clock.monotonicMs());
      clock.advance(500);
    }
  };
  ask(4);
  assert.equal(exchange.sinceMs(), Number.NaN);
  ask(6);
  assert.equal(estimate.basis, 'local');
  assert.equal(estimate.nowMs(), clock.wallMs());
  assert.equal(estimate.lived?.untilMs, clock.wallMs() + 1);
  const beforeMs = clock.wallMs();
  clock.stepWall(3_600_000);
  ask(60);
  const passedMs = estimate.nowMs() - beforeMs;
  assert.ok(Math.abs(passedMs - 60 * 520) < 100, `${passedMs} ms in ${60 * 520}`);
  clock.stepWall(-3_600_000);
  ask(2);
  assert.equal(estimate.nowMs(), clock.wallMs());
  exchange.ask();
  assert.equal(estimate.basis, 'local', 'one dated answer is no proof either');
});

test('a frozen clock is not run away from', () => {
  const exchange = new SimulatedExchange(LAST_YEAR, 0);
  exchange.askEvery(1000, 60);
  assert.ok(exchange.errorMs() < 2000, `${exchange.errorMs()}`);
});

test('a step of the wall clock does not move the estimate', () => {
  for (const stepMs of [3_600_000, -3_600_000]) {
    const local = new SimulatedExchange(new FakeClock().wallMs() + 100);
    local.askEvery(700, 10);
    assert.equal(local.estimate.offsetMs, 0);
    local.clock.stepWall(stepMs);
    assert.ok(Math.abs(local.errorMs()) < 1000, `local: ${local.errorMs()}`);
    local.askEvery(700, 10);
    assert.ok(Math.abs(local.errorMs()) < 500, `then followed: ${local.errorMs()}`);
    assert.ok(Math.abs(local.estimate.offsetMs + stepMs) < 700);
    local.clock.stepWall(-stepMs);
    local.askEvery(700, 2);
    assert.equal(local.estimate.offsetMs, 0, 'and the local clock again once it agrees');

    const remote = new SimulatedExchange(LAST_YEAR, 20);
    remote.askEvery(700, 20);
    const beforeMs = remote.estimate.nowMs();
    remote.clock.stepWall(stepMs);
    assert.equal(remote.estimate.nowMs(), beforeMs);
  }
});

test('the time at a past moment counts back at the pace of the exchange', () => {
  const exchange = new SimulatedExchange(LAST_YEAR, 20);
  exchange.askEvery(1000, 40);
  const monotonicMs = exchange.clock.monotonicMs();
  const spanMs = exchange.estimate.nowMs() - exchange.estimate.atMonotonicMs(monotonicMs - 1000);
  assert.ok(Math.abs(spanMs - 20_000) < 300, `${spanMs}`);
  const local = new SimulatedExchange(new FakeClock().wallMs());
  local.ask();
  assert.equal(local.estimate.nowMs() - local.estimate.atMonotonicMs(10), 30);
});

test('samples that say nothing are ignored', () => {
  const { estimate, clock } = new SimulatedExchange(LAST_YEAR);
  const good = { dateMs: 1, sentMonotonicMs: 0, receivedMonotonicMs: 1, resolutionMs: 1000 };
  for (const bad of [
    { dateMs: Number.NaN },
    { dateMs: -5 },
    { receivedMonotonicMs: -1 },
    { receivedMonotonicMs: 10_001 },
    { resolutionMs: Number.POSITIVE_INFINITY },
  ]) {
    estimate.observe({ ...good, ...bad });
  }
  assert.equal(estimate.isSynced, false);
  assert.equal(estimate.nowMs(), clock.wallMs());
});

test('what a replay says of its own time is true at once, once for each change', () => {
  const exchange = new SimulatedExchange(20_000 * DAY_MS, 20);
  const { estimate } = exchange;
  let changes = 0;
  const tell = (isJump = false) => {
    changes += 1;
    const [nowMs, pace] = [exchange.nowMs(), exchange.pace];
    // From each connection.
    for (let at = 0; at < 3; at += 1) estimate.noticed({ nowMs, pace, change: changes, isJump });
  };
  const assertRight = () => {
    const aheadMs = estimate.nowMs() - exchange.nowMs();
    assert.ok(Math.abs(aheadMs) <= RESOLUTION_MS, `${aheadMs} ms ahead of ${exchange.nowMs()}`);
  };
  tell();
  assertRight();
  exchange.clock.advance(5000);
  assertRight();
  exchange.askEvery(200, 40);
  assertRight();
  assert.notEqual(estimate.lived, undefined);

  const heldMs = exchange.nowMs();
  exchange.seek(heldMs, 0);
  tell();
  exchange.askEvery(200, 30);
  assertRight();
  assert.ok((estimate.lived?.untilMs ?? Infinity) <= heldMs + RESOLUTION_MS);
  exchange.seek(heldMs, 20);
  tell();
  assertRight();
  exchange.clock.advance(300);
  assertRight();
  exchange.seek(exchange.nowMs(), 2);
  tell();
  exchange.askEvery(200, 10);
  assertRight();
  assert.equal(estimate.jumps, 0);

  for (const toMs of [exchange.nowMs() + 20_000, exchange.nowMs() - 300_000]) {
    const { jumps } = estimate;
    exchange.seek(toMs, 20);
    tell(true);
    assertRight();
    assert.equal(estimate.jumps, jumps + 1);
    assert.equal(estimate.lived?.sinceMs, toMs);
    exchange.askEvery(200, 10);
    assertRight();
  }
  assert.deepEqual(exchange.disputes, []);
});
