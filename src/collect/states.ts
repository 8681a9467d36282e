import type { StateEvent } from '../client/index.js';
import { isAborted } from '../kernel/errors.js';
import { BoundedQueue } from '../kernel/queue.js';
import { isEmptySpan, type Span } from '../kernel/span.js';
import type { Batch, GapRecord, StateRow } from '../model/batch.js';
import type { GapReason } from '../model/gap-reasons.js';
import type { StreamLedger } from './ledger.js';
import type { ClaimTime, StateFeedPort } from './ports.js';
import type { StreamReport } from './reports.js';
import { type ActivityKind, activityOf, type WindowFigures } from './trades/evidence.js';

interface StateCollectorOptions {
  readonly market: string;
  readonly ledger: StreamLedger;
  readonly marketId: number;
  readonly periodS: number;
  readonly time: Pick<ClaimTime, 'jumps'>;
  readonly openFeed: (coveredUntilMs: number | undefined) => StateFeedPort;
  /** Called with what the feed reports of trades, before anything is stored. */
  readonly watch?: StateWatch | undefined;
}

export interface StateWatch {
  pushed(market: string, activity: ActivityKind): void;
  followed(market: string, isFollowed: boolean): void;
  /** Called for every record; exchange milliseconds. */
  looked?(market: string, figures: WindowFigures, atMs: number): void;
}

/** Events that may wait for a commit; then the feed itself stops reading and, in the end, closes. */
const QUEUE_LIMIT = 500;
const EVENTS_PER_COMMIT = 200;

/** From this many answers on, with nothing pushed since, the connection counts as silent. */
const SILENT_AFTER = 2;

/**
 * Records the states of one market and period. Each connection is a session: covered from its first
 * *pushed* state to its last sign of life, which is an update or an answer equal to it. Other answers
 * are stored and cover nothing. What is not covered is a gap that nothing can fill (candles of the
 * same span stand in for it).
 *
 * States: *stopped* → *running* → *stopped*; while running, *no session* ↔ *session* follows the
 * feed's `opened` and `closed`.
 */
export class StateCollector {
  readonly #options: StateCollectorOptions;
  readonly #report: StreamReport;
  #feed: StateFeedPort | undefined;
  #running: Promise<void> | undefined;
  /** Called at the next sign of life, or end, of the connection. */
  #onSign: () => void = () => undefined;
  #session: Session | undefined;
  readonly #gaps: StateGaps;
  #jumps: number;
  /** What the feed said last, over all its connections. */
  #figures: WindowFigures | undefined;

  constructor(options: StateCollectorOptions) {
    this.#options = options;
    this.#report = options.ledger.report;
    this.#gaps = new StateGaps(options);
    this.#jumps = options.time.jumps;
  }

