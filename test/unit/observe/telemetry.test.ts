import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import type { Telemetry } from '../../../src/observe/events.js';
import { createLogger } from '../../../src/observe/logger.js';
import { MARKET_LABELS_MAX } from '../../../src/observe/metrics.js';
import { ROW_OUTCOMES } from '../../../src/observe/run-counts.js';
import { createTelemetry } from '../../../src/observe/telemetry.js';
import { FakeClock } from '../../support/fake-clock.js';
import fc from '../../support/properties.js';

const NOW_MS = Date.UTC(2026, 0, 1, 12);

function observed(options: { processMetrics?: boolean } = {}) {
  const lines: string[] = [];
  const logger = createLogger({
    level: 'trace',
    format: 'json',
    clock: new FakeClock(NOW_MS),
    destination: { write: (line) => lines.push(line) },
  });
  const telemetry = createTelemetry({
    logger,
    exchangeNowMs: () => NOW_MS,
    processMetrics: options.processMetrics ?? false,
  });
  return { telemetry, lines };
}

/** The value of one series on the metrics page, or undefined. */
function seriesValue(page: string, series: string): number | undefined {
  const line = page.split('\n').find((text) => text.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

type Examples = {
  [Section in keyof Telemetry]: {
    [Event in keyof Telemetry[Section]]: Telemetry[Section][Event] extends (event: infer E) => void
      ? E
      : never;
  };
};

/** One of each: the compiler insists that no event of the interface is missing. */
const EXAMPLES: Examples = {
  client: {
    requestEnded: { endpoint: 'tickers', outcome: 'ok', durationMs: 12, bytes: 100 },
    budgetChanged: { ratePerS: 5, tokens: 3, waiting: 1 },
    budgetPaused: { reason: 'HTTP 429', waitMs: 1000 },
    budgetShared: { waiting: 3 },
    exchangeClock: { offsetMs: 1500, pace: 2 },
    exchangeClockDisputed: { fromMs: NOW_MS, toMs: NOW_MS + 60_000, share: 0.6, isFollowed: false },
    socketOpened: { market: 'BTC_USDT', periodS: 60 },
    socketClosed: { market: 'BTC_USDT', periodS: 60, code: 1006, reason: '', livedMs: 5000 },
    socketRetry: { market: 'BTC_USDT', periodS: 60, waitMs: 10 },
    frameReceived: { outcome: 'update' },
  },
  sealing: {
    partitionChanged: {
      ...{ table: 'trade', partition: 'trade_20260101', became: 'sealed', rows: 12 },
    },
    failed: { code: 'cold_disk_full', message: 'no space is left' },
    roundEnded: { codes: ['a', 'a', 'b'] },
    partitionsCounted: { partitions: [{ table: 'trade', state: 'sealed', count: 3 }] },
  },
  store: {
    committed: { durationMs: 4, batches: 2, rows: { trade: { stored: 3, duplicate: 1 } } },
    commitFailed: { code: '40P01', message: 'deadlock detected', willRetry: true },
    commitBlocked: { by: 'process 7 (psql)', waitedMs: 5_000 },
    queueChanged: { queue: 'writer', size: 3, limit: 100 },
    quarantined: { endpoint: 'history', reason: 'price: not above zero', count: 2 },
    partitionMade: { table: 'trade', partition: 'trade_2026_01_01' },
    partitionLead: { table: 'trade', endMs: NOW_MS + 86_400_000 },
    partitionReopened: { partition: 'trade_20260101' },
    databaseWentBack: { acknowledged: 41, found: 38, why: 'an older copy' },
    databaseState: { up: true },
    spaceMeasured: {
      ...{ databaseBytes: 9000, coldBytes: 800 },
      disks: [{ directory: 'cold', freeBytes: 70, sizeBytes: 100 }],
    },
    databaseAwaited: { detail: 'starting up', waitedMs: 0, limitMs: 120_000 },
    migrated: { applied: ['0001_init'] },
    embeddedPostgres: { phase: 'ready' },
    spoolTurned: { isKeeping: true },
    spooled: { outcome: 'kept', batches: 2 },
    spoolChanged: { bytes: 400, limitBytes: 1_000 },
    spoolTorn: { bytes: 12 },
    spoolFailed: { code: 'spool_full', message: 'no room' },
  },
  collect: {
    received: { stream: 'trades', market: 'BTC_USDT', count: 4 },
    settled: { stream: 'trades', market: 'BTC_USDT', outcome: 'stored', count: 3 },
    progressed: { stream: 'trades', market: 'BTC_USDT', newestMs: NOW_MS - 2500 },
    pollFailed: {
      stream: 'trades',
      market: 'BTC_USDT',
      code: 'timeout',
      message: 'no answer',
      action: 'retry',
    },
    headPolled: {
      ...{ stream: 'trades', market: 'BTC_USDT', cause: 'pushed' },
      ...{ waitMs: 40, agesMs: [300, 1200] },
    },
    runSkipped: { stream: 'depth' },
    pacesStretched: { streams: [{ stream: 'depth', scheduleMs: 5000, paceMs: 80_000 }] },
    scheduleMissed: { schedule: 'streams.depth.schedule' },
    walkStepped: { stream: 'trades', market: 'BTC_USDT', pages: 2, connected: true },
    streamsStanding: {
      streams: [
        {
          ...{ kind: 'trades', market: 'BTC_USDT', variant: 0, standingMs: 400_000 },
          ...{ reason: 'walk stalled', note: 'the same page twice' },
        },
      ],
    },
    idsBegunAnew: { market: 'BTC_USDT', firstId: 1, lastIdBefore: 9, atMs: 0 },
    tradesExposed: { stream: 'trades', market: 'BTC_USDT', count: 1, note: 'trade 9' },
    walkStalled: { stream: 'trades', market: 'BTC_USDT', detail: 'same page twice' },
    tradesPushed: { market: 'BTC_USDT', agesMs: [120] },
    tradeFeedRefuted: { stream: 'trades', market: 'BTC_USDT', unshown: 1, unpushed: 0 },
    historyStale: {
      ...{ stream: 'trades', market: 'BTC_USDT', source: 'states', behindMs: 9000, isFirst: true },
    },
    offsetModeSettled: { endpoint: 'history', mode: 'id', before: null },
    historyHeadroom: { stream: 'trades', market: 'BTC_USDT', ratio: 12 },
    gapFound: {
      stream: 'depth',
      market: 'BTC_USDT',
      reason: 'outage',
      count: 1,
      lengthMs: 30_000,
      isBeforeHistory: false,
    },
    gapsCounted: {
      gaps: [
        {
          stream: 'depth',
          market: 'BTC_USDT',
          count: 2,
          lostCount: 3,
          unfillableMs: 0,
          lengthMs: 60_000,
        },
      ],
    },
    marketsChanged: { added: ['BTC_USDT'], removed: [], changed: [] },
    marketsLeftOut: { count: 9_000, max: 1_000 },
    marketsMissing: { names: ['BTC_USD'], message: 'the exchange does not list BTC_USD' },
  },
  verify: {
    judged: { market: 'BTC_USDT', intervalS: 60, matches: 10, mismatches: 1 },
    mismatchFound: {
      ...{ market: 'BTC_USDT', intervalS: 60, fromMs: NOW_MS },
      detail: 'volume: trades 1, candle 2',
    },
    mismatchSettled: {
      ...{ market: 'BTC_USDT', intervalS: 60, fromMs: NOW_MS, outcome: 'match', tries: 1 },
      detail: 'it adds up',
    },
    failed: { code: 'timeout', message: 'the database is away' },
    completenessCounted: {
      coverage: [{ stream: 'trades', market: 'BTC_USDT', ratio: 0.75 }],
      openGaps: [
        ...[{ stream: 'trades', reason: 'not collected', lengthMs: 60_000, oldestAgeMs: 90_000 }],
        ...[{ stream: 'trades', reason: 'suspect', lengthMs: 1000, oldestAgeMs: 120_000 }],
      ],
      checks: [
        { market: 'BTC_USDT', intervalS: 60, mismatches: 2, lagMs: 70_000 },
        { market: 'BTC_USDT', intervalS: 3600, mismatches: 0, lagMs: null },
      ],
      idleShares: 1,
    },
  },
  server: {
    served: { endpoint: 'tickers', status: 200, durationMs: 1 },
    realtimeOpened: { open: 1 },
    realtimeClosed: { open: 0, reason: 'idle' },
    handlerFailed: { endpoint: 'kline', code: 'TypeError', message: 'it broke', stack: 'at a' },
  },
  serve: {
    rowsSent: { rows: 10, durationMs: 5 },
    statementRefused: { sqlstate: '0A000', message: 'function md5(text)' },
    connectionEnded: { sqlstate: '28P01', message: 'wrong password' },
  },
  daemon: {
    started: { detail: { markets: 3 } },
    stopping: { reason: 'SIGTERM' },
    stopped: { durationMs: 120, exitCode: 0 },
    roleChanged: { role: 'holder', cause: 'silent', waitedMs: 6500 },
    beatAnswered: { standbys: 1 },
    holdLost: { heldBy: 'tapekeep, user archive' },
    outputDropped: { output: 'stdout', lines: 2 },
    outputResumed: { output: 'stderr', lines: 3 },
    warned: { code: 'clock_skew', message: 'the clock is off' },
    failed: { code: 'boom', message: 'it broke' },
    noticeSent: { checks: ['database fired'] },
    noticeFailed: { code: 'webhook_refused', message: 'HTTP 500' },
    consoleAnswered: { endpoint: 'api/status', status: 200 },
    loginTried: { outcome: 'wrong' },
  },
};

function emitters(telemetry: Telemetry): Array<{ name: string; emit: () => void }> {
  return Object.entries(EXAMPLES).flatMap(([section, events]) =>
    Object.entries(events).map(([event, example]) => ({
      name: `${section}.${event}`,
      emit: () => {
        const functions = telemetry[section as keyof Telemetry] as unknown as Record<
          string,
          (event: unknown) => void
        >;
        functions[event]?.(example);
      },
    })),
  );
}

test('every event of the interface moves a metric and writes a log line', async () => {
  const { telemetry, lines } = observed();
  for (const { name, emit } of emitters(telemetry)) {
    const before = await telemetry.metricsText();
    const linesBefore = lines.length;
    emit();
    assert.notEqual(await telemetry.metricsText(), before, `${name} leaves no trace in metrics`);
    assert.ok(lines.length > linesBefore, `${name} leaves no trace in the log`);
  }
  for (const [section, events] of Object.entries(EXAMPLES)) {
    const functions = Object.keys(telemetry[section as keyof Telemetry]);
    assert.deepEqual(new Set(functions), new Set(Object.keys(events)));
  }
});

test('metrics carry the figures of the events, in base units', async () => {
  const { telemetry } = observed();
  for (const { emit } of emitters(telemetry)) emit();
  const page = await telemetry.metricsText();
  const expected: Record<string, number> = {
    'tapekeep_requests_total{endpoint="tickers",outcome="ok"}': 1,
    'tapekeep_request_duration_seconds_sum{endpoint="tickers"}': 0.012,
    'tapekeep_response_bytes_total{endpoint="tickers"}': 100,
    'tapekeep_request_budget_pauses_total{reason="http"}': 1,
    tapekeep_request_budget_shared_total: 1,
    tapekeep_exchange_clock_offset_seconds: 1.5,
    'tapekeep_exchange_clock_disputes_total{outcome="held"}': 1,
    tapekeep_realtime_connections: 0,
    'tapekeep_realtime_connections_closed_total{reason="abnormal"}': 1,
    'tapekeep_archive_rows_total{table="trade",outcome="stored"}': 3,
    'tapekeep_quarantined_total{endpoint="history",reason="price"}': 2,
    'tapekeep_rows_received_total{stream="trades"}': 4,
    'tapekeep_rows_total{stream="trades",outcome="stored"}': 3,
    'tapekeep_rows_total{stream="trades",outcome="lost"}': 0,
    tapekeep_database_bytes: 9000,
    tapekeep_cold_file_bytes: 800,
    'tapekeep_disk_free_bytes{directory="cold"}': 70,
    'tapekeep_disk_size_bytes{directory="cold"}': 100,
    'tapekeep_rows_in_flight{stream="trades"}': 1,
    'tapekeep_lag_seconds{stream="trades",market="BTC_USDT"}': 2.5,
    'tapekeep_open_gaps{stream="depth",market="BTC_USDT"}': 2,
    'tapekeep_open_gap_seconds{stream="depth",market="BTC_USDT"}': 60,
    'tapekeep_partition_lead_seconds{table="trade"}': 86_400,
  };
  for (const [series, value] of Object.entries(expected)) {
    assert.equal(seriesValue(page, series), value, series);
  }
});

test('received rows are conserved: settled by one outcome each, or in flight', async () => {
  const streams = fc.constantFrom('trades', 'depth', 'tickers');
  const step = fc.record({
    stream: streams,
    received: fc.nat(50),
    shares: fc.array(fc.constantFrom(...ROW_OUTCOMES), { maxLength: 20 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const { telemetry } = observed();
      for (const { stream, received, shares } of steps) {
        telemetry.collect.received({ stream, market: 'M', count: received });
        for (const outcome of shares.slice(0, received)) {
          telemetry.collect.settled({ stream, market: 'M', outcome, count: 1 });
        }
      }
      const page = await telemetry.metricsText();
      for (const stream of new Set(steps.map((one) => one.stream))) {
        const row = (outcome: string) =>
          seriesValue(page, `tapekeep_rows_total{stream="${stream}",outcome="${outcome}"}`) ??
          assert.fail(`no count of ${outcome}`);
        const settled = ROW_OUTCOMES.reduce((sum, outcome) => sum + row(outcome), 0);
        const inFlight = seriesValue(page, `tapekeep_rows_in_flight{stream="${stream}"}`);
        const received = seriesValue(page, `tapekeep_rows_received_total{stream="${stream}"}`);
        assert.equal(received, settled + (inFlight ?? Number.NaN));
        const counts = telemetry.counts.snapshot().streams.find((one) => one.stream === stream);
        assert.equal(counts?.inFlight, inFlight);
      }
    }),
    { numRuns: 50 },
  );
});

test('a flood of market names and reasons does not grow the metrics without bound', async () => {
  const { telemetry } = observed();
  for (let index = 0; index < 100_000; index += 1) {
    telemetry.collect.progressed({ stream: 'trades', market: `M${index}`, newestMs: NOW_MS });
  }
  for (let index = 0; index < 1000; index += 1) {
    const word = [...String(index)].map((digit) => 'abcdefghij'[Number(digit)]).join('');
    telemetry.store.quarantined({ endpoint: `e${index}`, reason: word, count: 1 });
    telemetry.client.socketClosed({
      market: 'M',
      periodS: 60,
      code: 3000 + index,
      reason: word,
      livedMs: 1,
    });
  }
  const lines = (await telemetry.metricsText()).split('\n');
  const count = (name: string) => lines.filter((line) => line.startsWith(`${name}{`)).length;
  assert.equal(count('tapekeep_lag_seconds'), MARKET_LABELS_MAX + 1);
  assert.equal(count('tapekeep_realtime_connections_closed_total'), 1);
  assert.ok(count('tapekeep_quarantined_total') <= 33 * 65);
  assert.ok(lines.some((line) => line.includes('market="other"')));
});

test('streams of many markets that stand for one reason are one line, again and again', () => {
  const { telemetry, lines } = observed();
  const standing = (kind: string, reason: string) =>
    Array.from({ length: 2000 }, (_, at) => {
      return { kind, market: `M${at}`, variant: 0, standingMs: 90_000 - at, reason, note: 'why' };
    });
  const streams = [...standing('trades', 'not collected'), ...standing('depth', 'not observed')];
  for (let round = 0; round < 10; round += 1) telemetry.collect.streamsStanding({ streams });
  telemetry.collect.streamsStanding({ streams: streams.slice(0, 1) });
  const told = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    told.map(({ stream, market, others }) => [stream, market, others]),
    [
      ['trades', 'M0', 1999],
      ['depth', 'M0', 1999],
    ],
  );
});

test('of streams that stand under one series the longest is shown', async () => {
  const { telemetry } = observed();
  const one = { kind: 'candles', market: 'A_B', reason: 'not collected', note: 'why' };
  const streams = [
    { ...one, variant: 60, standingMs: 900_000 },
    { ...one, variant: 3600, standingMs: 20_000 },
  ];
  telemetry.collect.streamsStanding({ streams });
  const series = 'tapekeep_standing_seconds{stream="candles",market="A_B"}';
  assert.equal(seriesValue(await telemetry.metricsText(), series), 900);
});

test('a gap is a warning, but where history only begins later or a known one grows', () => {
  const { telemetry, lines } = observed();
  const gap = { stream: 'candles', market: 'A_B', reason: 'beyond_history', lengthMs: 60_000 };
  telemetry.collect.gapFound({ ...gap, count: 1, isBeforeHistory: true });
  telemetry.collect.gapFound({ ...gap, stream: 'trades', count: 1, isBeforeHistory: false });
  telemetry.collect.gapFound({ ...gap, stream: 'depth', count: 0, isBeforeHistory: false });
  const told = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    told.map(({ level, stream }) => [level, stream]),
    [
      ['info', 'candles'],
      ['warn', 'trades'],
      ['debug', 'depth'],
    ],
  );
});

test('a connection that never opened takes nothing from the number of open ones', () => {
  const { telemetry } = observed();
  const { client } = telemetry;
  client.socketOpened({ market: 'A', periodS: 60 });
  const failed = { periodS: 60, code: 1006, reason: 'connect_failed', livedMs: 1 };
  client.socketClosed({ ...failed, market: 'B' });
  assert.equal(telemetry.counts.snapshot().openSockets, 1);
  client.socketClosed({ ...failed, market: 'A', reason: 'remote' });
  client.socketClosed({ ...failed, market: 'A', reason: 'remote' });
  assert.equal(telemetry.counts.snapshot().openSockets, 0);
});

test('a removed market stops lagging and frees its label', async () => {
  const { telemetry } = observed();
  telemetry.collect.progressed({ stream: 'trades', market: 'OLD', newestMs: 0 });
  telemetry.collect.marketsChanged({ added: [], removed: ['OLD'], changed: [] });
  assert.doesNotMatch(await telemetry.metricsText(), /lag_seconds\{/);
});

test('the counts keeps totals, the newest and the slowest market, and open gaps', () => {
  const { telemetry } = observed();
  const { collect, client } = telemetry;
  collect.received({ stream: 'trades', market: 'A', count: 5 });
  collect.settled({ stream: 'trades', market: 'A', outcome: 'stored', count: 5 });
  collect.progressed({ stream: 'trades', market: 'A', newestMs: 2000 });
  collect.progressed({ stream: 'trades', market: 'A', newestMs: 1000 });
  collect.progressed({ stream: 'trades', market: 'B', newestMs: 500 });
  collect.gapsCounted({
    gaps: [
      { stream: 'trades', market: 'A', count: 1, lostCount: 2, unfillableMs: 0, lengthMs: 10 },
      { stream: 'trades', market: 'B', count: 0, lostCount: 1, unfillableMs: 5, lengthMs: 0 },
    ],
  });
  client.socketOpened({ market: 'A', periodS: 60 });
  client.requestEnded({ endpoint: 'x', outcome: 'timeout', durationMs: 1, bytes: 0 });
  const snapshot = telemetry.counts.snapshot();
  const [trades] = snapshot.streams;
  assert.equal(trades?.newestMs, 2000);
  assert.equal(trades.slowestMs, 500);
  assert.equal(trades.stored, 5);
  assert.equal(trades.inFlight, 0);
  assert.deepEqual([trades.openGaps, trades.lostGaps], [1, 3]);
  assert.deepEqual([snapshot.requests, snapshot.failedRequests, snapshot.openSockets], [1, 1, 1]);
  const failure = { endpoint: 'x', outcome: 'timeout', message: 'timeout' };
  assert.deepEqual(snapshot.lastFailure, { ...failure, inARow: 1 });
  client.requestEnded({ endpoint: 'y', outcome: 'ok', durationMs: 1, bytes: 0 });
  assert.deepEqual(telemetry.counts.snapshot().lastFailure, { ...failure, inARow: 0 });
  collect.gapsCounted({ gaps: [] });
  assert.equal(telemetry.counts.snapshot().streams[0]?.openGaps, 0);
});

test('Prometheus finds nothing wrong with our metrics', async (context) => {
  const { telemetry } = observed();
  for (const { emit } of emitters(telemetry)) emit();
  const input = await telemetry.metricsText();
  const checked = spawnSync('promtool', ['check', 'metrics'], { input, encoding: 'utf8' });
  if (checked.error !== undefined) {
    context.diagnostic('promtool is not installed here: its check of the metrics was left out');
    assert.match(input, /# HELP tapekeep_rows_total /);
    return;
  }
  assert.equal(checked.status, 0, checked.stdout + checked.stderr);
});

test("Node's own metrics are on the page, and Prometheus can read all of it", async (context) => {
  const { telemetry } = observed({ processMetrics: true });
  const input = await telemetry.metricsText();
  assert.match(input, /^process_resident_memory_bytes \d/m);
  assert.match(input, /^nodejs_active_handles\{/m);
  // By their ending they would be counters.
  assert.doesNotMatch(input, /^nodejs_\S*_total\b/m);
  const checked = spawnSync('promtool', ['check', 'metrics'], { input, encoding: 'utf8' });
  if (checked.error !== undefined) {
    context.diagnostic('promtool is not installed here: its check of the metrics was left out');
    return;
  }
  assert.equal(checked.status, 0, checked.stdout + checked.stderr);
});

test('completeness is told anew each time: what is over leaves no series behind', async () => {
  const { telemetry } = observed();
  telemetry.verify.completenessCounted(EXAMPLES.verify.completenessCounted);
  const page = await telemetry.metricsText();
  for (const [series, value] of [
    ['coverage_ratio{stream="trades",market="BTC_USDT"}', 0.75],
    ['open_gap_seconds_by_reason{stream="trades",reason="not_collected"}', 60],
    ['open_gap_seconds_by_reason{stream="trades",reason="suspect"}', 1],
    ['oldest_open_gap_seconds{stream="trades"}', 120],
    ['mismatches{market="BTC_USDT",interval="60"}', 2],
    ['mismatches{market="BTC_USDT",interval="3600"}', 0],
    ['verified_lag_seconds{market="BTC_USDT",interval="60"}', 70],
    ['shares_idle', 1],
  ] as const) {
    assert.equal(seriesValue(page, `tapekeep_${series}`), value, series);
  }
  telemetry.verify.completenessCounted({ coverage: [], openGaps: [], checks: [], idleShares: 0 });
  const after = await telemetry.metricsText();
  assert.doesNotMatch(after, /^tapekeep_(coverage_ratio|open_gap_seconds_by|mismatches|oldest)\{/m);
});

test('of markets beyond the limit, which share a label, the worst is shown', async () => {
  const { telemetry } = observed();
  const markets = Array.from({ length: MARKET_LABELS_MAX }, (_, at) => `M${at}`);
  for (const others of [
    ['X', 'Y'],
    ['Y', 'X'],
  ]) {
    const all = [...markets, ...others];
    const isWorst = (market: string) => market === 'X';
    telemetry.verify.completenessCounted({
      coverage: all.map((market) => ({
        ...{ stream: 'trades', market, ratio: isWorst(market) ? 0.25 : 0.75 },
      })),
      openGaps: [],
      checks: all.map((market) => ({
        ...{ market, intervalS: 60, mismatches: 0, lagMs: isWorst(market) ? 9000 : 1000 },
      })),
      idleShares: 0,
    });
    const page = await telemetry.metricsText();
    const shown = (series: string) => seriesValue(page, `tapekeep_${series}`);
    assert.equal(shown('coverage_ratio{stream="trades",market="other"}'), 0.25);
    assert.equal(shown('coverage_ratio{stream="trades",market="M0"}'), 0.75);
    assert.equal(shown('verified_lag_seconds{market="other",interval="60"}'), 9);
  }
});
