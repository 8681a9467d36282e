import assert from 'node:assert/strict';
import type { CollectEvents } from '../../../src/observe/events.js';

type Told<Name extends keyof CollectEvents> = Parameters<CollectEvents[Name]>[0];

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
  readonly polls: Told<'headPolled'>[] = [];
  readonly pushed: Told<'tradesPushed'>[] = [];
  readonly refuted: Told<'tradeFeedRefuted'>[] = [];
  readonly progress: Told<'progressed'>[] = [];
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

  progressed(event: Told<'progressed'>): void {
    this.progress.push(event);
  }

  pollFailed(event: Told<'pollFailed'>): void {
    this.failures.push(event);
    this.onFailure();
  }

  headPolled(event: Told<'headPolled'>): void {
    this.polls.push(event);
  }

  tradesPushed(event: Told<'tradesPushed'>): void {
    this.pushed.push(event);
  }

  tradeFeedRefuted(event: Told<'tradeFeedRefuted'>): void {
    this.refuted.push(event);
  }

  runSkipped(event: Told<'runSkipped'>): void {
    this.skips.push(event);
  }

  walkStepped(event: Told<'walkStepped'>): void {
    this.steps.push(event);
  }

  streamsStanding(event: Told<'streamsStanding'>): void {
    this.standing.push(event);
  }

  idsBegunAnew(event: Told<'idsBegunAnew'>): void {
    this.epochs.push(event);
  }

  tradesExposed(event: Told<'tradesExposed'>): void {
    this.exposed.push(event);
  }

  walkStalled(event: Told<'walkStalled'>): void {
    this.stalls.push(event);
  }

  historyStale(event: Told<'historyStale'>): void {
    this.stale.push(event);
  }

  offsetModeSettled(event: Told<'offsetModeSettled'>): void {
    this.modes.push(event);
  }

  historyHeadroom(event: Told<'historyHeadroom'>): void {
    this.headrooms.push(event);
  }

  gapFound(event: Told<'gapFound'>): void {
    this.gaps.push(event);
  }

  gapsCounted(): void {}

  marketsChanged(event: Told<'marketsChanged'>): void {
    this.changes.push(event);
  }

  marketsLeftOut(event: Told<'marketsLeftOut'>): void {
    this.leftOut.push(event);
  }

  marketsMissing(event: Told<'marketsMissing'>): void {
    this.missing.push(event);
  }

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