  start(): void {
    if (this.#running !== undefined) return;
    const { ledger, openFeed } = this.#options;
    const feed = openFeed(ledger.accountedUntilMs());
    this.#feed = feed;
    const queue = new BoundedQueue<StateEvent>(QUEUE_LIMIT);
    const pumped = this.#pump(feed, queue).catch((error: unknown) => {
      // A feed reconnects by itself; when it gives up, nothing brings these states any more.
      if (!isAborted(error)) this.#report.failed(error, 'fatal');
    });
    this.#running = Promise.all([pumped, this.#drain(queue)]).then(() => undefined);
  }

  /** Resolves when the connection has shown that nothing is missing up to now, or has ended. */
  async confirm(): Promise<void> {
    const feed = this.#feed;
    if (feed?.ask === undefined || this.#session === undefined) return;
    const sign = new Promise<void>((resolve) => {
      this.#onSign = resolve;
    });
    feed.ask();
    await sign;
  }

  /** Closes the connection and stores what has arrived. */
  async stop(): Promise<void> {
    await this.#feed?.stop();
    await this.#running;
    this.#running = undefined;
    this.#feed = undefined;
  }

  async #pump(feed: StateFeedPort, queue: BoundedQueue<StateEvent>): Promise<void> {
    try {
      for await (const event of feed) {
        this.#reportWatch(event);
        await queue.put(event);
        if (event.kind === 'alive' || event.kind === 'closed') this.#onSign();
      }
    } finally {
      queue.close();
      this.#options.watch?.followed(this.#options.market, false);
    }
  }

  #reportWatch(event: StateEvent): void {
    const { watch, market } = this.#options;
    if (watch === undefined) return;
    if (event.kind === 'closed') watch.followed(market, false);
    if (event.kind !== 'record') return;
    const before = this.#figures;
    this.#figures = event.record;
    watch.looked?.(market, event.record, Math.floor(event.exchangeMs));
    watch.followed(market, true);
    const activity = before && activityOf(before, event.record);
    if (activity !== undefined) watch.pushed(market, activity);
  }

  async #drain(queue: BoundedQueue<StateEvent>): Promise<void> {
    for (;;) {
      const events = await queue.takeUpTo(EVENTS_PER_COMMIT);
      if (events.length === 0) break;
      await this.#store(events);
    }
    await this.#flush();
  }

  /**
   * Stores a run of events; records of one session between two changes of session share a commit.
   * Failures are reported, and the events after it are taken all the same: none of them comes
   * again.
   */
  async #store(events: readonly StateEvent[]): Promise<void> {
    let rows: StateRow[] = [];
    let proof: Proof | undefined;
    const prove = (atMs: number, fromMs?: number) => {
      const aliveMs = Math.max(proof?.aliveMs ?? 0, atMs);
      proof = { fromMs: proof?.fromMs ?? fromMs, aliveMs };
      if (this.#session !== undefined) this.#session.unproven = 0;
    };
    const flush = async () => {
      const taken = rows;
      const span = this.#session && spanOf(this.#session, proof);
      rows = [];
      proof = undefined;
      await this.#attempt(() => this.#commit(taken, span));
    };
    for (const event of events) {
      if ('exchangeMs' in event && this.#isSetBack(event.exchangeMs)) {
        await flush();
        this.#setBack(event.exchangeMs);
      }
      switch (event.kind) {
        case 'opened':
          await flush();
          await this.#attempt(() => this.#open(event));
          break;
        case 'record': {
          const row = this.#toRow(event);
          if (row === undefined) break;
          rows.push(row);
          // An answer to a query shows one time; only what was pushed shows that nothing is left out.
          if (row.origin === 'update') prove(row.observedAtMs, row.observedAtMs);
          else if (this.#session !== undefined) this.#session.unproven += 1;
          break;
        }
        case 'alive':
          prove(Math.floor(event.exchangeMs));
          break;
        case 'closed':
          await flush();
          if (event.reason === 'period_not_offered') {
            await this.#attempt(() => this.#gaps.notOffered(Math.floor(event.exchangeMs)));
          }
          await this.#flush();
          await this.#attempt(() => this.#close(event));
          break;
        case 'retrying':
          break;
      }
    }
    await flush();
  }

  /** Whether the exchange's time went back, behind what this session covers or what is listed as missing. */
  #isSetBack(exchangeMs: number): boolean {
    const untilMs = Math.max(this.#session?.provenUntilMs ?? 0, this.#gaps.untilMs ?? 0);
    return this.#options.time.jumps !== this.#jumps && exchangeMs < untilMs;
  }

  /** Goes on from the earlier time: what was covered after it is revoked by others. */
  #setBack(exchangeMs: number): void {
    this.#jumps = this.#options.time.jumps;
    const nowMs = Math.floor(exchangeMs);
    const session = this.#session;
    if (session !== undefined) session.provenUntilMs = Math.min(session.provenUntilMs, nowMs);
    this.#gaps.ended();
  }

  /** Writes what is held back: no more may come for long. */
  async #flush(): Promise<void> {
    await this.#attempt(() => this.#options.ledger.flush());
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!isAborted(error)) this.#report.failed(error, 'skip');
    }
  }

  async #open(event: Extract<StateEvent, { kind: 'opened' }>): Promise<void> {
    const openedMs = Math.floor(event.exchangeMs);
    const sessionId = await this.#options.ledger.openSession(openedMs);
    const { provenMs } = event;
    const proven = { provenUntilMs: provenMs ?? openedMs, hasData: provenMs !== undefined };
    this.#session = { sessionId, openedMs, ...proven, seq: 0, unproven: 0 };
  }

  #toRow(event: Extract<StateEvent, { kind: 'record' }>): StateRow | undefined {
    this.#report.received(1);
    if (this.#session !== undefined) return rowOf(this.#session, event, this.#options);
    this.#report.settled({ lost: 1 });
    return undefined;
  }

  /** @param span what the rows and signs of life prove; undefined: nothing */
  async #commit(rows: StateRow[], span: Span | undefined): Promise<void> {
    const { ledger } = this.#options;
    const { stream } = ledger;
    const session = this.#session;
    if (session === undefined) return;
    if (rows.length === 0 && (span === undefined || isEmptySpan(span))) return;
    const evidence = { session: session.sessionId, records: rows.length };
    const claims = span === undefined ? [] : [{ stream, span, evidence }];
    const last = rows.at(-1);
    const isSilent = !session.hasData && session.unproven >= SILENT_AFTER;
    let missed: Missing = {};
    if (span !== undefined && !session.hasData) missed = this.#gaps.before(span.fromMs);
    else if (last !== undefined && isSilent) missed = this.#gaps.silent(session, last.observedAtMs);
    const batch = { states: rows, claims, ...missed };
    await ledger.commit(batch).catch((error: unknown) => {
      // What did not get in must not be covered by the next claim of this session.
      session.hasData = false;
      this.#report.settled({ lost: rows.length });
      throw error;
    });
    this.#gaps.listed(missed);
    if (span !== undefined) {
      session.hasData = true;
      session.provenUntilMs = span.toMs;
      this.#gaps.ended();
    }
  }

  async #close(event: Extract<StateEvent, { kind: 'closed' }>): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (session === undefined) {
      if (event.detail !== undefined) {
        this.#options.ledger.unproven(`no connection was made: ${event.detail}`, 'not observed');
      }
      return;
    }
    const isSilent = event.reason === 'stalled' || session.unproven >= SILENT_AFTER;
    if (isSilent) await this.#gaps.list(this.#gaps.silent(session, Math.floor(event.exchangeMs)));
    // When one ended that others ended is not known: not before its last sign of life.
    const endedMs = event.reason === 'stopped' ? event.exchangeMs : event.lastAliveExchangeMs;
    await this.#options.ledger.closeSession(session.sessionId, {
      atMs: Math.max(Math.floor(endedMs ?? 0), session.provenUntilMs),
      code: event.code,
      reason: event.reason,
    });
  }
}

