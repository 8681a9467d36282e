import { setMaxListeners } from 'node:events';
import type { RequestTurn } from '../../client/index.js';
import { type Clock, Wakeup } from '../../kernel/clock.js';
import { isAborted } from '../../kernel/errors.js';
import type { Random } from '../../kernel/random.js';
import type { CollectEvents } from '../../observe/events.js';
import { type ExchangePort, type ExchangeTime, PRIORITY, Reservation } from '../ports.js';
import { streamReport } from '../reports.js';
import type { ActivityKind } from '../trades/evidence.js';
import { BaselineSchedule, type Choice, Chooser } from './choice.js';
import { type ActivitySignal, type HeadWalker, PollTarget, type Waiting } from './poll-target.js';

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
const UNDER_WAY_OF_ONE_MAX = 12;
/** After so many failures in a row an endpoint counts as away, and is asked by one at a time. */
const AWAY_FAILURES = 3;
/** How often pages of history confirm trades that are pushed. */
const CONFIRM_MS = 15_000;
/** How often needs that grow with time are looked at again. */
const RECHECK_MS = 500;

type Endpoint = HeadWalker['endpoint'];

/**
 * Polls the newest trades of all markets: whenever a request may start, the market where it is worth
 * most. Nothing is lined up beforehand, so that an activity signal that comes now counts at once.
 *
 * What it goes by: activity signals of trades, pushed over the state feeds or swept from the tickers; the
 * schedule, which marks every walk that was not polled since its previous run; and how full the next
 * page is expected to be ({@link Chooser}). News and schedule take every other turn of the request
 * budget while other streams wait; what is only worth a request that no other work needs, or that is kept
 * for background work, waits in line with the filling of gaps. Where one endpoint has exact times and another one
 * proves, an activity signal asks the former; what it stores is proven together a few seconds later, or by schedule.
 *
 * States: *new* → *running* ({@link PollDispatcher.start}) → *stopped*. A failed poll is
 * reported, and its walk alone backs off; what waited for it goes on waiting.
 */
export class PollDispatcher {
  readonly #options: DispatcherOptions;
  readonly #markets = new Map<string, MarketTargets>();
  readonly #chooser = new Chooser();
  readonly #baseline: BaselineSchedule;
  readonly #wakeup: Wakeup;
  readonly #polls = new Map<PollTarget, Promise<void>>();
  readonly #failuresInRow: Record<Endpoint, number> = { historyResult: 0, history: 0 };
  readonly #underWay: Record<Endpoint, number> = { historyResult: 0, history: 0 };
  #reservation: Reservation | undefined;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #lastSweepMs = Number.NEGATIVE_INFINITY;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#baseline = new BaselineSchedule(options.requestsPerS);
    this.#wakeup = new Wakeup(options.clock);
    setMaxListeners(0, this.#stopping.signal);
  }

  /**
   * Each is due at once.
   *
   * @param walker proves the trades of the market
   * @param times has their exact times beside it
   */
  add(market: string, walker: HeadWalker, times?: HeadWalker): void {
    const { clock, random } = this.#options;
    const nowMs = clock.monotonicMs();
    const [proving, timed] = [walker, times].map(
      (one) => one && new PollTarget(one, random, nowMs),
    );
    if (proving !== undefined) this.#markets.set(market, new MarketTargets(proving, timed));
    this.wake();
  }

