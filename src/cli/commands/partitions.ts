import type { LifeDates } from '../../archive/sealing/plan.js';
import {
  type DatedPartition,
  partitionsDocument,
  readPartitions,
} from '../../console/api/handlers/archive.js';
import { shownDuration } from '../../kernel/durations.js';
import { formatInstant } from '../../kernel/timestamp.js';
import { command, option } from '../command.js';
import { lifeKindsArgument, lifeRulesOf } from '../life.js';
import { archive } from '../opening/database.js';
import { JSON_DOCUMENT } from '../options.js';
import { type Column, figure, formatTable, printReport, whole } from '../output.js';

/**
 * Lists the partitions with their states and sizes, when a daemon with these settings will seal, move
 * and give them up, and how far they are made ahead.
 */
export default command({
  options: {
    kinds: option('--kind <list>', 'only these; separate several by commas', lifeKindsArgument),
    json: JSON_DOCUMENT,
  },
  help: `
hot       being written; ~ marks an estimated count
sealed    checked and final; a late row opens it again
archived  in files below cold.dir; "tapekeep restore" brings the rows back
expired   older than its retention and deleted

next and expires: when a daemon with these settings acts; "at next look": due now. "tapekeep seal --dry-run" says
what a partition waits for.

  tapekeep partitions --kind trades
  tapekeep partitions --json | jq '.partitions[] | select(.state == "archived")'`,
  needs: archive(),
  async run({ session, store, nowMs }, { kinds, json }) {
    const dated = await readPartitions(store, kinds, lifeRulesOf(session.config));
    const document = partitionsDocument(dated, nowMs);
    printReport(json, document, () =>
      dated.length === 0
        ? 'There are no partitions yet.'
        : [
            formatTable(columnsAt(nowMs), dated),
            document.leads.map(({ table, leadMs }) =>
              leadMs === 0
                ? `${table}: none for the present; it is made when a row comes`
                : `${table}: made for another ${shownDuration(leadMs)}`,
            ),
            lookLine(dated, session.config.partitions.every, nowMs),
          ],
    );
  },
});

const dayOf = (ms: number) => formatInstant(ms).slice(0, 10);
const NEXT_LOOK = 'at next look';
/** What is due already waits for nothing but a daemon's next look. */
const dueOf = (ms: number, nowMs: number) => (ms <= nowMs ? NEXT_LOOK : dayOf(ms));

/** When that is, where it is spoken of. */
function lookLine(
  dated: readonly DatedPartition[],
  everyMs: number,
  nowMs: number,
): string | undefined {
  const isDue = ({ dates }: DatedPartition) =>
    Object.values(dates).some((ms: number | null) => ms !== null && ms <= nowMs);
  if (!dated.some(isDue)) return undefined;
  return `${NEXT_LOOK}: a daemon with these settings looks every ${shownDuration(everyMs)} (partitions.every)`;
}

/** The next step of a partition that stays: `seal 2026-02-01`, or `seal at next look` when nothing but a run is missing. */
function nextOf({ sealsAtMs, archivesAtMs }: LifeDates, nowMs: number): string {
  const [step, atMs] = sealsAtMs === null ? ['move', archivesAtMs] : ['seal', sealsAtMs];
  if (atMs === null) return '–';
  return `${step} ${dueOf(atMs, nowMs)}`;
}

const columnsAt = (nowMs: number): readonly Column<DatedPartition>[] => [
  { title: 'partition', text: ({ partition }) => partition.name },
  // The name says it too.
  { title: 'from', text: ({ partition }) => dayOf(partition.span.fromMs), rank: 4 },
  { title: 'to', text: ({ partition }) => dayOf(partition.span.toMs), rank: 1 },
  { title: 'state', text: ({ partition }) => partition.state },
  figure('rows', ({ partition: { rows, state } }) =>
    state === 'hot' && rows !== null ? `~${whole(rows)}` : whole(rows),
  ),
  { ...figure('heap B', ({ partition }) => whole(partition.heapBytes)), rank: 2 },
  { ...figure('index B', ({ partition }) => whole(partition.indexBytes)), rank: 3 },
  figure('file B', ({ partition }) => whole(partition.coldBytes)),
  { title: 'next', text: ({ dates }) => nextOf(dates, nowMs) },
  {
    title: 'expires',
    text: ({ dates: { expiresAtMs } }) => (expiresAtMs === null ? '–' : dueOf(expiresAtMs, nowMs)),
  },
];
