import type { Answer, EndpointName } from '../../../src/console/api/endpoints.js';
import { servedDocument } from '../status-document.js';

/** Answers of the console's API, as a daemon in some state would give them. */

export interface ConsoleWorld {
  readonly markets: number;
  /** Nothing was stored yet. */
  readonly isYoung?: boolean;
  /** Holes, stalled streams, a full disk. */
  readonly isIll?: boolean;
  readonly role?: 'viewer' | 'operator';
  /** More gaps and rows than one answer has, and an exchange that does not answer. */
  readonly isOverfull?: boolean;
}

type Kind = Answer<'markets'>['rows'][number]['kind'];
type Answers = { readonly [Name in EndpointName]: (query: URLSearchParams) => Answer<Name> };

/** Time of all documents. */
export const NOW_MS = Date.UTC(2026, 10, 29, 8, 40, 12);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const KINDS: readonly Kind[] = ['trades', 'candles', 'tickers', 'depth', 'states'];
/** Name that a careless page would run. */
export const HOSTILE = '<img src=x onerror=alert(1)>_USDT';

const iso = (ms: number) => new Date(ms).toISOString();
const dayText = (ms: number) => iso(ms).slice(0, 10);

function marketNames(count: number): string[] {
  const known = ['BTC_USDT', 'ETH_USDT', 'SOL_USDT', HOSTILE];
  return Array.from({ length: count }, (_, at) => known[at] ?? `COIN${at}_USDT`);
}

/** Numbers that look random and are always the same. */
const noise = (at: number) => Math.abs(Math.sin(at * 12.9898) * 43_758.5453) % 1;

function activity({ isYoung }: ConsoleWorld): Answer<'activity'> {
  const steps = isYoung === true ? 6 : 360;
  const stepS = 10;
  const line = (base: number, swing: number) =>
    Array.from({ length: steps }, (_, at) =>
      Number((base + swing * (Math.sin(at / 21) + noise(at) - 0.5)).toFixed(2)),
    );
  return {
    stepS,
    atMs: Array.from({ length: steps }, (_, at) => NOW_MS - (steps - at) * stepS * 1000),
    rowsPerS: {
      trades: line(42, 12),
      depth: line(20, 2),
      tickers: line(9, 1),
      candles: line(3, 1),
    },
    lagS: line(1.4, 0.6),
    requestsPerS: line(31, 6),
    commitsPerS: line(4, 1),
    sockets: Array.from({ length: steps }, () => 3),
  };
}