  /** Nothing more of the market is polled; resolves when a poll under way has ended. */
  async remove(market: string): Promise<void> {
    const targets = this.#markets.get(market)?.targets ?? [];
    this.#markets.delete(market);
    await Promise.all(targets.map((target) => this.#polls.get(target) ?? Promise.resolve()));
  }

  /** The state feed of a market reported a change. */
  pushed(market: string, activity: ActivityKind): void {
    const nowMs = this.#options.clock.monotonicMs();
    const targets = this.#markets.get(market);
    if (targets === undefined) return;
    if (activity === 'trade') targets.pushedAtMs = nowMs;
    targets.note(activity, { atMs: nowMs, source: 'pushed' });
    this.wake();
  }

  /** Whether the state feed of a market is connected, so that trades will be pushed. */
  followed(market: string, isFollowed: boolean): void {
    const targets = this.#markets.get(market);
    if (targets !== undefined) targets.isFollowed = isFollowed;
  }

  /** An answer about all markets: those that moved since the answer before. */
  swept(activities: ReadonlyMap<string, ActivityKind>): void {
    const nowMs = this.#options.clock.monotonicMs();
    for (const [market, activity] of activities) {
      const targets = this.#markets.get(market);
      // What was pushed meanwhile is known; where a feed is connected it will still come.
      if (targets === undefined || targets.pushedAtMs >= this.#lastSweepMs) continue;
      targets.note(targets.isFollowed ? 'maybe' : activity, { atMs: nowMs, source: 'swept' });
      this.wake();
    }
    this.#lastSweepMs = nowMs;
  }

  /** @param periodMs longest time between two runs of the schedule */
  keepBaseline(periodMs: number): void {
    this.#baseline.periodMs = periodMs;
  }

  /** A run of the schedule: whatever was not polled since the run before is due ({@link BaselineSchedule}). */
  markDue(): void {
    const { clock, telemetry } = this.#options;
    const isTaken = this.#baseline.begin(this.#scheduled(), clock.monotonicMs(), () =>
      telemetry.runSkipped({ stream: 'trades' }),
    );
    if (isTaken) this.wake();
    else telemetry.runSkipped({ stream: 'trades' });
  }

  /**
   * Something may be polled now that could not be before, or is worth more: a walk that was at work on a
   * gap is free again.
   */
  wake(): void {
    this.#giveUpSpare();
    this.#wakeup.notify();
  }

  start(): void {
    this.#running ??= this.#run(this.#stopping.signal);
  }

  /** Ends what is under way. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#baseline.look(this.#scheduled(), this.#options.clock.monotonicMs());
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
    const { endpoint } = wanted.target.walker;
    const priority = isSpare ? PRIORITY.fill : PRIORITY.head;
    const reservation = new Reservation(exchange, endpoint, priority, signal);
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
      streamReport(this.#options.telemetry, 'trades', '*').failed(error);
      await this.#wakeup.wait(RECHECK_MS, signal);
      return undefined;
    } finally {
      cancel();
      this.#reservation = undefined;
    }
  }

  #start(choice: Choice, turn: RequestTurn, signal: AbortSignal): void {
    const { target } = choice;
    this.#chooser.carriedOut(choice);
    const waiting = target.begin(this.#options.clock.monotonicMs());
    const { endpoint } = target.walker;
    this.#underWay[endpoint] += 1;
    const poll = this.#poll(choice, waiting, turn, signal).finally(() => {
      turn.giveBack();
      this.#underWay[endpoint] -= 1;
      this.#polls.delete(target);
      this.wake();
    });
    this.#polls.set(target, poll);
  }

  async #poll(
    { target, cause, activityAtMs }: Choice,
    waiting: Waiting,
    turn: RequestTurn,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, time, telemetry, onPolled, onFailed } = this.#options;
    const { walker } = target;
    const { endpoint, market } = walker;
    const targets = this.#markets.get(market);
    const { begunAtMs } = target;
    const isFirst = target.polledAtMs === Number.NEGATIVE_INFINITY;
    try {
      const look = await walker.pollHead(signal, turn);
      target.succeeded(look);
      this.#failuresInRow[endpoint] = 0;
      const isFastest = targets?.fastest === target;
      const nowMs = time.nowMs();
      telemetry.headPolled({
        stream: 'trades',
        market,
        cause,
        waitMs: activityAtMs === undefined ? undefined : begunAtMs - activityAtMs,
        // Of the walk that stores first, and not of what happened before it began.
        agesMs: isFastest && !isFirst ? look.newTimesMs.map((atMs) => nowMs - atMs) : [],
      });
      if (waiting.traded !== undefined && look.newRows === 0) {
        // The answer may come from a cache, or the trade was in the poll before.
        target.suspected ??= { atMs: clock.monotonicMs(), source: waiting.traded.source };
      }
      if (look.newRows > 0 && target === targets?.timed) targets.proving.noteUnproven(begunAtMs);
      if (look.isOpen && targets?.timed !== undefined)
        targets.timed.dueAtMs ??= clock.monotonicMs();
      onPolled?.(walker);
    } catch (error) {
      target.failed(clock.monotonicMs(), waiting, error);
      targets?.handOver(target);
      if (signal.aborted || isAborted(error)) return;
      this.#failuresInRow[endpoint] += 1;
      streamReport(telemetry, 'trades', market).failed(error);
      onFailed?.(walker, error);
    }
  }

  #choose(): Choice | undefined {
    if (this.#polls.size >= UNDER_WAY_MAX) return undefined;
    const nowMs = this.#options.clock.monotonicMs();
    const targets = this.#targets();
    const overdueBeforeMs = this.#baseline.overdueBefore(this.#scheduled(), nowMs);
    return this.#chooser.choose(targets, nowMs, overdueBeforeMs, ({ walker: { endpoint } }) => {
      const isAway = this.#failuresInRow[endpoint] >= AWAY_FAILURES;
      return this.#underWay[endpoint] < (isAway ? 1 : UNDER_WAY_OF_ONE_MAX);
    });
  }

  /** All but those that are not needed, and those whose trades are pushed and were confirmed a short time ago. */
  #targets(): PollTarget[] {
    const restingMs = this.#options.clock.monotonicMs() - CONFIRM_MS;
    return [...this.#markets.values()].flatMap(({ targets }) =>
      targets.filter(
        ({ walker, begunAtMs }) =>
          walker.isHeadNeeded !== false && (!walker.isPushed || begunAtMs <= restingMs),
      ),
    );
  }

  /** Those that the schedule asks for: exact times follow where there is news. */
  #scheduled(): PollTarget[] {
    return this.#targets().filter(
      ({ walker }) => this.#markets.get(walker.market)?.proving.walker === walker,
    );
  }

  /** A spare turn is waited for no longer when there is something worth more. */
  #giveUpSpare(): void {
    if (this.#reservation === undefined) return;
    const best = this.#choose();
    if (best !== undefined && best.cause !== 'spare') this.#reservation.giveUp();
  }
}

