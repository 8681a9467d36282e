import { SECOND_MS } from '../../kernel/durations.js';
import type { Store } from '../../store/index.js';
import { addTrade, appendCandles } from './candles.js';
import * as sql from './hot-sql.js';
import type { PartSearch, VisitedPart } from './part-search.js';
import type {
  BuiltCandle,
  KnownAt,
  MadeCandles,
  TradeMarks,
  TradePlace,
  TradeRow,
} from './past.js';
import { comparePlaces } from './places.js';

/** Before everything that there can be. */
const BEGINNING: TradePlace = { tradedAtS: 0, tid: 0 };

const seriesOf = (marketId: number) => ({ kind: 'trades', marketId, variantS: 0 }) as const;

/** Trades of the past, by their place in the order of time and id. */
export class PastTrades {
  readonly #store: Pick<Store, 'query'>;
  readonly #search: PartSearch;

  constructor(store: Pick<Store, 'query'>, search: PartSearch) {
    this.#store = store;
    this.#search = search;
  }

  before(
    marketId: number,
    before: TradePlace,
    limit: number,
    knownAt: KnownAt,
  ): Promise<TradeRow[]> {
    const { tradedAtS, tid } = before;
    return this.#search.newest(
      {
        ...seriesOf(marketId),
        hot: ({ fromMs, toMs }, left) =>
          this.#store.query<TradeRow>(sql.TRADES_BEFORE, [
            ...[marketId, fromMs, toMs, tradedAtS, tid, left, knownAt],
          ]),
        isMeant: (row) =>
          comparePlaces(row, before) < 0 && (knownAt === null || row.receivedAtMs <= knownAt),
      },
      (tradedAtS + 1) * SECOND_MS,
      limit,
    );
  }

  async ofSecond(marketId: number, second: number): Promise<TradeRow[]> {
    const span = { fromMs: second * SECOND_MS, toMs: (second + 1) * SECOND_MS };
    const rows: TradeRow[] = [];
    await this.#search.eachPart(seriesOf(marketId), span, 'ascending', async (part) => {
      if (part.state === 'hot') rows.push(...(await this.#hotSecond(marketId, second)));
      if (part.state === 'cold') {
        await part.alone.run(async () => {
          for await (const batch of part.rows(Number.MAX_SAFE_INTEGER)) rows.push(...batch);
        });
      }
      return true;
    });
    return rows;
  }

  async #hotSecond(marketId: number, second: number): Promise<TradeRow[]> {
    const [fromMs, toMs] = [second * SECOND_MS, (second + 1) * SECOND_MS];
    const newestFirst = await this.#store.query<TradeRow>(sql.TRADES_BEFORE, [
      ...[marketId, fromMs, toMs, second + 1, 0, Number.MAX_SAFE_INTEGER, null],
    ]);
    return newestFirst.reverse();
  }

  async marks(
    marketId: number,
    before: TradePlace,
    downTo: TradePlace = BEGINNING,
    { step, maxCount }: { readonly step: number; readonly maxCount: number },
  ): Promise<TradeMarks> {
    const marks: TradePlace[] = [];
    let count = 0;
    const span = {
      fromMs: downTo.tradedAtS * SECOND_MS,
      toMs: (before.tradedAtS + 1) * SECOND_MS,
    };
    await this.#search.eachPart(seriesOf(marketId), span, 'descending', async (part) => {
      const left = maxCount - count;
      const counted = (place: TradePlace) => {
        count += 1;
        if (count % step === 0) marks.push({ tradedAtS: place.tradedAtS, tid: place.tid });
      };
      if (part.state === 'hot') {
        const rows = await this.#store.query<TradePlace & { readonly count: number }>(
          sql.TRADE_MARKS,
          [
            ...[marketId, part.span.fromMs, part.span.toMs, before.tradedAtS, before.tid],
            ...[downTo.tradedAtS, downTo.tid, step, left, count % step],
          ],
        );
        const inPart = rows[0]?.count ?? 0;
        const marked = Math.floor((count + inPart) / step) - Math.floor(count / step);
        marks.push(...rows.slice(0, marked).map(({ tradedAtS, tid }) => ({ tradedAtS, tid })));
        count += inPart;
        return inPart < left;
      }
      return part.state !== 'cold' || countCold(part, before, downTo, left, counted);
    });
    return { marks, count, isWhole: count < maxCount };
  }

  async candles(
    marketId: number,
    intervalS: number,
    from: TradePlace,
    before: TradePlace,
    knownAt: KnownAt,
  ): Promise<MadeCandles> {
    const candles: BuiltCandle[] = [];
    const late = new Set<number>();
    const span = {
      fromMs: from.tradedAtS * SECOND_MS,
      toMs: (before.tradedAtS + 1) * SECOND_MS,
    };
    await this.#search.eachPart(seriesOf(marketId), span, 'ascending', async (part) => {
      if (part.state === 'hot') {
        const values = [
          ...[marketId, part.span.fromMs, part.span.toMs, from.tradedAtS, from.tid],
          ...[before.tradedAtS, before.tid, intervalS, knownAt],
        ];
        appendCandles(candles, await this.#store.query<BuiltCandle>(sql.CANDLES_OF_TRADES, values));
        if (knownAt === null) return true;
        const lacking = await this.#store.query<Pick<BuiltCandle, 'openAtS'>>(
          sql.LATE_CANDLES_OF_TRADES,
          values,
        );
        for (const { openAtS } of lacking) late.add(openAtS);
      }
      if (part.state === 'cold') {
        await part.alone.run(async () => {
          for await (const batch of part.rows(Number.MAX_SAFE_INTEGER)) {
            for (const row of batch) {
              if (comparePlaces(row, from) < 0 || comparePlaces(row, before) >= 0) continue;
              const isKnown = knownAt === null || row.receivedAtMs <= knownAt;
              if (isKnown) addTrade(candles, row, intervalS);
              else late.add(Math.floor(row.tradedAtS / intervalS) * intervalS);
            }
          }
        });
      }
      return true;
    });
    return { candles, lateOpenAtS: [...late].sort((a, b) => a - b) };
  }
}

/** Counts what files hold of a part; false when there is more than may be counted. */
async function countCold(
  part: VisitedPart<TradeRow>,
  before: TradePlace,
  downTo: TradePlace,
  left: number,
  counted: (place: TradePlace) => void,
): Promise<boolean> {
  // Those at `before` or later are read as well, and are of one second.
  for (let asked = left; ; asked *= 2) {
    const rows: TradePlace[] = [];
    let read = 0;
    await part.alone.run(async () => {
      for await (const batch of part.rows(asked)) {
        read += batch.length;
        for (const row of batch) {
          const isMeant = comparePlaces(row, before) < 0 && comparePlaces(row, downTo) >= 0;
          if (isMeant && rows.length < left) rows.push(row);
        }
      }
    });
    if (rows.length < left && read === asked) continue;
    for (const row of rows) counted(row);
    return rows.length < left;
  }
}
