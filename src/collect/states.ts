import type { Clock } from '../kernel/clock.js';
import { isAborted } from '../kernel/errors.js';
import { BoundedQueue } from '../kernel/queue.js';
import type { StateRow, StreamRef } from '../ledger/batch.js';
import { type GapReason, reasonLabel } from '../ledger/gap-reasons.js';
import type { CollectEvents } from '../observe/events.js';
import { tellFailure } from './failures.js';
import { type TradeSign, tradeSign, type WindowFigures } from './polling/signs.js';
import type { ArchivePort, StateFeedEvent, StateFeedPort } from './ports.js';
import { isBeginning } from './snapshot.js';

export interface StateCollectorOptions {
  readonly market: string;
  readonly marketId: number;
  readonly periodS: number;
  readonly stream: StreamRef;
  readonly archive: ArchivePort;
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
  readonly openFeed: () => StateFeedPort;
  /** End of the coverage that an earlier run left behind; without one, where it should begin. */
  readonly coveredUntilMs: number | undefined;
  /** Told at once, before anything is stored, what the feed says about trades. */
  readonly watch?: StateWatch;
}

export interface StateWatch {
  pushed(market: string, sign: TradeSign): void;
  followed(market: string, isFollowed: boolean): void;
}

/** Events that may wait for a commit; then the feed itself stops reading and, in the end, closes. */
const QUEUE_LIMIT = 500;
const EVENTS_PER_COMMIT = 200;

/** How often a session's last message is noted in the archive. */
const TOUCH_PERIOD_MS = 5000;

/** A connection while it lives, as the ledger sees it. */
interface Session {
  readonly sessionId: number;
  /** End of what is committed; coverage grows from here. */
  coveredUntilMs: number;
  seq: number;
  /** Monotonic moment of the last note of life in the archive. */
  touchedAtMs: number;
  hasData: boolean;
  /** Whether the last that was covered ends where a replayed archive knows no more. */
  isAtGap: boolean;
}

/**
 * Records the states of one market and period. Each connection is a session: covered from its first
 * acknowledged state to its last sign of life. What lies between sessions is a gap that nothing can
 * fill (candles of the same span stand in for it).
 *
 * States: *stopped* → *running* → *stopped*; while running, *no session* ↔ *session* follows the
 * feed's `opened` and `closed`.
 */
export class StateCollector {
  readonly #options: StateCollectorOptions;
  #feed: StateFeedPort | undefined;
  #running: Promise<void> | undefined;
  #session: Session | undefined;
  #lastCoveredMs: number | undefined;
  /** What the feed said last, over all its connections. */
  #figures: WindowFigures | undefined;

  constructor(options: StateCollectorOptions) {
    this.#options = options;
    this.#lastCoveredMs = options.coveredUntilMs;
  }

