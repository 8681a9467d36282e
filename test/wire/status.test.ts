import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { afterEach, test } from 'node:test';
import { type HealthReport, healthReport } from '../../src/console/health.js';
import {
  type StatusServer,
  StatusServerError,
  type StatusServerOptions,
} from '../../src/console/server.js';
import {
  archiveStatus,
  exchangeText,
  type KnownExchange,
  type LedgerCount,
  STATUS,
  statusOf,
  statusRows,
} from '../../src/console/status-document.js';
import { createLogger } from '../../src/observe/logger.js';
import { createTelemetry } from '../../src/observe/telemetry.js';
import type { StreamStatus } from '../../src/store/index.js';
import { FakeClock } from '../support/fake-clock.js';
import { servedDocument, startTestStatus } from '../support/status-document.js';

const ill: HealthReport = healthReport([
  { name: 'database', ok: false, detail: 'refused <script>alert(1)</script>' },
  { name: 'exchange', ok: true },
]);

const running: StatusServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
});

async function start(options: Partial<StatusServerOptions> = {}): Promise<StatusServer> {
  const server = await startTestStatus(options);
  running.push(server);
  return server;
}

test('metrics come as Prometheus reads them', async () => {
  const server = await start();
  const answer = await fetch(`${server.url}/metrics`);
  assert.equal(answer.status, 200);
  assert.match(answer.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  assert.equal(await answer.text(), 'tapekeep_up 1\n');
});

test('health and readiness answer 200, or 503 with the reasons', async () => {
  const server = await start({ ready: async () => ill });
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
  const answer = await fetch(`${server.url}/readyz`);
  assert.equal(answer.status, 503);
  assert.deepEqual(await answer.json(), { ok: false, checks: ill.checks });
});

test('a check that throws is a reason, not an error page', async () => {
  const server = await start({ health: () => Promise.reject(new Error('the pool is gone')) });
  const answer = await fetch(`${server.url}/healthz`);
  assert.equal(answer.status, 503);
  assert.match(await answer.text(), /the pool is gone/);
});

test('a check that hangs is answered at the deadline and not asked again meanwhile', async () => {
  const clock = new FakeClock();
  let asked = 0;
  const server = await start({
    clock,
    ready: () => {
      asked += 1;
      return new Promise<HealthReport>(() => {});
    },
  });
  const first = fetch(`${server.url}/readyz`);
  const second = fetch(`${server.url}/readyz`);
  await clock.timersPending(2);
  clock.advance(5000);
  for (const answer of await Promise.all([first, second])) {
    assert.equal(answer.status, 503);
    assert.match(await answer.text(), /no answer within 5 s/);
  }
  assert.equal(asked, 1);
  assert.equal(clock.pendingTimers, 0);
});

test('a failure of the metrics is told to the log, not to the reader', async () => {
  const warned: string[] = [];
  const server = await start({
    metricsText: () => Promise.reject(new Error('inner canary')),
    telemetry: {
      warned: ({ message }) => warned.push(message),
      consoleAnswered: () => undefined,
      loginTried: () => undefined,
    },
  });
  const answer = await fetch(`${server.url}/metrics`);
  assert.equal(answer.status, 503);
  assert.doesNotMatch(await answer.text(), /canary/);
  assert.deepEqual(warned, ['console: metrics: inner canary']);
});

test('names of an exchange that are HTML stay texts of JSON', async () => {
  const telemetry = createTelemetry({
    logger: createLogger({
      ...{ level: 'silent', format: 'json', clock: new FakeClock() },
      destination: { write: () => undefined },
    }),
    exchangeNowMs: () => 10_000,
    processMetrics: false,
  });
  telemetry.collect.received({ stream: 'trades', market: 'M', count: 1234 });
  telemetry.collect.settled({ stream: 'trades', market: 'M', outcome: 'stored', count: 1234 });
  telemetry.collect.progressed({ stream: 'trades', market: 'M', newestMs: 7600 });
  const market = '<img src=x onerror=alert(3)>';
  const server = await start({
    ready: async () => ill,
    statusJson: (_selection, reports) =>
      servedDocument({
        archive: archiveStatus(countOf([{ market, expiredUntilMs: 3_600_000 }]), 10_000),
        daemon: { ...reports, rows: statusRows(telemetry.counts.snapshot(), 10_000) },
      }),
  });
  const answer = await fetch(`${server.url}/status`);
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
  const json = STATUS.parse(await answer.json());
  assert.equal(json.archive?.streams[0]?.market, market);
  assert.equal(json.daemon?.rows[0]?.lagS, 2.4);
  assert.deepEqual(json.daemon.ready, ill);
  assert.equal(json.state.text, 'Not ready: database: refused <script>alert(1)</script>');
});

test('the document says what an exchange is that is no real one', async () => {
  const read = async (exchange: KnownExchange) => {
    const server = await start({
      statusJson: (_selection, daemon) =>
        servedDocument({ ...statusOf('0.0.0', exchange, 0, undefined), daemon }),
    });
    const document = STATUS.parse(await (await fetch(`${server.url}/status`)).json());
    return [document.exchangeKind, exchangeText(document)];
  };
  const name = 'acme';
  const played = { name, isSandbox: true };
  assert.deepEqual(await read({ ...played, identity: 'replay-1' }), ['replay', 'acme (replay)']);
  assert.deepEqual(await read({ ...played, identity: 'sandbox-1' }), ['sandbox', 'acme (sandbox)']);
  assert.deepEqual(await read({ name, isSandbox: false, identity: null }), ['exchange', name]);
  assert.deepEqual(await read({ name }), [null, name]);
});

/** A ledger's count in which each stream of an hour lacks what is given. */
function countOf(
  streams: readonly Partial<StreamStatus>[],
  counted: Partial<LedgerCount> = {},
): LedgerCount {
  return {
    ...{ atMs: 10_000, gaps: [], checks: [] },
    ...counted,
    streams: streams.map((one, at) => ({
      ...{
        streamId: at + 1,
        kind: 'trades',
        marketId: at + 1,
        market: 'M',
        variant: 0,
        rows: 7,
        timed: 6,
      },
      ...{
        oldestCoveredMs: 0,
        newestCoveredMs: 9000,
        ageS: 60,
        coveredS: 3600,
        gapS: 0,
        unfillableS: 0,
      },
      ...{ beforeHistoryS: 0, neverAskedS: 0, gapsWithinHistory: 0, openGaps: 0, openS: 0 },
      collectFromMs: null,
      ...{ startReason: null, expiredUntilMs: null },
      ...one,
    })),
  };
}

test('the document tells open gaps by reason, the longest first', () => {
  const open = { streamId: 1, marketId: 1, market: 'M', state: 'open', count: 1 } as const;
  const counted = countOf([{}], {
    gaps: [
      { ...open, kind: 'trades', reason: 'suspect', lengthMs: 60_000, oldestMs: 7_310_000 },
      { ...open, kind: 'candles', reason: 'exchange failed', lengthMs: 7.2e6, oldestMs: 100_000 },
      { ...open, kind: 'states', reason: 'not collected', lengthMs: 0.5, oldestMs: 7_399_992 },
      {
        ...{ ...open, state: 'unfillable', kind: 'depth', reason: 'not observed' },
        ...{ lengthMs: 120_000, oldestMs: 7_000_000 },
      },
    ],
  });
  const { openGaps, lostGaps } = archiveStatus(counted, 7_400_000);
  assert.deepEqual(openGaps, [
    { kind: 'candles', reason: 'exchange failed', lengthS: 7200, oldestAgeS: 7300 },
    { kind: 'trades', reason: 'suspect', lengthS: 60, oldestAgeS: 90 },
  ]);
  assert.deepEqual(lostGaps, [
    { kind: 'depth', reason: 'not observed', lengthS: 120, oldestAgeS: 400 },
  ]);
});

test('the share of a kind that is all there is is that of all, to the last digit', () => {
  // The sum of the two is a little less than 0.8 in doubles.
  const counted = countOf([
    { coveredS: 0.1, gapS: 0 },
    { coveredS: 0.7, gapS: 0.2, market: 'B', marketId: 2 },
  ]);
  const { kinds, coverageRatio } = archiveStatus(counted, 10_000);
  assert.deepEqual([kinds[0]?.coverageRatio, coverageRatio], [0.8, 0.8]);
});

test('the document lists what is asked for, the least covered first, and counts the rest', async () => {
  const counted = countOf(
    [
      { market: 'A', gapS: 400, openGaps: 1, openS: 400, gapsWithinHistory: 1 },
      { market: 'A', kind: 'candles', variant: 60, marketId: 1, newestCoveredMs: 2000 },
      { market: 'B', marketId: 2, gapS: 1200, unfillableS: 700, beforeHistoryS: 300 },
      { market: 'B', kind: 'depth', marketId: 2, newestCoveredMs: null, coveredS: 0, rows: 0 },
    ],
    {
      checks: [
        {
          ...{ marketId: 1, market: 'A', intervalS: 60, mismatches: 2, isListed: true },
          judgedUntilMs: 4000,
        },
        // Delisted long ago: nothing of it is verified any more, so it does not lag.
        {
          ...{ marketId: 2, market: 'B', intervalS: 30, mismatches: 0, isListed: false },
          judgedUntilMs: 1000,
        },
      ],
    },
  );
  const server = await start({
    statusJson: (selection) =>
      servedDocument({ archive: archiveStatus(counted, 10_000, selection) }),
    knownMarkets: () => new Set(['A', 'B', 'BTC_USDT']),
  });
  const read = async (query: string) => {
    const answer = await fetch(`${server.url}/status${query}`);
    assert.equal(answer.status, 200, query);
    const { archive } = STATUS.parse(await answer.json());
    assert.ok(archive !== null);
    return archive;
  };
  const names = ({ streams }: { readonly streams: readonly { market: string; kind: string }[] }) =>
    streams.map(({ market, kind }) => `${market} ${kind}`);
  const all = await read('?worst=100');
  assert.deepEqual(names(all), ['B trades', 'A trades', 'A candles', 'B depth']);
  assert.deepEqual([all.markets, all.rows, all.streamsLeftOut], [2, 21, 0]);
  assert.deepEqual([all.coveredS, all.missingS], [10_800, 1300]);
  assert.deepEqual([all.coverageRatio, all.lowestCoverageRatio], [0.892561, 0.8]);
  for (const { kind, timedRatio } of all.kinds) {
    assert.equal(timedRatio, kind === 'trades' ? 6 / 7 : null);
  }
  assert.deepEqual(
    all.kinds.map(({ kind, streams, coverageRatio, lowestCoverageRatio }) => [
      ...[kind, streams, coverageRatio, lowestCoverageRatio],
    ]),
    [
      ['trades', 2, 0.847058, 0.8],
      ['candles', 1, 1, 1],
      ['depth', 1, null, null],
    ],
  );
  assert.deepEqual([all.mismatches, all.verifiedLagS], [2, 6]);
  const [b, , candles] = all.streams;
  assert.deepEqual([candles?.intervalS, candles?.mismatches, candles?.lagS], [60, 2, 8]);
  assert.deepEqual([b?.missingS, b?.unfillableS, b?.coverageRatio], [900, 700, 0.8]);
  const worst = await read('?worst=2');
  assert.deepEqual(names(worst), ['B trades', 'A trades'], 'what has no share comes last');
  assert.deepEqual({ ...worst, streams: [], streamsLeftOut: 0 }, { ...all, streams: [] });
  assert.equal(worst.streamsLeftOut, 2);
  assert.deepEqual(names(await read('?market=B')), ['B trades', 'B depth']);
  assert.deepEqual(names(await read('?kind=candles&kind=depth')), ['A candles', 'B depth']);
  assert.equal((await read('?kind=trades')).lowestCoverageRatio, 0.8);
  assert.deepEqual(names(await read('?worst=0')), []);
  assert.deepEqual(names(await read('?market=BTC_USDT')), [], 'known, not counted yet');
  const refusal = async (query: string) => {
    const answer = await fetch(`${server.url}/status${query}`);
    return [answer.status, ((await answer.json()) as { readonly error: string }).error];
  };
  assert.deepEqual(names(await read('?kind=candle,depth')), ['A candles', 'B depth']);
  const unknown = 'nothing is collected or stored of a market';
  assert.deepEqual(await refusal('?market=A&market=btc_usd'), [
    ...[400, `${unknown} "btc_usd"; did you mean BTC_USDT?`],
  ]);
  assert.deepEqual(await refusal('?market='), [
    ...[400, `market is empty; leave it out or give it a value`],
  ]);
  const schema = await fetch(`${server.url}/status/schema`);
  assert.match(schema.headers.get('content-type') ?? '', /^application\/schema\+json/);
  assert.equal(((await schema.json()) as { title: string }).title, 'Status of tapekeep');
});

test('seconds are told to the millisecond', () => {
  const parts = [{ coveredS: 4433.822333 }, { coveredS: 4433.822333, gapS: 0.0004 }];
  const { coveredS, missingS, coverageRatio, streams } = archiveStatus(countOf(parts), 10_000);
  assert.deepEqual([coveredS, missingS, coverageRatio], [8867.644, 0, 1]);
  assert.deepEqual([streams[1]?.coveredS, streams[1]?.missingS], [4433.822, 0]);
});

test('a port in use is told with the key to change', async () => {
  const { port } = await start();
  await assert.rejects(start({ port }), (error) => {
    assert.ok(error instanceof StatusServerError);
    assert.match(
      error.message,
      new RegExp(`port ${port} on 127\\.0\\.0\\.1 is in use.*http\\.port`),
    );
    return true;
  });
});

test('stop closes open connections, twice without harm', async () => {
  const server = await start();
  const socket = connect(server.port, '127.0.0.1');
  await new Promise((resolve) => socket.once('connect', resolve));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await Promise.all([server.stop(), server.stop(), closed]);
  await assert.rejects(fetch(server.url));
});

test('the document of 500 stalled markets takes little time and room', async (t) => {
  const kinds = ['trades', 'depth', 'states', 'candles', 'candles', 'candles'] as const;
  const streams = Array.from({ length: 3000 }, (_, at) => ({
    ...{ market: `MARKET${at % 500}_USDT`, kind: kinds[Math.floor(at / 500)] ?? 'trades' },
    ...{ marketId: at % 500, variant: at < 1500 ? 0 : Math.floor(at / 500), gapS: at % 7 },
  }));
  const checks = Array.from({ length: 1500 }, (_, at) => ({
    ...{
      marketId: at % 500,
      market: `MARKET${at % 500}_USDT`,
      intervalS: 3 + Math.floor(at / 500),
    },
    ...{ mismatches: 0, isListed: true, judgedUntilMs: 5000 },
  }));
  const standing = Array.from({ length: 100 }, (_, at) => ({
    ...{ market: `MARKET${at}_USDT`, kind: 'trades', intervalS: null, standingS: 90 },
    ...{ reason: 'exchange failed', note: 'no answer within 10 s, connect ECONNREFUSED' },
  }));
  let counted = countOf(streams, { checks });
  const server = await start({
    statusJson: (selection, reports) =>
      servedDocument({
        archive: archiveStatus(counted, 10_000, selection),
        daemon: { ...reports, standing, standingStreams: 3000 },
      }),
  });
  const took: number[] = [];
  let size = 0;
  for (let at = 0; at < 10; at += 1) {
    counted = { ...counted };
    const before = process.cpuUsage();
    const text = await (await fetch(`${server.url}/api/v1/status`)).text();
    const { user, system } = process.cpuUsage(before);
    took.push((user + system) / 1000);
    size = text.length;
  }
  const best = Math.min(...took);
  t.diagnostic(`${size} bytes, ${best.toFixed(1)} ms of a core`);
  assert.ok(size <= 200_000, `${size} bytes`);
  assert.ok(best <= 50, `${best} ms of a core`);
});
