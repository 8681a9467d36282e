import type { Span } from '../../kernel/span.js';
import type { Evidence, Island } from '../../ledger/batch.js';
import type { Connection } from '../connection.js';
import { fromMs } from '../instants.js';

/** A row of coverage as it will be, and the spans of those that it takes the place of, oldest first. */
export interface ChangedIsland {
  readonly island: Island;
  readonly marketId: number;
  readonly evidence: Evidence;
  readonly was: readonly Span[];
}

const DELETE_COVERAGE = `
  DELETE FROM coverage c
  USING unnest($1::int[], $2::int[], $3::float8[], $4::float8[])
    AS q(stream_id, market_id, from_ms, to_ms)
  WHERE c.stream_id = q.stream_id AND c.market_id = q.market_id
    AND c.span = tstzrange(${fromMs('q.from_ms')}, ${fromMs('q.to_ms')})`;

const UPDATE_COVERAGE = `
  UPDATE coverage c
  SET span = tstzrange(${fromMs('q.from_ms')}, ${fromMs('q.to_ms')}), first_id = q.first_id,
      last_id = q.last_id, row_count = q.row_count, evidence = q.evidence, updated_at = now()
  FROM unnest($1::int[], $2::int[], $3::float8[], $4::float8[], $5::bigint[], $6::bigint[],
              $7::bigint[], $8::jsonb[], $9::float8[], $10::float8[])
    AS q(stream_id, market_id, from_ms, to_ms, first_id, last_id, row_count, evidence,
         old_from_ms, old_to_ms)
  WHERE c.stream_id = q.stream_id AND c.market_id = q.market_id
    AND c.span = tstzrange(${fromMs('q.old_from_ms')}, ${fromMs('q.old_to_ms')})`;

const INSERT_COVERAGE = `
  INSERT INTO coverage (stream_id, market_id, span, first_id, last_id, row_count, evidence)
  SELECT stream_id, market_id, tstzrange(${fromMs('from_ms')}, ${fromMs('to_ms')}),
         first_id, last_id, row_count, evidence
  FROM unnest($1::int[], $2::int[], $3::float8[], $4::float8[], $5::bigint[], $6::bigint[],
              $7::bigint[], $8::jsonb[])
    AS q(stream_id, market_id, from_ms, to_ms, first_id, last_id, row_count, evidence)`;

/** An island that grew keeps its row, the oldest of those that were joined; the others go first. */
export async function writeIslands(
  connection: Connection,
  changed: readonly ChangedIsland[],
): Promise<void> {
  const joined = changed.flatMap(({ island: { streamId }, marketId, was }) =>
    was.slice(1).map((span) => ({ span, streamId, marketId })),
  );
  if (joined.length > 0) {
    await connection.queryAgain(DELETE_COVERAGE, [
      joined.map(({ streamId }) => streamId),
      joined.map(({ marketId }) => marketId),
      joined.map(({ span }) => span.fromMs),
      joined.map(({ span }) => span.toMs),
    ]);
  }
  const grown = changed.flatMap((one) => {
    const [first] = one.was;
    return first === undefined ? [] : [{ ...one, first }];
  });
  if (grown.length > 0) {
    await connection.queryAgain(UPDATE_COVERAGE, [
      ...columnsOf(grown),
      grown.map(({ first }) => first.fromMs),
      grown.map(({ first }) => first.toMs),
    ]);
  }
  const made = changed.filter(({ was }) => was.length === 0);
  if (made.length > 0) await connection.queryAgain(INSERT_COVERAGE, columnsOf(made));
}

function columnsOf(changed: readonly ChangedIsland[]): unknown[][] {
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
