import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { ENDPOINTS } from '../../src/console/api/endpoints.js';
import { archiveHandlers } from '../../src/console/api/handlers/archive.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { marketOf } from '../support/postgres/postgres-rows.js';
import {
  ALL_AT_ONCE,
  DAY_MS,
  FIRST_MS,
  LATER_MS,
  live,
  openSealingWorld,
} from '../support/worlds/sealing-world.js';

const never = new AbortController().signal;

async function open(t: TestContext) {
  const world = await openSealingWorld(t);
  const rules = { ...ALL_AT_ONCE, coldAfterMs: 2 * DAY_MS, retentionMs: { trade: 100 * DAY_MS } };
  const api = archiveHandlers({ store: () => world.store, nowMs: () => LATER_MS, rules });
  return { ...world, api, rules };
}

test('lists partitions with their states and what is before them', async (t) => {
  const { api, ...world } = await open(t);
  await live(world, { rules: { needsChecks: false }, isChosen: ({ name }) => name.endsWith('13') });
  const { partitions } = ENDPOINTS;
  const asked = partitions.input.parse({ kind: ['trades'] });
  const answer = partitions.answer.parse(await api.partitions(asked, never, 'operator'));
  assert.equal(answer.at, new Date(LATER_MS).toISOString());
  assert.deepEqual(
    answer.partitions.map(({ table, state, from }) => [table, state, from.slice(0, 10)]),
    [
      ['trade', 'sealed', '2026-01-13'],
      ['trade', 'hot', '2026-01-14'],
      ['trade', 'hot', '2026-01-15'],
    ],
  );
  const [sealed, hot] = answer.partitions;
  const day = (n: number) => new Date(FIRST_MS + n * DAY_MS).toISOString();
  assert.deepEqual(sealed?.due, { seal: null, archive: day(3), expire: day(101) });
  assert.deepEqual(hot?.due, { seal: day(3), archive: day(4), expire: day(102) });
  assert.deepEqual(answer.leads, [{ table: 'trade', leadMs: 0 }]);
});

test('refuses kinds of partitions that there are not', async (t) => {
  const { api } = await open(t);
  const refused = { code: 'usage', message: /^kind: "<b>" is not allowed; write one of trades/ };
  await assert.rejects(api.partitions({ kind: ['<b>'] }, never, 'operator'), refused);
});

test('shows refused data as it came, with its counts', async () => {
  const { store, url } = await openTestStore();
  const html = '<img src=x onerror="alert(1)">';
  await store.ensureMarkets([marketOf(html, { stock: 'A', money: 'B' })], 0);
  await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await runSql(
    url,
    `INSERT INTO quarantine (received_at, endpoint, market, reason, payload, count)
     SELECT '2026-01-15Z', 'history', $1, 'not a number', '{"price":"<b>"}', n FROM generate_series(1, 3) n`,
    [html],
  );
  await runSql(
    url,
    `INSERT INTO quarantine_count (endpoint, reason, count, last_at) VALUES ('history', 'not a number', 6, '2026-01-15Z')`,
  );
  const api = archiveHandlers({ store: () => store, nowMs: () => LATER_MS, rules: ALL_AT_ONCE });
  const { quarantine } = ENDPOINTS;
  const ask = async (input: object) =>
    quarantine.answer.parse(await api.quarantine(quarantine.input.parse(input), never, 'operator'));
  const all = await ask({ limit: 2, market: html, reason: 'NUMBER' });
  assert.deepEqual(
    all.rows.map(({ market, payload, count }) => [market, payload, count]),
    [
      [html, '{"price":"<b>"}', 3],
      [html, '{"price":"<b>"}', 2],
    ],
  );
  assert.deepEqual(
    all.counts.map(({ endpoint, count, kept }) => [endpoint, count, kept]),
    [['history', 6, 3]],
  );
  const usage = (message: RegExp) => ({ code: 'usage', message });
  await assert.rejects(ask({ endpoint: 'histry' }), usage(/^endpoint: .*Did you mean history\?/));
  await assert.rejects(ask({ market: 'BTC' }), usage(/^market: "BTC" is not allowed/));
});
