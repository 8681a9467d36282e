import assert from 'node:assert/strict';
import test from 'node:test';
import { makeTrades } from '../../support/exchanges/recorded.js';
import { runWorlds } from '../../support/oracle/run.js';
import { readTape, tapeWorld } from '../../support/oracle/tape-world.js';

/**
 * A long tape, with a second that no page can hold, under all faults at once and three kills: the
 * archive equals the tape, or names the spans of exactly those trades that it lacks.
 * `ORACLE_TAPE=trades.csv` takes a recorded tape instead of the one made here, `ORACLE_PACE=n` its
 * speed.
 */
const path = process.env.ORACLE_TAPE;
const pace = Number(process.env.ORACLE_PACE ?? 20);

test('a tape under faults and kills: stored, or listed as missing', async (t) => {
  const trades =
    path === undefined
      ? makeTrades({ seed: 3, seconds: 120, startS: 1_760_000_000, flood: 1600 })
      : readTape(path);
  const [report] = await runWorlds([tapeWorld(trades, pace)]);
  assert.ok(report !== undefined);
  const { issued, proven, inGaps, atStart, isWhole, killed, fired } = report;
  assert.equal(proven + inGaps + atStart, issued);
  const faults = [...fired].map(([kind, times]) => `${kind} ${times}`).join(', ');
  t.diagnostic(`${issued} issued, ${proven} proven, ${inGaps} in gaps; ${killed} kills; ${faults}`);
  if (fired.get('badRows') === 0) assert.ok(isWhole, 'all that could be read is stored');
  assert.ok(killed > 0 && [...fired.values()].filter((times) => times > 0).length > 8);
});