  start(): void {
    if (this.#running !== undefined) return;
    const feed = this.#options.openFeed();
    this.#feed = feed;
    const queue = new BoundedQueue<StateFeedEvent>(QUEUE_LIMIT);
    const pumped = this.#pump(feed, queue).catch((error: unknown) => {
      // A feed reconnects by itself; when it gives up, nobody will bring these states any more.
      if (!isAborted(error)) this.#failed(error, 'fatal');
    });
    this.#running = Promise.all([pumped, this.#drain(queue)]).then(() => undefined);
  }

  /** Closes the connection and stores what has arrived. */
  async stop(): Promise<void> {
    await this.#feed?.stop();
    await this.#running;
    this.#running = undefined;
    this.#feed = undefined;
  }

  async #pump(feed: StateFeedPort, queue: BoundedQueue<StateFeedEvent>): Promise<void> {
    try {
      for await (const event of feed) {
        this.#tellWatch(event);
        await queue.put(event);
      }
    } finally {
      queue.close();
      this.#options.watch?.followed(this.#options.market, false);
    }
  }

  #tellWatch(event: StateFeedEvent): void {
    const { watch, market } = this.#options;
    if (watch === undefined) return;
    if (event.kind === 'closed' || event.kind === 'gap') watch.followed(market, false);
    if (event.kind !== 'record') return;
    const before = this.#figures;
    this.#figures = event.record;
    watch.followed(market, true);
    const sign = before && tradeSign(before, event.record);
    if (sign !== undefined) watch.pushed(market, sign);
  }

  async #drain(queue: BoundedQueue<StateFeedEvent>): Promise<void> {
    for (;;) {
      const events = await queue.takeUpTo(EVENTS_PER_COMMIT);
      if (events.length === 0) return;
      await this.#store(events);
    }
  }

  /**
   * Stores a run of events; records of one session between two changes of session share a commit.
   * What fails is told, and the events after it are taken all the same: none of them comes again.
   */
  async #store(events: readonly StateFeedEvent[]): Promise<void> {
    let rows: StateRow[] = [];
    let aliveMs: number | undefined;
    const flush = async () => {
      const [taken, untilMs] = [rows, aliveMs];
      rows = [];
      aliveMs = undefined;
      await this.#attempt(() => this.#commit(taken, untilMs));
    };
    for (const event of events) {
      switch (event.kind) {
        case 'opened':
          await flush();
          await this.#attempt(() => this.#open(event.exchangeMs));
          break;
        case 'record': {
          const row = this.#toRow(event);
          if (row === undefined) break;
          rows.push(row);
          aliveMs = Math.max(aliveMs ?? 0, row.observedAtMs);
          break;
        }
        case 'alive':
          aliveMs = Math.max(aliveMs ?? 0, Math.floor(event.exchangeMs));
          break;
        case 'gap':
          aliveMs = Math.max(aliveMs ?? 0, Math.floor(event.fromExchangeMs) - 1);
          await flush();
          // The connection goes on, and yet nothing is told until the archive knows states again.
          if (this.#session !== undefined) {
            Object.assign(this.#session, { hasData: false, isAtGap: true });
          }
          break;
        case 'closed':
          await flush();
          await this.#attempt(() => this.#close(event));
          break;
        case 'retrying':
          break;
      }
    }
    await flush();
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!isAborted(error)) this.#failed(error, 'skip');
    }
  }

  #failed(error: unknown, action: 'skip' | 'fatal'): void {
    const { telemetry, market } = this.#options;
    tellFailure(telemetry, 'state', market, error, action);
  }

  async #open(exchangeMs: number): Promise<void> {
    const { archive, stream } = this.#options;
    const atMs = Math.floor(exchangeMs);
    const sessionId = await archive.openSession(stream, atMs);
    const touchedAtMs = this.#options.clock.monotonicMs();
    const nothing = { seq: 0, hasData: false, isAtGap: false };
    this.#session = { sessionId, coveredUntilMs: atMs, touchedAtMs, ...nothing };
  }

  #toRow(event: Extract<StateFeedEvent, { kind: 'record' }>): StateRow | undefined {
    const { market, marketId, periodS, telemetry } = this.#options;
    telemetry.received({ stream: 'state', market, count: 1 });
    const session = this.#session;
    if (session === undefined) {
      telemetry.settled({ stream: 'state', market, outcome: 'lost', count: 1 });
      return undefined;
    }
    const { last, open, close, high, low, deal, volume, change } = event.record;
    session.seq += 1;
    return {
      marketId,
      periodS,
      observedAtMs: Math.max(Math.floor(event.exchangeMs), session.coveredUntilMs),
      seq: session.seq,
      receivedAtMs: event.receivedAtMs,
      last,
      open,
      close,
      high,
      low,
      deal,
      volume,
      change: change ?? null,
      origin: event.origin,
      sessionId: session.sessionId,
    };
  }

  async #commit(rows: StateRow[], aliveMs: number | undefined): Promise<void> {
    const { archive, stream, market, telemetry } = this.#options;
    const session = this.#session;
    const first = rows[0];
    if (session === undefined || aliveMs === undefined) return;
    if (!session.hasData && first === undefined) return;
    const fromMs =
      session.hasData || first === undefined ? session.coveredUntilMs : first.observedAtMs;
    const span = { fromMs, toMs: Math.max(aliveMs + 1, fromMs) };
    if (rows.length === 0 && span.toMs <= span.fromMs) return;
    const evidence = { session: session.sessionId, records: rows.length };
    const claims = [{ stream, span, evidence }];
    const write = async () => {
      const reason = session.isAtGap ? 'missing at source' : 'no connection';
      if (!session.hasData) await this.#noteMissed(fromMs, reason);
      return archive.commit({ states: rows, claims });
    };
    const result = await write().catch((error: unknown) => {
      // What did not get in must not be covered by the next claim of this session.
      session.hasData = false;
      if (rows.length > 0) {
        telemetry.settled({ stream: 'state', market, outcome: 'lost', count: rows.length });
      }
      throw error;
    });
    session.hasData = true;
    session.isAtGap = false;
    session.coveredUntilMs = span.toMs;
    this.#lastCoveredMs = span.toMs;
    for (const [outcome, count] of Object.entries(result.outcomes.market_state)) {
      if (count > 0) {
        const name = outcome as keyof typeof result.outcomes.market_state;
        telemetry.settled({ stream: 'state', market, outcome: name, count });
      }
    }
    telemetry.progressed({ stream: 'state', market, newestMs: span.toMs });
    // Last, and by itself: the rows are stored and accounted for, whatever becomes of the note.
    await this.#attempt(() => this.#touch(session, span.toMs));
  }

  /** Notes the last sign of life now and then, for the case that nobody gets to close the session. */
  async #touch(session: Session, lastMs: number): Promise<void> {
    const { archive, clock } = this.#options;
    const nowMs = clock.monotonicMs();
    if (nowMs - session.touchedAtMs < TOUCH_PERIOD_MS) return;
    session.touchedAtMs = nowMs;
    await archive.touchSession(session.sessionId, lastMs);
  }

  async #close(event: Extract<StateFeedEvent, { kind: 'closed' }>): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (session === undefined) return;
    await this.#options.archive.closeSession(session.sessionId, {
      atMs: Math.floor(event.lastAliveExchangeMs ?? session.coveredUntilMs),
      code: event.code,
      reason: event.reason,
    });
  }

  /** Between the last session and this one nobody listened. */
  async #noteMissed(untilMs: number, reason: GapReason): Promise<void> {
    const { archive, stream, market, telemetry } = this.#options;
    const fromMs = this.#lastCoveredMs;
    if (fromMs === undefined || fromMs >= untilMs) return;
    const span = { fromMs, toMs: untilMs };
    if (isBeginning(stream, span)) {
      await archive.setCollectFrom(stream.streamId, untilMs);
      return;
    }
    await archive.recordGap({ stream, span, state: 'unfillable', reason, atMs: untilMs });
    const lengthMs = untilMs - fromMs;
    telemetry.gapFound({ stream: 'state', market, reason: reasonLabel(reason), lengthMs });
  }
}