function status({ markets, isYoung, isIll }: ConsoleWorld): Answer<'status'> {
  const kinds = KINDS.map((kind, at) => ({
    ...{ kind, streams: markets, partialStreams: 0 },
    coverageRatio: isYoung === true ? 0.004 : isIll === true ? 0.93 - at / 30 : 1,
    lowestCoverageRatio: isYoung === true ? 0 : isIll === true ? 0.4 : 0.9998,
    ...{
      timedRatio: null,
      missingS: isIll === true ? 90_000 : 0,
      openS: isIll === true ? 81_000 : 0,
    },
    firstHistory:
      isYoung === true && at < 2
        ? {
            streams: markets,
            fromMs: 0,
            reachedMs: NOW_MS - DAY_MS,
            secondsPerS: 1200,
            leftS: 8100,
          }
        : null,
    expiredUntilMs: null,
  }));
  const rows = KINDS.map((kind, at) => ({
    ...{ kind, markets, received: 9_000_000, stored: isYoung === true ? 0 : 8_412_007 - at * 1e6 },
    ...{ duplicate: 12_000, refused: isIll === true && at === 0 ? 17 : 0, lost: 0, inFlight: 0 },
    ...{ lagS: isYoung === true ? null : 1.4 + at, slowestLagS: isYoung === true ? null : 48.2 },
    ...{ openGaps: isIll === true ? 12 : 0, openGapS: isIll === true ? 900 : 0, lostGaps: 0 },
  }));
  const document = servedDocument({
    ...{ exchange: 'sandbox', isSandbox: true, exchangeKind: 'sandbox', atMs: NOW_MS },
    archive: {
      ...{ atMs: NOW_MS, markets, rows: 412_007_331, coveredS: 1e8, missingS: 0 },
      ...{ coverageRatio: 1, lowestCoverageRatio: 0.9998, kinds },
      openGaps:
        isIll === true
          ? [{ kind: 'trades', reason: 'exchange failed', lengthS: 81_000, oldestAgeS: 86_000 }]
          : [],
      ...{ lostGaps: [], incidents: [], heldPartitions: [], shares: null, oldestOpenGapAgeS: null },
      ...{ mismatches: isIll === true ? 5 : 0, verifiedLagS: 46, streams: [], streamsLeftOut: 0 },
    },
    daemon: {
      ...{ markets, wantedMarkets: markets, requests: 1_000_000, requestsPerS: 50, rows },
      requestsWaiting: isIll === true ? 812 : 0,
      standing:
        isIll === true
          ? Array.from({ length: 100 }, () => ({
              ...{ market: 'ETH_USDT', kind: 'trades', intervalS: null, standingS: 1840 },
              ...{ reason: 'exchange failed', note: 'no answer within 10 s' },
            }))
          : [],
      standingStreams: isIll === true ? 812 : 0,
      lastFailedRequest:
        isIll === true
          ? {
              endpoint: 'market/deals',
              outcome: 'network',
              message: 'connect ECONNREFUSED',
              inARow: 12,
            }
          : null,
    },
  });
  const since = { sinceMs: NOW_MS - 3 * HOUR_MS };
  const state: Answer<'status'>['state'] =
    isYoung === true
      ? {
          ...since,
          level: 'busy',
          text: 'Fetching history: about 2 h left. New rows are stored as they come.',
          command: null,
        }
      : isIll === true
        ? {
            ...since,
            level: 'bad',
            text: '3 streams of ETH_USDT are stalled: the exchange does not answer.',
            command: 'tapekeep doctor',
          }
        : {
            ...since,
            level: 'good',
            text: `Collecting ${markets} markets. Nothing is missing of the last 24 hours.`,
            command: null,
          };
  return { ...document, state };
}

function marketRows({ markets, isYoung, isIll }: ConsoleWorld): Answer<'markets'>['rows'] {
  const rows = marketNames(markets).flatMap((market, at) =>
    KINDS.filter((kind) => kind !== 'tickers').map((kind, index) => {
      const isHole = isIll === true && (at * 7 + index * 3) % 11 === 0;
      const bar = Array.from({ length: 96 }, (_, step) => {
        if (isYoung === true && step < 95) return -1;
        if (isHole && step >= 60 && step < 60 + ((at * 5 + index * 7) % 20))
          return (step * 37) % 100;
        return 100;
      });
      const expected = bar.filter((one) => one >= 0);
      const ratio = expected.reduce((sum, one) => sum + one, 0) / (100 * expected.length);
      return {
        ...{ market, kind, variant: kind === 'candles' || kind === 'states' ? 60 : 0 },
        ...{ coverageRatio: ratio, bar, lagS: 1 + noise(at) * 40 },
        ...{
          openGaps: isHole ? 3 : 0,
          openS: isHole ? 1800 : 0,
          lostS: isHole && kind === 'depth' ? 3600 : 0,
        },
        ...{
          isListed: at !== 2,
          trouble: isHole && index === 0 ? 'exchange failed: no answer within 10 s' : null,
        },
      };
    }),
  );
  return rows.sort((a, b) => (a.coverageRatio ?? 2) - (b.coverageRatio ?? 2));
}

