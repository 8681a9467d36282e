import assert from 'node:assert/strict';
import type { CollectEvents } from '../../../src/observe/events.js';

type Told<Name extends keyof CollectEvents> = Parameters<CollectEvents[Name]>[0];

function into<Event>(list: Event[]): (event: Event) => void {
  return (event) => {
    list.push(event);
  };
}

/** Telemetry of collectors that records its events. */
export class CollectRecord implements CollectEvents {
  readonly failures: Told<'pollFailed'>[] = [];
  readonly gaps: Told<'gapFound'>[] = [];
  readonly standing: Told<'streamsStanding'>[] = [];
  readonly epochs: Told<'idsBegunAnew'>[] = [];
  readonly exposed: Told<'tradesExposed'>[] = [];
  readonly stalls: Told<'walkStalled'>[] = [];
  readonly stale: Told<'historyStale'>[] = [];
  readonly steps: Told<'walkStepped'>[] = [];
  readonly modes: Told<'offsetModeSettled'>[] = [];
  readonly headrooms: Told<'historyHeadroom'>[] = [];
  readonly changes: Told<'marketsChanged'>[] = [];
  readonly missing: Told<'marketsMissing'>[] = [];
  readonly leftOut: Told<'marketsLeftOut'>[] = [];
  readonly skips: Told<'runSkipped'>[] = [];
  readonly paces: Told<'pacesStretched'>[] = [];
  readonly missedSchedules: Told<'scheduleMissed'>[] = [];
  readonly polls: Told<'headPolled'>[] = [];
  readonly pushed: Told<'tradesPushed'>[] = [];
  readonly refuted: Told<'tradeFeedRefuted'>[] = [];
  readonly progress: Told<'progressed'>[] = [];
  readonly progressed = into(this.progress);
  readonly headPolled = into(this.polls);
  readonly tradesPushed = into(this.pushed);
  readonly tradeFeedRefuted = into(this.refuted);
  readonly runSkipped = into(this.skips);
  readonly scheduleMissed = into(this.missedSchedules);
  readonly pacesStretched = into(this.paces);
  readonly walkStepped = into(this.steps);
  readonly streamsStanding = into(this.standing);
  readonly idsBegunAnew = into(this.epochs);
  readonly tradesExposed = into(this.exposed);
  readonly walkStalled = into(this.stalls);
  readonly historyStale = into(this.stale);
  readonly offsetModeSettled = into(this.modes);
  readonly historyHeadroom = into(this.headrooms);
  readonly gapFound = into(this.gaps);
  readonly marketsChanged = into(this.changes);
  readonly marketsLeftOut = into(this.leftOut);
  readonly marketsMissing = into(this.missing);
  readonly #received = new Map<string, number>();
  readonly #settled = new Map<string, Map<string, number>>();
  /** Called after every failed poll. */
  onFailure: () => void = () => undefined;

  received({ stream, count }: Told<'received'>): void {
    this.#received.set(stream, this.receivedOf(stream) + count);
  }

  settled({ stream, outcome, count }: Told<'settled'>): void {
    const outcomes = this.#settled.get(stream) ?? new Map<string, number>();
    this.#settled.set(stream, outcomes);
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + count);
  }

  pollFailed(event: Told<'pollFailed'>): void {
    this.failures.push(event);
    this.onFailure();
  }

  gapsCounted(): void {}

  receivedOf(stream: string): number {
    return this.#received.get(stream) ?? 0;
  }

  outcomesOf(stream: string): Record<string, number> {
    return Object.fromEntries(this.#settled.get(stream) ?? []);
  }

  /** Every row that came in became exactly one thing. */
  assertAccounted(stream: string): void {
    const outcomes = this.outcomesOf(stream);
    const sum = Object.values(outcomes).reduce((total, count) => total + count, 0);
    assert.equal(sum, this.receivedOf(stream), `${stream}: ${JSON.stringify(outcomes)}`);
  }
}
