import { obtain } from '../../kernel/bounded.js';
import { DAY_MS } from '../../kernel/durations.js';
import { floorToMs } from '../../kernel/span.js';
import { SERIES, type Series, type SeriesRow, type SeriesTable } from '../../model/series.js';
import { executeSql, fromMs, type NamedStatement, unnested } from '../sql.js';
import { type Outcome, type PendingRow, SHAPES } from './series.js';
import type { TradeColumnSet } from './trade-columns.js';
import type { StoredTrades } from './trade-rows.js';

/** Counters of the rows that a group adds, by market, series and day: sql/0025. */

/** A row with what became of it. */
export interface SettledRow extends PendingRow<SeriesRow> {
  readonly table: Series;
  readonly outcome: Outcome;
}

interface DayCount {
  readonly marketId: number;
  readonly series: SeriesTable;
  readonly variant: number;
  readonly dayMs: number;
  rows: number;
  /** Trades whose exact time is known. */
  timed: number;
}

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

/** The statement that counts what a group has added; none when nothing was. */
export function addRowsSql(
  columns: TradeColumnSet,
  trades: StoredTrades,
  others: readonly SettledRow[],
): string[] {
  const days = [...countTrades(columns, trades), ...countOthers(others)];
  if (days.length === 0) return [];
  const values = unnested(days, 'marketId', 'series', 'variant', 'dayMs', 'rows', 'timed');
  return [executeSql(ADD_ROWS, values)];
}

function countTrades(
  { ms, timed, runs }: TradeColumnSet,
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
        day = { marketId, series: 'trade', variant: 0, dayMs, rows: 0, timed: 0 };
        days.push(day);
      }
      if (isStored) day.rows += 1;
      if (isLearnt || timed[place] === 1) day.timed += 1;
    }
  }
  return days;
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
    const make = () => ({ marketId, series, variant, dayMs, rows: 0, timed: 0 });
    obtain(days, `${marketId} ${series} ${variant} ${dayMs}`, make).rows += 1;
  }
  return [...days.values()];
}
