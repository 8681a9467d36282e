import { PARTITIONED_TABLES, type PartitionInfo } from '../../store/index.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { isOfKind } from '../life-desk.js';
import type { LifeKind } from '../life-rules.js';
import { lookAt } from '../looking.js';
import { formatMoment } from '../moments.js';
import { jsonLine } from '../printable.js';
import { type CommonOptions, openSession } from '../session.js';
import { roughDuration } from '../summary.js';
import { type Column, formatTable } from '../table.js';

export interface PartitionsOptions extends CommonOptions {
  readonly kind?: readonly LifeKind[];
  readonly json?: boolean;
}

/** Lists the partitions with their states and sizes, and how far they are made ahead. */
export async function partitionsCommand(options: PartitionsOptions): Promise<ExitCode> {
  const session = openSession({ logLevel: 'warn', ...options });
  await lookAt(session, async ({ store, nowMs }) => {
    const all = await store.sealing.partitions();
    const partitions = all.filter((one) => isOfKind(one, options.kind));
    const leads = leadsOf(partitions, nowMs);
    if (options.json === true) {
      process.stdout.write(
        jsonLine({ at: new Date(nowMs), partitions: partitions.map(document), leads }),
      );
      return;
    }
    const lines = [
      ...formatTable(COLUMNS, partitions),
      ...leads.map(({ table, leadMs }) => leadLine(table, leadMs)),
    ];
    process.stdout.write(
      partitions.length === 0 ? 'There are no partitions yet.\n' : `${lines.join('\n')}\n`,
    );
  });
  return EXIT_CODES.ok;
}

/** Up to where partitions exist without a hole, seen from now. */
function leadsOf(partitions: readonly PartitionInfo[], nowMs: number) {
  return PARTITIONED_TABLES.flatMap((table) => {
    const own = partitions.filter((one) => one.table === table);
    if (own.length === 0) return [];
    let endMs = nowMs;
    for (const { span } of own) if (span.fromMs <= endMs && endMs < span.toMs) endMs = span.toMs;
    return [{ table, leadMs: endMs - nowMs }];
  });
}

function leadLine(table: string, leadMs: number): string {
  return leadMs === 0
    ? `${table}: none for the present; it is made when a row comes`
    : `${table}: made for another ${roughDuration(leadMs)}`;
}

function document({ span, ...rest }: PartitionInfo) {
  const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  const { sealedAtMs, archivedAtMs, restoredAtMs, ...facts } = rest;
  return {
    ...facts,
    ...{ from: iso(span.fromMs), to: iso(span.toMs), sealedAt: iso(sealedAtMs) },
    ...{ archivedAt: iso(archivedAtMs), restoredAt: iso(restoredAtMs) },
  };
}

const whole = (value: number | null) => (value === null ? '–' : value.toLocaleString('en-US'));
const right = 'right' as const;
const COLUMNS: readonly Column<PartitionInfo>[] = [
  { title: 'partition', text: ({ name }) => name },
  { title: 'from', text: ({ span }) => formatMoment(span.fromMs).slice(0, 10) },
  { title: 'to', text: ({ span }) => formatMoment(span.toMs).slice(0, 10) },
  { title: 'state', text: ({ state }) => state },
  {
    title: 'rows',
    align: right,
    text: ({ rows, state }) => (state === 'hot' && rows !== null ? `~${whole(rows)}` : whole(rows)),
  },
  { title: 'heap B', align: right, text: ({ heapBytes }) => whole(heapBytes) },
  { title: 'index B', align: right, text: ({ indexBytes }) => whole(indexBytes) },
  { title: 'file B', align: right, text: ({ coldBytes }) => whole(coldBytes) },
];
