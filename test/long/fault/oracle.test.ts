import assert from 'node:assert/strict';
import test from 'node:test';
import { runWorlds } from '../../support/oracle/run.js';
import { makeWorld } from '../../support/oracle/world.js';
import { isReplay, seedsOf } from '../../support/seeds.js';

/**
 * The oracle (design of completeness): an exchange that knows every trade it issued, faults of all
 * kinds, a collector killed in the middle of its writes; and in the end `issued = stored ∪ gaps`.
 * How many of them, and how to replay one: support/seeds.
 */
const seeds = seedsOf(60);
/**
 * Worlds that share a process, which is killed in the middle of all their writes at once. Each holds up to five
 * connections of the hundred that all files of a run share.
 */
const TOGETHER = 5;
/** Such processes at a time: while one waits for its exchanges, another computes. */
const AT_ONCE = 2;

test(`issued = stored ∪ gaps in ${seeds.length} worlds`, async (t) => {
  const waiting = [...seeds];
  const fired = new Map<string, number>();
  let killed = 0;
  let whole = 0;
  const work = async () => {
    for (
      let some = waiting.splice(0, TOGETHER);
      some.length > 0;
      some = waiting.splice(0, TOGETHER)
    ) {
      const reports = await runWorlds(some.map(makeWorld));
      for (const [at, report] of reports.entries()) {
        killed += report.killed;
        if (report.isWhole) whole += 1;
        const { proven, inGaps, beforeStart, atStart, issued } = report;
        const all = proven + inGaps + beforeStart + atStart;
        assert.equal(all, issued, `world ${some[at]}`);
        for (const [kind, times] of report.fired) fired.set(kind, (fired.get(kind) ?? 0) + times);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const faults = [...fired].map(([kind, times]) => `${kind} ${times}`).join(', ');
  t.diagnostic(`${whole} of ${seeds.length} whole, ${killed} killed in a write; fired: ${faults}`);
  if (isReplay) return;
  for (const [kind, times] of fired) assert.ok(times > 0, `${kind} never fired`);
  assert.ok(killed > seeds.length / 3, 'processes were really killed in the middle of a write');
});