function markets(world: ConsoleWorld, query: URLSearchParams): Answer<'markets'> {
  const search = (query.get('search') ?? '').toLowerCase();
  const kinds = query.getAll('kind');
  const all = marketRows(world).filter(
    ({ market, kind }) =>
      market.toLowerCase().includes(search) && (kinds.length === 0 || kinds.includes(kind)),
  );
  const offset = Number(query.get('offset') ?? 0);
  const limit = Number(query.get('limit') ?? 200);
  const sum = all.reduce((total, { coverageRatio }) => total + (coverageRatio ?? 0), 0);
  return {
    ...{
      fromMs: NOW_MS - DAY_MS,
      toMs: NOW_MS,
      stepS: 900,
      markets: world.markets,
      total: all.length,
    },
    coverageRatio: all.length === 0 ? null : sum / all.length,
    rows: all.slice(offset, offset + limit),
  };
}

function days(world: ConsoleWorld, query: URLSearchParams): Answer<'days'> {
  const from = query.get('from') ?? dayText(NOW_MS - 364 * DAY_MS);
  const to = query.get('to') ?? dayText(NOW_MS);
  const count = Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1;
  const search = (query.get('search') ?? '').toLowerCase();
  const names = marketNames(world.markets).filter((name) => name.toLowerCase().includes(search));
  const rows = names.map((market, at) => {
    const letters: string[] = [];
    const missing: [number, number][] = [];
    const listed = world.isYoung === true ? count - 1 : Math.floor(noise(at + 3) * count * 0.4);
    for (let day = 0; day < count; day += 1) {
      const chance = noise(at * 397 + day);
      if (day < listed) letters.push('-');
      else if (day === count - 1) letters.push('p');
      else if (world.isIll === true && chance > 0.97) {
        letters.push('m');
        missing.push([day, 86_400]);
      } else if (chance > (world.isIll === true ? 0.8 : 0.98)) {
        letters.push('d');
        missing.push([day, Math.round(noise(day * at + 1) ** 3 * 60_000) + 30]);
      } else letters.push('a');
    }
    return { market, variant: 0, conditions: letters.join(''), missing };
  });
  return { kind: 'trades', from, days: count, total: rows.length, rows };
}

const piece = (
  from: number,
  to: number,
  state: string,
  more: Partial<Answer<'day'>['pieces'][number]> = {},
): Answer<'day'>['pieces'][number] => ({
  ...{ id: null, from: iso(from), to: iso(to), lengthMs: to - from, state, reason: '' },
  ...{ note: null, attempts: 0, nextTry: null, why: '', advice: null },
  ...more,
});

function gapPieces(start: number) {
  return [
    piece(start, start + 5 * HOUR_MS, 'covered'),
    piece(start + 5 * HOUR_MS, start + 5.5 * HOUR_MS, 'open', {
      ...{ id: 'g1', reason: 'exchange failed', attempts: 4, nextTry: 'in about 2 min' },
      why: 'Requests failed or were refused. They are repeated, less and less often.',
      advice: 'Fill it now, or wait.',
      note: 'maintenance of the exchange',
    }),
    piece(start + 5.5 * HOUR_MS, start + 18 * HOUR_MS, 'covered'),
    piece(start + 18 * HOUR_MS, start + 19 * HOUR_MS, 'unfillable', {
      ...{ id: 'g2', reason: 'not observed' },
      why: 'No daemon ran. This data cannot be fetched again: it exists only while it happens.',
    }),
    piece(start + 19 * HOUR_MS, start + DAY_MS, 'covered'),
  ];
}

function day(url: URLSearchParams): Answer<'day'> {
  const date = url.get('day') ?? dayText(NOW_MS);
  const start = Date.parse(date);
  return {
    ...{ market: url.get('market') ?? 'BTC_USDT', kind: 'trades', variant: 0, day: date },
    ...{ condition: 'pending', reasons: ['an open gap of 30 min'], changedAt: iso(NOW_MS) },
    ...{ expectedS: 86_400, coveredS: 81_000, rows: 812_330, pieces: gapPieces(start) },
    checks: [{ intervalS: 60, verified: 1400, mismatches: 2, unchecked: 38 }],
    sessions: [{ from: iso(start), to: null, what: 'collector', reason: null }],
    commands: [
      { what: 'Fill its gaps', command: `tapekeep gaps fill --market BTC_USDT --from ${date}` },
      {
        what: 'Export the day',
        command: `tapekeep export --market BTC_USDT --kind trades --from ${date}`,
      },
    ],
  };
}

