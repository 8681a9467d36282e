import { tradesUpdateMessage } from '../../contract/realtime.js';
import type { Backend, BackendTrade } from '../backend.js';
import type { ServerContext } from '../context.js';
import { failureOf } from '../http/replies.js';
import type { Subscription } from './subscriptions.js';

/** Rows of one frame. */
const FRAME_ROWS = 100;
/** Rows of the first look for news; one that does not reach down to what was sent is repeated longer. */
const LOOK_ROWS = 100;
const LONGER = 4;

type Place = Pick<BackendTrade, 'timeUs' | 'id'>;

/** A trade as rows of `history` are. */
export function pushedRow(trade: BackendTrade, { variants }: Pick<ServerContext, 'variants'>) {
  const { id, timeUs, price, amount, total, side } = trade;
  const row = { id, time: timeUs / 1_000_000, price, amount, type: side };
  return variants.historyTotal === 'sent' ? { ...row, total } : row;
}

/** Trades that are sent from `start` on until it is ended. */
export interface TradeSubscription extends Subscription {
  start(): void;
}

/**
 * The trades of one market of a subscription: each that happens after it began, exactly once, in order.
 *
 * Where time jumps it begins anew at the instant to which it jumped, forward or back.
 *
 * States: *begun* (what has happened by now is not sent) → *following* → *ended*. News are read when the
 * backend says that there may be some; of a backend whose time is that of its reader, at intervals.
 */
export async function beginTrades(
  context: ServerContext,
  market: string,
  send: (text: string) => void,
): Promise<TradeSubscription> {
  const { backend, clock, telemetry, variants, words } = context;
  // The jump of time that has been followed.
  let { jump } = backend;
  // The newest that was sent, or that happened before; undefined: there was none.
  let [last]: readonly Place[] = await backend.trades(market, 0, 1);
  let endWatch: (() => void) | undefined;
  let cancelTimer: (() => void) | undefined;
  let isReading = false;
  let isDue = false;
  let isEnded = false;
  /** @param trades newest first */
  const push = (trades: readonly BackendTrade[]) => {
    for (let end = trades.length; end > 0 && !isEnded; end -= FRAME_ROWS) {
      const rows = trades.slice(Math.max(0, end - FRAME_ROWS), end);
      last = rows[0];
      if (words.trades === undefined) return;
      const written = rows.map((trade) => pushedRow(trade, context));
      send(JSON.stringify(tradesUpdateMessage(market, written, words.trades)));
    }
  };
  const read = async (): Promise<void> => {
    isDue = true;
    if (isReading) return;
    isReading = true;
    try {
      while (isDue && !isEnded) {
        isDue = false;
        const jumped = backend.jump;
        if (jumped !== undefined && jumped !== jump) last = { timeUs: jumped.toMs * 1000, id: -1 };
        jump = jumped;
        const news = await newerThan(backend, market, last);
        // Trades read before a jump are not sent behind it.
        if (backend.jump === jump) push(news);
        else isDue = true;
      }
    } catch (error) {
      telemetry.handlerFailed(failureOf('trades update', error));
    } finally {
      isReading = false;
      cancelTimer?.();
      if (!isEnded && backend.follow !== undefined) {
        const later = () => void read();
        cancelTimer = clock.after(variants.updateIntervalMs, later, { background: true });
      }
    }
  };
  return {
    start() {
      if (isEnded) return;
      endWatch = backend.watch(market, () => void read());
      void read();
    },
    end() {
      isEnded = true;
      endWatch?.();
      cancelTimer?.();
    },
  };
}

/** All trades that came after one, newest first. */
async function newerThan(
  backend: Backend,
  market: string,
  last: Place | undefined,
): Promise<readonly BackendTrade[]> {
  for (let limit = LOOK_ROWS; ; limit *= LONGER) {
    const page = await backend.trades(market, 0, limit);
    const at = page.findIndex(
      ({ timeUs, id }) => last !== undefined && (timeUs - last.timeUs || id - last.id) <= 0,
    );
    if (at >= 0) return page.slice(0, at);
    if (page.length < limit) return page;
  }
}
