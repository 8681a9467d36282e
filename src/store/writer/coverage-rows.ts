import { hullOf, type Span } from '../../kernel/span.js';
import type { Batch, CoveredRange, Evidence } from '../../model/batch.js';
import { coveredRangeSql } from '../completeness/ledger.js';
import { executeSql, type NamedStatement } from '../connection.js';
import { type Flat, fromMs, rangeSql, unnested, withSpan } from '../sql.js';
import type { TradeColumnSet } from './trade-sheet.js';

/** A row of coverage as it is. */
export interface Held extends CoveredRange {
  readonly evidence: Evidence;
}

/** Reading the coverage that the claims and trades of a group lie in, or touch. */

const HELD_COLUMNS = `${coveredRangeSql('c')}, c.evidence`;

const IS_NEAR = `
  c.span && tstzrange(${fromMs('q.from_ms')} - interval '1 microsecond', ${fromMs('q.to_ms')}, '[]')`;

const OF_STREAMS: NamedStatement = {
  name: 'read_coverage',
  types: ['int[]', 'int[]', 'float8[]', 'float8[]'],
  sql: `
    SELECT ${HELD_COLUMNS} FROM unnest($1, $2, $3, $4) AS q(stream_id, market_id, from_ms, to_ms)
    JOIN coverage c ON c.stream_id = q.stream_id AND c.market_id = q.market_id AND ${IS_NEAR}
    ORDER BY c.stream_id, lower(c.span)`,
};

/** Of all streams in which the trades of a market count. */
const OF_MARKETS: NamedStatement = {
  name: 'read_trade_coverage',
  types: ['int[]', 'float8[]', 'float8[]'],
  sql: `
    SELECT ${HELD_COLUMNS} FROM unnest($1, $2, $3) AS q(market_id, from_ms, to_ms)
    JOIN stream s ON s.market_id = q.market_id AND s.kind IN ('trades', 'times')
    JOIN coverage c ON c.stream_id = s.stream_id AND c.market_id = q.market_id AND ${IS_NEAR}
    ORDER BY c.stream_id, lower(c.span)`,
};

export const READ_COVERAGE = [OF_STREAMS, OF_MARKETS];

export type HeldRow = Flat<Held>;

/** The statements that read it: of the streams that claims name, and of the trades of markets. */
export function readHeldSql(batches: readonly Batch[], trades: TradeColumnSet): string[] {
  const markets = new Map<number, Span>();
  for (const { marketId, start, end } of trades.runs) {
    markets.set(marketId, { fromMs: trades.ms[start] ?? 0, toMs: trades.ms[end - 1] ?? 0 });
  }
  const streams = new Map<number, { readonly marketId: number; readonly span: Span }>();
  for (const { stream, span } of batches.flatMap(({ claims }) => claims ?? [])) {
    const { streamId, marketId, kind } = stream;
    const ofMarket = markets.get(marketId);
    if (ofMarket !== undefined && (kind === 'trades' || kind === 'times')) {
      markets.set(marketId, hullOf([ofMarket, span]));
    } else {
      const before = streams.get(streamId)?.span;
      streams.set(streamId, {
        marketId,
        span: before === undefined ? span : hullOf([before, span]),
      });
    }
  }
  const ofStreams = [...streams].map(([streamId, one]) => ({ streamId, ...one, ...one.span }));
  const ofMarkets = [...markets].map(([marketId, span]) => ({ marketId, ...span }));
  return [
    ...(ofStreams.length > 0 ? [executeSql(OF_STREAMS, unnested(ofStreams, ...KEY_FIELDS))] : []),
    ...(ofMarkets.length > 0
      ? [executeSql(OF_MARKETS, unnested(ofMarkets, 'marketId', 'fromMs', 'toMs'))]
      : []),
  ];
}

/** By stream, in the order of time. */
export function heldByStream(rows: readonly HeldRow[]): Map<number, Held[]> {
  const held = new Map<number, Held[]>();
  for (const row of rows) {
    const list = held.get(row.streamId) ?? [];
    list.push(withSpan(row));
    held.set(row.streamId, list);
  }
  return held;
}