const REASONS = ['exchange failed', 'head moved', 'not observed'];

function gaps({ isIll, markets: count }: ConsoleWorld, query: URLSearchParams): Answer<'gaps'> {
  const names = marketNames(Math.min(40, count));
  const all = (isIll === true ? names : []).map((market, at): Answer<'gaps'>['gaps'][number] => {
    const from = NOW_MS - (at + 1) * HOUR_MS;
    const state = at % 3 === 2 ? 'unfillable' : at % 5 === 1 ? 'filling' : 'open';
    return {
      ...{
        id: `g${at}`,
        market,
        kind: 'trades',
        variant: 0,
        from: iso(from),
        to: iso(from + 90_000 * (at + 1)),
      },
      ...{
        lengthMs: 90_000 * (at + 1),
        state,
        reason: REASONS[at % 3] ?? '',
        isBeforeHistory: false,
      },
      ...{
        attempts: at % 4,
        firstSeenAt: iso(from),
        nextAttemptAt: at % 2 === 0 ? iso(NOW_MS) : null,
      },
      note: at === 3 ? 'maintenance' : null,
    };
  });
  const states = query.getAll('state');
  const found = all.filter(({ state }) => states.length === 0 || states.includes(state));
  return {
    ...{ at: iso(NOW_MS), isWritten: true, isCollecting: true, cutTo: null, gaps: found },
    sums: REASONS.map((reason, at) => ({
      ...{ state: at === 2 ? 'unfillable' : 'open', reason, count: 14, lengthMs: 900_000 },
    })).filter(() => found.length > 0),
    ...{ isSumOfAll: true, historyNotReached: [], expired: [] },
  };
}

function incidents({ isIll, markets: count }: ConsoleWorld): Answer<'incidents'> {
  const causes = isIll === true ? ['daemon stopped', 'exchange failed', 'no connection'] : [];
  return {
    ...{ at: iso(NOW_MS), isAll: true },
    incidents: causes.map((cause, at) => ({
      ...{ cause, state: at === 1 ? 'open' : 'unfillable', lengthMs: 90_000 * (at + 1) },
      ...{ from: iso(NOW_MS - (at + 2) * HOUR_MS), to: iso(NOW_MS - (at + 2) * HOUR_MS + 90_000) },
      ...{ streams: count * 3, markets: count, gapIds: ['g1', 'g2'] },
    })),
  };
}

function candles({ isYoung }: ConsoleWorld, query: URLSearchParams): Answer<'candles'> {
  const count = isYoung === true ? 0 : 240;
  let price = 62_435;
  const first = Math.floor(NOW_MS / 60_000) * 60_000 - count * 60_000;
  const rows = Array.from({ length: count }, (_, at) => {
    const open = price;
    price += (noise(at) - 0.48) * 60;
    const [high, low] = [Math.max(open, price) + noise(at + 9) * 20, Math.min(open, price) - 14];
    const text = (value: number) => value.toFixed(2);
    return {
      ...{ timeMs: first + at * 60_000, open: text(open), high: text(high), low: text(low) },
      ...{ close: text(price), volume: (noise(at + 5) * 12).toFixed(6), isVerified: true },
    };
  }).filter((_, at) => at < 150 || at > 165);
  const gap = { fromMs: first + 150 * 60_000, toMs: first + 166 * 60_000 };
  return {
    ...{ market: query.get('market') ?? '', from: iso(first), to: iso(NOW_MS), intervalS: 60 },
    ...{ candles: rows, isCut: false },
    gaps: count === 0 ? [] : [{ ...gap, state: 'open', reason: 'exchange failed' }],
  };
}

