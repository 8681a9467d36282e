import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import { TIME_NOTICE, timeNoticeMessage } from '../../contract/extensions.js';
import {
  errorMessage,
  LIST_PERIOD_S,
  newestTrades,
  REALTIME_ERRORS,
  type RealtimeErrorBody,
  type RealtimeMethod,
  realtimeMethods,
  realtimeRequest,
  responseMessage,
  STATUS_SUCCESS,
  type StateParams,
  stateMarkets,
  tradeMarkets,
} from '../../contract/realtime.js';
import type { Clock } from '../../kernel/clock.js';
import { MINUTE_MS } from '../../kernel/durations.js';
import { parseJson } from '../../kernel/json.js';
import { Mutex } from '../../kernel/mutex.js';
import { RefusedError } from '../backend.js';
import type { ServerContext } from '../context.js';
import type { AskedMethod } from '../faults.js';
import { rateWindows } from '../http/rate-window.js';
import { failureOf } from '../http/replies.js';
import { frameGate, type GateFrame } from './faults-realtime.js';
import { followState, paceState, type Subscription } from './subscriptions.js';
import { beginTrades, pushedRow, type TradeSubscription } from './trade-subscription.js';

/** Bytes that may wait for a reader who does not read; beyond it the connection is cut. */
const MAX_BUFFERED_BYTES = 1024 * 1024;
/** A client that reads at full speed is sent no more while this much waits for it. */
const ROOMY_BYTES = 256 * 1024;
/** Time to read what waits then; a slower client is cut, so that others need not wait. */
const CATCH_UP_MS = 5_000;

/** Sends the frames of a connection: together, and never more than its reader takes. */
export class FrameOutlet {
  readonly #clock: Clock;
  readonly #socket: WebSocket;
  /** Socket of the frames. */
  readonly #stream: Duplex;
  readonly #cut: () => void;
  #isGathering = false;
  /** Bytes that waited for the reader when this tick's first frame came. */
  #waitedBytes = 0;
  #isEnded = false;
  #catchingUp: Promise<void> | undefined;

  /** @param cut ends the connection of a reader that is too slow */
  constructor(
    clock: Clock,
    { socket, stream }: { readonly socket: WebSocket; readonly stream: Duplex },
    cut: () => void,
  ) {
    this.#clock = clock;
    this.#socket = socket;
    this.#stream = stream;
    this.#cut = cut;
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN && !this.#isEnded;
  }

  write(data: string | Uint8Array): void {
    if (!this.#isOpen) return;
    this.#gather();
    // Frames of this very tick have not been offered to the reader yet, however large they are.
    if (this.#waitedBytes > MAX_BUFFERED_BYTES) {
      this.#cut();
      return;
    }
    this.#socket.send(data, { binary: false });
  }

  /** Resolves when the reader has caught up, or is gone; undefined while it keeps up. */
  room(): Promise<void> | undefined {
    if (!this.#isOpen || this.#socket.bufferedAmount <= ROOMY_BYTES) return undefined;
    this.#catchingUp ??= new Promise((resolve) => {
      const cancel = this.#clock.after(CATCH_UP_MS, this.#cut, { background: true });
      const caughtUp = () => {
        cancel();
        this.#catchingUp = undefined;
        resolve();
      };
      this.#socket.once('close', caughtUp);
      // A frame of the protocol's own is written after everything before it, and reported then.
      this.#socket.pong('', false, () => {
        this.#socket.off('close', caughtUp);
        caughtUp();
      });
    });
    return this.#catchingUp;
  }

  /** Cuts the connection without a closing frame, once the reader has what was written before. */
  end(): void {
    if (!this.#isOpen) return;
    this.#isEnded = true;
    const cancel = this.#clock.after(CATCH_UP_MS, this.#cut, { background: true });
    this.#socket.once('close', cancel);
    this.#stream.end();
  }

  /** Frames of one tick go out together: a system call costs more than a frame. */
  #gather(): void {
    if (this.#isGathering) return;
    this.#isGathering = true;
    this.#waitedBytes = this.#socket.bufferedAmount;
    this.#stream.cork();
    process.nextTick(() => {
      this.#isGathering = false;
      this.#stream.uncork();
    });
  }
}

/** Frames of one connection that may wait for their answer; beyond it the connection is cut. */
const MAX_WAITING_FRAMES = 256;
/** Longest state period, seconds: a week, like the longest candle. */
const MAX_PERIOD_S = 604_800;

const CLOSE_GOING_AWAY = 1001;
const CLOSE_POLICY = 1008;
const CLOSE_UNREADABLE = 1007;

const METHODS = Object.keys(realtimeMethods) as RealtimeMethod[];

