import type { Span } from '../../kernel/span.js';
import type { StreamRef } from '../../ledger/batch.js';
import type { SlotVerdict, VerdictRow } from '../../ledger/verdict.js';
import type { StreamKind } from '../../model/series.js';
import type { PendingSpan, VerdictStore, VerdictTarget, VerdictTotals } from '../api-verdicts.js';
import { coveredSql, expectedSql } from '../completeness/missing.js';
import type { Database, Runner } from '../database.js';
import { fromMs, toMs } from '../instants.js';
import { departedSql } from '../sealing/departed.js';
import { readFigures } from './verdict-figures.js';
import {
  applyDoubts,
  readDueMismatches,
  readMismatches,
  recordVerdicts,
  reportVerdicts,
} from './verdict-rows.js';
import { PendingSearch, readTotals } from './verdicts-pending.js';

/** What of the ledger concerns verdicts: which markets, which spans, and what is known of them. */

const TARGETS = `
  SELECT s.stream_id, s.kind, s.market_id, s.variant, ${toMs('s.collect_from')} AS collect_from_ms,
         m.name
  FROM stream s JOIN market m USING (market_id)
  WHERE s.kind IN ('trades', 'times', 'kline') ORDER BY m.name, s.kind, s.variant`;

interface StreamRow {
  readonly stream_id: number;
  readonly kind: StreamKind;
  readonly market_id: number;
  readonly variant: number;
  readonly collect_from_ms: number | null;
  readonly name: string;
}

async function readTargets(runner: Runner): Promise<VerdictTarget[]> {
  const targets = new Map<number, VerdictTarget>();
  for (const row of await runner.rows<StreamRow>(TARGETS)) {
    const { market_id: marketId, name: market } = row;
    const stream = {
      streamId: row.stream_id,
      kind: row.kind,
      marketId,
      variant: row.variant,
      collectFromMs: row.collect_from_ms,
    };
    const known = targets.get(marketId) ?? {
      marketId,
      market,
      trades: null,
      times: null,
      klines: [],
    };
    const added =
      row.kind === 'kline' ? { klines: [...known.klines, stream] } : { [row.kind]: stream };
    targets.set(marketId, { ...known, ...added });
  }
  return [...targets.values()];
}

/** Expected or covered anyway, of one stream; up to its newest covered moment. */
const SPANS_OF = (stream: string) => `
  SELECT expected.spans + covered.spans AS spans
  FROM stream s, LATERAL (
      SELECT max(upper(c.span)) AS until FROM coverage c WHERE c.stream_id = s.stream_id OFFSET 0) newest,
    ${expectedSql('newest.until')}, ${coveredSql(`'-infinity'`, `'infinity'`)}
  WHERE s.stream_id = ${stream} AND newest.until IS NOT NULL`;

const EXPECTED = `
  WITH trades AS (${SPANS_OF('$1')}), klines AS (${SPANS_OF('$2')})
  SELECT ${toMs('lower(one)')} AS "fromMs", ${toMs('upper(one)')} AS "toMs"
  FROM trades t, klines k, unnest(t.spans * k.spans - ${departedSql('trade', 'kline')}) AS one ORDER BY lower(one)`;

const TRADE_IDS = `
  SELECT tid::float8 AS tid FROM trade
  WHERE market_id = $1 AND traded_at >= ${fromMs('$2')} AND traded_at < ${fromMs('$3')}
  ORDER BY traded_at, tid LIMIT $4`;

/** The verdicts of an archive in Postgres. */
export class PostgresVerdicts implements VerdictStore {
  readonly #open: () => Database;
  readonly #pending = new PendingSearch();

  /** @param open the database, or throws when the store is stopped */
  constructor(open: () => Database) {
    this.#open = open;
  }

  async targets(): Promise<VerdictTarget[]> {
    return await readTargets(this.#open());
  }

  async figures(target: VerdictTarget, kline: StreamRef, span: Span) {
    return await readFigures(this.#open(), target, kline, span);
  }

  async expected({ trades }: VerdictTarget, kline: StreamRef): Promise<Span[]> {
    if (trades === null) return [];
    return await this.#open().rows<Span>(EXPECTED, [trades.streamId, kline.streamId]);
  }

  async pending(limit: number): Promise<PendingSpan[]> {
    return await this.#pending.find(this.#open(), limit);
  }

  async record(marketId: number, intervalS: number, rows: readonly VerdictRow[]): Promise<void> {
    await recordVerdicts(this.#open(), marketId, intervalS, rows);
  }

  async report(
    marketId: number,
    intervalS: number,
    verdicts: readonly SlotVerdict[],
    nowMs: number,
  ): Promise<void> {
    await reportVerdicts(this.#open(), marketId, intervalS, verdicts, nowMs);
  }

  async applyDoubts(nowMs: number, limit: number): Promise<number> {
    return await applyDoubts(this.#open(), nowMs, limit);
  }

  async dueMismatches(nowMs: number, limit: number) {
    return await readDueMismatches(this.#open(), nowMs, limit);
  }

  async mismatches(filter: { readonly marketId?: number; readonly span?: Span }, limit: number) {
    return await readMismatches(this.#open(), filter, limit);
  }

  async totals(): Promise<VerdictTotals[]> {
    return await readTotals(this.#open());
  }

  async tradeIds(marketId: number, span: Span, limit: number): Promise<number[]> {
    const values = [marketId, span.fromMs, span.toMs, limit];
    return (await this.#open().rows<{ tid: number }>(TRADE_IDS, values)).map(({ tid }) => tid);
  }
}
