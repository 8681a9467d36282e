import {
  type LifeDates,
  type LifeRules,
  lifeDates,
  restsUntilMs,
} from '../../archive/sealing/plan.js';
import { shownDuration } from '../../kernel/durations.js';
import { formatInstant } from '../../kernel/timestamp.js';
import { SERIES_TABLES } from '../../model/series.js';
import type { PartitionInfo } from '../../store/index.js';
import { command, option } from '../command.js';
import { isOfKind, lifeKindsArgument, lifeRulesOf } from '../life.js';
import { archive } from '../opening/database.js';
import { JSON_DOCUMENT } from '../options.js';
import { type Column, figure, formatTable, printReport, whole } from '../output.js';

/** A partition with what is before it. */
interface Dated {
  readonly partition: PartitionInfo;
  readonly dates: LifeDates;
}

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
    const all = await store.sealing.partitions();
    const partitions = all.filter((one) => isOfKind(one, kinds));
    const leads = leadsOf(partitions, nowMs);
    const rules = lifeRulesOf(session.config);
    const dated = partitions.map((partition) => ({ partition, dates: datesOf(partition, rules) }));
    const report = { at: new Date(nowMs), partitions: dated.map(document), leads };
    printReport(json, report, () =>
      partitions.length === 0
        ? 'There are no partitions yet.'
        : [
            formatTable(columnsAt(nowMs), dated),
            leads.map(({ table, leadMs }) =>
              leadMs === 0
                ? `${table}: none for the present; it is made when a row comes`
                : `${table}: made for another ${shownDuration(leadMs)}`,
            ),
            lookLine(dated, session.config.partitions.every, nowMs),
          ],
    );
  },
});

/** What was restored is left alone for a while first. */
function datesOf(partition: PartitionInfo, rules: LifeRules): LifeDates {
  const { archivesAtMs, ...dates } = lifeDates(partition, rules);
  if (archivesAtMs === null) return { ...dates, archivesAtMs };
  const atMs = Math.max(archivesAtMs, restsUntilMs(partition, rules));
  const isInTime = dates.expiresAtMs === null || atMs < dates.expiresAtMs;
  return { ...dates, archivesAtMs: isInTime ? atMs : null };
}

/** End of the unbroken partitions from now on. */
function leadsOf(partitions: readonly PartitionInfo[], nowMs: number) {
  return SERIES_TABLES.flatMap((table) => {
    const own = partitions.filter((one) => one.table === table);
    if (own.length === 0) return [];
    let endMs = nowMs;
    for (const { span } of own) if (span.fromMs <= endMs && endMs < span.toMs) endMs = span.toMs;
    return [{ table, leadMs: endMs - nowMs }];
  });
}

function document({ partition, dates }: Dated) {
  const { span, ...rest } = partition;
  const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  const { sealedAtMs, archivedAtMs, restoredAtMs, ...facts } = rest;
  return {
    ...facts,
    ...{ from: iso(span.fromMs), to: iso(span.toMs), sealedAt: iso(sealedAtMs) },
    ...{ archivedAt: iso(archivedAtMs), restoredAt: iso(restoredAtMs) },
    due: {
      ...{ seal: iso(dates.sealsAtMs), archive: iso(dates.archivesAtMs) },
      expire: iso(dates.expiresAtMs),
    },
  };
}

const dayOf = (ms: number) => formatInstant(ms).slice(0, 10);
const NEXT_LOOK = 'at next look';
/** What is due already waits for nothing but a daemon's next look. */
const dueOf = (ms: number, nowMs: number) => (ms <= nowMs ? NEXT_LOOK : dayOf(ms));

/** When that is, where it is spoken of. */
function lookLine(dated: readonly Dated[], everyMs: number, nowMs: number): string | undefined {
  const isDue = ({ dates }: Dated) =>
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

const columnsAt = (nowMs: number): readonly Column<Dated>[] => [
  { title: 'partition', text: ({ partition }) => partition.name },
  { title: 'from', text: ({ partition }) => dayOf(partition.span.fromMs) },
  { title: 'to', text: ({ partition }) => dayOf(partition.span.toMs) },
  { title: 'state', text: ({ partition }) => partition.state },
  figure('rows', ({ partition: { rows, state } }) =>
    state === 'hot' && rows !== null ? `~${whole(rows)}` : whole(rows),
  ),
  figure('heap B', ({ partition }) => whole(partition.heapBytes)),
  figure('index B', ({ partition }) => whole(partition.indexBytes)),
  figure('file B', ({ partition }) => whole(partition.coldBytes)),
  { title: 'next', text: ({ dates }) => nextOf(dates, nowMs) },
  {
    title: 'expires',
    text: ({ dates: { expiresAtMs } }) => (expiresAtMs === null ? '–' : dueOf(expiresAtMs, nowMs)),
  },
];
