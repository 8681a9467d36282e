import { type SeriesTable, seriesOf, viewOf } from '../../model/series.js';
import type { PartitionMarket } from '../../store/index.js';
import { ColdError, ParquetError } from '../errors.js';
import {
  type DecimalForm,
  type DecimalForms,
  decimalSql,
  type TypedColumn,
} from '../parquet/columns.js';
import { type DuckSession, literal } from '../parquet/session.js';
import { coldMarketFolder } from './folder.js';
import type { ColdStorage } from './storage.js';

/**
 * Types of decimals in cold files. Programs that read many files as one table want a column to have
 * the same type in all of them: some refuse others, some round to the digits of the first. So there
 * are few types, a column of a market stays with the one that it has, and any two of them fit into a
 * third without losing a digit.
 */

/** From the usual to the widest; what does not fit into the last is text. */
const LADDER: readonly DecimalForm[] = [
  // One 64-bit integer each; the second has the digits of most totals.
  { precision: 18, scale: 8 },
  { precision: 18, scale: 10 },
  // Products of two of these still have a type.
  { precision: 30, scale: 12 },
  { precision: 38, scale: 18 },
];
const WIDEST = LADDER.length - 1;

/** The lowest step that a number of so many digits after the point can stand on. */
function stepOf(digits: number | null): number {
  const step = LADDER.findIndex(({ scale }) => (digits ?? 0) <= scale);
  return step < 0 ? WIDEST : step;
}

/** The step of a type of a file; none when it is of another maker, or older. */
function stepOfType(sqlType: string): number {
  const plain = sqlType.replace('[]', '');
  if (plain === 'VARCHAR') return LADDER.length;
  return LADDER.findIndex((form) => plain === decimalSql(form));
}

type Steps = Map<string, number>;

/** Remembers of each market how wide its columns are by now. */
export class ColdDecimals {
  readonly #cold: ColdStorage;
  readonly #table: SeriesTable;
  readonly #duck: DuckSession;
  readonly #steps = new Map<number, Steps>();

  constructor(cold: ColdStorage, table: SeriesTable, duck: DuckSession) {
    this.#cold = cold;
    this.#table = table;
    this.#duck = duck;
  }

  /** The types that the next file of a market may have. */
  async formsOf(market: PartitionMarket, name: string): Promise<DecimalForms> {
    const steps = this.#steps.get(market.marketId) ?? (await this.#begin(market, name));
    this.#steps.set(market.marketId, steps);
    return Object.fromEntries([...steps].map(([column, step]) => [column, LADDER.slice(step)]));
  }

  /** Widths written of a market: from now on its columns are at least as wide. */
  written({ marketId }: PartitionMarket, columns: readonly TypedColumn[]): void {
    const steps = this.#steps.get(marketId);
    if (steps === undefined) return;
    for (const { name, sqlType } of columns) widen(steps, name, sqlType);
  }

  /** By the precisions of the market, and by its newest file. */
  async #begin({ basePrec, quotePrec }: PartitionMarket, name: string): Promise<Steps> {
    const steps = stepsOf(this.#table, basePrec, quotePrec);
    try {
      const newest = await this.#newestFile(name);
      if (newest === undefined) return steps;
      using held = this.#cold.hold();
      const file = `read_parquet(${literal(await held.peek(newest))})`;
      const types = await this.#duck.types(`reading ${newest}`, file);
      for (const [column, sqlType] of types) widen(steps, column, sqlType);
    } catch (error) {
      // An unreadable file teaches nothing: that it is damaged is for its readers.
      if (!(error instanceof ColdError || error instanceof ParquetError)) throw error;
    }
    return steps;
  }

  /** Days sort by their names. */
  async #newestFile(name: string): Promise<string | undefined> {
    let newest: string | undefined;
    for await (const path of this.#cold.list(`${coldMarketFolder(viewOf(this.#table), name)}/`)) {
      if (path.endsWith('.parquet') && (newest === undefined || path > newest)) newest = path;
    }
    return newest;
  }
}

/** Steps for the columns of a series by the precisions of a market. */
function stepsOf(table: SeriesTable, basePrec: number | null, quotePrec: number | null): Steps {
  const least = {
    ...{ price: stepOf(quotePrec), amount: stepOf(basePrec), sum: WIDEST },
    product: quotePrec === null || basePrec === null ? 0 : stepOf(quotePrec + basePrec),
  };
  return new Map(
    seriesOf(table).columns.flatMap(({ name: column, type: { measure } }) =>
      measure === undefined ? [] : [[column, least[measure]]],
    ),
  );
}

/** Types that a decimal column of files of such a market may have, the narrowest first. */
export function usualForms(
  table: SeriesTable,
  basePrec: number | null,
  quotePrec: number | null,
): Map<string, readonly DecimalForm[]> {
  const steps = stepsOf(table, basePrec, quotePrec);
  return new Map([...steps].map(([name, step]) => [name, LADDER.slice(step)]));
}

function widen(steps: Steps, column: string, sqlType: string): void {
  const known = steps.get(column);
  if (known !== undefined) steps.set(column, Math.max(known, stepOfType(sqlType)));
}
