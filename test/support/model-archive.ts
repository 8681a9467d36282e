import type { ArchivePort } from '../../src/collect/ports.js';
import type { Span } from '../../src/kernel/span.js';
import {
  type Batch,
  type CommitResult,
  type CoverageClaim,
  type Island,
  NO_OUTCOMES,
  type StreamRef,
  type TradeRow,
} from '../../src/ledger/batch.js';

/** A gap as a collector reported it. */
export interface ReportedGap {
  readonly streamId: number;
  readonly span: Span;
  readonly state: string;
  readonly reason: string;
}

/**
 * The archive's rules for trades and their coverage in the fewest words: what the real one must do,
 * without a database. For tests that check thousands of histories of a walk.
 */
export class ModelArchive implements ArchivePort {
  readonly trades = new Map<string, TradeRow>();
  readonly gaps: ReportedGap[] = [];
  readonly quarantine: unknown[] = [];
  #islands: Island[] = [];
  #floors = new Map<number, number>();
  /** Called after every commit. */
  onCommit: () => void = () => undefined;

  async commit(batch: Batch): Promise<CommitResult> {
    const outcome = { ...NO_OUTCOMES };
    const count = (name: keyof typeof outcome) => {
      (outcome as Record<string, number>)[name] = outcome[name] + 1;
    };
    for (const row of batch.trades ?? []) {
      const key = `${row.marketId} ${row.tradedAtS} ${row.tid}`;
      const known = this.trades.get(key);
      if (known === undefined) {
        this.trades.set(key, row);
        count('stored');
      } else if (known.price !== row.price || known.amount !== row.amount) {
        count('conflict');
      } else if (known.executedAtUs === null && row.executedAtUs !== null) {
        this.trades.set(key, { ...known, executedAtUs: row.executedAtUs });
        count('updated');
      } else {
        count('duplicate');
      }
    }
    this.quarantine.push(...(batch.quarantine ?? []));
    const islands = (batch.claims ?? []).map((claim) => this.#merge(claim));
    this.onCommit();
    const none = NO_OUTCOMES;
    return {
      outcomes: { trade: outcome, kline: none, ticker: none, depth: none, market_state: none },
      islands,
    };
  }

  #merge({ stream, span }: CoverageClaim): Island {
    const { streamId, marketId, kind } = stream;
    const touching = this.#islands.filter(
      (island) =>
        island.streamId === streamId &&
        island.span.fromMs <= span.toMs &&
        island.span.toMs >= span.fromMs,
    );
    const all = [span, ...touching.map((island) => island.span)];
    const merged = {
      fromMs: Math.min(...all.map((one) => one.fromMs)),
      toMs: Math.max(...all.map((one) => one.toMs)),
    };
    const inside = [...this.trades.values()].filter(
      (row) =>
        row.marketId === marketId &&
        row.tradedAtS * 1000 >= merged.fromMs &&
        row.tradedAtS * 1000 < merged.toMs &&
        (kind !== 'times' || row.executedAtUs !== null),
    );
    const tids = inside.map((row) => row.tid);
    const island: Island = {
      streamId,
      span: merged,
      rowCount: tids.length,
      firstId: tids.length === 0 ? null : Math.min(...tids),
      lastId: tids.length === 0 ? null : Math.max(...tids),
    };
    this.#islands = [...this.#islands.filter((one) => !touching.includes(one)), island];
    return island;
  }

  allIslands(streamId: number): Island[] {
    return this.#islands
      .filter((island) => island.streamId === streamId)
      .sort((a, b) => b.span.fromMs - a.span.fromMs);
  }

  floorOf(streamId: number): number | null {
    return this.#floors.get(streamId) ?? null;
  }

  async islands(stream: StreamRef): Promise<Island[]> {
    return this.allIslands(stream.streamId);
  }

  async setCollectFrom(streamId: number, fromMs: number): Promise<void> {
    this.#floors.set(streamId, fromMs);
  }

  async recordGap(gap: { stream: StreamRef; span: Span; state: string; reason: string }) {
    const { stream, span, state, reason } = gap;
    this.gaps.push({ streamId: stream.streamId, span, state, reason });
  }

  ensureMarkets(): never {
    throw new Error('the model knows one market');
  }

  ensureStream(): never {
    throw new Error('the model is given its streams');
  }

  openSession(): never {
    throw new Error('the model has no sessions');
  }

  closeSession(): never {
    throw new Error('the model has no sessions');
  }
}
