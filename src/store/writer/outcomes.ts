import { DAY_MS } from '../../kernel/durations.js';
import { floorToMs } from '../../kernel/span.js';
import { SERIES, type SeriesTable } from '../../model/series.js';
import { fromMs, type NamedCall, type NamedStatement, unnested } from '../sql.js';
import type { PreparedGroup } from './groups.js';
import { type RowCounts, type SettledRow, SHAPES } from './series.js';
import type { TradeColumnSet } from './trade-columns.js';
import type { StoredTrades } from './trade-rows.js';

/** Outcomes of the rows of a group: by batch, and by market, series and day (rows_by_day). */

interface Tally {
  /** For each batch. */
  readonly counts: readonly RowCounts[];
  /** Rows whose key is stored with other content. */
  readonly conflicts: readonly Pick<SettledRow, 'table' | 'row'>[];
  /** Adds to the counters of days; none when nothing was stored. */
  readonly calls: readonly NamedCall[];
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
  const values = unnested(days, 'marketId', 'series', 'variant', 'dayMs', 'rows', 'timed');
  return { counts, conflicts, calls: days.length === 0 ? [] : [[ADD_ROWS, values]] };
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
    const key = `${marketId} ${series} ${variant} ${dayMs}`;
    const day = days.get(key) ?? { marketId, series, variant, dayMs, rows: 0, timed: 0 };
    day.rows += 1;
    days.set(key, day);
  }
  return [...days.values()];
}
