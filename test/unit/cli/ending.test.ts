import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import test from 'node:test';
import { EndedError, Ending } from '../../../src/cli/ending.js';
import { FakeClock } from '../../support/fake-clock.js';

/** A process that can be watched. */
class Stage extends EventEmitter {
  readonly exits: number[] = [];
  readonly stderr = { write: () => true };

  exit(code: number): void {
    this.exits.push(code);
  }
}

function setUp() {
  const [clock, stage] = [new FakeClock(), new Stage()];
  const ending = new Ending(clock, stage);
  ending.listen();
  return { clock, stage, ending };
}

const whyOf = ({ reason }: AbortSignal) => (reason instanceof EndedError ? reason.why : reason);

test('the first signal asks, a second one ends at once, one Ctrl-C that comes twice is one', () => {
  const { clock, stage, ending } = setUp();
  const { signal } = ending.hold();
  stage.emit('SIGINT');
  assert.equal(whyOf(signal), 'SIGINT');
  clock.advance(100);
  stage.emit('SIGINT');
  assert.deepEqual(stage.exits, [], 'a runner passed on what the terminal had sent');
  clock.advance(300);
  stage.emit('SIGTERM');
  assert.deepEqual(stage.exits, [130]);
});

test('a signal asks all that hold, and ends the process at once when all have let go', () => {
  const { stage, ending } = setUp();
  const [first, second] = [ending.hold(), ending.hold()];
  stage.emit('SIGHUP');
  assert.deepEqual(
    [first, second].map(({ signal }) => whyOf(signal)),
    ['SIGHUP', 'SIGHUP'],
  );
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  stage.emit('SIGTERM');
  assert.deepEqual(stage.exits, [], 'the same wish as before, and one still holds');
  second[Symbol.dispose]();
  stage.emit('SIGTERM');
  assert.deepEqual(stage.exits, [130]);
  using next = ending.hold();
  assert.equal(next.signal.aborted, false, 'the next command begins anew');
});

test('output that nobody reads ends at once what holds nothing', () => {
  for (const [cause, code] of [
    ['output closed', 0],
    ['output failed', 1],
  ] as const) {
    const { stage, ending } = setUp();
    ending.hold()[Symbol.dispose]();
    ending.outputEnded(cause);
    assert.deepEqual(stage.exits, [code]);
  }
});

test('output that nobody reads asks what holds something, and waits no longer than a deadline', () => {
  const { clock, stage, ending } = setUp();
  const held = ending.hold();
  ending.outputEnded('output closed');
  ending.outputEnded('output closed');
  assert.equal(whyOf(held.signal), 'output closed');
  assert.equal(ending.outputCode, 0);
  using late = ending.hold();
  assert.equal(late.signal.aborted, true);
  stage.emit('SIGINT');
  assert.deepEqual(stage.exits, [], 'of signals it is the first');
  clock.advance(14_000);
  assert.deepEqual(stage.exits, []);
  clock.advance(1_000);
  assert.deepEqual(stage.exits, [0]);
});

test('what lets go in time cancels the deadline, and what begins later hears of it', () => {
  const { clock, stage, ending } = setUp();
  const held = ending.hold();
  ending.outputEnded('output failed');
  held[Symbol.dispose]();
  assert.equal(clock.pendingTimers, 0);
  assert.equal(whyOf(ending.hold().signal), 'output failed');
  assert.deepEqual(stage.exits, []);
});

test('output that nobody reads ends nothing that goes on without it', () => {
  const { stage, ending } = setUp();
  assert.equal(ending.goesOnWithout('stdout', 'EPIPE'), false, 'nobody holds yet');
  const lost: string[] = [];
  const held = ending.hold((stream, reason) => lost.push(`${stream} ${reason}`));
  using beside = ending.hold();
  assert.equal(ending.goesOnWithout('stderr', 'write EPIPE'), true);
  assert.deepEqual(lost, ['stderr write EPIPE']);
  assert.equal(beside.signal.aborted, false);
  held[Symbol.dispose]();
  assert.equal(ending.goesOnWithout('stderr', 'write EPIPE'), false);
  assert.deepEqual(stage.exits, []);
});
