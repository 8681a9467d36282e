import { DAY_MS, SECOND_MS } from '../../kernel/durations.js';
import { floorToMs } from '../../kernel/span.js';
import { SERIES, type SeriesTable, WRITTEN_SERIES } from '../../model/series.js';
import { ADD_ENTRIES, entrySpan } from '../journal.js';
import { fromMs, type NamedCall, type NamedStatement, unnested } from '../sql.js';
import type { PreparedGroup } from './groups.js';
import { type RowCounts, type SettledRow, SHAPES } from './series.js';
import type { TradeColumnSet } from './trade-columns.js';
import type { StoredTrades } from './trade-rows.js';

/** Outcomes of the rows of a group: by batch, and by market, series and day (rows_by_day, journal). */

interface Tally {
  /** For each batch. */
  readonly counts: readonly RowCounts[];
  /** Rows whose key is stored with other content. */
  readonly conflicts: readonly Pick<SettledRow, 'table' | 'row'>[];
  /** Add to the counters of days, and to the journal; none when nothing was stored. */
  readonly calls: { readonly rows: readonly NamedCall[]; readonly entries: readonly NamedCall[] };
}

interface DayCount {
  readonly marketId: number;
  readonly series: SeriesTable;
  readonly variant: number;
  readonly dayMs: number;
  /** Time range of the changed rows of the day. */
  fromMs: number;
  toMs: number;
  /** Time range of the receipt of its new rows; empty when there are none. */
  receivedFromMs: number;
  receivedToMs: number;
  rows: number;
  /** Trades whose exact time is known. */
  timed: number;
}

const NONE = {
  ...{ rows: 0, timed: 0, fromMs: Infinity, toMs: -Infinity },
  ...{ receivedFromMs: Infinity, receivedToMs: -Infinity },
};

/** All writers add in the order of the key: they cannot deadlock. */
export const ADD_ROWS: NamedStatement = {
  name: 'add_rows_by_day',
  types: ['int[]', 'text[]', 'int[]', 'float8[]', 'bigint[]', 'bigint[]'],
  sql: `
    INSERT INTO rows_by_day AS r (market_id, series, variant, day, rows, timed)
    SELECT market_id, series, variant, (${fromMs('day_ms')} AT TIME ZONE 'UTC')::date, rows, timed
    FROM unnest($1, $2, $3, $4, $5, $6) AS q(market_id, series, variant, day_ms, rows, timed)
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (market_id, series, variant, day)
    DO UPDATE SET rows = r.rows + excluded.rows, timed = r.timed + excluded.timed`,
};

/** @param others all rows but trades */
export function tally(
  group: PreparedGroup,
  trades: StoredTrades,
  others: readonly SettledRow[],
): Tally {
  const counts = group.settled.map((one) => structuredClone(one));
  const conflicts: Pick<SettledRow, 'table' | 'row'>[] = [];
  for (const [place, outcome] of trades.outcomes) {
    const ofBatch = counts[group.trades.batches[place] ?? 0];
    const row = group.trades.rows[place];
    if (ofBatch === undefined || row === undefined) continue;
    ofBatch.trade.stored -= 1;
    ofBatch.trade[outcome] += 1;
    if (outcome === 'conflict') conflicts.push({ table: 'trade', row });
  }
  for (const { table, row, batch, outcome } of others) {
    const ofBatch = counts[batch];
    if (ofBatch !== undefined) ofBatch[table][outcome] += 1;
    if (outcome === 'conflict') conflicts.push({ table, row });
  }
  const days = [...countTrades(group.trades, trades), ...countOthers(others)];
  if (days.length === 0) return { counts, conflicts, calls: { rows: [], entries: [] } };
  const values = unnested(days, 'marketId', 'series', 'variant', 'dayMs', 'rows', 'timed');
  return { counts, conflicts, calls: { rows: [[ADD_ROWS, values]], entries: [entriesOf(days)] } };
}

/** The entries of the journal. A version that gave way says as well that the row changed. */
function entriesOf(days: readonly DayCount[]): NamedCall {
  const changed = days.flatMap((day) => {
    const { series } = day;
    const table = WRITTEN_SERIES.find((one) => SERIES[one].versions === series);
    const tables = table === undefined ? [series] : [series, table];
    const received =
      day.rows === 0 ? null : entrySpan({ fromMs: day.receivedFromMs, toMs: day.receivedToMs });
    return tables.map((one) => ({ ...day, series: one, span: entrySpan(day), received }));
  });
  const columns = unnested(changed, 'series', 'marketId', 'variant', 'span', 'received');
  return [ADD_ENTRIES, ['rows', ...columns]];
}

function countTrades(
  { ms, timed, runs, rows }: TradeColumnSet,
  { outcomes, learnt }: StoredTrades,
): DayCount[] {
  const days: DayCount[] = [];
  for (const { marketId, start, end } of runs) {
    let day: DayCount | undefined;
    for (let place = start; place < end; place += 1) {
      const isStored = !outcomes.has(place);
      const isLearnt = learnt.has(place);
      if (!isStored && !isLearnt) continue;
      const atMs = ms[place] ?? 0;
      if (day === undefined || atMs >= day.dayMs + DAY_MS) {
        const dayMs = floorToMs(atMs, DAY_MS);
        day = { ...NONE, marketId, series: 'trade', variant: 0, dayMs, fromMs: atMs };
        days.push(day);
      }
      // Trades are kept by the second.
      day.toMs = atMs + SECOND_MS;
      if (isStored) {
        day.rows += 1;
        addReceipt(day, rows[place]?.receivedAtMs ?? 0);
      }
      if (isLearnt || timed[place] === 1) day.timed += 1;
    }
  }
  return days;
}

function addReceipt(day: DayCount, atMs: number): void {
  day.receivedFromMs = Math.min(day.receivedFromMs, Math.floor(atMs));
  day.receivedToMs = Math.max(day.receivedToMs, Math.floor(atMs) + 1);
}

/** A version of a row that gave way is a row of another table. */
function countOthers(settled: readonly SettledRow[]): DayCount[] {
  const days = new Map<string, DayCount>();
  for (const { table, row, outcome } of settled) {
    const series =
      outcome === 'stored' ? table : outcome === 'updated' ? SERIES[table].versions : null;
    const shape = SHAPES.get(table);
    if (series === null || shape === undefined) continue;
    const { marketId } = row;
    const variant = shape.variantOf(row);
    const dayMs = floorToMs(shape.timeMs(row), DAY_MS);
    const key = `${marketId} ${series} ${variant} ${dayMs}`;
    const day = days.get(key) ?? { ...NONE, marketId, series, variant, dayMs };
    const atMs = shape.timeMs(row);
    day.fromMs = Math.min(day.fromMs, Math.floor(atMs));
    day.toMs = Math.max(day.toMs, Math.floor(atMs) + 1);
    day.rows += 1;
    addReceipt(day, row.receivedAtMs);
    days.set(key, day);
  }
  return [...days.values()];
}
