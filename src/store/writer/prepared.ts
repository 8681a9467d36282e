import type {
  ActiveOrderRow,
  BalanceRow,
  Batch,
  DepthRow,
  KlineRow,
  QuarantineRow,
  Series,
  StateRow,
  TickerRow,
} from '../../ledger/batch.js';
import { ACTIVE_ORDER, BALANCE } from './account-series.js';
import type { Candidate, Outcome } from './candidate.js';
import {
  balanceReason,
  depthReason,
  klineReason,
  orderReason,
  type SaneWindow,
  sameFields,
  stateReason,
  tickerReason,
} from './screening.js';
import { DEPTH, KLINE, type SeriesShape, STATE, TICKER } from './series.js';
import { newTally, type Tally } from './tally.js';
import { type TradeSheet, tradeSheet } from './trade-sheet.js';

/** A refused row on its way to quarantine. The market is named by name or, from a row, by id. */
export type Refused = QuarantineRow & { readonly marketId: number | null };

/**
 * A group of batches made ready for its transaction: screened, without repetitions, in the order
 * of the keys. It is computed once and holds what does not depend on the database, so that a
 * transaction can be tried again with it.
 */
export interface PreparedGroup {
  readonly batches: readonly Batch[];
  readonly trades: TradeSheet;
  /** Versions of one candle in the order received: each pass holds a key at most once. */
  readonly klinePasses: readonly (readonly Candidate<KlineRow>[])[];
  readonly tickers: readonly Candidate<TickerRow>[];
  readonly depths: readonly Candidate<DepthRow>[];
  readonly states: readonly Candidate<StateRow>[];
  readonly balances: readonly Candidate<BalanceRow>[];
  readonly orders: readonly Candidate<ActiveOrderRow>[];
  readonly refused: readonly Refused[];
  /** Outcomes that are settled already, one tally a batch; trades are stored unless they turn out known. */
  readonly settled: readonly Tally[];
}

const MAX_PAYLOAD = 4_000;

/** Reason of a row whose key is stored with other content. */
export const CONFLICT = 'conflict';

/** A refused row as it goes to quarantine. */
export function refusedRow(
  table: string,
  reason: string,
  row: { readonly marketId: number; readonly receivedAtMs: number },
): Refused {
  const receivedAtMs = Number.isSafeInteger(row.receivedAtMs) ? row.receivedAtMs : 0;
  const payload = JSON.stringify(row).slice(0, MAX_PAYLOAD);
  const { marketId } = row;
  return { receivedAtMs, endpoint: `store:${table}`, market: null, marketId, reason, payload };
}

/** What to do with a row whose identity the group has already. */
type Repeated<Row> = (held: Candidate<Row>, again: Candidate<Row>) => Outcome | 'later';

interface Screened<Row> {
  readonly rows: Candidate<Row>[];
  /** Rows for a later pass over the same table. */
  readonly later: Candidate<Row>[];
}

/** The rows of a group, each identity once. */
class HeldRows<Row> {
  readonly #markets = new Map<number, Map<string | number, Candidate<Row>>>();

  ofMarket(marketId: number): Map<string | number, Candidate<Row>> {
    const found = this.#markets.get(marketId);
    if (found !== undefined) return found;
    const made = new Map<string | number, Candidate<Row>>();
    this.#markets.set(marketId, made);
    return made;
  }

  /** In the order of the key, which every series begins with the market. */
  inOrder(compare: (a: Row, b: Row) => number): Candidate<Row>[] {
    const markets = [...this.#markets].sort(([a], [b]) => a - b);
    // Rows of one market come in order already, forwards or backwards: sorting them is one pass.
    return markets.flatMap(([, of]) => [...of.values()].sort((a, b) => compare(a.row, b.row)));
  }
}

class Preparation {
  readonly refused: Refused[] = [];
  readonly settled: Tally[];

  constructor(batches: readonly Batch[]) {
    this.settled = batches.map(() => newTally());
  }

  settle(series: Series, batch: number, outcome: Outcome): void {
    const tally = this.settled[batch];
    if (tally !== undefined) tally[series][outcome] += 1;
  }

