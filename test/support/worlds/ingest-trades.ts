import type { Span } from '../../../src/kernel/span.js';
import type { TradeRow } from '../../../src/model/batch.js';

/** Rows of a batch. */
export const BATCH_ROWS = 10_000;

const START_S = Date.UTC(2026, 0, 15) / 1_000;
const DAY_MS = 86_400_000;
const TRADES_PER_S = 20;
const FIRST_TID = 3_735_683_259;

/** How the trades of a batch fall on markets. */
export interface Shape {
  readonly markets: number;
  /** Trades of one market in a batch. */
  readonly pageRows: number;
}

/** The rows of a batch, and of each market in it the span that they prove. */
export interface Load {
  readonly rows: readonly TradeRow[];
  readonly spans: ReadonlyMap<number, Span>;
}

/** Trade number `n` of a market: values of the lengths that real ones have, always the same. */
function tradeOf(marketId: number, n: number): TradeRow {
  const executedAtUs = START_S * 1e6 + Math.floor((n * 1e6) / TRADES_PER_S) + ((n * 7919) % 40_000);
  return {
    ...{ marketId, tid: FIRST_TID + n, tradedAtS: Math.floor(executedAtUs / 1e6), executedAtUs },
    price: `${60_000 + ((n * 31) % 977)}.${String((n * 17) % 100).padStart(2, '0')}`,
    amount: `0.${String(((n * 104_729) % 99_999) + 1).padStart(5, '0')}`,
    total: `${(n * 37) % 9_973}.${String((n * 15_485_863) % 10_000_000).padStart(7, '0')}`,
    ...{ side: n % 3 === 0 ? 'sell' : 'buy', receivedAtMs: START_S * 1_000 + DAY_MS / 2 },
  };
}

/** Synthetic trades of one day, in batches that alternate the markets. */
export class ShapedTrades {
  readonly span: Span = { fromMs: START_S * 1_000, toMs: START_S * 1_000 + DAY_MS };
  readonly #shape: Shape;

  constructor(shape: Shape) {
    this.#shape = shape;
  }

  /** @param overlap rows of each market that the batch before had already */
  loads(count: number, overlap: number): Load[] {
    return Array.from({ length: count }, (_, index) => this.#load(index, overlap));
  }

  #load(index: number, overlap: number): Load {
    const { markets, pageRows } = this.#shape;
    const together = BATCH_ROWS / pageRows;
    const turns = markets / together;
    const firstMarket = (index % turns) * together + 1;
    const first = Math.floor(index / turns) * (pageRows - overlap);
    const rows: TradeRow[] = [];
    // In the order of time: the markets are mixed.
    for (let n = first; n < first + pageRows; n += 1) {
      for (let m = 0; m < together; m += 1) rows.push(tradeOf(firstMarket + m, n));
    }
    const secondMs = (n: number) => (START_S + Math.floor(n / TRADES_PER_S)) * 1_000;
    const span = { fromMs: secondMs(first), toMs: secondMs(first + pageRows) };
    const spans = Array.from({ length: together }, (_, m) => [firstMarket + m, span] as const);
    // As they come from an exchange: out of JSON, where texts are whole and not joined of pieces.
    return { rows: JSON.parse(JSON.stringify(rows)) as TradeRow[], spans: new Map(spans) };
  }
}
