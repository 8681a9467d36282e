import assert from 'node:assert/strict';
import test from 'node:test';
import { type GapFinding, type GapMemory, placeFinding } from '../../../src/model/gap-memories.js';

/** What a finding leaves of the memories that it overlaps. */

const span = (fromMs: number, toMs: number) => ({ fromMs, toMs });

const memory = (gapId: number, fromMs: number, toMs: number, known: Partial<GapMemory> = {}) => ({
  ...{ gapId, span: span(fromMs, toMs), state: 'open' as const, reason: 'head moved' },
  ...{ note: null, remarks: null, firstSeenAtMs: 1000, attempts: 0 },
  ...{ nextAttemptAtMs: null, closedAtMs: null, revokedAtMs: null, ...known },
});

const found = (fromMs: number, toMs: number, what: Partial<GapFinding> = {}): GapFinding => ({
  ...{ span: span(fromMs, toMs), state: 'open', reason: 'walk stalled', note: null },
  ...{ atMs: 5000, nextAttemptAtMs: null, isAttempt: false, ...what },
});

/** The rows that are kept, in their order: id, span and reason. */
const kept = (held: readonly GapMemory[], finding: GapFinding) =>
  placeFinding(held, finding).kept.map(({ gapId, span: { fromMs, toMs }, reason }) =>
    [gapId, fromMs, toMs, reason].join(' '),
  );

test('what reaches beyond a finding stays: below it under its id, above it as a new row', () => {
  const held = [memory(7, 0, 100)];
  assert.deepEqual(kept(held, found(40, 60)), [
    '7 0 40 head moved',
    ' 60 100 head moved',
    ' 40 60 walk stalled',
  ]);
  assert.deepEqual(placeFinding(held, found(40, 60)).removed, []);
});

test('a finding takes over the row that begins with it, and the rest of that becomes a new one', () => {
  const held = [memory(7, 0, 100)];
  assert.deepEqual(kept(held, found(0, 60)), ['7 0 60 walk stalled', ' 60 100 head moved']);
  assert.deepEqual(placeFinding(held, found(0, 100)).removed, []);
});

test('a finding has the oldest id that it swallows, and a memory that overlaps its end is cut', () => {
  const held = [memory(1, 0, 10), memory(4, 15, 18), memory(2, 20, 30), memory(3, 40, 60)];
  assert.deepEqual(placeFinding(held, found(5, 50)).removed, [4]);
  assert.deepEqual(kept(held, found(5, 50)), [
    '1 0 5 head moved',
    '3 50 60 head moved',
    '2 5 50 walk stalled',
  ]);
});

test('a gap that is tried again page by page ends up under its id, tried once more', () => {
  const lost = { state: 'unfillable', reason: 'beyond history', isAttempt: true } as const;
  let held: readonly GapMemory[] = [memory(3, 0, 100, { reason: 'beyond history', attempts: 1 })];
  let nextId = 4;
  for (const fromMs of [60, 20, 0]) {
    const { kept: rows, removed } = placeFinding(
      held,
      found(fromMs, Math.min(100, fromMs + 40), lost),
    );
    assert.deepEqual(removed, fromMs === 0 ? [4] : []);
    held = rows.map((one) => ({ ...one, gapId: one.gapId ?? nextId++ }));
  }
  const brief = held.map(({ gapId, span: at, attempts }) => [gapId, at, attempts]);
  assert.deepEqual(brief, [[3, span(0, 100), 2]]);
  // As the daemon asks for it each hour, without a person who made it due.
  for (const fromMs of [70, 35, 0]) {
    held = placeFinding(held, found(fromMs, fromMs + 30, lost)).kept;
    const tries = fromMs === 0 ? 3 : 2;
    assert.deepEqual(
      held.map(({ gapId, attempts }) => [gapId, attempts]),
      [[3, tries]],
    );
  }
});

test('tries go on from the most of any part, and only a try in vain is one more', () => {
  const held = [memory(1, 0, 10, { attempts: 2 }), memory(2, 10, 20, { attempts: 4 })];
  const attemptsOf = (finding: GapFinding) => placeFinding(held, finding).kept.at(-1)?.attempts;
  assert.equal(attemptsOf(found(0, 20)), 4);
  assert.equal(attemptsOf(found(0, 20, { isAttempt: true })), 5);
});

test('a finding keeps the first sight, the remarks, and the note of the same reason', () => {
  const reason = found(0, 20).reason;
  const known = { reason, note: 'before', remarks: 'one', firstSeenAtMs: 900, revokedAtMs: 800 };
  const held = [memory(1, 0, 10, known), memory(2, 10, 20, { remarks: 'two' })];
  const placed = (what: Partial<GapFinding>) => placeFinding(held, found(0, 20, what)).kept.at(-1);
  const plain = placed({});
  assert.deepEqual([plain?.note, plain?.remarks], ['before', 'one\ntwo']);
  assert.deepEqual([plain?.firstSeenAtMs, plain?.revokedAtMs, plain?.closedAtMs], [900, 800, null]);
  assert.equal(placed({ reason: 'beyond history' })?.note, null, 'it was of another reason');
  const said = placed({ note: 'now', remarks: 'one', revokedAtMs: null, state: 'unfillable' });
  assert.deepEqual([said?.note, said?.remarks], ['now', 'one\ntwo']);
  assert.deepEqual([said?.revokedAtMs, said?.closedAtMs], [null, 5000]);
  assert.equal(placed({ state: 'filled' })?.closedAtMs, 5000);
  assert.equal(placeFinding([], found(0, 20)).kept[0]?.remarks, null);
});

test('what is given up piece by piece for one reason is one memory, which keeps its id', () => {
  const lost = { state: 'unfillable', reason: 'beyond history' } as const;
  const above = memory(3, 60, 100, lost);
  const down = placeFinding([above], found(20, 60, lost));
  assert.deepEqual(
    [down.removed, down.kept.map(({ gapId, span }) => [gapId, span])],
    [[], [[3, span(20, 100)]]],
  );
  // Asked for again in other pieces, as after a restart.
  assert.deepEqual(kept([memory(3, 20, 100, lost)], found(50, 90, lost)), [
    '3 20 100 beyond history',
  ]);
  // Memories that were apart are one as soon as a finding joins them: the older of their ids stays.
  const parts = [memory(9, 0, 20, { ...lost, remarks: 'low' }), memory(3, 60, 100, lost)];
  const joined = placeFinding(parts, found(20, 60, lost));
  assert.deepEqual(joined.removed, [9]);
  assert.deepEqual(
    joined.kept.map((one) => [one.gapId, one.span, one.remarks]),
    [[3, span(0, 100), 'low']],
  );
});

test('what merely touches a finding stays as it is, and so does what was covered once', () => {
  const lost = { state: 'unfillable', reason: 'beyond history' } as const;
  for (const [touching, finding] of [
    [memory(1, 0, 20, { attempts: 9 }), found(20, 60)],
    [memory(1, 0, 20, { ...lost, reason: 'not observed' }), found(20, 60, lost)],
    [memory(1, 0, 20, { ...lost, note: 'an empty page' }), found(20, 60, lost)],
    [memory(1, 0, 20, { ...lost, revokedAtMs: 10 }), found(20, 60, lost)],
    [memory(1, 0, 20), found(20, 60, lost)],
  ] as const) {
    const { removed, kept: rows } = placeFinding([touching], finding);
    assert.deepEqual(removed, []);
    assert.deepEqual(
      rows.map(({ gapId, span: at, attempts }) => [gapId, at, attempts]),
      [[null, span(20, 60), 0]],
    );
  }
});
