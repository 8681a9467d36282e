import { createExchangeClock, type ProxyAddress, safeExcerpt } from '../../client/index.js';
import {
  type FrameOutcome,
  FrameSocket,
  type SocketEnd,
} from '../../client/realtime/frame-socket.js';
import { isSuccess } from '../../client/realtime/subscription-form.js';
import {
  type Departure,
  departuresOfPushedTrades,
  departuresOfResponse,
  departuresOfUpdate,
} from '../../contract/departures.js';
import { type DialectName, dialectOf } from '../../contract/dialects.js';
import {
  type FrameOf,
  LIST_PERIOD_S,
  type RealtimeMethod,
  type RealtimeWords,
  readServerFrame,
  type ServerFrame,
  type TradeWords,
} from '../../contract/realtime.js';
import { systemClock, Wakeup } from '../../kernel/clock.js';
import type { ClientEvents } from '../../observe/events.js';

/** What can be asked or waited for; `trades` subscribes those that are pushed. */
type Step =
  | ('connect' | 'ping' | 'subscribe' | 'update' | 'query')
  | ('trades' | 'pushed trades' | 'newest trades');

/** One thing that was asked of the real-time interface, or waited for. */
export interface RealtimeFinding {
  readonly step: Step;
  /** `not asked` says why in its detail. */
  readonly outcome: 'ok' | 'refused' | 'silent' | 'failed' | 'not asked';
  /** Method and parameters; empty where nothing was sent. */
  readonly sent: string;
  readonly detail: string;
  readonly departures: readonly Departure[];
}

export interface RealtimeProbeSettings {
  readonly url: string;
  readonly telemetry: ClientEvents;
  /** How long each answer and update is waited for. */
  readonly waitMs: number;
  /** Undefined where the address is reached directly. */
  readonly proxy: ProxyAddress | undefined;
}

const MAX_FRAME_BYTES = 1024 * 1024;
/** Frames that wait to be looked at; the oldest give way. */
const FRAMES_MAX = 50;
/** Trades that are asked for at once. */
const TRADES = 10;

/** A frame as it came, and as it is read. */
interface Heard<K extends ServerFrame['kind'] = ServerFrame['kind']> {
  readonly raw: unknown;
  readonly frame: FrameOf<K>;
}

/** One connection on which one thing is waited for at a time, for a bounded time. */
class Conversation {
  readonly #waitMs: number;
  readonly #socket: FrameSocket;
  readonly #words: readonly RealtimeWords[];
  readonly #ending = new AbortController();
  #heard: Heard[] = [];
  #isOpen = false;
  /** Undefined while it is open. */
  end: SocketEnd | undefined;
  readonly #news = new Wakeup(systemClock);

  /** @param words in which frames may come */
  constructor(
    { url, telemetry, waitMs, proxy }: RealtimeProbeSettings,
    words: readonly RealtimeWords[],
  ) {
    this.#waitMs = waitMs;
    this.#words = words;
    const exchangeClock = createExchangeClock({ clock: systemClock });
    const limits = { acknowledgeTimeoutMs: waitMs, maxFrameBytes: MAX_FRAME_BYTES };
    this.#socket = new FrameSocket(
      { url, clock: systemClock, exchangeClock, telemetry, proxy, words: {}, ...limits },
      {
        opened: () => {
          this.#isOpen = true;
          this.#news.notify();
        },
        received: (_frame, raw) => this.#received(raw),
        ended: (end) => {
          this.end = end;
          this.#news.notify();
        },
      },
    );
    void this.#socket.run(this.#ending.signal);
  }

  /** Whether it came about. */
  async opened(): Promise<boolean> {
    await this.#until(() => this.#isOpen);
    return this.#isOpen;
  }

  /** @returns the answer; undefined when none came in time */
  async ask(method: string, params: readonly unknown[]): Promise<Heard<'response'> | undefined> {
    const id = this.#socket.send(method, params);
    return this.next('response', (frame) => frame.id === id);
  }

  /** @returns the next frame that is wanted, of those that wait and those to come; undefined when none came in time */
  async next<K extends ServerFrame['kind']>(
    kind: K,
    isWanted: (frame: FrameOf<K>) => boolean,
  ): Promise<Heard<K> | undefined> {
    const isIt = ({ frame }: Heard) => frame.kind === kind && isWanted(frame as FrameOf<K>);
    await this.#until(() => this.#heard.some(isIt));
    const found = this.#heard.find(isIt);
    this.#heard = this.#heard.filter((one) => one !== found);
    return found as Heard<K> | undefined;
  }

  close(): void {
    this.#ending.abort();
  }

  #received(raw: unknown): FrameOutcome {
    const read = this.#words.map((words) => readServerFrame(raw, words));
    const frame = read.find(({ kind }) => kind !== 'unrecognised');
    if (frame === undefined) return 'unrecognised';
    this.#heard = [...this.#heard.slice(1 - FRAMES_MAX), { raw, frame }];
    this.#news.notify();
    return 'response';
  }

  /** Waits until something is so, the connection ends, or time is up. */
  async #until(isSo: () => boolean): Promise<void> {
    const endMs = systemClock.monotonicMs() + this.#waitMs;
    for (let leftMs = this.#waitMs; leftMs > 0; leftMs = endMs - systemClock.monotonicMs()) {
      if (isSo() || this.end !== undefined) return;
      await this.#news.wait(leftMs, this.#ending.signal);
    }
  }
}

/**
 * Connects once and asks one thing after another, each in the known ways until one is answered: a ping, the state
 * of a market and its first update, a single look, and trades that are pushed.
 *
 * @param dialects in whose words it is asked, beside the contract's
 * @param market undefined: nothing that needs one is asked
 */
