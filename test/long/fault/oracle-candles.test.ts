import assert from 'node:assert/strict';
import test from 'node:test';
import { makeCandleWorld } from '../../support/oracle/candle-world.js';
import { runWorlds } from '../../support/oracle/run.js';
import { isReplay, seedsOf } from '../../support/seeds.js';

/**
 * The oracle of candles: a slot that is claimed holds exactly the candle that its trades make, or none was
 * traded in it, also where history begins within a slot, and whatever replies leave out.
 */
const seeds = seedsOf(20);
/** Worlds at a time: each holds up to five connections of the hundred that all files of a run share. */
const TOGETHER = 5;

test(`no false candle, and none claimed to be absent, in ${seeds.length} worlds`, async (t) => {
  let [proven, quiet, missing, named, killed] = [0, 0, 0, 0, 0];
  const fired = new Map<string, number>();
  for (let at = 0; at < seeds.length; at += TOGETHER) {
    for (const report of await runWorlds(seeds.slice(at, at + TOGETHER).map(makeCandleWorld))) {
      proven += report.candles.proven;
      quiet += report.candles.quiet;
      missing += report.candles.missing;
      named += report.candles.named;
      killed += report.killed;
      for (const [kind, times] of report.fired) fired.set(kind, (fired.get(kind) ?? 0) + times);
    }
  }
  const faults = [...fired].map(([kind, times]) => `${kind} ${times}`).join(', ');
  t.diagnostic(
    `${proven} proven, ${quiet} quiet, ${missing} missing, ${named} named; ${killed} killed; ${faults}`,
  );
  if (isReplay) return;
  assert.ok(proven > 0, 'candles were collected');
  assert.ok(quiet > 0 && killed > 0, 'quiet slots were claimed, and processes killed in a write');
});
