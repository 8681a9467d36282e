import type { CallOptions, TradeFeedEvent } from '../../client/index.js';
import type { HistoryTrade, ResultTrade } from '../../contract/resources.js';
import type { RejectedRow } from '../../contract/shape.js';
import type { Clock } from '../../kernel/clock.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { ceilToMs, floorToMs, type Span } from '../../kernel/span.js';
import type { TradeRow } from '../../model/batch.js';
import { saneWindow } from '../../model/columns.js';
import { orderPage, screenPage } from '../../model/order.js';
import { latestMs, type ReplyTimes, type UnreadRow } from '../../model/proof.js';
import type { ExchangePort, ExchangeReply } from '../ports.js';

/** A trade before it is given to a market of the archive. */
export type SourceTrade = Omit<TradeRow, 'marketId' | 'receivedAtMs'>;

/** When a trade happened, exchange milliseconds, as exactly as is known. */
export function timeMsOf({ executedAtUs, tradedAtS }: SourceTrade): number {
  return executedAtUs === null ? tradedAtS * SECOND_MS : executedAtUs / 1000;
}

/** One page of history in the walk's terms. */
export interface TradePage extends ReplyTimes {
  /** In the order of the reply. */
  readonly trades: readonly SourceTrade[];
  readonly rejected: readonly RejectedRow[];
  readonly unread: readonly UnreadRow[];
  /** Rows in the reply, readable or not. */
  readonly rowCount: number;
  readonly receivedAtMs: number;
  /** The readable rows that have none above, or below them; where the reply has no order, by their place. */
  readonly ends: {
    readonly first: SourceTrade | undefined;
    readonly last: SourceTrade | undefined;
  };
  /** Rows at its ends that are not believed yet: they are neither stored nor counted on. */
  readonly held: readonly SourceTrade[];
  /** Whether an offset of 1 was sent in place of 0: where it counts trades, the newest is not here. */
  readonly isRaised: boolean;
}

/**
 * An endpoint that pages through trades. Pages of `history/result` prove them; `history` adds their exact times. Where
 * an exchange has only `history`, that does both.
 */
export interface TradeSource {
  readonly endpoint: 'historyResult' | 'history';
  fetch(market: string, skip: number, limit: number, options: CallOptions): Promise<TradePage>;
}

const MICROS = 1_000_000;

function fromResult(trade: ResultTrade): SourceTrade {
  const { tid, date, price, amount, total, type } = trade;
  return { tid, tradedAtS: date, executedAtUs: null, price, amount, total, side: type };
}

function fromHistory(trade: HistoryTrade): SourceTrade {
  const { id, time, price, amount, total, type } = trade;
  const tradedAtS = Math.floor(time);
  // A double holds a current UNIX time to a quarter of a microsecond, so rounding is exact. It must
  // not reach the next second: the second is part of the key that both endpoints share.
  const executedAtUs = Math.min(Math.round(time * MICROS), (tradedAtS + 1) * MICROS - 1);
  return { tid: id, tradedAtS, executedAtUs, price, amount, total, side: type };
}

/**
 * Puts readable rows and refused ones back into page order, to see who lies between whom, and refuses
 * those whose time cannot be true.
 */
export function toPage<T>(
  reply: Omit<ExchangeReply<T[]>, 'answeredAtMs'>,
  convert: (row: T) => SourceTrade,
): TradePage {
  const latest = latestMs(reply);
  const rowCount = reply.data.length + reply.rejected.length;
  const refusedAt = new Set(reply.rejected.map((row) => row.at));
  const places = Array.from({ length: rowCount }, (_, at) => at).filter((at) => !refusedAt.has(at));
  const rows = reply.data.map(convert);
  const { fromMs, toMs } = saneWindow(latest);
  const isSane = ({ tradedAtS }: SourceTrade) =>
    tradedAtS * SECOND_MS >= fromMs && tradedAtS * SECOND_MS <= toMs;
  const inside = rows.filter(isSane);
  const screened = screenPage(inside, latest / SECOND_MS);
  const reasons = new Map([...screened.refused].map(([at, reason]) => [inside[at], reason]));
  const rejected: RejectedRow[] = [...reply.rejected];
  const slots: Array<SourceTrade | undefined> = Array.from({ length: rowCount });
  for (const [at, trade] of rows.entries()) {
    const place = places[at] ?? at;
    const reason = isSane(trade) ? reasons.get(trade) : OUTSIDE;
    if (reason === undefined) slots[place] = trade;
    else rejected.push({ at: place, reason, payload: reply.data[at] });
  }
  const trades = slots.filter((slot) => slot !== undefined);
  const inOrder = screened.isShuffled ? orderPage(trades) : trades;
  return {
    trades,
    ends: { first: inOrder[0], last: inOrder.at(-1) },
    held: [],
    rejected,
    unread: screened.isShuffled ? allUnread(trades, rejected) : findUnread(slots),
    rowCount,
    sentAtMs: reply.sentAtMs,
    dateMs: reply.dateMs,
    receivedAtMs: reply.receivedAtMs,
    isRaised: reply.isRaised === true,
  };
}

