import assert from 'node:assert/strict';
import test from 'node:test';
import { toldLies } from '../../support/models/lying-exchange.js';
import { LyingWalks } from '../../support/models/lying-walks.js';
import { inEachWorld, isReplay, seedsOf } from '../../support/seeds.js';

/**
 * Both walks through one market of an exchange that lies for a while about ids, times, its Date and
 * how new its pages are, with kills at random moments and right after a lie: what is claimed is true,
 * nothing false stays stored within it, and after the lies coverage soon reaches the present again.
 */
const seeds = seedsOf(60);

test(`nothing false is claimed for longer than one answer, and coverage goes on, in ${seeds.length} worlds`, async (t) => {
  await inEachWorld(seeds, async (seed) => {
    const walks = new LyingWalks(seed);
    await walks.live();
    await walks.recover();
  });
  const told = [...toldLies].map(([name, count]) => `${name} ${count}`).join(', ');
  t.diagnostic(`seeds 1 to ${seeds.length}; told: ${told}`);
});

test('all kinds of lies were told', { skip: isReplay && 'fewer worlds than usual' }, () => {
  for (const kind of ['head: ', 'last: ', 'first: ', 'wrong Date', 'stale page', 'ids begun']) {
    const counts = [...toldLies].map(([name, count]) => (name.startsWith(kind) ? count : 0));
    const count = counts.reduce((sum, one) => sum + one, 0);
    assert.ok(count > 2, `${kind}: ${count}`);
  }
});
