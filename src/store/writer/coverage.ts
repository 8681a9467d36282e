import { SECOND_MS } from '../../kernel/durations.js';
import { holdsSpan, hullOf, normalizeSpans, type Span, spanContains } from '../../kernel/span.js';
import type {
  Batch,
  CommitResult,
  CoverageClaim,
  CoveredRange,
  Evidence,
} from '../../model/batch.js';
import { type SuspectSpan, suspectsCall } from '../checks/results.js';
import {
  executeSql,
  type NamedCall,
  type NamedStatement,
  rangeSql,
  touchingSql,
  unnested,
} from '../sql.js';
import type { TradeColumnSet } from './trade-columns.js';

/**
 * Merges claims into coverage. The caller holds the lock of every market concerned since before it read
 * what is covered.
 */

/** A row of coverage before a group. */
export interface Held extends CoveredRange {
  readonly marketId: number;
  readonly evidence: Evidence;
  /** Read because the group has trades of its market. */
  readonly isOfTrades: boolean;
}

const IS_NEAR = `c.span && ${touchingSql('q.from_ms', 'q.to_ms')}`;
const HELD = 'SELECT c.stream_id, c.market_id, c.span, c.evidence';

const OF_STREAMS: NamedStatement = {
  name: 'read_coverage',
  types: ['int[]', 'int[]', 'float8[]', 'float8[]'],
  sql: `
    ${HELD}, false AS is_of_trades FROM unnest($1, $2, $3, $4) AS q(stream_id, market_id, from_ms, to_ms)
    JOIN coverage c ON c.stream_id = q.stream_id AND c.market_id = q.market_id AND ${IS_NEAR}
    ORDER BY lower(c.span)`,
};

const OF_TRADES: NamedStatement = {
  name: 'read_trade_coverage',
  types: ['int[]', 'float8[]', 'float8[]'],
  sql: `
    ${HELD}, true AS is_of_trades FROM unnest($1, $2, $3) AS q(market_id, from_ms, to_ms)
    JOIN stream s ON s.market_id = q.market_id AND s.kind = 'trades'
    JOIN coverage c ON c.stream_id = s.stream_id AND c.market_id = q.market_id AND ${IS_NEAR}
    ORDER BY lower(c.span)`,
};

/** The statements that read the coverage which claims touch, and trades lie in. */
export function readHeldSql(batches: readonly Batch[], trades: TradeColumnSet): string[] {
  const markets = new Map<number, Span>();
  for (const { marketId, start, end } of trades.runs) {
    markets.set(marketId, { fromMs: trades.ms[start] ?? 0, toMs: trades.ms[end - 1] ?? 0 });
  }
  const streams = new Map<number, { readonly marketId: number; readonly span: Span }>();
  for (const { stream, span } of batches.flatMap(({ claims }) => claims ?? [])) {
    const { streamId, marketId, kind } = stream;
    const ofMarket = markets.get(marketId);
    if (ofMarket !== undefined && kind === 'trades') {
      markets.set(marketId, hullOf([ofMarket, span]));
    } else {
      const before = streams.get(streamId)?.span;
      const hull = before === undefined ? span : hullOf([before, span]);
      streams.set(streamId, { marketId, span: hull });
    }
  }
  const ofStreams = [...streams].map(([streamId, one]) => ({ streamId, ...one, ...one.span }));
  const ofMarkets = [...markets].map(([marketId, span]) => ({ marketId, ...span }));
  return [
    ...(ofStreams.length > 0 ? [executeSql(OF_STREAMS, unnested(ofStreams, ...KEY_FIELDS))] : []),
    ...(ofMarkets.length > 0
      ? [executeSql(OF_TRADES, unnested(ofMarkets, 'marketId', 'fromMs', 'toMs'))]
      : []),
  ];
}

/** A row of coverage as it will be, and the spans of those that it replaces, oldest first. */
interface ChangedRange extends CoveredRange {
  readonly marketId: number;
  readonly evidence: Evidence;
  readonly was: readonly Span[];
}