/** Part of a commit about missed time. */
type Missing = Pick<Batch, 'findings' | 'begins'>;

/** A gap since the last coverage, which may still grow. */
interface Missed {
  readonly fromMs: number;
  readonly toMs: number;
  readonly reason: GapReason;
}

/**
 * Lists what is missing of the states of one market and period, with what happened. None of it can be
 * fetched later. What goes on for the same reason is one gap, however many connections it takes.
 */
class StateGaps {
  readonly #options: StateCollectorOptions;
  #missed: Missed | undefined;
  #isToldNotOffered = false;

  constructor(options: StateCollectorOptions) {
    this.#options = options;
  }

  /** The end of what is covered, or listed as missing. */
  get untilMs(): number | undefined {
    return this.#missed?.toMs ?? this.#options.ledger.accountedUntilMs();
  }

  /** Coverage grew, or the time went back: what is missing next is another gap. */
  ended(): void {
    this.#missed = undefined;
  }

  /** What is missing before the first that a connection covers. */
  before(untilMs: number): Missing {
    const { ledger } = this.#options;
    const reason = this.#missed?.reason === 'no updates' ? 'no updates' : 'no connection';
    const fromMs = ledger.accountedUntilMs(untilMs) ?? Number.NEGATIVE_INFINITY;
    const { begins } = ledger.missed({ fromMs, toMs: untilMs }, { reason });
    return begins === undefined ? this.#missing([[untilMs, reason]]) : { begins };
  }