function trades({ isYoung }: ConsoleWorld, query: URLSearchParams): Answer<'trades'> {
  return {
    ...{
      market: query.get('market') ?? '',
      from: iso(NOW_MS - HOUR_MS),
      to: iso(NOW_MS),
      isCut: true,
    },
    trades: Array.from({ length: isYoung === true ? 0 : 60 }, (_, at) => ({
      ...{
        timeMs: NOW_MS - (60 - at) * 800,
        id: String(1000 + at),
        side: at % 3 === 0 ? 'sell' : 'buy',
      },
      ...{ price: (62_435 + noise(at) * 8).toFixed(2), amount: (noise(at + 2) * 0.8).toFixed(6) },
    })),
  };
}

function book({ isYoung }: ConsoleWorld, query: URLSearchParams): Answer<'book'> {
  const side = (sign: number): [string, string][] =>
    Array.from({ length: isYoung === true ? 0 : 12 }, (_, at) => [
      (62_440 + sign * (at + 1) * 0.5).toFixed(2),
      (noise(at + sign) * 3).toFixed(6),
    ]);
  return {
    ...{ market: query.get('market') ?? '', timeMs: isYoung === true ? null : NOW_MS },
    ...{ bids: side(-1), asks: side(1), spread: isYoung === true ? null : '1.00' },
  };
}

function query({ isOverfull = false }: ConsoleWorld): Answer<'query'> {
  return {
    columns: [
      { name: 'hour', type: 'timestamptz' },
      { name: 'market', type: 'text' },
      { name: 'trades', type: 'bigint' },
      { name: 'volume', type: 'numeric' },
    ],
    rows: Array.from({ length: 24 }, (_, at) => [
      ...[
        iso(NOW_MS - (24 - at) * HOUR_MS)
          .replace('T', ' ')
          .replace('.000Z', '+00'),
        'BTC_USDT',
      ],
      ...[Math.round(1000 + noise(at) * 900), (noise(at) * 40).toFixed(6)],
    ]),
    ...{ isCut: isOverfull, durationMs: 34.2 },
  };
}

function partitions({ isYoung }: ConsoleWorld): Answer<'partitions'> {
  const states = ['hot', 'hot', 'sealed', 'archived', 'archived'];
  const of = (table: string) =>
    states.map((state, at) => {
      const from = Date.parse(dayText(NOW_MS)) - at * DAY_MS;
      const isCold = state === 'archived';
      return {
        ...{ name: `${table}_p${dayText(from).replaceAll('-', '')}`, table, state },
        ...{ from: iso(from), to: iso(from + DAY_MS), rows: 8_123_456 },
        ...{ heapBytes: isCold ? 0 : 812_331_008, indexBytes: isCold ? 0 : 340_001_000 },
        coldBytes: isCold ? 91_000_000 : null,
        due: {
          seal: at < 2 ? iso(from + 2 * DAY_MS) : null,
          archive: isCold ? null : iso(from + 7 * DAY_MS),
          expire: null,
        },
      };
    });
  return {
    at: iso(NOW_MS),
    partitions: isYoung === true ? [] : ['trade', 'depth', 'kline'].flatMap(of),
    leads: [{ table: 'trade', leadMs: 3 * DAY_MS }],
  };
}

function storage({ isYoung, isIll }: ConsoleWorld): Answer<'storage'> {
  const state = (name: 'hot' | 'sealed' | 'archived', bytes: number, count: number) => ({
    ...{ state: name, partitions: count, bytes, rows: bytes / 70 },
  });
  return {
    states:
      isYoung === true
        ? []
        : [state('hot', 9.1e9, 12), state('sealed', 2.4e9, 6), state('archived', 31e9, 420)],
    bytesPerDay: isYoung === true ? null : 1.3e9,
    disks: [
      {
        ...{ path: '/var/lib/tapekeep', holds: 'the database and the files of archived days' },
        ...{ freeBytes: isIll === true ? 6e9 : 410e9, totalBytes: 500e9 },
        daysLeft: isYoung === true ? null : isIll === true ? 4.6 : 315,
      },
    ],
  };
}

