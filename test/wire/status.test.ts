import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, test } from 'node:test';
import { createLogger } from '../../src/observe/logger.js';
import { createTelemetry } from '../../src/observe/telemetry.js';
import {
  archiveStatus,
  type KnownExchange,
  type LedgerCount,
  STATUS,
  type StatusDocument,
  statusOf,
  statusRows,
} from '../../src/status/document.js';
import { type HealthReport, healthReport } from '../../src/status/health.js';
import {
  type StatusServer,
  StatusServerError,
  type StatusServerOptions,
} from '../../src/status/server.js';
import type { StreamStatus } from '../../src/store/index.js';
import { FakeClock } from '../support/fake-clock.js';
import { sendRaw } from '../support/fuzz/fuzz-http.js';
import { servedDocument, startTestStatus } from '../support/status-document.js';

const TOKEN = 'a-token-of-some-length';
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

function bearer(token: string): RequestInit {
  return { headers: { authorization: `Bearer ${token}` } };
}

/** Status of a GET with a Host header of choice, which fetch would not send. */
function statusFor(server: StatusServer, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request({ port: server.port, host: '127.0.0.1', headers: { host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asked.on('error', reject);
    asked.end();
  });
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
    telemetry: { warned: ({ message }) => warned.push(message) },
  });
  const answer = await fetch(`${server.url}/metrics`);
  assert.equal(answer.status, 503);
  assert.doesNotMatch(await answer.text(), /canary/);
  assert.deepEqual(warned, ['status: inner canary']);
});

