import type { LifeOptions, LifeReport } from '../archive/sealing/life.js';
import { LIFE_KINDS, type LifeKind, type LifeRules } from '../archive/sealing/plan.js';
import type { LifeOutcome, LifeStep } from '../archive/sealing/seal.js';
import type { Config } from '../config/schema.js';
import { systemClock } from '../kernel/clock.js';
import type { Span } from '../kernel/span.js';
import { nameMeant } from '../model/kinds.js';
import {
  SERIES,
  SERIES_TABLES,
  type SeriesTable,
  type StreamKind,
  tableOfStream,
} from '../model/series.js';
import type { PartitionInfo } from '../store/index.js';
import { VERSION } from './command.js';
import { EXIT_CODES, type ExitCode } from './failure.js';
import { coldOf, type Look, stoppable } from './opening/database.js';
import { listArgument, oneOf } from './options.js';
import {
  type Column,
  figure,
  formatTable,
  type Lines,
  printable,
  printReport,
  whole,
} from './output.js';
import { Progress } from './progress.js';

/** Reads and gathers a list of such kinds with commas. */
export const lifeKindsArgument = listArgument(LIFE_KINDS, (word): LifeKind => {
  return nameMeant(word, LIFE_KINDS) ?? oneOf(word, 'kind', LIFE_KINDS);
});

/** The rules that the settings make. */
export function lifeRulesOf({
  markets,
  partitions,
  cold,
  retention,
  verification,
  streams,
}: Config): LifeRules {
  const retentionMs: Partial<Record<SeriesTable, number>> = {};
  for (const table of SERIES_TABLES) {
    const keptMs = retention[SERIES[table].retention];
    if (keptMs !== null) retentionMs[table] = keptMs;
  }
  return {
    sealAfterMs: partitions.seal ? partitions.sealAfter : null,
    coldAfterMs: cold.enabled ? cold.after : null,
    restMs: cold.after,
    retentionMs,
    markets: { wanted: markets, max: streams.markets.max },
    needsChecks: verification.enabled,
    needsTimes: streams.trades.enabled && streams.trades.exactTimes,
  };
}

/** The need of a command that works on partitions. */
export const partitions = stoppable(
  'every partition is as it was or as it should be, and the same command continues',
);

/** What a command does with partitions. */
export interface LifeWork {
  readonly rules: LifeRules;
  readonly isChosen: (partition: PartitionInfo) => boolean;
  readonly run: (options: LifeOptions) => Promise<LifeReport>;
  readonly isJson: boolean;
  /** Whether it tells only what would be done. */
  readonly isPreview?: boolean;
  /** What a partition that had to be left as it was makes of the exit code; default nothing. */
  readonly keptExit?: ExitCode;
  /** Text printed when there was nothing to do. */
  readonly nothing: string;
  /** Text printed after all of it. */
  readonly inTheEnd?: (report: LifeReport) => Lines;
}

/** What brings back a span that is in files. */
export function restoreAdvice(kind: StreamKind, span: Span): string {
  const [from, to] = [span.fromMs, span.toMs].map((ms) => new Date(ms).toISOString());
  return `"tapekeep restore --kind ${SERIES[tableOfStream(kind)].retention} --from ${from} --to ${to}" brings it back`;
}

/** Runs the work with its progress on stderr, and reports the outcome. */
export async function workOnLives(
  { session, store, nowMs, signal }: Look,
  work: LifeWork,
): Promise<ExitCode> {
  const shown = watcher();
  try {
    const report = await work.run({
      ...{ store, clock: systemClock, version: VERSION, nowMs, signal },
      ...{ cold: coldOf(session.config), rules: work.rules, watcher: shown },
      isChosen: work.isChosen,
    });
    shown.end();
    printReport(work.isJson, toDocument(report), () => linesOf(report, work));
    for (const { error } of report.failures) process.stderr.write(`tapekeep: ${error.message}\n`);
    if (report.failures.length > 0) return EXIT_CODES.failure;
    const isKept = report.outcomes.some(({ became }) => became === 'kept');
    return (isKept ? work.keptExit : undefined) ?? EXIT_CODES.ok;
  } finally {
    shown.end();
  }
}

/** Shows one partition after the other. */
function watcher() {
  let progress = new Progress();
  let title = '';
  let isCounting = false;
  return {
    onStep(step: LifeStep, partition: string): void {
      const next = `${partition} ${step}`;
      if (next === title) return;
      title = next;
      isCounting = false;
      progress.say(`${title} …`);
    },
    onRows(rows: number, total: number | null): void {
      if (!isCounting) {
        progress.end();
        progress = new Progress('rows', total ?? rows);
        isCounting = true;
      }
      progress.at(rows, title);
    },
    end: () => progress.end(),
  };
}

const each = (bytes: number | undefined, rows: number | null) =>
  bytes === undefined || rows === null || rows === 0 ? '–' : (bytes / rows).toFixed(1);

const columnsOf = (isPreview: boolean): readonly Column<LifeOutcome>[] => [
  { title: 'partition', text: ({ partition }) => partition.name },
  { title: isPreview ? 'would be' : 'became', text: ({ became }) => became },
  // Of what is still written to they are estimated, as "tapekeep partitions" has them.
  figure('rows', ({ rows, partition }) =>
    isPreview && partition.state === 'hot' && rows !== null ? `~${whole(rows)}` : whole(rows),
  ),
  figure('index B/row', ({ bytes, rows }) => each(bytes?.after.indexes, rows)),
  figure('before', ({ bytes, rows }) => each(bytes?.before.indexes, rows)),
  figure('file B/row', ({ coldBytes, rows }) => each(coldBytes, rows)),
];

function linesOf(report: LifeReport, { nothing, inTheEnd, isPreview = false }: LifeWork): Lines {
  const { outcomes, failures } = report;
  if (outcomes.length === 0) return failures.length === 0 && nothing;
  return [
    formatTable(columnsOf(isPreview), outcomes),
    outcomes.map(({ partition: { name }, note }) => note && `${name}: ${printable(note)}.`),
    inTheEnd?.(report),
  ];
}

function toDocument({ outcomes, failures }: LifeReport) {
  return {
    partitions: outcomes.map(({ partition, ...rest }) => ({ name: partition.name, ...rest })),
    failures: failures.map(({ partition, error }) => ({
      ...{ partition, code: error.code, message: error.message },
    })),
  };
}
