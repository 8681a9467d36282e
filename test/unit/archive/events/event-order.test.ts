import assert from 'node:assert/strict';
import test from 'node:test';
import type { ArchiveEvent } from '../../../../src/archive/events/event.js';
import { orderOf, rankOf } from '../../../../src/archive/events/event-rows.js';
import { EventStream } from '../../../../src/archive/events/event-stream.js';

/** Which of two events comes first, and what leaving them closes. */

const trade = (id: number, atUs: number, market = 'A', receivedAtUs = 0) =>
  ({ kind: 'trade', id, atUs, market, receivedAtUs }) as ArchiveEvent;

/** An event of a series that has no form of its own. */
const row = (tid: number) =>
  ({
    ...{ kind: 'trades', market: 'A', atUs: 1, receivedAtUs: 1 },
    row: { marketId: 9 - tid, tradedAtS: 9 - tid, tid },
  }) as unknown as ArchiveEvent;

test('events go by their time, at one time by market, then by id', () => {
  const { compare, timeOf } = orderOf('happened');
  const inOrder = [trade(9, 1, 'Z'), trade(2, 2, 'A'), trade(3, 2, 'A'), trade(1, 2, 'B')];
  for (const [at, one] of inOrder.entries()) {
    for (const [place, other] of inOrder.entries()) {
      assert.equal(Math.sign(compare(one, other)), Math.sign(at - place), `${at}, ${place}`);
    }
  }
  assert.equal(timeOf(trade(1, 5)), 5);
});

test('in the order of receipt the time when it happened decides only among equals', () => {
  const { compare, timeOf } = orderOf('received');
  assert.ok(compare(trade(1, 9, 'A', 1), trade(1, 1, 'A', 2)) < 0);
  assert.ok(compare(trade(1, 9, 'A', 1), trade(1, 1, 'B', 1)) < 0, 'the market goes first');
  assert.ok(compare(trade(2, 1, 'A', 1), trade(1, 2, 'A', 1)) < 0);
  assert.ok(compare(trade(1, 1, 'A', 1), trade(2, 1, 'A', 1)) < 0);
  assert.equal(timeOf(trade(1, 5, 'A', 6)), 6);
});

test('rows of a series without a form of its own go by the number column of that series', () => {
  const { compare } = orderOf('happened');
  assert.ok(compare(row(1), row(2)) < 0);
  assert.ok(compare(row(2), row(1)) > 0);
});

test('states and revisions of a candle keep their order at one instant', () => {
  const { compare } = orderOf('happened');
  const at = { market: 'A', atUs: 1 };
  const state = (seq: number) => ({ ...at, kind: 'state', seq }) as ArchiveEvent;
  const kline = (revision: number) => ({ ...at, kind: 'candle', revision }) as ArchiveEvent;
  assert.ok(compare(state(1), state(2)) < 0 && compare(kline(1), kline(2)) < 0);
});

test('of one instant come candles, shorter ones first, then trades, states, tickers and depth', () => {
  const ranks = [
    ...[rankOf('candles', 60), rankOf('candles', 300), rankOf('trades', 0), rankOf('states', 60)],
    ...[rankOf('tickers', 0), rankOf('depth', 0)],
  ];
  assert.deepEqual(
    [...ranks].sort((a, b) => a - b),
    ranks,
  );
  assert.equal(rankOf('candle_revisions', 60), rankOf('candles', 60));
});

test('what is left behind the events that were asked for one at a time comes with the next batches', async () => {
  const all = [0, 1, 2, 3, 4].map((at) => trade(at, at));
  async function* read() {
    yield all.slice(0, 3);
    yield all.slice(3);
  }
  const stream = new EventStream(
    async () => read(),
    undefined,
    () => undefined,
  );
  const { value: first } = await stream.next();
  const rest: unknown[] = [];
  for await (const batch of stream.batches()) rest.push(...batch);
  assert.deepEqual([first, ...rest], all);
});

test('who leaves a loop over events, or over some at a time, closes what was opened', async () => {
  for (const loopOf of [
    (stream: EventStream) => stream,
    (stream: EventStream) => stream.batches(),
  ]) {
    const closed: string[] = [];
    async function* read() {
      try {
        for (let at = 0; ; at += 2) yield [trade(at, at), trade(at + 1, at + 1)];
      } finally {
        closed.push('what was read');
      }
    }
    const stream = new EventStream(
      async () => read(),
      undefined,
      () => closed.push('the stream'),
    );
    for await (const _one of loopOf(stream)) break;
    assert.deepEqual(closed, ['what was read', 'the stream']);
    assert.deepEqual(await stream.next(), { done: true, value: undefined });
  }
});
