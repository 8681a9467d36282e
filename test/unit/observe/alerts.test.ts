import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { STREAM_KINDS } from '../../../src/model/series.js';
import { createLogger } from '../../../src/observe/logger.js';
import { createTelemetry } from '../../../src/observe/telemetry.js';
import { FakeClock } from '../../support/fake-clock.js';
import { repositoryPath } from '../../support/repository/repository.js';

/** Every alert by its series, a value a minute: with the first it fires at the end, with the second it does not. */
type Series = Readonly<Record<string, string>>;
interface Case {
  /** When it is looked at. */
  readonly at: string;
  readonly fires: Series;
  readonly quiet: Series;
}

const one = (at: string, series: string, fires: string, quiet: string): Case => ({
  ...{ at, fires: { [series]: fires }, quiet: { [series]: quiet } },
});
/** A counter that is known from the start: once raised by one, and never. */
const known = (series: string): Case => one('8m', series, '0x5 1x20', '0x30');
/** A counter whose series is new at its first increase, and one that was raised long ago. */
const first = (at: string, series: string, value: number, quiet: string): Case =>
  one(at, series, `_x5 ${value}x2000`, quiet);

const CASES: Readonly<Record<string, Case>> = {
  TapekeepDown: one('10m', 'up{job="tapekeep"}', '1x5 0x20', '1x5 0x1 1x20'),
  TapekeepGone: {
    ...{ at: '10m', fires: { 'up{job="other"}': '1x20' }, quiet: { 'up{job="tapekeep"}': '0x20' } },
  },
  TapekeepRestarts: one(
    '59m',
    'process_start_time_seconds{job="tapekeep"}',
    '1x9 2x9 3x9 4x9 5x40',
    '1x9 2x9 3x9 4x60',
  ),
  TapekeepDatabaseDown: one('10m', 'tapekeep_database_up', '1x5 0x20', '1x30'),
  TapekeepSpoolFills: {
    at: '10m',
    fires: { tapekeep_spool_bytes: '0x5 6x20', tapekeep_spool_limit_bytes: '10x30' },
    quiet: { tapekeep_spool_bytes: '0x5 4x20', tapekeep_spool_limit_bytes: '10x30' },
  },
  TapekeepSpoolDrops: known('tapekeep_spool_batches_total{outcome="dropped"}'),
  TapekeepDatabaseWentBack: known('tapekeep_database_went_back_total'),
  TapekeepTakenOver: known('tapekeep_takeovers_total{cause="silent"}'),
  TapekeepStandbyGone: {
    at: '30m',
    fires: { tapekeep_standbys: '1x9 0x30', tapekeep_archive_held: '1x40' },
    quiet: { tapekeep_standbys: '0x40', tapekeep_archive_held: '1x40' },
  },
  TapekeepShareIdle: {
    at: '10m',
    fires: { tapekeep_shares_idle: '0x5 1x20', tapekeep_archive_held: '1x30' },
    quiet: { tapekeep_shares_idle: '0x5 1x1 0x20', tapekeep_archive_held: '1x30' },
  },
  TapekeepEmbeddedPostgresKilled: known('tapekeep_embedded_postgres_phases_total{phase="lost"}'),
  TapekeepOutputUnread: known('tapekeep_output_lines_dropped_total{output="stderr"}'),
  TapekeepRowsLost: known('tapekeep_rows_total{stream="states",outcome="lost"}'),
  TapekeepRowsOutOfNowhere: one('10m', 'tapekeep_rows_in_flight{stream="a"}', '0x5 -1x20', '0x30'),
  TapekeepCommitsFail: one(
    '20m',
    'tapekeep_commit_failures_total{code="53100",retried="false"}',
    '_x15 1x20',
    '1x40',
  ),
  TapekeepCommitsNothing: one('20m', 'tapekeep_last_commit_timestamp_seconds', '0x30', '900x30'),
  TapekeepDiskFills: {
    at: '20m',
    fires: {
      'tapekeep_disk_free_bytes{directory="data"}': '9x30',
      'tapekeep_disk_size_bytes{directory="data"}': '100x30',
    },
    quiet: {
      'tapekeep_disk_free_bytes{directory="data"}': '11x30',
      'tapekeep_disk_size_bytes{directory="data"}': '100x30',
    },
  },
  TapekeepDiskFullSoon: one(
    '8h',
    'tapekeep_disk_free_bytes{directory="data"}',
    '3000-1x600',
    '9000-1x600',
  ),
  TapekeepLags: one('10m', 'tapekeep_lag_seconds{stream="trades",market="A"}', '130x20', '110x20'),
  TapekeepStreamStands: one('5m', 'tapekeep_standing_seconds{stream="a"}', '301x20', '299x20'),
  TapekeepGapsStayOpen: one(
    '70m',
    'tapekeep_open_gap_seconds{stream="a",market="A"}',
    '1x80',
    '1x50 0x1 1x80',
  ),
  TapekeepTradesDoNotAddUp: one(
    '40m',
    'tapekeep_mismatches{market="A",interval="60"}',
    '1x50',
    '0x50',
  ),
  TapekeepVerifiesNothing: one(
    '20m',
    'tapekeep_verified_lag_seconds{market="A",interval="60"}',
    '3700x30',
    '3500x30',
  ),
  TapekeepWalksStall: one('29m', 'tapekeep_walk_stalls_total{stream="a"}', '0+1x40', '0x20 2x40'),
  TapekeepRequestsFail: {
    at: '20m',
    fires: {
      'tapekeep_requests_total{endpoint="a",outcome="ok"}': '0+7x40',
      'tapekeep_requests_total{endpoint="a",outcome="timeout"}': '0+3x40',
    },
    quiet: {
      'tapekeep_requests_total{endpoint="a",outcome="ok"}': '0+9x40',
      'tapekeep_requests_total{endpoint="a",outcome="timeout"}': '0+1x40',
      'tapekeep_requests_total{endpoint="a",outcome="aborted"}': '0+9x40',
    },
  },
  TapekeepBudgetShort: one('20m', 'tapekeep_request_budget_waiting', '51x30', '49x30'),
  TapekeepFillsWait: {
    at: '40m',
    fires: {
      tapekeep_request_budget_shared_total: '0+9x50',
      'tapekeep_requests_total{endpoint="a",outcome="ok"}': '0+80x50',
      'tapekeep_requests_total{endpoint="b",outcome="timeout"}': '0+20x50',
      'tapekeep_open_gaps{stream="candles",market="A"}': '1x50',
    },
    quiet: {
      tapekeep_request_budget_shared_total: '0+7x50',
      'tapekeep_requests_total{endpoint="a",outcome="ok"}': '0+100x50',
      'tapekeep_open_gaps{stream="candles",market="A"}': '1x50',
    },
  },
  TapekeepTradesWait: {
    at: '40m',
    fires: {
      'tapekeep_head_poll_wait_seconds_bucket{stream="trades",le="60"}': '0+5x50',
      'tapekeep_head_poll_wait_seconds_bucket{stream="trades",le="300"}': '0+10x50',
      'tapekeep_head_poll_wait_seconds_bucket{stream="trades",le="+Inf"}': '0+10x50',
    },
    quiet: {
      'tapekeep_head_poll_wait_seconds_bucket{stream="trades",le="60"}': '0+10x50',
      'tapekeep_head_poll_wait_seconds_bucket{stream="trades",le="+Inf"}': '0+10x50',
    },
  },
  TapekeepPagesFill: {
    at: '40m',
    fires: {
      'tapekeep_head_polls_total{stream="trades",cause="urgent"}': '0+2x50',
      'tapekeep_head_polls_total{stream="trades",cause="floor"}': '0+8x50',
    },
    quiet: {
      'tapekeep_head_polls_total{stream="trades",cause="urgent"}': '0+1x50',
      'tapekeep_head_polls_total{stream="trades",cause="floor"}': '0+19x50',
    },
  },
  TapekeepReconnects: one('30m', 'tapekeep_realtime_reconnects_total', '0+40x40', '0+20x40'),
  TapekeepQuarantineFills: first(
    '8m',
    'tapekeep_quarantined_total{endpoint="history",reason="price"}',
    11,
    '_x5 10x20',
  ),
  TapekeepQueueFills: {
    at: '10m',
    fires: {
      'tapekeep_queue_items{queue="write"}': '9x20',
      'tapekeep_queue_limit_items{queue="write"}': '10x20',
    },
    quiet: {
      'tapekeep_queue_items{queue="write"}': '8x20',
      'tapekeep_queue_limit_items{queue="write"}': '10x20',
    },
  },
  TapekeepCommitsSlow: {
    at: '30m',
    fires: {
      'tapekeep_commit_duration_seconds_bucket{le="1"}': '0+9x40',
      'tapekeep_commit_duration_seconds_bucket{le="5"}': '0+10x40',
      'tapekeep_commit_duration_seconds_bucket{le="+Inf"}': '0+10x40',
    },
    quiet: {
      'tapekeep_commit_duration_seconds_bucket{le="1"}': '0+10x40',
      'tapekeep_commit_duration_seconds_bucket{le="+Inf"}': '0+10x40',
    },
  },
  TapekeepPartitionsRunOut: one(
    '40m',
    'tapekeep_partition_lead_seconds{table="trade"}',
    '86000x50',
    '87000x50',
  ),
  // A restart of Postgres breaks one round.
  TapekeepSealingFails: one(
    '50m',
    'tapekeep_sealing_failing{code="unheard_of"}',
    '_x5 1x60',
    '_x5 1x20 stale 1x60',
  ),
  TapekeepLogClosed: known('tapekeep_warnings_total{code="log_closed"}'),
  TapekeepLateRows: first('8m', 'tapekeep_partitions_reopened_total{table="trade"}', 4, '0x5 3x20'),
  TapekeepClockOff: {
    at: '20m',
    fires: {
      tapekeep_exchange_clock_offset_seconds: '-31x30',
      tapekeep_exchange_clock_pace: '1x30',
    },
    quiet: {
      tapekeep_exchange_clock_offset_seconds: '31x30',
      tapekeep_exchange_clock_pace: '20x30',
    },
  },
  TapekeepClockDisputed: known('tapekeep_exchange_clock_disputes_total{outcome="held"}'),
  TapekeepHistoryStale: first(
    '8m',
    'tapekeep_stale_pages_total{stream="trades",source="states"}',
    6,
    '_x5 5x20',
  ),
};

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}
const path = join(repositoryPath, 'config', 'prometheus-rules.yml');
const { groups } = parse(readFileSync(path, 'utf8')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);

