import { nearestName } from '../../kernel/nearest.js';
import type { QuarantineCount, QuarantinedRow } from '../../store/index.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { UsageError } from '../failure.js';
import { marketsOf } from '../gaps/gap-selection.js';
import { lookAt } from '../opening/looking.js';
import { type CommonOptions, openSession } from '../opening/session.js';
import { formatMoment } from '../options/moments.js';
import { selectMarkets } from '../options/selection.js';
import { jsonLine, printable } from '../output/printable.js';
import { type Column, formatTable } from '../output/table.js';

export interface QuarantineOptions extends CommonOptions {
  readonly endpoint?: string;
  readonly market?: string;
  readonly reason?: string;
  readonly limit: number;
  readonly json?: boolean;
}

/**
 * Shows what was refused: counts by endpoint and reason, and the newest samples that are kept.
 *
 * @throws UsageError for an endpoint of which nothing was ever refused, and for an unknown market
 */
export async function quarantineListCommand(options: QuarantineOptions): Promise<ExitCode> {
  const session = openSession({ logLevel: 'warn', ...options });
  const { endpoint, market, reason, limit } = options;
  await lookAt(session, async ({ store, streams }) => {
    const all = await store.inspection.quarantineCounts();
    if (endpoint !== undefined && all.length > 0) checkEndpoint(endpoint, all);
    if (market !== undefined) selectMarkets([market], marketsOf(streams));
    const asked = { endpoint, market, reason };
    const given = Object.entries(asked).filter(([, value]) => value !== undefined);
    const rows = await store.inspection.quarantined({ ...Object.fromEntries(given), limit });
    const counts = all.filter(
      (count) =>
        (endpoint === undefined || count.endpoint === endpoint) &&
        (reason === undefined || count.reason.toLowerCase().includes(reason.toLowerCase())),
    );
    if (options.json === true) {
      const at = (ms: number) => new Date(ms).toISOString();
      process.stdout.write(
        jsonLine({
          counts: counts.map(({ lastAtMs, ...count }) => ({ ...count, lastAt: at(lastAtMs) })),
          rows: rows.map(rowDocument),
        }),
      );
      return;
    }
    process.stdout.write(`${listLines(counts, rows, market).join('\n')}\n`);
  });
  return EXIT_CODES.ok;
}

function checkEndpoint(endpoint: string, counts: readonly QuarantineCount[]): void {
  const known = new Set(counts.map((one) => one.endpoint));
  if (known.has(endpoint)) return;
  const nearest = nearestName(endpoint, known);
  const advice = nearest === undefined ? '' : ` Did you mean ${printable(nearest)}?`;
  const names = [...known].map(printable).join(', ');
  throw new UsageError(
    '--endpoint',
    endpoint,
    `nothing of it was refused.${advice} There is: ${names}`,
  );
}

function listLines(
  counts: readonly QuarantineCount[],
  rows: readonly QuarantinedRow[],
  market: string | undefined,
): string[] {
  if (counts.length === 0) return ['Nothing was refused.'];
  const total = counts.reduce((sum, { count }) => sum + count, 0);
  const of = market === undefined ? '' : ', of all markets';
  const kept =
    rows.length === 0
      ? ['No sample of these is kept; all are counted.']
      : [...formatTable(ROW_COLUMNS, rows), '"tapekeep quarantine show <id>" shows one whole.'];
  return [
    `Refused since the archive began${of}: ${total.toLocaleString('en-US')}`,
    ...formatTable(COUNT_COLUMNS, counts),
    '',
    ...kept,
  ];
}

/**
 * Shows one refused piece of data as it came.
 *
 * @throws UsageError for an id that is none
 */
export async function quarantineShowCommand(
  id: string,
  options: CommonOptions & { readonly json?: boolean },
): Promise<ExitCode> {
  if (!/^\d{1,15}$/.test(id)) {
    throw new UsageError('<id>', id, 'write a number as "tapekeep quarantine" shows it');
  }
  const session = openSession({ logLevel: 'warn', ...options });
  await lookAt(session, async ({ store }) => {
    const row = await store.inspection.quarantinedRow(Number(id));
    if (row === null) {
      const advice =
        'nothing with this id is kept; "tapekeep quarantine" lists what is (the oldest rows make room, see database.quarantineMax)';
      throw new UsageError('<id>', id, advice);
    }
    if (options.json === true) {
      process.stdout.write(jsonLine(rowDocument(row)));
      return;
    }
    const lines = [
      `id        ${row.quarantineId}`,
      `received  ${formatMoment(row.receivedAtMs)} (clock of the collecting machine)`,
      `endpoint  ${printable(row.endpoint)}`,
      `market    ${row.market === null ? '–' : printable(row.market)}`,
      `reason    ${printable(row.reason)}`,
      `rows      ${whole(row.count)}${row.count === 1 ? '' : ' of the same answer; this is the first'}`,
      'payload',
      printable(row.payload),
    ];
    process.stdout.write(`${lines.join('\n')}\n`);
  });
  return EXIT_CODES.ok;
}

function rowDocument({ quarantineId: id, receivedAtMs, ...rest }: QuarantinedRow) {
  return { id, receivedAt: new Date(receivedAtMs).toISOString(), ...rest };
}

const right = 'right' as const;
const whole = (value: number) => value.toLocaleString('en-US');

const COUNT_COLUMNS: readonly Column<QuarantineCount>[] = [
  { title: 'endpoint', text: ({ endpoint }) => printable(endpoint) },
  { title: 'reason', text: ({ reason }) => printable(reason) },
  { title: 'refused', align: right, text: ({ count }) => whole(count) },
  { title: 'samples', align: right, text: ({ kept }) => whole(kept) },
  { title: 'last', text: ({ lastAtMs }) => formatMoment(Math.floor(lastAtMs)) },
];

const ROW_COLUMNS: readonly Column<QuarantinedRow>[] = [
  { title: 'id', align: right, text: ({ quarantineId }) => String(quarantineId) },
  { title: 'received', text: ({ receivedAtMs }) => formatMoment(Math.floor(receivedAtMs)) },
  { title: 'endpoint', text: ({ endpoint }) => printable(endpoint) },
  { title: 'market', text: ({ market }) => printable(market ?? '–') },
  { title: 'reason', text: ({ reason }) => printable(reason) },
  { title: 'rows', align: right, text: ({ count }) => whole(count) },
  { title: 'payload', text: ({ payload }) => printable(payload) },
];