test('the page shows streams and reasons, escaped, and allows no script', async () => {
  const telemetry = createTelemetry({
    logger: createLogger({
      ...{ level: 'silent', format: 'json', clock: new FakeClock() },
      destination: { write: () => undefined },
    }),
    exchangeNowMs: () => 10_000,
    processMetrics: false,
  });
  const stream = 'trades"><script>alert(2)</script>';
  telemetry.collect.received({ stream, market: 'M', count: 1234 });
  telemetry.collect.settled({ stream, market: 'M', outcome: 'stored', count: 1234 });
  telemetry.collect.progressed({ stream, market: 'M', newestMs: 7600 });
  const market = '<img src=x onerror=alert(3)>';
  const failed = { endpoint: 'history', outcome: 'network', message: '<script>3', inARow: 4 };
  const server = await start({
    ready: async () => ill,
    statusJson: (_selection, reports) =>
      servedDocument({
        archive: archiveStatus(countOf([{ market, expiredUntilMs: 3_600_000 }]), 10_000),
        daemon: {
          ...reports,
          ...{ rows: statusRows(telemetry.counts.snapshot(), 10_000), markets: 278 },
          ...{ wantedMarkets: 500, lastFailedRequest: failed, requestsWaiting: 1990 },
        },
      }),
  });
  const answer = await fetch(`${server.url}/`);
  const page = await answer.text();
  assert.match(answer.headers.get('content-security-policy') ?? '', /^default-src 'none'/);
  assert.doesNotMatch(page, /<script|<img/);
  assert.match(page, /data-title="kind">trades&quot;&gt;&lt;script&gt;/);
  assert.match(page, /<td class="text" data-title="market">&lt;img src=x/);
  assert.match(page, /<td data-title="stored">1,234<\/td>/);
  assert.match(page, /<td data-title="lag">2\.4s<\/td>/);
  assert.match(page, /Not ready: database: refused &lt;script&gt;/);
  assert.match(page, /history: network: &lt;script&gt;3 \(4 in a row, and none answered since\)/);
  assert.match(page, /<dt>markets<\/dt><dd>278 of 500<\/dd>/);
  assert.match(page, /<dt>expired<\/dt><dd>trades before 1970-01-01 01:00:00<\/dd>/);
  assert.match(page, /<dt>requests<\/dt><dd>5\.0 a second at most, and 1,990 wait: /);
  assert.doesNotMatch(page, /(src|href)="(https?:)?\/\//);

  const json = STATUS.parse(await (await fetch(`${server.url}/status`)).json());
  assert.equal(json.daemon?.rows[0]?.lagS, 2.4);
  assert.deepEqual(json.daemon.ready, ill);
});

test('page and document say what an exchange is that is no real one', async () => {
  const read = async (exchange: KnownExchange) => {
    const server = await start({
      statusJson: (_selection, daemon) =>
        servedDocument({ ...statusOf('0.0.0', exchange, 0, undefined), daemon }),
    });
    const { exchangeKind } = STATUS.parse(await (await fetch(`${server.url}/status`)).json());
    const page = await (await fetch(server.url)).text();
    return [exchangeKind, /<dt>exchange<\/dt><dd>(.*)<\/dd>/.exec(page)?.[1]];
  };
  const name = 'acme';
  const played = { name, isSandbox: true };
  assert.deepEqual(await read({ ...played, identity: 'replay-1' }), ['replay', 'acme (replay)']);
  assert.deepEqual(await read({ ...played, identity: 'sandbox-1' }), ['sandbox', 'acme (sandbox)']);
  assert.deepEqual(await read({ name, isSandbox: false, identity: null }), ['exchange', name]);
  assert.deepEqual(await read({ name }), [null, name]);
});

test('the page says that the time is disputed in the words of the alert', async () => {
  const rules = await readFile('config/prometheus-rules.yml', 'utf8');
  const [, alert = ''] = rules.split('alert: TapekeepClockDisputed');
  const summary = /summary: (.*)/.exec(alert)?.[1] ?? 'no summary';
  let isTimeDisputed = false;
  const server = await start({
    statusJson: (_selection, reports) => servedDocument({ daemon: { ...reports, isTimeDisputed } }),
  });
  const read = async () => (await fetch(server.url)).text();
  assert.ok(!(await read()).includes(summary));
  isTimeDisputed = true;
  const page = await read();
  assert.ok(page.includes(`<p class="bad">Ready, but not covering all: ${summary}`), page);
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

test('the page and the document tell open gaps by reason, the longest first', async () => {
  let counted: LedgerCount | undefined;
  const server = await start({
    statusJson: (selection) =>
      servedDocument({
        archive: counted === undefined ? null : archiveStatus(counted, 7_400_000, selection),
      }),
  });
  const read = async () => (await fetch(server.url)).text();
  assert.match(await read(), /<h2>Open gaps by reason<\/h2>\n<p>Not counted yet\.<\/p>/);

  const open = { streamId: 1, marketId: 1, market: 'M', state: 'open', count: 1 } as const;
  const hostile = '<script>alert(4)</script>';
  counted = countOf([{}], {
    gaps: [
      { ...open, kind: 'trades', reason: 'suspect', lengthMs: 60_000, oldestMs: 7_310_000 },
      { ...open, kind: 'candles', reason: 'exchange failed', lengthMs: 7.2e6, oldestMs: 100_000 },
      { ...open, kind: 'depth', reason: hostile, lengthMs: 10, oldestMs: 7_399_990 },
      { ...open, kind: 'candles', reason: 'not collected', lengthMs: 9, oldestMs: 7_399_991 },
      { ...open, kind: 'states', reason: 'not collected', lengthMs: 8, oldestMs: 7_399_992 },
      {
        ...{ ...open, state: 'unfillable', kind: 'depth', reason: 'not observed' },
        ...{ lengthMs: 120_000, oldestMs: 7_000_000 },
      },
    ],
  });
  const page = await read();
  assert.match(
    page,
    />candles<\/td>.*>exchange failed<\/td>.*>2h<\/td>.*>2h 2m<\/td><\/tr>\n<tr>.*>trades<\/td>.*>suspect<\/td>.*>1m<\/td>.*>1m 30s<\/td>/,
  );
  assert.match(page, />states<\/td>.*>not collected</);
  assert.match(page, /&lt;script&gt;alert\(4\)/);
  assert.doesNotMatch(page, /<script/);
  const json = (await (await fetch(`${server.url}/status`)).json()) as StatusDocument;
  assert.deepEqual(json.archive?.openGaps[1], {
    ...{ kind: 'trades', reason: 'suspect', lengthS: 60, oldestAgeS: 90 },
  });
  assert.deepEqual(json.archive.lostGaps, [
    { kind: 'depth', reason: 'not observed', lengthS: 120, oldestAgeS: 400 },
  ]);
  assert.match(page, /Unfillable gaps by reason<\/h2>\n<table>.*\n?.*>depth<\/td>.*>not observed</);

  counted = countOf([{}, { collectFromMs: 5, startReason: 'history horizon' }]);
  const walking = await read();
  assert.match(walking, /<h2>Open gaps by reason<\/h2>\n<p>None\.<\/p>/);
  assert.match(walking, /class="busy">Ready: .*trades: first history is being fetched, its start/);
  assert.equal(walking.match(/>100\.00 % of part<\/td>/g)?.length, 2);
  assert.match(walking, /<p>Of part: older history is still being fetched/);
  counted = countOf([{ collectFromMs: 5 }]);
  const whole = await read();
  assert.match(whole, /class="good">Ready: .* collected\.<\/p>/);
  assert.doesNotMatch(whole, /of part/i);
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
  const all = await read('');
  assert.deepEqual(names(all), ['A trades', 'A candles', 'B trades', 'B depth']);
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
  const [, candles, b] = all.streams;
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
  const unknown = 'nothing is collected or stored of a market';
  assert.deepEqual(await refusal('?market=A&market=btc_usd'), [
    ...[400, `${unknown} "btc_usd"; did you mean BTC_USDT?`],
  ]);
  assert.deepEqual(await refusal('?market='), [
    ...[400, `${unknown} ""; without market= all are listed`],
  ]);
  for (const query of ['?worst=-1', '?worst=x', '?wurst=1', '?kind=trades,depth', '?kind=bids']) {
    assert.equal((await fetch(`${server.url}/status${query}`)).status, 400, query);
  }
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

test('only GET and HEAD are served, and only known pages', async () => {
  const server = await start();
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
    const answer = await fetch(`${server.url}/status`, { method });
    assert.equal(answer.status, 405, method);
    assert.equal(answer.headers.get('allow'), 'GET, HEAD');
  }
  for (const path of ['/', '/status', '/metrics', '/healthz', '/readyz']) {
    const answer = await fetch(server.url + path, { method: 'HEAD' });
    assert.equal(answer.status, 200, path);
    assert.notEqual(answer.headers.get('content-length'), '0', path);
    assert.equal(await answer.text(), '');
  }
  assert.equal((await fetch(`${server.url}/../etc/passwd`)).status, 404);
});

test('with a token set, everything but health and readiness asks for it', async () => {
  const server = await start({ token: TOKEN, ready: async () => ill });
  for (const path of ['/', '/status', '/metrics', '/absent', '//healthz', '/healthz/']) {
    assert.equal((await fetch(server.url + path)).status, 401, path);
    assert.equal((await fetch(server.url + path, bearer('wrong-token'))).status, 401, path);
  }
  for (const path of ['/', '/status', '/metrics']) {
    assert.equal((await fetch(server.url + path, bearer(TOKEN))).status, 200, path);
  }
  const asked = (await fetch(server.url)).headers.get('www-authenticate') ?? '';
  assert.match(asked, /^Basic realm="tapekeep", charset="UTF-8", Bearer$/);
  for (const [login, status] of [
    [`operator:${TOKEN}`, 200],
    [`:${TOKEN}`, 200],
    [`${TOKEN}:`, 401],
    [`operator:${TOKEN}x`, 401],
    ['operator', 401],
    ['', 401],
  ] as const) {
    const authorization = `Basic ${Buffer.from(login).toString('base64')}`;
    assert.equal((await fetch(server.url, { headers: { authorization } })).status, status, login);
  }
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
  const open = await fetch(`${server.url}/readyz`);
  assert.equal(open.status, 503);
  assert.doesNotMatch(await open.text(), /refused/);
  assert.match(await (await fetch(`${server.url}/readyz`, bearer(TOKEN))).text(), /refused/);
});

test('without a token, a page of another origin cannot read through a name of its own', async () => {
  const server = await start();
  assert.equal(await statusFor(server, `evil.example:${server.port}`), 403);
  assert.equal(await statusFor(server, `localhost:${server.port}`), 200);
  assert.equal(await statusFor(server, `[::1]:${server.port}`), 200);
});

test('two Host headers, and what pages of other sites ask, are refused', async () => {
  for (const token of [null, TOKEN]) await refusesPages(await start({ token }));
});

async function refusesPages(server: StatusServer): Promise<void> {
  const login = `Authorization: Basic ${Buffer.from(`a:${TOKEN}`).toString('base64')}`;
  const answerTo = async (...more: string[]) => {
    const first = ['GET /status HTTP/1.1', 'Host: 127.0.0.1', login];
    const head = [...first, ...more, 'Connection: close'];
    const text = await sendRaw(server.port, [...head, '', ''].join('\r\n'));
    return Number(text.split(' ')[1]);
  };
  assert.equal(await answerTo(), 200);
  assert.equal(await answerTo('Host: 127.0.0.1'), 400);
  assert.equal(await answerTo('Host: evil.example'), 400);
  assert.equal(await answerTo('Sec-Fetch-Site: cross-site'), 403);
  assert.equal(await answerTo('Sec-Fetch-Site: same-origin'), 200);
  assert.equal(await answerTo('Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate'), 200);
}

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

test('oversized headers are refused', async () => {
  const server = await start();
  const answer = await fetch(server.url, { headers: { 'x-long': 'a'.repeat(20_000) } });
  assert.equal(answer.status, 431);
});