function quarantine({ isIll }: ConsoleWorld): Answer<'quarantine'> {
  if (isIll !== true) return { counts: [], rows: [] };
  const [endpoint, reason] = ['market/deals', 'price: not a decimal'];
  return {
    counts: [{ endpoint, reason, count: 17, kept: 17 }],
    rows: Array.from({ length: 5 }, (_, id) => ({
      ...{
        id,
        receivedAt: iso(NOW_MS - id * HOUR_MS),
        endpoint,
        market: 'BTC_USDT',
        reason,
        count: 3,
      },
      payload:
        '{"id":1,"price":"<script>alert(1)</script>","amount":"0.5","side":"sell","time":1732869612}',
    })),
  };
}

function log(): Answer<'log'> {
  const lines = [
    ['info', 'collecting', 'collecting started'],
    ['warn', 'request_failed', 'request failed, will retry'],
    ['error', 'commit_failed', 'commit failed, will retry'],
  ] as const;
  return {
    entries: Array.from({ length: 60 }, (_, at) => {
      const [level, event, message] = lines[at % 3] ?? lines[0];
      return {
        atMs: NOW_MS - at * 7000,
        level,
        event,
        message,
        fields: { endpoint: 'market/deals', attempt: at },
      };
    }),
  };
}

/** Answers to each question, by endpoint. */
export function consoleAnswers(world: ConsoleWorld): Answers {
  const explained = { at: iso(NOW_MS), streams: [] };
  return {
    who: () => ({ role: world.role ?? 'operator', isLoginNeeded: true, version: '0.1.0' }),
    status: () => status(world),
    activity: () => activity(world),
    storage: () => storage(world),
    markets: (asked) => markets(world, asked),
    coverage: () => explained,
    gaps: (asked) => gaps(world, asked),
    gap: () => ({
      at: iso(NOW_MS),
      streams: [
        {
          market: 'BTC_USDT',
          kind: 'trades',
          variant: 0,
          isCut: false,
          pieces: gapPieces(NOW_MS - DAY_MS).slice(1, 2),
        },
      ],
    }),
    incidents: () => incidents(world),
    fill: () => ({
      ...{ isPreview: true, gaps: 12, lengthMs: 900_000, requests: 40, seconds: 20 },
      leftOut: ['3 gaps are unfillable.'],
      ids: Array.from({ length: 12 }, (_, at) => `g${at}`),
      ...(world.isOverfull === true && {
        gaps: 2000,
        ids: Array.from({ length: 100 }, (_, at) => `g${at}`),
      }),
    }),
    fillProgress: () => ({
      ...{
        at: iso(NOW_MS),
        lengthMs: 900_000,
        coveredMs: world.isOverfull === true ? 600_000 : 900_000,
        unfillableMs: 0,
        waitingMs: world.isOverfull === true ? 300_000 : 0,
        isDone: true,
      },
    }),
    note: () => ({ id: 'g0', note: 'seen' }),
    days: (asked) => days(world, asked),
    day,
    candles: (asked) => candles(world, asked),
    trades: (asked) => trades(world, asked),
    book: (asked) => book(world, asked),
    query: () => query(world),
    cookbook: () => ({
      entries: [
        { name: 'Trades an hour', about: 'Trades and volume of each hour.', sql: 'select 1' },
        { name: 'Largest trades', about: 'The largest trades of a day.', sql: 'select 2' },
      ],
    }),
    partitions: () => partitions(world),
    quarantine: () => quarantine(world),
    log,
    settings: () => ({
      settings: [
        {
          name: 'http.token',
          value: '***',
          source: 'TAPEKEEP_HTTP_TOKEN',
          isDefault: false,
          about: 'secret that readers must send',
        },
        {
          name: 'http.port',
          value: 9464,
          source: 'default',
          isDefault: true,
          about: 'port of the console',
        },
        {
          name: 'streams.markets.include',
          value: ['BTC_USDT', 'ETH_USDT'],
          source: 'tapekeep.yaml:3',
          isDefault: false,
          about: 'markets that are collected',
        },
      ],
    }),
  };
}
