import type { LifeOutcome, LifeStep } from '../../archive/sealing/events.js';
import type { LifeOptions, LifeReport } from '../../archive/sealing/life.js';
import type { LifeRules } from '../../archive/sealing/plan.js';
import { systemClock } from '../../kernel/clock.js';
import type { PartitionInfo } from '../../store/index.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { untilStopped } from '../export/export-ending.js';
import { coldDirOf } from '../opening/database.js';
import { lookAt } from '../opening/looking.js';
import type { Session } from '../opening/session.js';
import { jsonLine, printable } from '../output/printable.js';
import { Progress } from '../output/progress.js';
import { type Column, formatTable } from '../output/table.js';
import { VERSION } from '../version.js';
import { type LifeKind, tablesKept } from './life-rules.js';

const STOPPED = 'every partition is as it was or as it should be, and the same command goes on';

/** What a command does with partitions. */
export interface LifeWork {
  readonly rules: (nowMs: number) => LifeRules;
  readonly isChosen: (partition: PartitionInfo, nowMs: number) => boolean;
  readonly run: (options: LifeOptions) => Promise<LifeReport>;
  readonly isJson: boolean;
  /** What is told when there was nothing to do. */
  readonly nothing: string;
  /** What is told after all of it. */
  readonly inTheEnd?: (report: LifeReport) => string | null;
}

/** Whether a partition belongs to one of these kinds; to any when none is named. */
export function isOfKind(
  { table }: PartitionInfo,
  kinds: readonly LifeKind[] | undefined,
): boolean {
  return kinds?.some((kind) => tablesKept(kind).some((one) => one === table)) ?? true;
}

/** Opens the archive, runs the work with its progress on stderr, and tells what came of it. */
export async function workOnLives(session: Session, work: LifeWork): Promise<ExitCode> {
  let code: ExitCode = EXIT_CODES.ok;
  const ended = await untilStopped(STOPPED, async (signal) => {
    await lookAt(
      session,
      async ({ store, nowMs }) => {
        const shown = new Shown();
        try {
          const report = await work.run({
            ...{ store, clock: systemClock, version: VERSION, nowMs, signal },
            ...{ coldDir: coldDirOf(session.config), rules: work.rules(nowMs), watcher: shown },
            isChosen: (partition) => work.isChosen(partition, nowMs),
          });
          shown.end();
          process.stdout.write(work.isJson ? jsonLine(toDocument(report)) : textOf(report, work));
          for (const { error } of report.failures)
            process.stderr.write(`tapekeep: ${error.message}\n`);
          if (report.failures.length > 0) code = EXIT_CODES.failure;
        } finally {
          shown.end();
        }
      },
      'by itself',
    );
  });
  return ended === EXIT_CODES.ok ? code : ended;
}

/** Progress of one partition after the other. */
class Shown {
  #progress: Progress | undefined;
  #title = '';
  #rows = 0;
  #isCounting = false;

  readonly onStep = (step: LifeStep, partition: string): void => {
    const title = `${partition} ${step}`;
    if (title === this.#title) return;
    this.#title = title;
    this.#begin(0, false);
    this.#progress?.say(`${title} …`);
  };

  readonly onRows = (rows: number, total: number | null): void => {
    const step = Math.max(0, rows - this.#rows);
    if (!this.#isCounting) this.#begin(total ?? rows, true);
    this.#rows = rows;
    this.#progress?.advance(step, this.#title);
  };

  end(): void {
    this.#progress?.end();
  }

  #begin(total: number, isCounting: boolean): void {
    this.end();
    this.#progress = new Progress(process.stderr, systemClock, 'rows', total);
    this.#rows = 0;
    this.#isCounting = isCounting;
  }
}

const whole = (value: number | null) => (value === null ? '–' : value.toLocaleString('en-US'));
const each = (bytes: number | undefined, rows: number | null) =>
  bytes === undefined || rows === null || rows === 0 ? '–' : (bytes / rows).toFixed(1);

const COLUMNS: readonly Column<LifeOutcome>[] = [
  { title: 'partition', text: ({ partition }) => partition.name },
  { title: 'became', text: ({ became }) => became },
  { title: 'rows', align: 'right', text: ({ rows }) => whole(rows) },
  {
    title: 'index B/row',
    align: 'right',
    text: ({ bytes, rows }) => each(bytes?.after.indexes, rows),
  },
  { title: 'before', align: 'right', text: ({ bytes, rows }) => each(bytes?.before.indexes, rows) },
  { title: 'file B/row', align: 'right', text: ({ coldBytes, rows }) => each(coldBytes, rows) },
];

function textOf(report: LifeReport, { nothing, inTheEnd }: LifeWork): string {
  const { outcomes, failures } = report;
  if (outcomes.length === 0) return failures.length > 0 ? '' : `${nothing}\n`;
  const end = inTheEnd?.(report) ?? null;
  const notes = outcomes.flatMap(({ partition, note }) =>
    note === null ? [] : [`${partition.name}: ${printable(note)}.`],
  );
  return `${[...formatTable(COLUMNS, outcomes), ...notes, ...(end === null ? [] : [end])].join('\n')}\n`;
}

function toDocument({ outcomes, failures }: LifeReport) {
  return {
    partitions: outcomes.map(({ partition, ...rest }) => ({ name: partition.name, ...rest })),
    failures: failures.map(({ partition, error }) => ({
      ...{ partition, code: error.code, message: error.message },
    })),
  };
}
