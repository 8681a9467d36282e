import { obtain } from '../../kernel/bounded.js';
import { type Clock, startDeadline, unlessAborted } from '../../kernel/clock.js';
import { AbortedError } from '../../kernel/errors.js';
import type { Span } from '../../kernel/span.js';
import {
  type Batch,
  type CommitResult,
  type CoverageClaim,
  rowsIn,
  type StreamRef,
  type TradeRow,
} from '../../model/batch.js';
import {
  SERIES,
  type Series,
  type SeriesRow,
  streamsOf,
  tableOfStream,
  WRITTEN_SERIES,
} from '../../model/series.js';
import type { Connection } from '../connection.js';
import { isPartitionGone, isState, partitionOf } from '../errors.js';
import { REOPEN_PARTITION } from '../schema/partitions.js';
import { fromMs, rangeSql, unnested } from '../sql.js';
import { type PreparedGroup, prepareGroup, type Refused, refusedRow } from './groups.js';
import { type PendingRow, type SaneWindow, SHAPES, TRADE } from './series.js';

/**
 * Rows for partitions that are final (sql/0001). A sealed one is reopened, and that is reported. Rows for
 * one whose rows are no longer here are not stored: those in a covered span were stored before it
 * left and count as repetitions, as do those of a time that is not kept any more, and trades that stand in
 * the files just so; others go to quarantine. Of what they would prove nothing is claimed.
 */

/** A group that was made ready again, and how its results belong to the batches as they came. */
export interface Resolution {
  readonly group: PreparedGroup;
  readonly realign: (results: readonly CommitResult[]) => readonly CommitResult[];
}

/** Reads the trades of a market in a span, of partitions whose rows are in files. */
export type ArchivedTrades = (
  marketId: number,
  span: Span,
  signal: AbortSignal,
) => AsyncIterable<readonly TradeRow[]>;

interface ResolveContext {
  readonly connection: Connection;
  readonly window: SaneWindow;
  readonly clock: Clock;
  /** Without it nothing is known of what stands in files. */
  readonly archivedTrades?: ArchivedTrades;
  /** Ends what is read in files. */
  readonly signal: AbortSignal;
  readonly onReopened: (partition: string) => void;
}

/** Whether {@link resolveFinal} can help. */
export function isFinalPartition(error: unknown): boolean {
  return isState(error, 'partition sealed') || isPartitionGone(error);
}

/**
 * Opens the partition that refused rows, or takes those rows out of the group.
 *
 * @param batches as they came
 * @param resolution what is tried at present; the same again after a partition was reopened
 */
export async function resolveFinal(
  error: unknown,
  batches: readonly Batch[],
  resolution: Resolution,
  context: ResolveContext,
): Promise<Resolution> {
  const { connection, onReopened } = context;
  const partition = partitionOf(error);
  if (isState(error, 'partition sealed') && partition !== undefined) {
    try {
      const [row] = await connection.rows<{ state: string | null }>(REOPEN_PARTITION, [partition]);
      if (row?.state === 'sealed') onReopened(partition);
      return resolution;
    } catch (refused) {
      if (!isPartitionGone(refused)) throw refused;
    }
  }
  return await withoutGone(context, batches);
}

/** A row and the stream that covers it. */
interface Placed extends PendingRow<SeriesRow>, Pick<StreamRef, 'kind' | 'marketId' | 'variant'> {
  readonly table: Series;
  readonly ms: number;
}

const FIND_GONE = `
  SELECT q.ord::int AS ord, p.state = 'expired' OR EXISTS (
           SELECT FROM stream s JOIN coverage c USING (stream_id)
           WHERE s.kind = q.kind AND s.market_id = q.market_id AND s.variant = q.variant
             AND c.span @> q.at) AS is_known
  FROM (
    SELECT ord, table_name, kind, market_id, variant, ${fromMs('ms')} AS at
    FROM unnest($1::text[], $2::float8[], $3::text[], $4::int[], $5::int[])
      WITH ORDINALITY AS r(table_name, ms, kind, market_id, variant, ord)) q
  JOIN partition_state p
    ON p.table_name = q.table_name AND p.state IN ('archived', 'expired') AND p.span @> q.at`;

/** What is covered already may be claimed again; of the rest the newest part is. */
const CUT_CLAIMS = `
  SELECT DISTINCT ON (q.ord) q.ord::int AS ord, part AS span
  FROM (
    SELECT ord, table_name, stream_id, ${rangeSql('from_ms', 'to_ms')} AS span
    FROM unnest($1::text[], $2::int[], $3::float8[], $4::float8[])
      WITH ORDINALITY AS r(table_name, stream_id, from_ms, to_ms, ord)) q,
    LATERAL (
      SELECT coalesce(range_agg(p.span), '{}') AS spans FROM partition_state p
      WHERE p.table_name = q.table_name AND p.state IN ('archived', 'expired')
        AND p.span && q.span) gone,
    LATERAL (
      SELECT coalesce(range_agg(c.span), '{}') AS spans FROM coverage c
      WHERE c.stream_id = q.stream_id AND c.span && q.span) covered,
    unnest(tstzmultirange(q.span) - (gone.spans - covered.spans)) AS part
  ORDER BY q.ord, upper(part) DESC`;

