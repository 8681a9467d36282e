import type { Span } from '../../kernel/span.js';
import { SERIES, type Series, type SeriesRow } from '../../model/series.js';
import type { Connection } from '../connection.js';
import { StoreError } from '../errors.js';
import { byPartition, withinSql } from '../schema/partitions.js';
import {
  type Outcome,
  type Passes,
  type PendingRow,
  type SeriesShape,
  type SettledRow,
  SHAPES,
} from './series.js';

/** The text form of COPY: one line a row, tabs between fields, backslash escapes (Postgres manual, COPY). */

const SPECIAL = /[\\\t\n\r]/;
const ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
};

function escapeCopyField(field: string): string {
  if (!SPECIAL.test(field)) return field;
  return field.replace(/[\\\t\n\r]/g, (found) => ESCAPES[found] ?? found);
}

/** One line, with its end. Null becomes `\N`. */
export function copyLine(fields: readonly (string | null)[]): string {
  let line = '';
  for (const [index, field] of fields.entries()) {
    if (index > 0) line += '\t';
    line += field === null ? '\\N' : escapeCopyField(field);
  }
  return `${line}\n`;
}

/**
 * Rows go through a temporary table when some of them may be stored already: COPY cannot pass
 * over a known key, and INSERT can. The statements are built from the constant shapes of the
 * series; nothing from outside becomes an identifier.
 */

/** The part of a shape that statements are built from. */
type Named = Pick<SeriesShape<never>, 'table' | 'columns' | 'key' | 'timeColumn' | 'content'>;

const stageOf = ({ table }: Pick<Named, 'table'>) => `stage_${table}`;

function createStage({ table, columns }: Named): string {
  return `CREATE TEMP TABLE stage_${table} ON COMMIT DELETE ROWS AS
    SELECT 0::int AS ord, ${columns.join(', ')} FROM ${table} WITH NO DATA`;
}

/** Run once on each connection of the writer. */
export const CREATE_STAGES = [...SHAPES.values()].map(createStage).join(';\n');

/** `a.x, a.y` for the columns named. */
function qualified(alias: string, columns: readonly string[]): string {
  return columns.map((column) => `${alias}.${column}`).join(', ');
}

/** SQL that compares the content of two rows by value; nulls are equal to each other. */
export function sameContentSql({ content }: Pick<Named, 'content'>): string {
  return `(${qualified('t', content)}) IS NOT DISTINCT FROM (${qualified('s', content)})`;
}

/**
 * Time of the partitions in the database that hold the rows of a series. Statements name it as constants, so that the planner
 * opens those partitions and no others: never an archived one, which stands between them or beside them.
 */
export type Stretches = ReadonlyMap<Series, readonly Span[]>;

/** Fills the stage; `ord` is the position in `pendingRows`. */
async function stageRows<Row>(
  connection: Connection,
  shape: SeriesShape<Row>,
  pendingRows: readonly PendingRow<Row>[],
): Promise<void> {
  const copyText = pendingRows.map(({ row }, ord) => copyLine([`${ord}`, ...shape.fields(row)]));
  await stageLines(connection, shape, Buffer.from(copyText.join(''), 'utf8'));
}

/** Fills the stage with lines of COPY: `ord`, then the columns of the shape. */
export async function stageLines(
  connection: Connection,
  shape: Named,
  copyText: Buffer,
): Promise<void> {
  const columns = ['ord', ...shape.columns].join(', ');
  await connection.copyIn(`COPY ${stageOf(shape)} (${columns}) FROM STDIN`, copyText);
}

/** Straight into the series; fails as a whole when one key is there already. */
export const copySql = ({ table, columns }: Named) =>
  `COPY ${table} (${columns.join(', ')}) FROM STDIN`;

/**
 * Inserts what is staged and not stored yet.
 *
 * Counted with RETURNING: the command tag of INSERT … ON CONFLICT counts too much on a distributed
 * table.
 *
 * @throws {@link StoreError} `retry` when the count is not `expected`: another process wrote too.
 */
async function insertStaged(connection: Connection, shape: Named, expected: number): Promise<void> {
  if (expected === 0) return;
  const columns = shape.columns.join(', ');
  const [row] = await connection.rows<{ stored: number }>(`
    WITH inserted AS (
      INSERT INTO ${shape.table} (${columns})
      SELECT ${columns} FROM ${stageOf(shape)} ORDER BY ${shape.key.join(', ')}
      ON CONFLICT DO NOTHING RETURNING 1)
    SELECT count(*)::int AS stored FROM inserted`);
  if (row?.stored === expected) return;
  throw new StoreError(
    'database_failed',
    `${row?.stored ?? 0} of ${expected} new rows were inserted into ${shape.table}: another writer was faster`,
    { action: 'retry' },
  );
}

