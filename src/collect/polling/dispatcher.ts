import { setMaxListeners } from 'node:events';
import type { Clock } from '../../kernel/clock.js';
import { AbortedError, isAborted } from '../../kernel/errors.js';
import type { Random } from '../../kernel/random.js';
import { Wakeup } from '../../kernel/wakeup.js';
import type { CollectEvents } from '../../observe/events.js';
import { reportFailure } from '../failures.js';
import { type ExchangePort, type ExchangeTime, PRIORITY, type RequestTurn } from '../ports.js';
import { type Choice, Chooser } from './choice.js';
import { type HeadWalker, Lane, type Sign, type SignSource, type Waiting } from './lane.js';
import { FloorRounds } from './rounds.js';
import type { TradeSign } from './signs.js';

interface DispatcherOptions {
  readonly exchange: Pick<ExchangePort, 'reserve'>;
  /** Requests a second that the budget allows now. */
  readonly requestsPerS: () => number;
  readonly time: ExchangeTime;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: CollectEvents;
  /** Called after a poll that succeeded. */
  readonly onPolled?: (walker: HeadWalker) => void;
  /** Called after a poll that failed. */
  readonly onFailed?: (walker: HeadWalker, error: unknown) => void;
}

/** Polls under way at the same time, with the commits that end them. */
const UNDER_WAY_MAX = 16;
/** Of these, so many of one endpoint: the other always finds room, however slow this one is. */
const UNDER_WAY_OF_KIND_MAX = 12;
/** After so many failures in a row an endpoint counts as away, and is asked by one at a time. */
const AWAY_FAILURES = 3;
/** How often needs that grow with time are looked at again. */
const RECHECK_MS = 500;

type Kind = HeadWalker['kind'];

/**
 * Polls the newest trades of all markets: whenever a request may start, the market where it is worth
 * most. Nothing is lined up beforehand, so that a sign that comes now counts at once.
 *
 * What it goes by: signs of trades, pushed over the state feeds or swept from the tickers; the
 * schedule, which marks every walk that was not polled since its previous run; and how full the next
 * page is expected to be ({@link Chooser}). News and schedule take every other turn of the request
 * budget while other streams wait; what is only worth a request that no other work needs waits in
 * line with the filling of gaps. A sign needs one request: the walk over `history` brings the trade
 * with its exact time, the walk over `history/result` proves it as well, in spare turns or by
 * schedule.
 *
 * States: *stopped* → *running* ({@link PollDispatcher.start}) → *stopped*. A failed poll is
 * reported, and its walk alone backs off; what waited for it goes on waiting.
 */
