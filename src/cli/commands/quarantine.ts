import { InvalidArgumentError } from 'commander';
import {
  quarantineDocument,
  type Refused,
  readRefused,
  refusedDocument,
} from '../../console/api/handlers/archive.js';
import { formatInstant } from '../../kernel/timestamp.js';
import type { QuarantineCount, QuarantinedRow } from '../../store/index.js';
import { argument, command, group, option } from '../command.js';
import { UsageError } from '../failure.js';
import { archive } from '../opening/database.js';
import { countArgument, JSON_DOCUMENT } from '../options.js';
import {
  type Column,
  figure,
  formatTable,
  type Lines,
  printable,
  printReport,
  whole,
} from '../output.js';

const NAMES = { endpoint: '--endpoint', market: '--market' };

/** Shows what was refused: counts by endpoint and reason, and the newest samples that are kept. */
const list = command({
  options: {
    endpoint: option('--endpoint <name>', 'only of this endpoint', onlyText),
    market: option('-m, --market <name>', 'only of this market', onlyText),
    reason: option('--reason <text>', 'only with this in the reason', onlyText),
    limit: option('--limit <count>', 'show at most this many samples', countArgument, 20),
    json: JSON_DOCUMENT,
  },
  needs: archive(),
  async run({ store }, { endpoint, market, reason, limit, json }) {
    const refused = await readRefused(store, { endpoint, market, reason, limit }, NAMES);
    printReport(json, quarantineDocument(refused), () => listLines(refused, market));
  },
});

/** Shows one refused piece of data as it came. */
const show = command({
  args: { id: argument<string>('as the list shows it') },
  options: { json: JSON_DOCUMENT },
  needs: archive(),
  async run({ store }, { id, json }) {
    if (!/^\d{1,15}$/.test(id)) {
      throw new UsageError('<id>', id, 'write a number as "tapekeep quarantine" shows it');
    }
    const row = await store.inspection.quarantinedRow(Number(id));
    if (row === null) {
      const advice =
        'nothing with this id is kept; "tapekeep quarantine" lists what is (the oldest rows make room for new ones)';
      throw new UsageError('<id>', id, advice);
    }
    printReport(json, refusedDocument(row), () => [
      `id        ${row.quarantineId}`,
      `received  ${formatInstant(row.receivedAtMs)} (clock of the collecting machine)`,
      `endpoint  ${printable(row.endpoint)}`,
      `market    ${row.market === null ? '–' : printable(row.market)}`,
      `reason    ${printable(row.reason)}`,
      `rows      ${whole(row.count)}${row.count === 1 ? '' : ' of the same answer; this is the first'}`,
      'payload',
      printable(row.payload),
    ]);
  },
});

export default group({
  help: `
  tapekeep quarantine --endpoint kline --reason "not a number"
  tapekeep quarantine show 4711`,
  standard: 'list',
  commands: {
    'list [options]': ['counts by endpoint and reason, and the newest samples', list],
    'show [options] <id>': ['show one refused piece of data as it came', show],
  },
});

function onlyText(text: string): string {
  if (text === '') throw new InvalidArgumentError('Write a text.');
  return text;
}

function listLines({ counts, rows }: Refused, market: string | undefined): Lines {
  if (counts.length === 0) return 'Nothing was refused.';
  const total = counts.reduce((sum, { count }) => sum + count, 0);
  const of = market === undefined ? '' : ', of all markets';
  return [
    `Refused since the archive began${of}: ${whole(total)}`,
    formatTable(COUNT_COLUMNS, counts),
    '',
    rows.length === 0
      ? 'No sample of these is kept; all are counted.'
      : [formatTable(ROW_COLUMNS, rows), '"tapekeep quarantine show <id>" shows one whole.'],
  ];
}

const COUNT_COLUMNS: readonly Column<QuarantineCount>[] = [
  { title: 'endpoint', text: ({ endpoint }) => printable(endpoint) },
  { title: 'reason', text: ({ reason }) => printable(reason) },
  figure('refused', ({ count }) => whole(count)),
  figure('samples', ({ kept }) => whole(kept)),
  { title: 'last', text: ({ lastAtMs }) => formatInstant(Math.floor(lastAtMs)) },
];

const ROW_COLUMNS: readonly Column<QuarantinedRow>[] = [
  figure('id', ({ quarantineId }) => String(quarantineId)),
  { title: 'received', text: ({ receivedAtMs }) => formatInstant(Math.floor(receivedAtMs)) },
  { title: 'endpoint', text: ({ endpoint }) => printable(endpoint) },
  { title: 'market', text: ({ market }) => printable(market ?? '–') },
  { title: 'reason', text: ({ reason }) => printable(reason) },
  figure('rows', ({ count }) => whole(count)),
  { title: 'payload', text: ({ payload }) => printable(payload) },
];
