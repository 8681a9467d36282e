import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { healthReport } from '../../../src/console/health.js';
import { type DiskSpace, StateWatch, stateOf } from '../../../src/console/state.js';
import type { ArchiveStatus, DaemonStatus } from '../../../src/console/status-document.js';
import { MINUTE_MS } from '../../../src/kernel/durations.js';
import { FakeClock } from '../../support/fake-clock.js';
import { servedDocument } from '../../support/status-document.js';

type Kind = ArchiveStatus['kinds'][number];

const KIND: Kind = {
  ...{ kind: 'trades', streams: 1, partialStreams: 0, coverageRatio: 1, lowestCoverageRatio: 1 },
  ...{ timedRatio: null, missingS: 0, openS: 0, firstHistory: null, expiredUntilMs: null },
};

const ARCHIVE: ArchiveStatus = {
  ...{ atMs: 0, markets: 3, rows: 1234, coveredS: 1, missingS: 0, coverageRatio: 1 },
  ...{ lowestCoverageRatio: 1, kinds: [KIND], openGaps: [], lostGaps: [], incidents: [] },
  ...{
    heldPartitions: [],
    shares: null,
    oldestOpenGapAgeS: null,
    mismatches: 0,
    verifiedLagS: null,
  },
  ...{ streams: [], streamsLeftOut: 0 },
};

const withKind = (kind: Partial<Kind>): ArchiveStatus => ({
  ...ARCHIVE,
  kinds: [{ ...KIND, ...kind }],
});

const standing: DaemonStatus['standing'] = [
  {
    ...{ market: 'A', kind: 'candles', intervalS: 60, standingS: 90 },
    ...{ reason: 'exchange failed', note: 'no answer' },
  },
];
const ill = (name: string) => healthReport([{ name, ok: false, detail: 'why' }]);

test('the state of a daemon is its worst trouble, with a command that helps', () => {
  const of = (daemon: Partial<DaemonStatus>, archive: ArchiveStatus = ARCHIVE) => {
    const { level, text, command } = stateOf(servedDocument({ daemon, archive }));
    return [level, text, command];
  };
  const walk = { streams: 1, fromMs: null, reachedMs: null, secondsPerS: 0, leftS: null };
  const all: readonly (readonly [ReturnType<typeof of>, ReturnType<typeof of>])[] = [
    [of({}), ['good', 'Ready: 1 market is collected.', null]],
    [of({ markets: 2 }), ['good', 'Ready: 2 markets are collected.', null]],
    [
      of({}, withKind({ openS: 601 })),
      ['busy', 'Ready: 1 market is collected; gaps are open in trades.', 'tapekeep gaps'],
    ],
    [of({}, withKind({ openS: 600 })), ['good', 'Ready: 1 market is collected.', null]],
    [
      of({ requestsWaiting: 1990 }, withKind({ openS: 601 })),
      [
        'busy',
        'Ready: 1 market is collected; 1,990 requests wait: the settings ask for more than exchange.requestsPerS allows.',
        'tapekeep config show exchange streams',
      ],
    ],
    [
      of({ requestsWaiting: 1990 }, withKind({ firstHistory: walk })),
      [
        'busy',
        'Ready: 1 market is collected; trades: first history is being fetched, its start is not known yet.',
        'tapekeep status',
      ],
    ],
    [
      of({ standing }, withKind({ firstHistory: walk })),
      [
        'busy',
        'Ready: 1 market is collected; coverage does not grow: A candles 1m for 1m 30s (exchange failed: no answer).',
        'tapekeep gaps',
      ],
    ],
    [
      of({ ready: ill('database'), standing }),
      ['bad', 'Not ready: database: why', 'tapekeep doctor'],
    ],
    [
      of({ ready: ill('database'), health: ill('loops') }),
      ['bad', 'Not alive: loops: why', 'tapekeep doctor'],
    ],
  ];
  for (const [found, wanted] of all) assert.deepEqual(found, wanted);
});

test('a disk that is nearly full is told, with what shows its contents', () => {
  const of = (freeBytes: number) => {
    const disks: DiskSpace[] = [
      { directory: 'cold', freeBytes: 900, sizeBytes: 1000 },
      { directory: 'data', freeBytes, sizeBytes: 1000 },
    ];
    const { level, text, command } = stateOf(servedDocument({ daemon: { standing } }), { disks });
    return [level, text, command];
  };
  assert.equal(of(100)[2], 'tapekeep gaps');
  assert.deepEqual(of(99), [
    'busy',
    'Ready: 1 market is collected; 9 % of the disk of data is free: make room.',
    'tapekeep partitions',
  ]);
});

test('the state of an archive alone is its headline', () => {
  const of = (archive: ArchiveStatus | null, exchange: string | null = 'test') => {
    const document = { ...servedDocument({ archive, exchange }), daemon: null };
    const { level, text } = stateOf(document);
    return [level, text];
  };
  assert.deepEqual(of(ARCHIVE), ['good', 'Archive of test: 3 markets, 1,234 rows']);
  assert.deepEqual(of(ARCHIVE, null), ['busy', 'The archive is empty: nothing was collected yet.']);
  assert.equal(of(withKind({ openS: 601 }))[0], 'busy');
});

test('the disputed time is told in the words of the alert', async () => {
  const rules = await readFile('config/prometheus-rules.yml', 'utf8');
  const [, alert = ''] = rules.split('alert: TapekeepClockDisputed');
  const summary = /summary: (.*)/.exec(alert)?.[1] ?? 'no summary';
  const { level, text } = stateOf(servedDocument({ daemon: { isTimeDisputed: true } }));
  assert.deepEqual([level, text], ['bad', `Ready, but not covering all: ${summary}`]);
});

test('a start is no trouble until it takes too long', () => {
  const clock = new FakeClock();
  const levels = (watch: StateWatch, phases: readonly string[]) =>
    phases.map((phase) => {
      const isReady = phase === 'collecting';
      const ready = isReady ? healthReport([]) : ill('phase');
      return watch.stateOf(servedDocument({ daemon: { phase, ready } })).level;
    });
  const fast = new StateWatch(clock);
  const slow = new StateWatch(clock);
  const phases = ['starting the database', 'opening the markets', 'collecting', 'waiting'];
  assert.deepEqual(levels(fast, phases), ['busy', 'busy', 'good', 'bad']);
  clock.advance(5 * MINUTE_MS - 1);
  assert.deepEqual(levels(slow, ['opening the markets']), ['busy']);
  clock.advance(1);
  assert.deepEqual(levels(slow, ['opening the markets', 'collecting']), ['bad', 'good']);
  const dead = servedDocument({ daemon: { phase: 'starting', health: ill('loops') } });
  assert.equal(new StateWatch(clock).stateOf(dead).level, 'bad');
});

test('the state keeps since when it is as it is', () => {
  const watch = new StateWatch(new FakeClock());
  const at = (atMs: number, daemon: Partial<DaemonStatus> = {}) =>
    watch.stateOf(servedDocument({ atMs, daemon })).sinceMs;
  assert.equal(at(1_000_000), 1_000_000);
  assert.equal(at(2_000_000, { markets: 5 }), 1_000_000);
  assert.equal(at(3_000_000, { standing }), 2_910_000);
  assert.equal(at(3_010_000, { standing }), 2_910_000);
  assert.equal(at(4_000_000), 4_000_000);
});