/**
 * SQL that looks up, for each row `s` of a stage, the row `t` of its key, within some spans.
 *
 * OFFSET 0 keeps the planner from turning the join around. It believes that there is next to nothing
 * in the newest hours of a table, of which no statistics exist yet, and would read these and go
 * through the whole stage for each of their rows: minutes instead of milliseconds.
 */
function probeSql({ table, key, timeColumn }: Named, spans: readonly Span[]): string {
  return `stage_${table} s CROSS JOIN LATERAL (
    SELECT * FROM ${table} t
    WHERE (${qualified('t', key)}) = (${qualified('s', key)})
      AND ${withinSql(`t.${timeColumn}`, spans)} OFFSET 0) t`;
}

type Shape = SeriesShape<SeriesRow>;

/**
 * Stores rows of any series but trades. What is known stays as it is, or gives way to a later version
 * where its series keeps versions.
 *
 * @returns what became of each row, in their order.
 */
async function storeRows(
  connection: Connection,
  shape: Shape,
  pendingRows: readonly PendingRow<SeriesRow>[],
  spans: readonly Span[],
): Promise<Outcome[]> {
  const outcomes = pendingRows.map((): Outcome => 'stored');
  if (pendingRows.length === 0) return outcomes;
  const { versions } = SERIES[shape.table];
  // An earlier pass of the same transaction may have left its rows.
  if (versions !== null) await connection.rows(`DELETE FROM ${stageOf(shape)}`);
  await stageRows(connection, shape, pendingRows);
  const known = await connection.rows<Known>(findKnownSql(shape, spans));
  for (const { ord, same, stale } of known) {
    // A version received before the stored one is not news any more.
    outcomes[ord] = same ? 'duplicate' : versions === null || stale ? 'conflict' : 'updated';
  }
  const changed = known.filter(({ ord }) => outcomes[ord] === 'updated').map(({ ord }) => ord);
  if (versions !== null && changed.length > 0) {
    await connection.rows(keepVersionsSql(shape, versions, spans), [changed]);
    const timeOf = (ord: number) => shape.timeMs((pendingRows[ord] as PendingRow<SeriesRow>).row);
    for (const [name, ords] of await byPartition(connection, shape.table, changed, timeOf)) {
      await connection.rows(setVersionsSql(shape, name), [ords]);
    }
    await connection.rows(SUSPECT_CANDLES, [changed]);
  }
  await insertStaged(connection, shape, pendingRows.length - known.length);
  return outcomes;
}

/** Stores the rows of a group but its trades. */
export async function storeAll(
  connection: Connection,
  passes: Passes,
  stretches: Stretches,
): Promise<SettledRow[]> {
  const settled: SettledRow[] = [];
  for (const [table, shape] of SHAPES) {
    for (const pass of passes.get(table) ?? []) {
      const outcomes = await storeRows(connection, shape, pass, stretches.get(table) ?? []);
      for (const [index, one] of pass.entries()) {
        settled.push({ ...one, table, outcome: outcomes[index] ?? 'stored' });
      }
    }
  }
  return settled;
}

/** What the database holds under the keys of the stage. */
interface Known {
  readonly ord: number;
  readonly same: boolean;
  /** It was received before what is stored. */
  readonly stale: boolean;
}

/** Finds the staged rows whose key is stored already, with one index probe each. */
const findKnownSql = (shape: Shape, spans: readonly Span[]) => `
  SELECT s.ord, ${sameContentSql(shape)} AS same, s.received_at < t.received_at AS stale
  FROM ${probeSql(shape, spans)}`;

function keepVersionsSql(shape: Shape, versions: string, spans: readonly Span[]): string {
  const { key, content } = shape;
  return `
  INSERT INTO ${versions} (${[...key, 'revision', 'known_from', 'known_to', ...content].join(', ')})
  SELECT ${qualified('t', key)}, t.revision, t.received_at, s.received_at, ${qualified('t', content)}
  FROM ${probeSql(shape, spans)}
  WHERE s.ord = ANY ($1::int[])
  ORDER BY ${qualified('t', key)}`;
}

/** All of these keys are there: nothing is inserted, and each is found by its key. @param partition that holds them */
function setVersionsSql({ table, columns, key, content }: Shape, partition: string): string {
  const set = [...content, 'received_at'].map((column) => `${column} = excluded.${column}`);
  return `
  INSERT INTO ${partition} AS t (${columns.join(', ')})
  SELECT ${columns.join(', ')} FROM stage_${table} WHERE ord = ANY ($1::int[])
  ORDER BY ${key.join(', ')}
  ON CONFLICT (${key.join(', ')}) DO UPDATE SET ${set.join(', ')}, revision = t.revision + 1`;
}

/** Marks candles that took the place of another version. The candle after it may open with its close. */
const SUSPECT_CANDLES = `
  INSERT INTO candle_recheck (market_id, interval_s, span)
  SELECT s.market_id, s.interval_s,
         tstzrange(s.open_at, s.open_at + 2 * s.interval_s * interval '1 second')
  FROM stage_kline s WHERE s.ord = ANY ($1::int[])`;