  /** Time missed by a live connection that brings nothing to cover. */
  silent({ openedMs }: Session, untilMs: number): Missing {
    const isKnown = this.#missed?.reason === 'no updates';
    return this.#missing([
      ...(isKnown ? [] : [[openedMs, 'no connection'] as const]),
      [untilMs, 'no updates'],
    ]);
  }

  /** The exchange sends states of another period only. Reported once, and listed while it is so. */
  async notOffered(untilMs: number): Promise<void> {
    const { periodS } = this.#options;
    if (!this.#isToldNotOffered) {
      const message = `the exchange subscribes lists of markets and reports no states of ${periodS} s; take ${periodS} out of streams.states.periodsS`;
      this.#options.ledger.report.skipped('period_not_offered', message);
    }
    this.#isToldNotOffered = true;
    await this.list(this.#missing([[untilMs, 'not offered']]));
  }

  /** Writes what is missing. */
  async list(missing: Missing): Promise<void> {
    if (missing.findings?.length === 0) return;
    await this.#options.ledger.commit(missing);
    this.listed(missing);
  }

  /** Call after the commit of what is missing. */
  listed({ findings = [] }: Missing): void {
    for (const { span, reason } of findings) {
      this.#missed = { ...span, reason };
    }
  }

  /** @param parts ends of what is missing, each with its reason, in order */
  #missing(parts: readonly (readonly [untilMs: number, reason: GapReason])[]): Missing {
    const { ledger } = this.#options;
    const findings: GapRecord[] = [];
    let last = this.#missed;
    for (const [toMs, reason] of parts) {
      const listedMs = last?.toMs ?? ledger.accountedUntilMs(toMs);
      if (listedMs === undefined || listedMs >= toMs) continue;
      const span = { fromMs: last?.reason === reason ? last.fromMs : listedMs, toMs };
      findings.push(ledger.gap(span, { reason }));
      last = { ...span, reason };
    }
    return { findings };
  }
}

/** A connection while it lives, as the ledger sees it. */
interface Session {
  readonly sessionId: number;
  readonly openedMs: number;
  /** End of what it has proven; coverage grows from here. */
  provenUntilMs: number;
  seq: number;
  /** Whether coverage has begun: nothing is covered before the first update. */
  hasData: boolean;
  /** Answers to queries since the last that was proven. */
  unproven: number;
}

/** What one commit proves: from its first proof to its last sign of life. */
interface Proof {
  /** Undefined: only the end of what is covered already moves. */
  readonly fromMs: number | undefined;
  readonly aliveMs: number;
}

/** What a commit covers; undefined while nothing was pushed on this connection. */
function spanOf(session: Session, proof: Proof | undefined): Span | undefined {
  if (proof === undefined) return undefined;
  const fromMs = session.hasData ? session.provenUntilMs : proof.fromMs;
  return fromMs === undefined ? undefined : { fromMs, toMs: Math.max(proof.aliveMs + 1, fromMs) };
}

/** A record as a row of its session, which counts it. It never goes back into what is covered. */
function rowOf(
  session: Session,
  event: Extract<StateEvent, { kind: 'record' }>,
  { marketId, periodS }: Pick<StateRow, 'marketId' | 'periodS'>,
): StateRow {
  const { last, open, close, high, low, deal, volume, change } = event.record;
  session.seq += 1;
  return {
    marketId,
    periodS,
    observedAtMs: Math.max(Math.floor(event.exchangeMs), session.provenUntilMs),
    seq: session.seq,
    receivedAtMs: event.receivedAtMs,
    last,
    open,
    close,
    high,
    low,
    quoteVolume: deal,
    volume,
    change: change ?? null,
    origin: event.origin,
    sessionId: session.sessionId,
  };
}
