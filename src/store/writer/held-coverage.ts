import type { Span } from '../../kernel/span.js';
import type { Batch, Evidence } from '../../ledger/batch.js';
import { type CoverageRow, toIsland } from '../completeness/ledger.js';
import { fromMs, toMs } from '../instants.js';
import type { Held } from './coverage.js';
import { executeSql, type NamedStatement } from './script.js';
import type { TradeSheet } from './trade-sheet.js';

/** Reading the coverage that the claims and trades of a group lie in, or touch. */

const COLUMNS = `
  c.stream_id, ${toMs('lower(c.span)')} AS from_ms, ${toMs('upper(c.span)')} AS to_ms,
  c.first_id, c.last_id, c.row_count, c.evidence`;

const IS_NEAR = `
  c.span && tstzrange(${fromMs('q.from_ms')} - interval '1 microsecond', ${fromMs('q.to_ms')}, '[]')`;

const OF_STREAMS: NamedStatement = {
  name: 'read_coverage',
  types: ['int[]', 'int[]', 'float8[]', 'float8[]'],
  sql: `
    SELECT ${COLUMNS} FROM unnest($1, $2, $3, $4) AS q(stream_id, market_id, from_ms, to_ms)
    JOIN coverage c ON c.stream_id = q.stream_id AND c.market_id = q.market_id AND ${IS_NEAR}
    ORDER BY c.stream_id, lower(c.span)`,
};

/** Of all streams in which the trades of a market count. */
const OF_MARKETS: NamedStatement = {
  name: 'read_trade_coverage',
  types: ['int[]', 'float8[]', 'float8[]'],
  sql: `
    SELECT ${COLUMNS} FROM unnest($1, $2, $3) AS q(market_id, from_ms, to_ms)
    JOIN stream s ON s.market_id = q.market_id AND s.kind IN ('trades', 'times')
    JOIN coverage c ON c.stream_id = s.stream_id AND c.market_id = q.market_id AND ${IS_NEAR}
    ORDER BY c.stream_id, lower(c.span)`,
};

export const READ_COVERAGE = [OF_STREAMS, OF_MARKETS];

export type HeldRow = CoverageRow & { readonly evidence: Evidence };

/** The statements that read it: of the streams that claims name, and of the trades of markets. */
export function readHeldSql(batches: readonly Batch[], trades: TradeSheet): string[] {
  const markets = new Map<number, Span>();
  for (const { marketId, start, end } of trades.runs) {
    markets.set(marketId, { fromMs: trades.ms[start] ?? 0, toMs: trades.ms[end - 1] ?? 0 });
  }
  const streams = new Map<number, { readonly marketId: number; readonly span: Span }>();
  for (const { stream, span } of batches.flatMap(({ claims }) => claims ?? [])) {
    const { streamId, marketId, kind } = stream;
    const ofMarket = markets.get(marketId);
    if (ofMarket !== undefined && (kind === 'trades' || kind === 'times')) {
      markets.set(marketId, hullOf(ofMarket, span));
    } else {
      const before = streams.get(streamId)?.span;
      streams.set(streamId, { marketId, span: before === undefined ? span : hullOf(before, span) });
    }
  }
  const ofStreams = executeSql(OF_STREAMS, [
    [...streams.keys()],
    [...streams.values()].map(({ marketId }) => marketId),
    [...streams.values()].map(({ span }) => span.fromMs),
    [...streams.values()].map(({ span }) => span.toMs),
  ]);
  const ofMarkets = executeSql(OF_MARKETS, [
    [...markets.keys()],
    [...markets.values()].map(({ fromMs }) => fromMs),
    [...markets.values()].map(({ toMs }) => toMs),
  ]);
  return [...(streams.size > 0 ? [ofStreams] : []), ...(markets.size > 0 ? [ofMarkets] : [])];
}

/** By stream, in the order of time. */
export function heldByStream(rows: readonly HeldRow[]): Map<number, Held[]> {
  const held = new Map<number, Held[]>();
  for (const row of rows) {
    const list = held.get(row.stream_id) ?? [];
    list.push({ ...toIsland(row), evidence: row.evidence });
    held.set(row.stream_id, list);
  }
  return held;
}

function hullOf(a: Span, b: Span): Span {
  return { fromMs: Math.min(a.fromMs, b.fromMs), toMs: Math.max(a.toMs, b.toMs) };
}
