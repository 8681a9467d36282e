import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBrowser } from '../support/programs/browser.js';
import { servedDocument, startTestStatus } from '../support/status-document.js';

const TOKEN = 'a-token-of-some-length';

const LONG = 'LONGCOIN_USDT';

/** Figures of a year with 500 markets, at their longest. */
const DOCUMENT = servedDocument({
  exchange: 'a-long-name-of-an-exchange.example',
  archive: {
    ...{ atMs: 10_000, markets: 500, rows: 12_297_084_312, coveredS: 1.5e10, missingS: 1.5e9 },
    ...{ coverageRatio: 0.9, lowestCoverageRatio: 0.25, oldestOpenGapAgeS: 7e6, mismatches: 5 },
    ...{ verifiedLagS: 46, streamsLeftOut: 2980 },
    kinds: ['depth', 'tickers', 'states', 'candles', 'trades', 'balances', 'orders'].map(
      (kind) => ({
        ...{ kind, streams: 500, partialStreams: 500 },
        ...{
          coverageRatio: 0.25,
          lowestCoverageRatio: 0.01,
          timedRatio: null,
          expiredUntilMs: null,
        },
        ...{ missingS: 1.5e9, openS: 1.5e9 },
        firstHistory: {
          ...{ streams: 500, fromMs: 0, reachedMs: 7e11, secondsPerS: 86_400, leftS: 7e6 },
        },
      }),
    ),
    lostGaps: [{ kind: 'depth', reason: 'not observed', lengthS: 636_348.2, oldestAgeS: 7e6 }],
    incidents: Array.from({ length: 10 }, () => ({
      ...{ cause: 'daemon stopped', state: 'unfillable', fromMs: 0, toMs: 7e11, streams: 3000 },
      markets: 500,
    })),
    openGaps: [{ kind: 'trades', reason: 'exchange failed', lengthS: 636_348.2, oldestAgeS: 7e6 }],
    streams: Array.from({ length: 20 }, () => ({
      ...{ market: LONG, kind: 'trades', intervalS: 604_800, rows: 12_297_084_312 },
      ...{
        coveredFromMs: 0,
        coveredUntilMs: 0,
        lagS: 636_348.2,
        coveredS: 1e9,
        missingS: 31_536_000,
      },
      ...{ unfillableS: 0, coverageRatio: 0.25, gaps: 123_456, openGaps: 123_456 },
      ...{
        beforeHistoryS: 0,
        neverAskedS: 0,
        collectFromMs: null,
        isStartKnown: false,
        startReason: null,
      },
      ...{ verifiedUntilMs: 0, mismatches: 123_456 },
    })),
  },
  daemon: {
    ...{ markets: 278, wantedMarkets: 500, phase: 'opening the markets: 278 of 500' },
    lastFailedRequest: {
      ...{ endpoint: 'market/deals', outcome: 'network', inARow: 12 },
      message: 'connect ECONNREFUSED https://api.a-long-name-of-an-exchange.example/api/v4/public',
    },
    standing: Array.from({ length: 500 }, () => ({
      ...{ market: LONG, kind: 'candles', intervalS: 60, standingS: 634_000 },
      ...{ reason: 'exchange failed', note: 'no answer within 10 s' },
    })),
    rows: ['trades', 'depth', 'tickers', 'candles', 'states'].map((kind) => ({
      ...{ kind, markets: 500, received: 12_297_084_312, stored: 12_297_084_312 },
      ...{ duplicate: 9_297_084_312, refused: 1_234_567, lost: 1_234_567, inFlight: 123_456 },
      ...{ lagS: 636_348.2, slowestLagS: 636_348.2, openGaps: 123_456, openGapS: 31_536_000 },
      lostGaps: 123_456,
    })),
  },
});

/** Whatever is wider than the window, or than its own place. */
const CUT_OFF = `[...document.querySelectorAll('body, dl, dd, dt, table, th, td, p')]
  .filter((one) => one.getClientRects().length > 0 && getComputedStyle(one.closest('thead') ?? one).position !== 'absolute')
  .filter((one) => one.getBoundingClientRect().right > innerWidth || one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.outerHTML.slice(0, 80))`;

test('in a browser the page opens with the token as password, and nothing is cut off', async (t) => {
  const browser = await startBrowser();
  if (browser === undefined) {
    t.skip('no Chromium is installed here: the page was looked at by no browser');
    return;
  }
  t.after(() => browser.close());
  const server = await startTestStatus({ token: TOKEN, statusJson: () => DOCUMENT });
  t.after(() => server.stop());
  const url = new URL(server.url);
  url.username = 'operator';
  url.password = TOKEN;
  for (const width of [1280, 390]) {
    await browser.open(url.href, width);
    assert.equal(await browser.evaluate('document.querySelectorAll("tbody tr").length'), 37);
    assert.deepEqual(await browser.evaluate(CUT_OFF), [], `at ${width} px`);
    const shown = await browser.evaluate<string>('document.body.innerText');
    assert.match(shown, /7d 9h/);
    assert.match(shown, /12,297,084,312/);
    const style =
      'getComputedStyle(document.querySelector("td[data-title=reason]"), "::before").content';
    const name: string = await browser.evaluate(style);
    // On a phone each figure has its name beside it; there is no place for a heading.
    assert.equal(name, width === 390 ? '"reason"' : 'none');
  }
});