/** The method that an exchange means by a word; undefined: none. */
function methodOf(
  word: string,
  { words, variants }: Pick<ServerContext, 'words' | 'variants'>,
): AskedMethod | undefined {
  const { methods = {}, trades } = words;
  if (trades !== undefined && variants.tradeFeed !== 'none') {
    if (word === trades.subscribe) return 'trades.subscribe';
    if (word === trades.request) return 'trades.request';
  }
  return METHODS.find((method) => (methods[method] ?? method) === word);
}

/**
 * One real-time client. Frames are answered in the order in which they came.
 *
 * States: *open* without or with one subscription (a second one replaces the first), then *closed*,
 * after which nothing is sent and no timer is left. Only data frames of the client count as life:
 * its protocol pings do not (field notes, Real-time).
 */
export class RealtimeConnection {
  readonly #context: ServerContext;
  readonly #socket: WebSocket;
  readonly #outlet: FrameOutlet;
  readonly #mutex = new Mutex();
  #waitingFrames = 0;
  /** By market. */
  #tradeSubscriptions: ReadonlyMap<string, TradeSubscription> = new Map();
  /** State of one market, or of all that a list named. */
  #subscriptions: readonly Subscription[] = [];
  #lastFrameAtMs: number;
  #cancelIdle: (() => void) | undefined;
  #closeReason = 'client';
  #endTimeWatch: (() => void) | undefined;
  /** Present where the exchange limits the requests of a connection. */
  readonly #count: ReturnType<typeof rateWindows> | undefined;
  /** Present when things are made to go wrong on purpose. */
  readonly #gate: ReturnType<typeof frameGate> | undefined;
  #asked: Pick<GateFrame, 'method' | 'market'> = { method: undefined, market: undefined };

  /** @param onClosed called once, with the cause of the end */
  constructor(
    context: ServerContext,
    { socket, stream }: { readonly socket: WebSocket; readonly stream: Duplex },
    onClosed: (reason: string) => void,
  ) {
    this.#context = context;
    this.#socket = socket;
    this.#outlet = new FrameOutlet(context.clock, { socket, stream }, () =>
      this.terminate('slow reader'),
    );
    this.#lastFrameAtMs = context.clock.monotonicMs();
    const { words, variants } = context;
    const limit = variants.rateLimit === 'dialect' ? words.requestsPerMinute : undefined;
    this.#count =
      limit === undefined ? undefined : rateWindows(context.clock, { limit, windowMs: MINUTE_MS });
    socket.on('message', (data, isBinary) => this.#onFrame(data, isBinary));
    socket.on('error', () => {
      // Oversized frames and protocol faults end here; the socket is closed by its library.
      this.#closeReason = 'protocol';
    });
    socket.once('close', () => {
      this.#release(this.#closeReason);
      onClosed(this.#closeReason);
    });
    this.#awaitIdle(context.variants.idleTimeoutMs);
    const interference = context.interference?.connection();
    this.#gate =
      interference &&
      frameGate(context, interference, {
        send: (data) => this.#outlet.write(data),
        cut: (reason) => this.terminate(reason),
      });
    this.#gate?.open();
  }

  /** Cuts the connection at once. */
  terminate(reason: string): void {
    this.#release(reason);
    this.#socket.terminate();
  }

  #endSubscriptions(): void {
    for (const subscription of this.#subscriptions) subscription.end();
    this.#subscriptions = [];
  }

  #endTrades(): void {
    for (const subscription of this.#tradeSubscriptions.values()) subscription.end();
    this.#tradeSubscriptions = new Map();
  }

  /** Leaves nothing that sends, or waits to. @param reason of the end */
  #release(reason: string): void {
    this.#closeReason = reason;
    this.#endSubscriptions();
    this.#endTrades();
    this.#endTimeWatch?.();
    this.#cancelIdle?.();
    this.#gate?.end();
  }

