import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { createExchangeClock, openStateFeed } from '../../src/client/index.js';
import { StreamLedger } from '../../src/collect/ledger.js';
import { StateCollector } from '../../src/collect/states.js';
import { systemClock } from '../../src/kernel/clock.js';
import type { FaultRuleInput } from '../../src/sandbox/faults/script.js';
import { startFaultyExchange } from '../support/exchanges/faulty-exchange.js';
import { TEST_ORIGIN_MS } from '../support/exchanges/tape-exchange.js';
import { ModelArchive } from '../support/models/model-archive.js';
import { noTelemetry } from '../support/no-telemetry.js';
import { CollectRecord } from '../support/worlds/collect-record.js';

/**
 * A subscription that is acknowledged and then told nothing, on a connection that answers every
 * question: collected by the real feed over a real socket, at an exchange where trades go on.
 */

const PERIOD_S = 86_400;

/** Collects until enough rows of this origin are stored. */
async function collect(
  t: TestContext,
  rules: readonly FaultRuleInput[],
  { origin, count }: { readonly origin: 'query' | 'update'; readonly count: number },
) {
  const { server, fired } = await startFaultyExchange(t, {
    rules,
    clock: systemClock,
    tape: { startOffsetS: 600, pace: 300 },
    variants: { updateIntervalMs: 5 },
  });
  const exchangeClock = createExchangeClock({ clock: systemClock });
  const archive = new ModelArchive();
  const record = new CollectRecord();
  const stream = {
    streamId: 1,
    kind: 'states' as const,
    marketId: 1,
    variant: PERIOD_S,
    collectFromMs: null,
  };
  const lived = { sinceMs: 0, untilMs: Number.MAX_VALUE, presentMs: Number.MAX_VALUE };
  const nowMs = () => exchangeClock.nowMs();
  const time = { nowMs, lived, jumps: 0, pace: 1, witness: () => undefined };
  const ports = { archive, time, clock: systemClock, telemetry: record };
  const ledger = new StreamLedger(ports, 'BTC_USDT', stream);
  ledger.missedUntil(TEST_ORIGIN_MS);
  const collector = new StateCollector({
    ...{ market: 'BTC_USDT', marketId: 1, periodS: PERIOD_S, ledger, time },
    openFeed: () =>
      openStateFeed({
        ...{ url: server.realtimeUrl, market: 'BTC_USDT', periodS: PERIOD_S },
        ...{ clock: systemClock, random: () => 0.5, telemetry: noTelemetry.client, exchangeClock },
        ...{ queryEveryMs: 20, backoff: { baseMs: 1, capMs: 1 } },
      }),
  });
  const enough = new Promise<void>((resolve) => {
    archive.before = async () => {
      if (archive.states.filter((row) => row.origin === origin).length >= count) resolve();
    };
  });
  collector.start();
  await enough;
  await collector.stop();
  record.assertAccounted('states');
  return { archive, record, fired: fired() };
}

test('acknowledged, then silent: nothing is covered, and the gap says why', async (t) => {
  const { archive, fired } = await collect(
    t,
    [{ id: 'silent', kind: 'halfOpen', at: 'open', answers: 'requests' }],
    { origin: 'query', count: 12 },
  );
  assert.ok((fired.silent ?? 0) > 1, 'the connection was renewed, and silent again');
  assert.ok(archive.states.length >= 12, 'what queries showed is stored');
  assert.deepEqual(archive.allRanges(1), []);
  assert.deepEqual(
    [...new Set(archive.gaps.map(({ reason }) => reason))],
    ['no connection', 'no updates'],
  );
  assert.ok((archive.gaps.at(-1)?.span.toMs ?? 0) >= (archive.states.at(-1)?.observedAtMs ?? 0));
});

test('coverage begins with the first update of a connection that tells any', async (t) => {
  const { archive } = await collect(
    t,
    [{ kind: 'halfOpen', at: 'open', answers: 'requests', maxCount: 1 }],
    { origin: 'update', count: 3 },
  );
  const [first] = archive.states.filter(({ origin }) => origin === 'update');
  const [covered, ...others] = archive.allRanges(1);
  assert.deepEqual([covered?.span.fromMs, others], [first?.observedAtMs, []]);
  const silent = archive.gaps.find(({ reason }) => reason === 'no updates');
  assert.ok(silent !== undefined, 'the silent connection is a gap of its own');
});