test('every alert has a case here, and a section of the runbook that it leads to', () => {
  const names = rules.map(({ alert }) => alert);
  assert.deepEqual(Object.keys(CASES).sort(), [...names].sort());
  const runbook = readFileSync(join(repositoryPath, 'docs', 'runbook.md'), 'utf8');
  const sections = Array.from(runbook.matchAll(/^## (Tapekeep\w+)$/gm), ([, name]) => name);
  assert.deepEqual(sections, names, 'in the order of the rules');
  for (const { alert, annotations } of rules) {
    assert.equal(annotations.runbook_url, `docs/runbook.md#${alert.toLowerCase()}`);
  }
});

test('counters of alerts are there from the start, or a series that is new counts', async () => {
  const logger = createLogger({
    ...{ level: 'silent', format: 'json', clock: new FakeClock() },
    destination: { write: () => undefined },
  });
  const telemetry = createTelemetry({
    ...{ logger, exchangeNowMs: () => 0, streams: STREAM_KINDS, version: '1.2.3' },
  });
  const page = await telemetry.metricsText();
  assert.match(page, /^tapekeep_build_info\{version="1\.2\.3",node="\d+\./m);
  assert.match(page, /^tapekeep_last_commit_timestamp_seconds [1-9]/m);
  const watched = rules.flatMap(({ alert, expr }) =>
    Array.from(expr.matchAll(/increase\((\w+)(\{[^}]*\})?\[/g), ([, name = '', labels = '']) => ({
      ...{ alert, expr, name, labels },
    })),
  );
  assert.ok(watched.length > 8);
  for (const { alert, expr, name, labels } of watched) {
    const inner = labels.slice(1, -1);
    const isThere = page
      .split('\n')
      .some((line) => line.startsWith(name) && line.includes(inner) && / 0$/.test(line));
    const countsNew = expr.includes(`unless ${name}${labels} offset`);
    assert.ok(isThere || countsNew, `${alert} misses the first increase of ${name}`);
  }
});

test('every alert fires when it should, and not just below', (t) => {
  const asked = Object.entries(CASES).flatMap(([alert, { at, fires, quiet }]) =>
    (
      [
        [1, fires],
        [0, quiet],
      ] as const
    ).map(([value, series]) => ({
      interval: '1m',
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      promql_expr_test: [
        {
          expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) > bool 0 or vector(0)`,
          eval_time: at,
          exp_samples: [{ labels: '{}', value }],
        },
      ],
    })),
  );
  const dir = mkdtempSync(join(tmpdir(), 'tapekeep-rules-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'cases.yml');
  const document = { rule_files: [path], evaluation_interval: '1m', tests: asked };
  writeFileSync(file, stringify(document));
  const run = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' });
  if (run.error !== undefined) {
    t.skip('promtool is not installed here: no alert was tried');
    return;
  }
  assert.equal(run.status, 0, run.stdout + run.stderr);
});