/** A row of coverage as it will be, and the spans of those that it takes the place of, oldest first. */
export interface ChangedRange {
  readonly range: CoveredRange;
  readonly marketId: number;
  readonly evidence: Evidence;
  readonly was: readonly Span[];
}

const SPANS = ['int[]', 'int[]', 'float8[]', 'float8[]'];
const COLUMNS = [...SPANS, 'bigint[]', 'bigint[]', 'bigint[]', 'jsonb[]'];
/** What goes into them, in their order. */
const KEY_FIELDS = ['streamId', 'marketId', 'fromMs', 'toMs'] as const;
const FIELDS = [...KEY_FIELDS, 'firstId', 'lastId', 'rowCount', 'evidence'] as const;

const DELETE_COVERAGE: NamedStatement = {
  name: 'delete_coverage',
  types: SPANS,
  sql: `
    DELETE FROM coverage c
    USING unnest($1, $2, $3, $4) AS q(stream_id, market_id, from_ms, to_ms)
    WHERE c.stream_id = q.stream_id AND c.market_id = q.market_id
      AND c.span = ${rangeSql('q.from_ms', 'q.to_ms')}`,
};

const UPDATE_COVERAGE: NamedStatement = {
  name: 'update_coverage',
  types: [...COLUMNS, 'float8[]', 'float8[]'],
  sql: `
    UPDATE coverage c
    SET span = ${rangeSql('q.from_ms', 'q.to_ms')}, first_id = q.first_id,
        last_id = q.last_id, row_count = q.row_count, evidence = q.evidence, updated_at = now()
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
      AS q(stream_id, market_id, from_ms, to_ms, first_id, last_id, row_count, evidence,
           old_from_ms, old_to_ms)
    WHERE c.stream_id = q.stream_id AND c.market_id = q.market_id
      AND c.span = ${rangeSql('q.old_from_ms', 'q.old_to_ms')}`,
};

const INSERT_COVERAGE: NamedStatement = {
  name: 'insert_coverage',
  types: COLUMNS,
  sql: `
    INSERT INTO coverage (stream_id, market_id, span, first_id, last_id, row_count, evidence)
    SELECT stream_id, market_id, ${rangeSql('from_ms', 'to_ms')},
           first_id, last_id, row_count, evidence
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
      AS q(stream_id, market_id, from_ms, to_ms, first_id, last_id, row_count, evidence)`,
};

export const WRITE_COVERAGE = [DELETE_COVERAGE, UPDATE_COVERAGE, INSERT_COVERAGE];

/**
 * The statements that write covered ranges. One that grew keeps its row, the oldest of those that
 * were joined; the others go first.
 */
export function writeRangesSql(changed: readonly ChangedRange[]): string[] {
  const joined = changed.flatMap(({ range: { streamId }, marketId, was }) =>
    was.slice(1).map((span) => ({ streamId, marketId, ...span })),
  );
  const rows = changed.map(({ range, marketId, evidence, was: [first] }) => ({
    ...{ ...range, ...range.span, marketId, evidence: JSON.stringify(evidence) },
    ...{ oldFromMs: first?.fromMs ?? null, oldToMs: first?.toMs ?? null },
  }));
  const grown = rows.filter(({ oldFromMs }) => oldFromMs !== null);
  const made = rows.filter(({ oldFromMs }) => oldFromMs === null);
  const statements = [
    [DELETE_COVERAGE, unnested(joined, ...KEY_FIELDS)],
    [UPDATE_COVERAGE, unnested(grown, ...FIELDS, 'oldFromMs', 'oldToMs')],
    [INSERT_COVERAGE, unnested(made, ...FIELDS)],
  ] as const;
  return statements.flatMap(([statement, values]) =>
    values[0]?.length === 0 ? [] : [executeSql(statement, values)],
  );
}
