import { tradesUpdateMessage } from '../../contract/realtime.js';
import type { Backend, BackendTrade } from '../backend.js';
import type { ServerContext } from '../context.js';
import { failureOf } from '../http/replies.js';

/** Rows of one frame. */
const FRAME_ROWS = 100;
/** Rows of the first look for news; one that does not reach down to what was sent is repeated longer. */
const LOOK_ROWS = 100;
const LONGER = 4;

/** A trade as rows of `history` are. */
export function pushedRow(trade: BackendTrade, { variants }: Pick<ServerContext, 'variants'>) {
  const { id, timeUs, price, amount, total, side } = trade;
  const row = { id, time: timeUs / 1_000_000, price, amount, type: side };
  return variants.historyTotal === 'sent' ? { ...row, total } : row;
}

/**
 * The trades of one market of a subscription: each that happens after it began, exactly once, in order.
 *
 * Where time jumps it begins anew at the instant to which it jumped, forward or back.
 *
 * States: *new* → *following* ({@link TradeSubscription.start}) → *ended*. News are read when the backend says that
 * there may be some; of a backend whose time is that of its reader, at intervals.
 */
export class TradeSubscription {
  readonly #context: ServerContext;
  readonly #market: string;
  readonly #send: (text: string) => void;
  /** The newest that was sent, or that happened before; undefined: there was none. */
  #last: Pick<BackendTrade, 'timeUs' | 'id'> | undefined;
  /** The jump of time that has been followed. */
  #jump: Backend['jump'];
  #endWatch: (() => void) | undefined;
  #cancelTimer: (() => void) | undefined;
  #isReading = false;
  #isDue = false;
  #isEnded = false;

  constructor(context: ServerContext, market: string, send: (text: string) => void) {
    this.#context = context;
    this.#market = market;
    this.#send = send;
  }

  /** What has happened by now is not sent. To be awaited before the subscription is acknowledged. */
  async begin(): Promise<void> {
    this.#jump = this.#context.backend.jump;
    [this.#last] = await this.#context.backend.trades(this.#market, 0, 1, 'history');
  }

  start(): void {
    if (this.#isEnded) return;
    this.#endWatch = this.#context.backend.watch(this.#market, () => void this.#read());
    void this.#read();
  }

  /** After this nothing more is sent. */
  end(): void {
    this.#isEnded = true;
    this.#endWatch?.();
    this.#cancelTimer?.();
  }

  async #read(): Promise<void> {
    this.#isDue = true;
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#isDue && !this.#isEnded) {
        this.#isDue = false;
        const { backend } = this.#context;
        this.#followJump(backend.jump);
        const news = await newerThan(backend, this.#market, this.#last);
        // What was read before a jump is not sent behind it.
        if (backend.jump === this.#jump) this.#push(news);
        else this.#isDue = true;
      }
    } catch (error) {
      this.#context.telemetry.handlerFailed(failureOf('trades update', error));
    } finally {
      this.#isReading = false;
      this.#readLater();
    }
  }

  #followJump(jump: Backend['jump']): void {
    if (jump === this.#jump) return;
    this.#jump = jump;
    if (jump !== undefined) this.#last = { timeUs: jump.toMs * 1000, id: -1 };
  }

  #readLater(): void {
    const { backend, clock, variants } = this.#context;
    this.#cancelTimer?.();
    if (this.#isEnded || backend.follow === undefined) return;
    const read = () => void this.#read();
    this.#cancelTimer = clock.after(variants.updateIntervalMs, read, { background: true });
  }

  /** @param trades newest first */
  #push(trades: readonly BackendTrade[]): void {
    const { trades: words } = this.#context.words;
    for (let end = trades.length; end > 0 && !this.#isEnded; end -= FRAME_ROWS) {
      const rows = trades.slice(Math.max(0, end - FRAME_ROWS), end);
      this.#last = rows[0];
      if (words === undefined) return;
      const written = rows.map((trade) => pushedRow(trade, this.#context));
      this.#send(JSON.stringify(tradesUpdateMessage(this.#market, written, words)));
    }
  }
}

/** All trades that came after one, newest first. */
async function newerThan(
  backend: Backend,
  market: string,
  last: Pick<BackendTrade, 'timeUs' | 'id'> | undefined,
): Promise<readonly BackendTrade[]> {
  for (let limit = LOOK_ROWS; ; limit *= LONGER) {
    const page = await backend.trades(market, 0, limit, 'history');
    const at = page.findIndex(
      ({ timeUs, id }) => last !== undefined && (timeUs - last.timeUs || id - last.id) <= 0,
    );
    if (at >= 0) return page.slice(0, at);
    if (page.length < limit) return page;
  }
}