const OUTSIDE = 'time outside the sane window';

/** In a reply without an order a refused row may lie anywhere. */
function allUnread(trades: readonly SourceTrade[], rejected: readonly RejectedRow[]): UnreadRow[] {
  if (rejected.length === 0 || trades.length === 0) return [];
  const olderS = Math.min(...trades.map(({ tradedAtS }) => tradedAtS));
  return [{ newerS: undefined, olderS }];
}

/** The page with an unseen row above it, treated as one that could not be read. */
export function withoutNewest(page: TradePage): TradePage {
  const [newest] = page.trades;
  const unseen = newest === undefined ? [] : [{ newerS: undefined, olderS: newest.tradedAtS }];
  // An empty page may hide one trade: it says nothing of a market without any.
  return { ...page, unread: [...unseen, ...page.unread], rowCount: Math.max(1, page.rowCount) };
}

/** Trades are kept under whole seconds: one of which a part is wanted is wanted. */
export function wholeSeconds({ fromMs, toMs }: Span): Span {
  return { fromMs: floorToMs(fromMs, SECOND_MS), toMs: ceilToMs(toMs, SECOND_MS) };
}

/** Each refused row with a readable one below it is listed as unread; more of them lie at the very end. */
export function endsUnread({ rejected, unread }: TradePage): boolean {
  return rejected.length > unread.length;
}

function findUnread(slots: ReadonlyArray<SourceTrade | undefined>): UnreadRow[] {
  const unread: UnreadRow[] = [];
  for (const [at, slot] of slots.entries()) {
    if (slot !== undefined) continue;
    const older = slots.slice(at + 1).find((one) => one !== undefined);
    if (older === undefined) break;
    const newer = slots.slice(0, at).findLast((one) => one !== undefined);
    unread.push({ newerS: newer?.tradedAtS, olderS: older.tradedAtS });
  }
  return unread;
}

/** Trades of one frame of a feed, whose rows are those of history. */
export function toPushed({
  trades,
  rejected,
  exchangeMs,
  receivedAtMs,
}: Extract<TradeFeedEvent, { kind: 'trades' }>): TradePage {
  const reply = { data: [...trades], rejected, sentAtMs: exchangeMs, dateMs: null, receivedAtMs };
  return toPage(reply, fromHistory);
}

/** Trades by history/result: every field but the exact time. */
export function resultSource(exchange: ExchangePort): TradeSource {
  return {
    endpoint: 'historyResult',
    async fetch(market, skip, limit, options) {
      const reply = await exchange.call('historyResult', { market, since: skip, limit }, options);
      return toPage(reply, fromResult);
    },
  };
}

/** Trades by history: with the exact time. */
export function historySource(exchange: ExchangePort): TradeSource {
  return {
    endpoint: 'history',
    async fetch(market, skip, limit, options) {
      const reply = await exchange.call('history', { market, lastId: skip, limit }, options);
      return toPage(reply, fromHistory);
    },
  };
}

/** Failures in a row after which the other endpoint proves trades. */
const FAILURES_MAX = 3;
/** Between two tries of an endpoint that failed so often. */
const RETRY_MS = 60_000;

/**
 * The endpoint that proves a market's trades: the first one, until it has failed {@link FAILURES_MAX} times in a row;
 * then the other one, until that fails or {@link RETRY_MS} have passed. It changes only between two steps of a walk.
 */
export class ProvingSource implements TradeSource {
  readonly #first: TradeSource;
  readonly #second: TradeSource;
  readonly #clock: Clock;
  #failures = 0;
  /** Until when the second one proves; undefined: the first one does. */
  #secondUntilMs: number | undefined;

  constructor(first: TradeSource, second: TradeSource, clock: Clock) {
    this.#first = first;
    this.#second = second;
    this.#clock = clock;
  }

  get endpoint(): TradeSource['endpoint'] {
    return this.#own.endpoint;
  }

  /** The endpoint that does not prove at present. */
  get other(): TradeSource {
    return this.#secondUntilMs === undefined ? this.#second : this.#first;
  }

  get #own(): TradeSource {
    return this.#secondUntilMs === undefined ? this.#first : this.#second;
  }

  fetch(market: string, skip: number, limit: number, options: CallOptions): Promise<TradePage> {
    return this.#own.fetch(market, skip, limit, options);
  }

  /** A step begins. */
  begin(): void {
    const untilMs = this.#secondUntilMs ?? Number.POSITIVE_INFINITY;
    if (this.#clock.monotonicMs() >= untilMs) this.#secondUntilMs = undefined;
  }

  /** The step ended. */
  settled(hasFailed: boolean): void {
    const isFirst = this.#secondUntilMs === undefined;
    if (isFirst) this.#failures = hasFailed ? this.#failures + 1 : 0;
    if (!hasFailed) return;
    const isSecondNext = isFirst && this.#failures >= FAILURES_MAX;
    this.#secondUntilMs = isSecondNext ? this.#clock.monotonicMs() + RETRY_MS : undefined;
  }
}