export class PollDispatcher {
  readonly #options: DispatcherOptions;
  readonly #markets = new Map<string, MarketLanes>();
  readonly #chooser = new Chooser();
  readonly #rounds: FloorRounds;
  readonly #wakeup: Wakeup;
  readonly #polls = new Map<Lane, Promise<void>>();
  readonly #failuresInRow: Record<Kind, number> = { trades: 0, times: 0 };
  readonly #underWay: Record<Kind, number> = { trades: 0, times: 0 };
  #reservation: Reservation | undefined;
  #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #lastSweepMs = Number.NEGATIVE_INFINITY;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#rounds = new FloorRounds(options.requestsPerS);
    this.#wakeup = new Wakeup(options.clock);
  }

  /** @param walkers all walks over the trades of one market; each is due at once */
  add(market: string, walkers: readonly HeadWalker[]): void {
    const { clock, random } = this.#options;
    const nowMs = clock.monotonicMs();
    const lanes = walkers.map((walker) => new Lane(walker, random, nowMs));
    this.#markets.set(market, new MarketLanes(lanes));
    this.#changed();
  }

  /** Nothing more of the market is polled; resolves when a poll under way has ended. */
  async remove(market: string): Promise<void> {
    const lanes = this.#markets.get(market)?.lanes ?? [];
    this.#markets.delete(market);
    await Promise.all(lanes.map((lane) => this.#polls.get(lane) ?? Promise.resolve()));
  }

  /** The state feed of a market reported a change. */
  pushed(market: string, sign: TradeSign): void {
    const nowMs = this.#options.clock.monotonicMs();
    const lanes = this.#markets.get(market);
    if (lanes === undefined) return;
    if (sign === 'trade') lanes.pushedAtMs = nowMs;
    this.#note(lanes, sign, 'pushed', nowMs);
  }

  /** Whether the state feed of a market is connected, so that trades will be pushed. */
  followed(market: string, isFollowed: boolean): void {
    const lanes = this.#markets.get(market);
    if (lanes !== undefined) lanes.isFollowed = isFollowed;
  }

  /** An answer about all markets: those that moved since the answer before. */
  swept(signs: ReadonlyMap<string, TradeSign>): void {
    const nowMs = this.#options.clock.monotonicMs();
    for (const [market, sign] of signs) {
      const lanes = this.#markets.get(market);
      // What was pushed meanwhile is known; where a feed is connected it will still come.
      if (lanes === undefined || lanes.pushedAtMs >= this.#lastSweepMs) continue;
      this.#note(lanes, lanes.isFollowed ? 'maybe' : sign, 'swept', nowMs);
    }
    this.#lastSweepMs = nowMs;
  }

  /** @param periodMs longest time between two runs of the schedule */
  keepFloor(periodMs: number): void {
    this.#rounds.periodMs = periodMs;
  }

  /** A run of the schedule: whatever was not polled since the run before is due ({@link FloorRounds}). */
  markDue(): void {
    const { clock, telemetry } = this.#options;
    const isTaken = this.#rounds.begin(this.#lanes(), clock.monotonicMs(), ({ walker }) =>
      telemetry.runSkipped({ stream: walker.kind }),
    );
    if (isTaken) this.#changed();
    else telemetry.runSkipped({ stream: 'trades' });
  }

  /** A walk that was at work on a hole is free again: what waited for it may be polled now. */
  wake(): void {
    this.#changed();
  }

  start(): void {
    if (this.#running !== undefined) return;
    this.#stopping = new AbortController();
    setMaxListeners(0, this.#stopping.signal);
    this.#running = this.#run(this.#stopping.signal);
  }

  /** Ends what is under way. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wakeup.notify();
    await this.#running;
    this.#running = undefined;
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#rounds.look(this.#lanes(), this.#options.clock.monotonicMs());
      const wanted = this.#choose();
      if (wanted === undefined) {
        await this.#wakeup.wait(RECHECK_MS, signal);
        continue;
      }
      const turn = await this.#reserve(wanted, signal);
      // Chosen now that a request may start, whatever it was reserved for.
      const chosen = turn === undefined ? undefined : this.#choose();
      if (turn === undefined || chosen === undefined || signal.aborted) {
        turn?.giveBack();
        continue;
      }
      this.#start(chosen, turn, signal);
    }
    await Promise.all(this.#polls.values());
  }

  async #reserve(wanted: Choice, signal: AbortSignal): Promise<RequestTurn | undefined> {
    const { exchange, clock } = this.#options;
    const isSpare = wanted.cause === 'spare';
    const reservation = new Reservation(exchange, isSpare ? PRIORITY.fill : PRIORITY.head, signal);
    if (isSpare) this.#reservation = reservation;
    // Something may become worth more while a spare turn is waited for, by time alone.
    const look = () => {
      this.#giveUpSpare();
      cancel = clock.after(RECHECK_MS, look);
    };
    let cancel = isSpare ? clock.after(RECHECK_MS, look) : () => undefined;
    try {
      return await reservation.turn;
    } catch (error) {
      if (signal.aborted || isAborted(error)) return undefined;
      reportFailure(this.#options.telemetry, 'trades', '*', error);
      await this.#wakeup.wait(RECHECK_MS, signal);
      return undefined;
    } finally {
      cancel();
      this.#reservation = undefined;
    }
  }

  #start(choice: Choice, turn: RequestTurn, signal: AbortSignal): void {
    const { lane } = choice;
    this.#chooser.carriedOut(choice);
    const waiting = lane.begin(this.#options.clock.monotonicMs());
    this.#underWay[lane.walker.kind] += 1;
    const poll = this.#poll(choice, waiting, turn, signal).finally(() => {
      turn.giveBack();
      this.#underWay[lane.walker.kind] -= 1;
      this.#polls.delete(lane);
      this.#changed();
    });
    this.#polls.set(lane, poll);
  }

  async #poll(
    { lane, cause, signAtMs }: Choice,
    waiting: Waiting,
    turn: RequestTurn,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, time, telemetry, onPolled, onFailed } = this.#options;
    const { walker } = lane;
    const { kind, market } = walker;
    const { begunAtMs } = lane;
    const isFirst = lane.polledAtMs === Number.NEGATIVE_INFINITY;
    try {
      const look = await walker.pollHead(signal, turn);
      lane.succeeded(look);
      this.#failuresInRow[kind] = 0;
      const isFastest = this.#markets.get(market)?.fastest === lane;
      const nowMs = time.nowMs();
      telemetry.headPolled({
        stream: kind,
        market,
        cause,
        waitMs: signAtMs === undefined ? undefined : begunAtMs - signAtMs,
        // Of the walk that stores first, and not of what happened before it began.
        agesMs: isFastest && !isFirst ? look.newTimesMs.map((atMs) => nowMs - atMs) : [],
      });
      if (waiting.traded !== undefined && look.newRows === 0) {
        // The answer may come from a cache, or the trade was in the poll before.
        lane.suspected ??= { atMs: clock.monotonicMs(), source: waiting.traded.source };
      }
      onPolled?.(walker);
    } catch (error) {
      lane.failed(clock.monotonicMs(), waiting, error);
      this.#markets.get(market)?.handOver(lane);
      if (signal.aborted || isAborted(error)) return;
      this.#failuresInRow[kind] += 1;
      reportFailure(telemetry, kind, market, error);
      onFailed?.(walker, error);
    }
  }

  #note(lanes: MarketLanes, sign: TradeSign, source: SignSource, nowMs: number): void {
    lanes.note(sign, { atMs: nowMs, source });
    this.#changed();
  }

  #choose(): Choice | undefined {
    if (this.#polls.size >= UNDER_WAY_MAX) return undefined;
    const nowMs = this.#options.clock.monotonicMs();
    const overdueBeforeMs = this.#rounds.overdueBefore(this.#lanes(), nowMs);
    return this.#chooser.choose(this.#lanes(), nowMs, overdueBeforeMs, ({ walker: { kind } }) => {
      const isAway = this.#failuresInRow[kind] >= AWAY_FAILURES;
      return this.#underWay[kind] < (isAway ? 1 : UNDER_WAY_OF_KIND_MAX);
    });
  }

  *#lanes(): Generator<Lane> {
    for (const { lanes } of this.#markets.values()) yield* lanes;
  }

  #changed(): void {
    this.#giveUpSpare();
    this.#wakeup.notify();
  }

  /** A spare turn is waited for no longer when there is something worth more. */
  #giveUpSpare(): void {
    if (this.#reservation === undefined) return;
    const best = this.#choose();
    if (best !== undefined && best.cause !== 'spare') this.#reservation.giveUp();
  }
}

/** The walks over one market's trades, and what was reported about the market. */
class MarketLanes {
  readonly lanes: readonly Lane[];
  /** Last time that its state feed reported a trade, monotonic. */
  pushedAtMs = Number.NEGATIVE_INFINITY;
  /** Whether its state feed is connected. */
  isFollowed = false;

  /** @param lanes the one that stores a trade completest first */
  constructor(lanes: readonly Lane[]) {
    this.lanes = lanes;
  }

  /** The walk that stores a new trade with one request: the first one that works. */
  get fastest(): Lane | undefined {
    return this.lanes.find((lane) => !lane.isFailing) ?? this.lanes[0];
  }

  /** A walk failed with a certain sign of a trade: another one that works takes it over. */
  handOver(from: Lane): void {
    const { fastest } = this;
    if (fastest !== undefined && fastest !== from) fastest.traded ??= from.traded;
  }

  note(kind: TradeSign, sign: Sign): void {
    const { fastest } = this;
    for (const lane of this.lanes) {
      if (lane !== fastest) {
        if (kind === 'trade') lane.companionAtMs ??= sign.atMs;
      } else if (kind === 'trade') {
        lane.noteTrade(sign);
      } else {
        lane.suspected ??= sign;
      }
    }
  }
}

/** A turn that is waited for, and may be given up before it comes. */
class Reservation {
  readonly turn: Promise<RequestTurn>;
  readonly #controller = new AbortController();

  constructor(exchange: Pick<ExchangePort, 'reserve'>, priority: number, signal: AbortSignal) {
    const giveUp = () => this.giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    this.turn = exchange
      .reserve(priority, this.#controller.signal)
      .finally(() => signal.removeEventListener('abort', giveUp));
  }

  giveUp(): void {
    this.#controller.abort(new AbortedError());
  }
}