async function withoutGone(
  context: ResolveContext,
  batches: readonly Batch[],
): Promise<Resolution> {
  const { connection, window } = context;
  const placed = batches.flatMap(placedRows);
  const gone = new Map<object, boolean>();
  const found = await connection.rows<{ ord: number; isKnown: boolean }>(
    FIND_GONE,
    unnested(placed, 'table', 'ms', 'kind', 'marketId', 'variant'),
  );
  for (const { ord, isKnown } of found) {
    const one = placed[ord - 1];
    if (one !== undefined) gone.set(one.row, isKnown);
  }
  const unknown = batches.flatMap(({ trades = [] }) =>
    trades.filter((trade) => gone.get(trade) === false),
  );
  for (const trade of await findInFiles(context, unknown)) gone.set(trade, true);
  const cut = await cutClaims(connection, batches);
  const kept = batches.map((batch) => withoutRows(batch, gone, cut));
  const group = prepareGroup(kept, window);
  const refused: Refused[] = [];
  for (const { row, batch, table } of placed) {
    const isKnown = gone.get(row);
    const counts = group.settled[batch];
    if (isKnown === undefined || counts === undefined) continue;
    counts[table][isKnown ? 'duplicate' : 'rejected'] += 1;
    if (!isKnown) refused.push(refusedRow(table, 'partition archived', row));
  }
  return {
    group: { ...group, refused: [...group.refused, ...refused] },
    realign: (results) =>
      results.map((result, index) => realignOne(batches[index] ?? {}, cut, result)),
  };
}

/** Files that cannot be read in this time, or at all, show nothing: nothing else waits for them any longer. */
const FILES_MS = 10_000;

/** Of trades that no coverage vouches for, those that stand in files with all that is known of them. */
async function findInFiles(
  { clock, archivedTrades, signal }: ResolveContext,
  trades: readonly TradeRow[],
): Promise<readonly TradeRow[]> {
  if (archivedTrades === undefined || trades.length === 0) return [];
  const found: TradeRow[] = [];
  const late = () => new AbortedError('reading cold files took too long');
  using deadline = startDeadline(clock, FILES_MS, late, signal);
  const search = async () => {
    for (const marketId of new Set(trades.map((trade) => trade.marketId))) {
      const own = trades.filter((trade) => trade.marketId === marketId);
      const sought = new Map<string | number, TradeRow[]>();
      for (const trade of own) obtain(sought, TRADE.identity(trade), () => []).push(trade);
      const times = own.map(TRADE.timeMs);
      const span = { fromMs: Math.min(...times), toMs: Math.max(...times) + 1 };
      for await (const rows of archivedTrades(marketId, span, deadline.signal)) {
        for (const row of rows) {
          const alike = sought.get(TRADE.identity(row)) ?? [];
          found.push(...alike.filter((trade) => isWithin(trade, row)));
        }
      }
    }
  };
  try {
    await unlessAborted(deadline.signal, search());
    return found;
  } catch {
    return [];
  }
}

/** Whether a stored trade has all that another one would bring. */
function isWithin(trade: TradeRow, stored: TradeRow): boolean {
  const { executedAtUs } = trade;
  return (
    TRADE.isSame(trade, stored) && (executedAtUs === null || executedAtUs === stored.executedAtUs)
  );
}

function placedRows(batch: Batch, index: number): Placed[] {
  return [...SHAPES].flatMap(([table, shape]) => {
    const kind = streamsOf(table)[0];
    return rowsIn(batch, table).flatMap((row): Placed[] => {
      const ms = shape.timeMs(row);
      const { marketId } = row;
      const variant = shape.variantOf(row);
      // What is no instant is refused later, by name.
      if (![ms, marketId, variant].every(Number.isSafeInteger)) return [];
      return [{ batch: index, table, ms, kind, marketId, variant, row }];
    });
  });
}

/** Claims as they may stand, by what they were; those of which nothing is left are not among them. */
type CutClaims = ReadonlyMap<CoverageClaim, CoverageClaim>;

async function cutClaims(connection: Connection, batches: readonly Batch[]): Promise<CutClaims> {
  const claims = batches.flatMap((batch) => batch.claims ?? []);
  const claimed = claims.map(({ stream, span }) => ({
    ...{ table: tableOfStream(stream.kind), streamId: stream.streamId, ...span },
  }));
  const rows = await connection.rows<{ readonly ord: number; readonly span: Span }>(
    CUT_CLAIMS,
    unnested(claimed, 'table', 'streamId', 'fromMs', 'toMs'),
  );
  const cut = new Map<CoverageClaim, CoverageClaim>();
  for (const { ord, span } of rows) {
    const claim = claims[ord - 1];
    if (claim !== undefined) cut.set(claim, { ...claim, span });
  }
  return cut;
}

function withoutRows(batch: Batch, gone: ReadonlyMap<object, boolean>, cut: CutClaims): Batch {
  const kept = WRITTEN_SERIES.map((table) => [
    SERIES[table].batch,
    rowsIn(batch, table).filter((row) => !gone.has(row)),
  ]);
  return {
    ...batch,
    ...(Object.fromEntries(kept) as Batch),
    claims: (batch.claims ?? []).flatMap((claim) => cut.get(claim) ?? []),
  };
}

/** A covered range for each claim as it came; an empty one where nothing could be claimed. */
function realignOne(batch: Batch, cut: CutClaims, result: CommitResult): CommitResult {
  const left = [...result.ranges];
  const ranges = (batch.claims ?? []).map((claim) => {
    const { stream, span } = claim;
    const found = cut.has(claim) ? left.shift() : undefined;
    return found ?? { streamId: stream.streamId, span };
  });
  return { ...result, ranges };
}
