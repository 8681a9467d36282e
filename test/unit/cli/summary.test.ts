import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LiveSummary } from '../../../src/cli/daemon/summary.js';
import { formatTable } from '../../../src/cli/output.js';
import { RunCounts } from '../../../src/observe/run-counts.js';
import { FakeClock } from '../../support/fake-clock.js';

const ESCAPE = '\x1b';
const TOKENS = new RegExp(`${ESCAPE}\\[\\??\\d+[A-Za-z]|\\n|[^${ESCAPE}\\n]+`, 'g');

function setUp(isTTY: boolean, columns = 100) {
  const clock = new FakeClock();
  const counts = new RunCounts();
  const written: string[] = [];
  const output = { isTTY, columns, write: (text: string) => written.push(text) };
  const summary = new LiveSummary({
    output,
    clock,
    snapshot: () => counts.snapshot(),
    exchangeNowMs: () => clock.wallMs(),
  });
  const collect = (rows: number) => {
    counts.received('trades', rows);
    counts.settled('trades', 'stored', rows);
    counts.progressed('trades', 'BTC_USDT', clock.wallMs() - 1500);
  };
  return { clock, counts, written, summary, collect };
}

/** What a terminal shows after all that was written to it; knows only the codes in use here. */
function screenOf(written: readonly string[]): string[] {
  const lines: string[] = [''];
  let row = 0;
  const tokens = written.join('').match(TOKENS) ?? [];
  for (const token of tokens) {
    if (token === '\n') {
      row += 1;
      lines[row] ??= '';
    } else if (!token.startsWith(ESCAPE)) {
      lines[row] = (lines[row] ?? '') + token;
    } else if (token.endsWith('A')) {
      row -= Number(token.slice(2, -1));
      assert.ok(row >= 0, 'the cursor left the screen');
    } else if (token.endsWith('J')) {
      lines.length = row;
      lines.push('');
    }
  }
  return lines;
}

test('on a terminal one table is redrawn in place, with rates and lag', async () => {
  const { clock, written, summary, collect } = setUp(true);
  summary.start();
  summary.start();
  for (let second = 0; second < 5; second += 1) {
    collect(10);
    await clock.run(1000);
  }
  const screen = screenOf(written);
  assert.equal(screen.filter((line) => line.startsWith('stream ')).length, 1);
  assert.match(screen[1] ?? '', /^trades +1 +50 +2\.5s +2\.5s +0 +0 +0 +0 +0$/);
  assert.match(screen[2] ?? '', /^10\.0 rows\/s, 0\.0 requests\/s/);
  await summary.stop();
});

test('log lines go above the table', async () => {
  const { clock, written, summary, collect } = setUp(true);
  collect(1);
  summary.start();
  await clock.run(1000);
  summary.write('something happened\n');
  const screen = screenOf(written);
  assert.equal(screen[0], 'something happened');
  assert.match(screen[1] ?? '', /^stream/);
  assert.match(screen[2] ?? '', /^trades/);
  await summary.stop();
});

test('stop leaves the final table and nothing running, and the cursor is never hidden', async () => {
  const { clock, written, summary, collect } = setUp(true);
  summary.start();
  collect(20);
  await clock.run(4000);
  await Promise.all([summary.stop(), summary.stop()]);
  const screen = screenOf(written);
  assert.equal(screen[0], 'Collected for 4.0s.');
  assert.match(screen[3] ?? '', /^5\.0 rows\/s/);
  assert.ok(!written.some((text) => text.includes('[?25')));
  assert.equal(clock.pendingTimers, 0);
  const length = written.length;
  summary.start();
  await clock.run(5000);
  assert.equal(written.length, length);
});

test('away from a terminal a plain line comes every ten seconds', async () => {
  const { clock, written, summary, collect } = setUp(false);
  summary.start();
  collect(30);
  await clock.run(29_000);
  assert.equal(written.length, 2);
  assert.match(
    written[0] ?? '',
    /^trades 30 \(lag 12s\), 0 open gaps, 0 unfillable ones, 3\.0 rows\/s/,
  );
  await summary.stop();
  assert.ok(!written.join('').includes(ESCAPE));
});

test('lines are cut to the terminal, since a wrapped line would spoil the redraw', async () => {
  const { clock, written, summary, collect } = setUp(true, 20);
  summary.start();
  collect(1);
  await clock.run(3000);
  assert.ok(screenOf(written).every((line) => line.length < 20));
  await summary.stop();
});

test('tables align their columns and keep control characters from the terminal', () => {
  const lines = formatTable(
    [
      { title: 'market', text: (row: readonly [string, number]) => row[0] },
      { title: 'rows', align: 'right', text: (row) => String(row[1]) },
    ],
    [
      ['BTC_USDT', 5],
      ['\x1b[31mRED', 12_345],
      ['日本', 1],
      ['🚀e\u0301_ＵＳＤ', 1],
      ['x'.repeat(100), 1],
      [`depth: ${'gap in the archive '.repeat(4)}`, 1],
    ],
  );
  assert.equal(lines[1]?.trimEnd(), `BTC_USDT${' '.repeat(58)}5`);
  assert.ok(lines[2]?.startsWith('·[31mRED'));
  assert.ok(lines[3]?.startsWith(`日本${' '.repeat(56)}`));
  // An accent of its own takes no column, a letter of full width takes two.
  assert.ok(lines[4]?.startsWith(`🚀e\u0301_ＵＳＤ${' '.repeat(50)}`));
  assert.equal(lines[4]?.length, '🚀e\u0301_ＵＳＤ'.length + 60 - 10 + 2 + 4 + 1);
  assert.match(lines[5] ?? '', /x…\s+1$/);
  // Words are not cut amid.
  assert.match(lines[6] ?? '', /^depth: (gap in the archive ){2}gap in the… +1$/);
});