  #close(code: number, reason: string): void {
    this.#release(reason);
    this.#socket.close(code, reason);
  }

  #awaitIdle(ms: number): void {
    const { clock, variants } = this.#context;
    const onTimer = () => {
      const quietMs = clock.monotonicMs() - this.#lastFrameAtMs;
      if (quietMs >= variants.idleTimeoutMs) this.#close(CLOSE_GOING_AWAY, 'idle');
      else this.#awaitIdle(variants.idleTimeoutMs - quietMs);
    };
    this.#cancelIdle = clock.after(ms, onTimer, { background: true });
  }

  #onFrame(data: RawData, isBinary: boolean): void {
    this.#lastFrameAtMs = this.#context.clock.monotonicMs();
    if (this.#count?.('').isExceeded === true) {
      this.#close(CLOSE_POLICY, 'too many requests');
      return;
    }
    if (this.#waitingFrames >= MAX_WAITING_FRAMES) {
      this.terminate('flood');
      return;
    }
    this.#waitingFrames += 1;
    void this.#mutex.run(async () => {
      this.#waitingFrames -= 1;
      if (this.#isOpen) await this.#answer(decodeFrame(data, isBinary));
    });
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  async #answer(frame: unknown): Promise<void> {
    const { variants } = this.#context;
    const request = realtimeRequest.safeParse(frame);
    if (!request.success) {
      const id = readId(frame);
      if (id !== undefined) this.#refuse(id, [], REALTIME_ERRORS.invalidArgument);
      else if (variants.badJson === 'close') this.#close(CLOSE_UNREADABLE, 'unreadable frame');
      return;
    }
    const { id, method: word, params } = request.data;
    this.#asked = { method: undefined, market: undefined };
    if (word === TIME_NOTICE && this.#context.backend.watchTime !== undefined) {
      this.#send(responseMessage(id, [], STATUS_SUCCESS));
      this.#watchTime();
      return;
    }
    const method = methodOf(word, this.#context);
    if (method === undefined) {
      if (variants.unknownMethod === 'error') {
        this.#refuse(id, params, REALTIME_ERRORS.methodNotFound);
      }
      return;
    }
    const market = typeof params[0] === 'string' ? params[0] : undefined;
    this.#asked = { method, market };
    const answer = this.#gate?.asked({ method, market, atMs: this.#context.backend.nowMs() });
    if (answer === 'ignore') return;
    if (answer === 'refuse') {
      this.#refuse(id, params, REALTIME_ERRORS.unavailable);
      return;
    }
    try {
      await this.#run(method, id, params);
    } catch (error) {
      if (!(error instanceof RefusedError)) {
        this.#context.telemetry.handlerFailed(failureOf(method, error));
      }
      this.#refuse(id, params, errorOf(error));
    }
  }

  async #run(method: AskedMethod, id: number | string, params: unknown[]): Promise<void> {
    if (method === 'trades.subscribe') return this.#subscribeTrades(id, params);
    if (method === 'trades.request') return this.#answerTrades(id, params);
    if (method === 'server.ping') {
      this.#send(responseMessage(id, params, 'pong'));
      return;
    }
    if (method === 'state.unsubscribe') {
      if (params.length > 0) throw invalidArgument();
      this.#endSubscriptions();
      this.#send(responseMessage(id, [], STATUS_SUCCESS));
      return;
    }
    if (method === 'state.subscribe') {
      if (!this.#refusesMarkets(id, params)) this.#subscribe(id, this.#readTargets(params));
      return;
    }
    const target = this.#readTarget(method, params);
    if (target === undefined) throw invalidArgument();
    const record = await this.#context.backend.state(...target);
    this.#send(responseMessage(id, params, record));
  }

  #watchTime(): void {
    this.#endTimeWatch?.();
    this.#endTimeWatch = this.#context.backend.watchTime?.((time) => {
      this.#send(timeNoticeMessage(time));
    });
    // Sending may have cut a slow reader.
    if (!this.#isOpen) this.#endTimeWatch?.();
  }

  /** Refuses a whole list for one unknown market, where the exchange does so. */
  #refusesMarkets(id: number | string, params: readonly unknown[]): boolean {
    const { variants, backend } = this.#context;
    const isRefused =
      variants.unknownMarket === 'refuse' &&
      params.some((name) => typeof name === 'string' && !backend.hasMarket(name));
    if (isRefused) this.#refuse(id, params, REALTIME_ERRORS.unknownMarket);
    return isRefused;
  }

  /** Reads the markets of a subscription; unknown ones of a list are ignored. @throws RefusedError */
  #readTargets(params: unknown[]): readonly StateParams[] {
    if (this.#context.variants.subscribeForm === 'market') {
      const target = this.#readTarget('state.subscribe', params);
      if (target === undefined) throw invalidArgument();
      return [target];
    }
    const markets = stateMarkets.safeParse(params);
    if (!markets.success) throw invalidArgument();
    return [...new Set(markets.data)].flatMap((market) => {
      const target = this.#readTarget('state.subscribe', [market, LIST_PERIOD_S]);
      return target === undefined ? [] : [target];
    });
  }

  #readTarget(
    method: 'state.query' | 'state.subscribe',
    params: unknown[],
  ): StateParams | undefined {
    const target = realtimeMethods[method].params.safeParse(params);
    if (!target.success) return undefined;
    const [market, periodS] = target.data;
    const { backend } = this.#context;
    const isKnown = periodS <= MAX_PERIOD_S && backend.hasMarket(market);
    return isKnown && backend.hasPeriod?.(market, periodS) !== false ? target.data : undefined;
  }

  #subscribe(id: number | string, targets: readonly StateParams[]): void {
    this.#endSubscriptions();
    this.#send(responseMessage(id, [], STATUS_SUCCESS));
    // Sending may have cut a slow reader.
    if (!this.#isOpen) return;
    this.#subscriptions = targets.map((target) => {
      const send = (text: string) =>
        this.#sendFrame({ kind: 'update', method: undefined, market: target[0], text });
      return this.#context.backend.follow === undefined
        ? paceState(this.#context, target, send)
        : followState(this.#context, target, {
            send,
            room: () => this.#outlet.room(),
            close: (code, reason) => this.#closeAs(code, reason),
          });
    });
    // The subscription may have closed the connection at once.
    if (!this.#isOpen) this.#endSubscriptions();
  }

  /** The trades of a list of markets, of which those that there are not are passed over. */
  async #subscribeTrades(id: number | string, params: unknown[]): Promise<void> {
    const { backend, variants, words } = this.#context;
    const names = tradeMarkets.safeParse(params);
    const isAll = words.trades?.isAll === true && params.length === 0;
    if (!names.success || (names.data.length === 0 && !isAll)) throw invalidArgument();
    if (this.#refusesMarkets(id, params)) return;
    const listed = isAll ? (await backend.markets()).map(({ name }) => name) : names.data;
    const markets = [...new Set(listed)].filter((market) => backend.hasMarket(market));
    const wanted = variants.tradeFeed === 'pushed' ? markets : [];
    // One that goes on keeps what it has sent: begun anew it would lose what it has not sent yet.
    const subscriptions = new Map<string, TradeSubscription>();
    const begun: TradeSubscription[] = [];
    for (const market of wanted) {
      const going = this.#tradeSubscriptions.get(market);
      const subscription = going ?? (await this.#beginTrades(market));
      subscriptions.set(market, subscription);
      if (going === undefined) begun.push(subscription);
    }
    if (!this.#isOpen) return;
    for (const [market, old] of this.#tradeSubscriptions) {
      if (!subscriptions.has(market)) old.end();
    }
    this.#tradeSubscriptions = subscriptions;
    this.#send(responseMessage(id, [], STATUS_SUCCESS));
    // Sending may have cut a slow reader, and with it ended the subscriptions.
    for (const subscription of begun) subscription.start();
  }

  #beginTrades(market: string): Promise<TradeSubscription> {
    return beginTrades(this.#context, market, (text) =>
      this.#sendFrame({ kind: 'update', method: 'trades.subscribe', market, text }),
    );
  }

  /** The newest trades of one market above an id, newest first. */
  async #answerTrades(id: number | string, params: unknown[]): Promise<void> {
    const { backend, words } = this.#context;
    const asked = newestTrades.safeParse(params);
    if (!asked.success || !backend.hasMarket(asked.data[0])) throw invalidArgument();
    const [market, limit, aboveId] = asked.data;
    const most = Math.min(limit, words.trades?.requestMax ?? limit);
    const trades = await backend.trades(market, 0, most);
    const rows = trades
      .filter((trade) => trade.id > aboveId)
      .map((trade) => pushedRow(trade, this.#context));
    this.#send(responseMessage(id, [], rows));
  }

  #refuse(id: number | string, params: unknown, error: RealtimeErrorBody): void {
    this.#send(errorMessage(id, params, error));
  }

  #send(message: object): void {
    this.#sendFrame({ kind: 'response', ...this.#asked, text: JSON.stringify(message) });
  }

  #sendFrame(frame: GateFrame): void {
    if (this.#gate === undefined) this.#outlet.write(frame.text);
    else this.#gate.send(frame);
  }

  #closeAs(code: number, reason: string): void {
    const isSendable = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1011);
    if (isSendable || (code >= 3000 && code <= 4999)) this.#close(code, reason);
    else {
      this.#release(reason);
      this.#outlet.end();
    }
  }
}

function invalidArgument(): RefusedError {
  return new RefusedError('invalidInput', REALTIME_ERRORS.invalidArgument.message);
}

function errorOf(error: unknown): RealtimeErrorBody {
  const { unavailable, invalidArgument: invalid, internal } = REALTIME_ERRORS;
  if (!(error instanceof RefusedError)) return internal;
  return error.refusal === 'unavailable' ? unavailable : invalid;
}

/** A readable frame that is no request, or undefined where nothing can be answered. */
function readId(frame: unknown): number | string | undefined {
  if (frame === null || typeof frame !== 'object') return undefined;
  const id: unknown = (frame as { id?: unknown }).id;
  // A number beyond all doubles is read as infinite, and would be echoed as null.
  if (typeof id === 'number') return Number.isFinite(id) ? id : undefined;
  return typeof id === 'string' && id.length <= 64 ? id : undefined;
}

/** Reads a frame; undefined if it is unreadable. */
function decodeFrame(data: RawData, isBinary: boolean): unknown {
  if (isBinary) return undefined;
  try {
    const bytes = Array.isArray(data) ? Buffer.concat(data) : new Uint8Array(data);
    return parseJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