/** Poll targets of one market's trades, and reports about the market. */
class MarketTargets {
  readonly proving: PollTarget;
  readonly timed: PollTarget | undefined;
  /** Last time that its state feed reported a trade, monotonic. */
  pushedAtMs = Number.NEGATIVE_INFINITY;
  /** Whether its state feed is connected. */
  isFollowed = false;

  constructor(proving: PollTarget, timed: PollTarget | undefined) {
    this.proving = proving;
    this.timed = timed;
  }

  get targets(): readonly PollTarget[] {
    return this.timed === undefined ? [this.proving] : [this.timed, this.proving];
  }

  /** The one that stores a new trade with one request, with its exact time if it can. Trades that are pushed have theirs. */
  get fastest(): PollTarget {
    const { timed, proving } = this;
    return timed === undefined || timed.isFailing || timed.walker.isPushed ? proving : timed;
  }

  /** A poll failed with a certain activity signal of a trade: the other endpoint takes it over. */
  handOver(from: PollTarget): void {
    const { fastest } = this;
    if (fastest !== from) fastest.traded ??= from.traded;
  }

  note(kind: ActivityKind, activity: ActivitySignal): void {
    const { fastest } = this;
    if (kind === 'trade') fastest.noteTrade(activity);
    else fastest.suspected ??= activity;
  }
}
