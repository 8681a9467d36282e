import { safeExcerpt } from '../../client/index.js';
import { sortedDepth } from '../../collect/snapshot.js';
import type { EndpointName, ResultOf } from '../../contract/endpoints.js';
import type { RejectedRow } from '../../contract/shape.js';
import { obtain } from '../../kernel/bounded.js';
import { isDecimalText } from '../../kernel/decimal.js';
import { intervalText } from '../../kernel/durations.js';
import { TapekeepError } from '../../kernel/errors.js';
import { kebabCase } from '../options.js';
import { type Column, countOf, formatTable, printable } from '../output.js';

/** Most refused rows printed one by one. */
const SHOWN_ROWS = 10;

const bold = (line: string) => `\u001b[1m${line}\u001b[22m`;

/** Prints a result: exactly as parsed, or as a table. */
export function printResult<N extends EndpointName>(
  name: N,
  data: ResultOf<N>,
  isJson: boolean,
): void {
  const isTerminal = process.stdout.isTTY === true;
  if (isJson) {
    process.stdout.write(`${JSON.stringify(data, null, isTerminal ? 2 : undefined)}\n`);
    return;
  }
  const isPlain = !isTerminal || (process.env.NO_COLOR ?? '') !== '';
  process.stdout.write(`${linesOf(name, data, isPlain ? undefined : bold).join('\n')}\n`);
}

/** Reports on stderr which rows of the answer are not in the result, and why. */
export function printRejected(rejected: readonly RejectedRow[]): void {
  const rows = rejected.length === 1 ? 'row does' : 'rows do';
  printNotice(
    `${rejected.length} ${rows} not fit the contract and are ignored`,
    rejected.map((row) => `${placeOf(row)}: ${row.reason}`),
  );
}

function printNotice(title: string, items: readonly string[]): void {
  if (items.length === 0) return;
  const shown = items.slice(0, SHOWN_ROWS).map((item) => `  ${item}`);
  const more = items.length > SHOWN_ROWS ? [`  and ${items.length - SHOWN_ROWS} more`] : [];
  const lines = [`tapekeep: ${title}:`, ...shown, ...more];
  process.stderr.write(`${lines.map(printable).join('\n')}\n`);
}

/** The answer has rows, and none of them fits the contract. */
export class UnreadableRowsError extends TapekeepError {
  /** @param secrets texts that must not reach the message, even if the server echoes them */
  constructor(name: EndpointName, rejected: readonly RejectedRow[], secrets: readonly string[]) {
    const byReason = new Map<string, { readonly first: RejectedRow; count: number }>();
    for (const row of rejected) {
      obtain(byReason, row.reason, () => ({ first: row, count: 0 })).count += 1;
    }
    const lines = [...byReason].slice(0, SHOWN_ROWS).flatMap(([reason, { first, count }]) => {
      const sample = safeExcerpt(JSON.stringify(first.payload) ?? '', secrets);
      return [
        `  ${countOf(count, 'row')}, the first ${placeOf(first)}: ${reason}`,
        `    it came as ${sample}`,
      ];
    });
    const more = byReason.size - SHOWN_ROWS;
    const rest = more > 0 ? [`  and for ${more} other reasons`] : [];
    const text = [
      `${kebabCase(name)}: no row of the answer can be read (${rejected.length} refused):`,
      ...lines.map(printable),
      ...rest,
      'Check that the address is the API of an exchange of this family.',
    ];
    super('rows_unreadable', text.join('\n'));
  }
}

function placeOf({ at }: RejectedRow): string {
  return typeof at === 'number' ? `row ${at}` : at;
}

/** A result as a person reads it: lines above the table, and the table's rows by column. */
interface View {
  readonly heading: readonly string[];
  readonly rows: readonly Row[];
}

type Row = Readonly<Record<string, unknown>>;

/** Fields that hold UNIX seconds. */
const TIME_FIELDS: ReadonlySet<string> = new Set(['at', 'time', 'date', 'timestamp']);
const MAX_DATE_MS = 8.64e15;

const listed = (rows: readonly Row[]): View => ({ heading: [], rows });
const fields = (whole: object): View =>
  listed(Object.entries(whole).map(([field, value]) => ({ field, value: shown(field, value) })));
const page = (
  { offset, limit, total }: { offset: number; limit: number; total: number },
  rows: readonly Row[],
): View => ({ heading: [`offset ${offset}, limit ${limit}, total ${total}`], rows });

const VIEWS: { readonly [N in EndpointName]: (data: ResultOf<N>) => View } = {
  markets: listed,
  products: listed,
  tickers: (data) =>
    listed(
      Object.entries(data).map(([market, { at, ticker }]) => {
        const { name: _name, ...figures } = ticker;
        return { market, at, ...figures };
      }),
    ),
  ticker: fields,
  kline: ({ market, interval, kline }) => ({
    heading: [`${market}, candles of ${intervalText(interval)}`],
    rows: kline.map(({ market: _market, ...candle }) => candle),
  }),
  history: listed,
  historyResult: listed,
  depth: (data) => {
    const { bids, asks } = sortedDepth(data);
    const levels = Math.max(bids.length, asks.length);
    return listed(
      Array.from({ length: levels }, (_, level) => ({
        'bid amount': bids[level]?.[1] ?? '',
        bid: bids[level]?.[0] ?? '',
        ask: asks[level]?.[0] ?? '',
        'ask amount': asks[level]?.[1] ?? '',
      })),
    );
  },
  book: (data) => page(data, data.orders),
  balances: (data) =>
    listed(Object.entries(data).map(([currency, balance]) => ({ currency, ...balance }))),
  orderNew: fields,
  orders: (data) => page(data, data.result),
};

/** A value as a person reads it; times of exchanges are shown in UTC. */
function shown(field: string, value: unknown): string {
  const isTime = TIME_FIELDS.has(field) && typeof value === 'number';
  if (!isTime || value * 1000 > MAX_DATE_MS) return String(value ?? '');
  const text = new Date(Math.round(value * 1000)).toISOString().replace('T', ' ');
  return Number.isInteger(value) ? text.replace('.000Z', 'Z') : text;
}

function columnOf(title: string, rows: readonly Row[]): Column<Row> {
  const isNumber = rows.every(({ [title]: value }) => {
    if (typeof value === 'number') return !TIME_FIELDS.has(title);
    return typeof value === 'string' && (value === '' || isDecimalText(value));
  });
  const text = (row: Row) => shown(title, row[title]);
  return { title, text, align: isNumber ? 'right' : 'left' };
}

function viewOf<N extends EndpointName>(name: N, data: ResultOf<N>): View {
  const view = VIEWS[name] as (data: ResultOf<N>) => View;
  return view(data);
}

/** Whether a result holds any row; of a single thing, any field. */
export function hasRows<N extends EndpointName>(name: N, data: ResultOf<N>): boolean {
  return viewOf(name, data).rows.length > 0;
}

/**
 * The lines of a result: a table, or a table of fields for a single thing. `emphasise` draws the
 * line of headings.
 */
export function linesOf<N extends EndpointName>(
  name: N,
  data: ResultOf<N>,
  emphasise: (line: string) => string = (line) => line,
): readonly string[] {
  const { heading, rows } = viewOf(name, data);
  if (rows.length === 0) return [...heading, '(nothing)'];
  const titles = Object.keys(rows[0] ?? {});
  const columns = titles.map((title) => columnOf(title, rows));
  const [head = '', ...body] = formatTable(columns, rows);
  return [...heading, emphasise(head), ...body];
}