const SPANS = ['int[]', 'int[]', 'float8[]', 'float8[]'];
const COLUMNS = [...SPANS, 'jsonb[]'];
/** What goes into them, in their order. */
const KEY_FIELDS = ['streamId', 'marketId', 'fromMs', 'toMs'] as const;
const FIELDS = [...KEY_FIELDS, 'evidence'] as const;

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
    SET span = ${rangeSql('q.from_ms', 'q.to_ms')}, evidence = q.evidence, updated_at = now()
    FROM unnest($1, $2, $3, $4, $5, $6, $7)
      AS q(stream_id, market_id, from_ms, to_ms, evidence, old_from_ms, old_to_ms)
    WHERE c.stream_id = q.stream_id AND c.market_id = q.market_id
      AND c.span = ${rangeSql('q.old_from_ms', 'q.old_to_ms')}`,
};

const INSERT_COVERAGE: NamedStatement = {
  name: 'insert_coverage',
  types: COLUMNS,
  sql: `
    INSERT INTO coverage (stream_id, market_id, span, evidence)
    SELECT stream_id, market_id, ${rangeSql('from_ms', 'to_ms')}, evidence
    FROM unnest($1, $2, $3, $4, $5) AS q(stream_id, market_id, from_ms, to_ms, evidence)`,
};

export const COVERAGE_STATEMENTS = [
  ...[OF_STREAMS, OF_TRADES, DELETE_COVERAGE, UPDATE_COVERAGE, INSERT_COVERAGE],
];

/** Changes of the ledger by a group. */
interface GroupCoverage {
  /** For each batch, and each claim in it, the covered range that holds the claim. */
  readonly ranges: readonly CommitResult['ranges'][];
  /** Write that, and mark check results that new trades make suspect. */
  readonly calls: readonly NamedCall[];
}

/**
 * Pure: what the claims of a group make of the coverage around them.
 *
 * @param isKnown whether the trade at a place was stored before
 */
export function settleCoverage(
  { batches, trades }: { readonly batches: readonly Batch[]; readonly trades: TradeColumnSet },
  held: readonly Held[],
  isKnown: (place: number) => boolean,
): GroupCoverage {
  const streams = new Map<number, { claims: CoverageClaim[]; held: Held[] }>();
  for (const claim of batches.flatMap(({ claims }) => claims ?? [])) {
    const { streamId } = claim.stream;
    const one = streams.get(streamId) ?? { claims: [], held: [] };
    one.claims.push(claim);
    streams.set(streamId, one);
  }
  for (const one of held) streams.get(one.streamId)?.held.push(one);
  const merged = new Map(
    [...streams].map(([streamId, one]) => [streamId, mergeStream(one.claims, one.held)]),
  );
  const rangeOf = ({ stream: { streamId }, span }: CoverageClaim): CoveredRange => {
    const found = merged.get(streamId)?.find((one) => holdsSpan(one.span, span));
    return { streamId, span: found?.span ?? span };
  };
  const late = lateTrades(trades, held, isKnown);
  return {
    ranges: batches.map(({ claims = [] }) => claims.map(rangeOf)),
    calls: [
      ...writeRanges([...merged.values()].flat().filter(isChanged)),
      ...(late.length === 0 ? [] : [suspectsCall(late)]),
    ],
  };
}

function mergeStream(claims: readonly CoverageClaim[], held: readonly Held[]): ChangedRange[] {
  const all = normalizeSpans([...held, ...claims].map((one) => one.span));
  return all.flatMap((span): ChangedRange[] => {
    const [newest] = claims
      .filter((claim) => holdsSpan(span, claim.span))
      .sort((a, b) => b.span.toMs - a.span.toMs);
    if (newest === undefined) return [];
    const { stream, evidence } = newest;
    const was = held.map((one) => one.span).filter((one) => holdsSpan(span, one));
    return [{ streamId: stream.streamId, marketId: stream.marketId, span, evidence, was }];
  });
}

function isChanged({ span, was: [first, ...others] }: ChangedRange): boolean {
  return others.length > 0 || first?.fromMs !== span.fromMs || first.toMs !== span.toMs;
}

/**
 * The statements that write covered ranges. One that grew keeps its row, the oldest of those that
 * were joined; the others go first.
 */
function writeRanges(changed: readonly ChangedRange[]): NamedCall[] {
  const joined = changed.flatMap(({ streamId, marketId, was }) =>
    was.slice(1).map((span) => ({ streamId, marketId, ...span })),
  );
  const rows = changed.map(({ streamId, marketId, span, evidence, was: [first] }) => ({
    ...{ streamId, marketId, ...span, evidence: JSON.stringify(evidence) },
    ...{ oldFromMs: first?.fromMs ?? null, oldToMs: first?.toMs ?? null },
  }));
  const grown = rows.filter(({ oldFromMs }) => oldFromMs !== null);
  const made = rows.filter(({ oldFromMs }) => oldFromMs === null);
  const calls: readonly NamedCall[] = [
    [DELETE_COVERAGE, unnested(joined, ...KEY_FIELDS)],
    [UPDATE_COVERAGE, unnested(grown, ...FIELDS, 'oldFromMs', 'oldToMs')],
    [INSERT_COVERAGE, unnested(made, ...FIELDS)],
  ];
  return calls.filter(([, [first]]) => first !== undefined && first.length > 0);
}

/** Spans of new trades in time that was covered before them: candles may have been checked without these. */
function lateTrades(
  { ms, runs }: TradeColumnSet,
  held: readonly Held[],
  isKnown: (place: number) => boolean,
): SuspectSpan[] {
  return held.flatMap(({ marketId, isOfTrades, span }) => {
    const run = runs.find((one) => one.marketId === marketId);
    if (!isOfTrades || run === undefined) return [];
    const isLate = (place: number) => spanContains(span, ms[place] ?? 0) && !isKnown(place);
    let { start, end } = run;
    while (start < end && !isLate(start)) start += 1;
    while (start < end && !isLate(end - 1)) end -= 1;
    if (start === end) return [];
    // A trade's instant is a whole second; its span is that second.
    const toMs = (ms[end - 1] ?? 0) + SECOND_MS;
    return [{ marketId, intervalS: 0, fromMs: ms[start] ?? 0, toMs }];
  });
}