  screen<Row extends { readonly marketId: number; readonly receivedAtMs: number }>(
    shape: SeriesShape<Row>,
    candidates: readonly Candidate<Row>[],
    reasonOf: (row: Row) => string | undefined,
    repeated: Repeated<Row>,
  ): Screened<Row> {
    const held = new HeldRows<Row>();
    const later: Candidate<Row>[] = [];
    for (const candidate of candidates) {
      const { row, batch } = candidate;
      const reason = reasonOf(row);
      if (reason !== undefined) {
        this.settle(shape.table, batch, 'rejected');
        this.refused.push(refusedRow(shape.table, reason, row));
        continue;
      }
      const of = held.ofMarket(row.marketId);
      const identity = shape.identity(row);
      const before = of.get(identity);
      if (before === undefined) {
        of.set(identity, candidate);
        continue;
      }
      const outcome = repeated(before, candidate);
      if (outcome === 'later') {
        later.push(candidate);
        continue;
      }
      this.settle(shape.table, batch, outcome);
      if (outcome === 'conflict') this.refused.push(refusedRow(shape.table, CONFLICT, row));
    }
    return { rows: held.inOrder(shape.compare), later };
  }
}

function contentOf<Row>(shape: SeriesShape<Row>, row: Row): (string | null)[] {
  const fields = shape.fields(row);
  return shape.content.map((name) => fields[shape.columns.indexOf(name)] ?? null);
}

function sameContent<Row>(shape: SeriesShape<Row>, a: Row, b: Row): boolean {
  return sameFields(contentOf(shape, a), contentOf(shape, b));
}

const sameOrConflict =
  <Row>(shape: SeriesShape<Row>): Repeated<Row> =>
  (held, again) =>
    sameContent(shape, held.row, again.row) ? 'duplicate' : 'conflict';

/** Another version of a candle is news, not a conflict. */
const repeatedKline: Repeated<KlineRow> = (held, again) =>
  sameContent(KLINE, held.row, again.row) ? 'duplicate' : 'later';

function gather<Row>(
  batches: readonly Batch[],
  pick: (batch: Batch) => readonly Row[] | undefined,
): Candidate<Row>[] {
  return batches.flatMap((each, batch) => (pick(each) ?? []).map((row) => ({ row, batch })));
}

export function prepareGroup(batches: readonly Batch[], window: SaneWindow): PreparedGroup {
  const work = new Preparation(batches);
  const tickers = gather(batches, ({ tickers }) => tickers);
  const depths = gather(batches, ({ depths }) => depths);
  const states = gather(batches, ({ states }) => states);
  const balances = gather(batches, (batch) => batch.balances);
  const orders = gather(batches, (batch) => batch.orders);
  const klinePasses: Candidate<KlineRow>[][] = [];
  let klines = gather(batches, (batch) => batch.klines);
  while (klines.length > 0) {
    const pass = work.screen(KLINE, klines, (row) => klineReason(row, window), repeatedKline);
    klinePasses.push(pass.rows);
    klines = pass.later;
  }
  const given = gather(batches, ({ quarantine }) => quarantine);
  const trades = tradeSheet(batches, window, {
    settle: (batch, outcome) => work.settle('trade', batch, outcome),
    refuse: (reason, row) => work.refused.push(refusedRow('trade', reason, row)),
  });
  for (const batch of trades.batches) work.settle('trade', batch, 'stored');
  const prepared = {
    batches,
    trades,
    klinePasses,
    tickers: work.screen(
      TICKER,
      tickers,
      (row) => tickerReason(row, window),
      sameOrConflict(TICKER),
    ).rows,
    depths: work.screen(DEPTH, depths, (row) => depthReason(row, window), sameOrConflict(DEPTH))
      .rows,
    states: work.screen(STATE, states, (row) => stateReason(row, window), sameOrConflict(STATE))
      .rows,
    balances: work.screen(
      BALANCE,
      balances,
      (row) => balanceReason(row, window),
      sameOrConflict(BALANCE),
    ).rows,
    orders: work.screen(
      ACTIVE_ORDER,
      orders,
      (row) => orderReason(row, window),
      sameOrConflict(ACTIVE_ORDER),
    ).rows,
    settled: work.settled,
  };
  const refused = [...given.map(({ row }) => ({ ...row, marketId: null })), ...work.refused];
  return { ...prepared, refused };
}

/** Rows of a batch that take room in the queue and in a transaction. */
export function batchSize(batch: Batch): number {
  return (
    (batch.trades?.length ?? 0) +
    (batch.klines?.length ?? 0) +
    (batch.tickers?.length ?? 0) +
    (batch.depths?.length ?? 0) +
    (batch.states?.length ?? 0) +
    (batch.balances?.length ?? 0) +
    (batch.orders?.length ?? 0) +
    (batch.quarantine?.length ?? 0) +
    (batch.claims?.length ?? 0)
  );
}
