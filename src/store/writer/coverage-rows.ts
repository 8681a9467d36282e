import type { Span } from '../../kernel/span.js';
import type { Evidence, Island } from '../../ledger/batch.js';
import { fromMs } from '../instants.js';
import { executeSql, type NamedStatement } from './script.js';

/** A row of coverage as it will be, and the spans of those that it takes the place of, oldest first. */
export interface ChangedIsland {
  readonly island: Island;
  readonly marketId: number;
  readonly evidence: Evidence;
  readonly was: readonly Span[];
}

const SPANS = ['int[]', 'int[]', 'float8[]', 'float8[]'];
const COLUMNS = [...SPANS, 'bigint[]', 'bigint[]', 'bigint[]', 'jsonb[]'];

const DELETE_COVERAGE: NamedStatement = {
  name: 'delete_coverage',
  types: SPANS,
  sql: `
    DELETE FROM coverage c
    USING unnest($1, $2, $3, $4) AS q(stream_id, market_id, from_ms, to_ms)
    WHERE c.stream_id = q.stream_id AND c.market_id = q.market_id
      AND c.span = tstzrange(${fromMs('q.from_ms')}, ${fromMs('q.to_ms')})`,
};

const UPDATE_COVERAGE: NamedStatement = {
  name: 'update_coverage',
  types: [...COLUMNS, 'float8[]', 'float8[]'],
  sql: `
    UPDATE coverage c
    SET span = tstzrange(${fromMs('q.from_ms')}, ${fromMs('q.to_ms')}), first_id = q.first_id,
        last_id = q.last_id, row_count = q.row_count, evidence = q.evidence, updated_at = now()
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
      AS q(stream_id, market_id, from_ms, to_ms, first_id, last_id, row_count, evidence,
           old_from_ms, old_to_ms)
    WHERE c.stream_id = q.stream_id AND c.market_id = q.market_id
      AND c.span = tstzrange(${fromMs('q.old_from_ms')}, ${fromMs('q.old_to_ms')})`,
};

const INSERT_COVERAGE: NamedStatement = {
  name: 'insert_coverage',
  types: COLUMNS,
  sql: `
    INSERT INTO coverage (stream_id, market_id, span, first_id, last_id, row_count, evidence)
    SELECT stream_id, market_id, tstzrange(${fromMs('from_ms')}, ${fromMs('to_ms')}),
           first_id, last_id, row_count, evidence
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
      AS q(stream_id, market_id, from_ms, to_ms, first_id, last_id, row_count, evidence)`,
};

export const WRITE_COVERAGE = [DELETE_COVERAGE, UPDATE_COVERAGE, INSERT_COVERAGE];

/**
 * The statements that write islands. One that grew keeps its row, the oldest of those that were
 * joined; the others go first.
 */
export function writeIslandsSql(changed: readonly ChangedIsland[]): string[] {
  const statements: string[] = [];
  const joined = changed.flatMap(({ island: { streamId }, marketId, was }) =>
    was.slice(1).map((span) => ({ span, streamId, marketId })),
  );
  if (joined.length > 0) {
    const values = [
      joined.map(({ streamId }) => streamId),
      joined.map(({ marketId }) => marketId),
      joined.map(({ span }) => span.fromMs),
      joined.map(({ span }) => span.toMs),
    ];
    statements.push(executeSql(DELETE_COVERAGE, values));
  }
  const grown = changed.flatMap((one) => {
    const [first] = one.was;
    return first === undefined ? [] : [{ ...one, first }];
  });
  if (grown.length > 0) {
    const values = [
      ...columnsOf(grown),
      grown.map(({ first }) => first.fromMs),
      grown.map(({ first }) => first.toMs),
    ];
    statements.push(executeSql(UPDATE_COVERAGE, values));
  }
  const made = changed.filter(({ was }) => was.length === 0);
  if (made.length > 0) statements.push(executeSql(INSERT_COVERAGE, columnsOf(made)));
  return statements;
}

function columnsOf(changed: readonly ChangedIsland[]): (number | string | null)[][] {
  return [
    changed.map(({ island }) => island.streamId),
    changed.map(({ marketId }) => marketId),
    changed.map(({ island }) => island.span.fromMs),
    changed.map(({ island }) => island.span.toMs),
    changed.map(({ island }) => island.firstId),
    changed.map(({ island }) => island.lastId),
    changed.map(({ island }) => island.rowCount),
    changed.map(({ evidence }) => JSON.stringify(evidence)),
  ];
}