export async function* probeRealtime(
  settings: RealtimeProbeSettings,
  dialects: readonly DialectName[],
  market: string | undefined,
): AsyncGenerator<RealtimeFinding, void, undefined> {
  const words = dialects.map((name): RealtimeWords => dialectOf(name).realtime);
  const conversation = new Conversation(settings, [{}, ...words]);
  try {
    if (!(await conversation.opened())) {
      yield found('connect', 'failed', endOf(conversation.end));
      return;
    }
    yield found('connect', 'ok');
    for await (const finding of askAll(conversation, words, market)) {
      yield finding;
      if (conversation.end === undefined) continue;
      yield found('connect', 'failed', `${endOf(conversation.end)}; the rest was not asked`);
      return;
    }
  } finally {
    conversation.close();
  }
}

async function* askAll(
  conversation: Conversation,
  words: readonly RealtimeWords[],
  market: string | undefined,
): AsyncGenerator<RealtimeFinding, void, undefined> {
  const spoken = (method: RealtimeMethod, { methods = {} }: RealtimeWords) =>
    methods[method] ?? method;
  const pings = [{}, ...words].map((one) => ({ method: spoken('server.ping', one), params: [] }));
  yield* inEachWay(conversation, 'ping', pings, as('server.ping'));
  if (market === undefined) {
    yield found('subscribe', 'not asked', 'there is no market to ask about');
    return;
  }
  const [one, list] = [[market, LIST_PERIOD_S], [market]];
  const states = [
    ...[one, list].map((params) => ({ method: 'state.subscribe', params })),
    ...words.map((own) => ({
      method: spoken('state.subscribe', own),
      params: own.isList === true ? list : one,
    })),
  ];
  const isFollowed = yield* inEachWay(conversation, 'subscribe', states, as('state.subscribe'));
  if (isFollowed) {
    const isOurs = (named: string | undefined) => named === undefined || named === market;
    const update = await conversation.next('update', (frame) => isOurs(frame.market));
    yield update === undefined
      ? found('update', 'silent')
      : found('update', 'ok', '', departuresOfUpdate(update.raw));
  }
  const queries = [{}, ...words].map((own) => ({
    method: spoken('state.query', own),
    params: one,
  }));
  yield* inEachWay(conversation, 'query', queries, as('state.query'));
  const pushing = words.flatMap(({ trades }) => trades ?? []);
  yield* askForTrades(conversation, pushing, market);
}

async function* askForTrades(
  conversation: Conversation,
  words: readonly TradeWords[],
  market: string,
): AsyncGenerator<RealtimeFinding, void, undefined> {
  if (words.length === 0) {
    yield found('trades', 'not asked', 'no form of pushed trades is known for this dialect');
    return;
  }
  const ways = words.map(({ subscribe }) => ({ method: subscribe, params: [market] }));
  if (yield* inEachWay(conversation, 'trades', ways, as('state.subscribe'))) {
    const pushed = await conversation.next('trades', (frame) => frame.market === market);
    yield pushed === undefined
      ? found('pushed trades', 'silent')
      : found('pushed trades', 'ok', '', departuresOfPushedTrades(pushed.frame.rows));
  }
  const requests = words.flatMap(({ request }) =>
    request === undefined ? [] : [{ method: request, params: [market, TRADES, 0] }],
  );
  yield* inEachWay(conversation, 'newest trades', requests, {
    isGood: Array.isArray,
    departures: ({ frame }) => departuresOfPushedTrades(frame.result),
  });
}

/** How an answer without an error is judged. */
interface Judgement {
  readonly isGood: (result: unknown) => boolean;
  readonly departures: (
    answer: Heard<'response'>,
    params: readonly unknown[],
  ) => readonly Departure[];
}

/** As the answer to a method of the contract. */
function as(method: RealtimeMethod): Judgement {
  return {
    isGood: method === 'state.subscribe' ? isSuccess : () => true,
    departures: ({ raw }, params) => departuresOfResponse(method, params, raw),
  };
}

/** Asks in one way after the other until one is answered well. @returns whether one was */
async function* inEachWay(
  conversation: Conversation,
  step: Step,
  ways: readonly { readonly method: string; readonly params: readonly unknown[] }[],
  { isGood, departures }: Judgement,
): AsyncGenerator<RealtimeFinding, boolean, undefined> {
  const different = new Map(ways.map((way) => [JSON.stringify([way.method, way.params]), way]));
  for (const { method, params } of different.values()) {
    const sent = `${method} ${JSON.stringify(params)}`;
    const answer = await conversation.ask(method, params);
    if (answer === undefined) {
      yield { ...found(step, 'silent'), sent };
      continue;
    }
    const { error, result } = answer.frame;
    if (error === null && isGood(result)) {
      yield { ...found(step, 'ok', '', departures(answer, params)), sent };
      return true;
    }
    const detail =
      error === null
        ? `not a success, ${safeExcerpt(JSON.stringify(result) ?? 'no result')}`
        : `code ${error.code}, ${safeExcerpt(error.message)}`;
    yield { ...found(step, 'refused', detail), sent };
  }
  return false;
}

function found(
  step: Step,
  outcome: RealtimeFinding['outcome'],
  detail = '',
  departures: readonly Departure[] = [],
): RealtimeFinding {
  return { step, outcome, sent: '', detail, departures };
}

function endOf(end: SocketEnd | undefined): string {
  if (end === undefined) return 'no connection in time';
  const { reason, code, detail } = end;
  return `the connection ended: ${reason}, code ${code}${detail === undefined ? '' : `, ${detail}`}`;
}
