import { SERIES, type SeriesRow } from '../../model/series.js';
import type { Connection } from '../connection.js';
import { doubtRevisedCandles } from './doubts.js';
import type { Candidate, Outcome } from './outcomes.js';
import type { SeriesShape } from './series.js';
import {
  findKnown,
  insertStaged,
  probeSql,
  qualified,
  sameContentSql,
  sameKeyWithin,
  stageRows,
  timeBounds,
} from './staging.js';

type Shape = SeriesShape<SeriesRow>;

/**
 * Stores rows of any series but trades. What is known stays as it is, or gives way to a later version
 * where its series keeps versions.
 *
 * @returns what became of each candidate, in their order.
 */
export async function storeRows(
  connection: Connection,
  shape: Shape,
  candidates: readonly Candidate<SeriesRow>[],
): Promise<Outcome[]> {
  const outcomes = candidates.map((): Outcome => 'stored');
  if (candidates.length === 0) return outcomes;
  const { versions } = SERIES[shape.table];
  const bounds = timeBounds(shape, candidates);
  // An earlier pass of the same transaction may have left its rows.
  if (versions !== null) await connection.query(`DELETE FROM stage_${shape.table}`);
  await stageRows(connection, shape, candidates);
  if (versions === null) {
    const known = await findKnown(connection, shape, bounds);
    for (const { ord, same } of known) outcomes[ord] = same ? 'duplicate' : 'conflict';
    await insertStaged(connection, shape, candidates.length - known.length);
    return outcomes;
  }
  const known = await connection.query<{ ord: number; same: boolean; stale: boolean }>(
    findVersionsSql(shape),
    [...bounds],
  );
  for (const { ord, same, stale } of known) {
    // A version received before the stored one is not news any more.
    outcomes[ord] = same ? 'duplicate' : stale ? 'conflict' : 'updated';
  }
  const changed = known.filter(({ ord }) => outcomes[ord] === 'updated').map(({ ord }) => ord);
  if (changed.length > 0) {
    await connection.query(keepVersionsSql(shape, versions), [...bounds, changed]);
    await connection.query(setVersionsSql(shape), [changed]);
    await doubtRevisedCandles(connection, changed);
  }
  await insertStaged(connection, shape, candidates.length - known.length);
  return outcomes;
}

const findVersionsSql = (shape: Shape) => `
  SELECT s.ord, ${sameContentSql(shape)} AS same, s.received_at < t.received_at AS stale
  FROM ${probeSql(shape, '*', sameKeyWithin(shape))}`;

function keepVersionsSql(shape: Shape, versions: string): string {
  const { key, content } = shape;
  return `
  INSERT INTO ${versions} (${[...key, 'revision', 'known_from', 'known_to', ...content].join(', ')})
  SELECT ${qualified('t', key)}, t.revision, t.received_at, s.received_at, ${qualified('t', content)}
  FROM ${probeSql(shape, '*', sameKeyWithin(shape))}
  WHERE s.ord = ANY ($3::int[])
  ORDER BY ${qualified('t', key)}`;
}

/** All of these keys are there: nothing is inserted, and each is found by its key. */
function setVersionsSql({ table, columns, key, content }: Shape): string {
  const set = [...content, 'received_at'].map((column) => `${column} = excluded.${column}`);
  return `
  INSERT INTO ${table} AS t (${columns.join(', ')})
  SELECT ${columns.join(', ')} FROM stage_${table} WHERE ord = ANY ($1::int[])
  ORDER BY ${key.join(', ')}
  ON CONFLICT (${key.join(', ')}) DO UPDATE SET ${set.join(', ')}, revision = t.revision + 1`;
}
