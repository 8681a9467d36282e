import assert from 'node:assert/strict';
import test from 'node:test';
import { ENDPOINTS } from '../../src/console/api/endpoints.js';
import { fillRequests } from '../../src/console/api/filling.js';
import { fillHandlers } from '../../src/console/api/handlers/filling.js';
import type { LeftOut } from '../../src/console/api/pieces.js';
import type { Gap, Store } from '../../src/store/index.js';
import { runSql } from '../support/postgres/postgres.js';
import { NOON_S } from '../support/postgres/postgres-rows.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';

const ms = (s: number) => (NOON_S + s) * 1000;
const at = (s: number) => new Date(ms(s)).toISOString();
const never = new AbortController().signal;
const NOW_MS = ms(14_400);
const MINE = { market: ['BTC_USDT'], kind: ['trades'] };

async function open(leftOut: LeftOut = () => undefined) {
  const { store, url } = await openAnalystWorld();
  const deps = { store: () => store, nowMs: () => NOW_MS, leftOut, requestsPerS: 2 };
  const api = fillHandlers(deps);
  const { fill, fillProgress, note } = ENDPOINTS;
  return {
    ...{ store, url },
    fill: async (input: object) =>
      fill.answer.parse(await api.fill(fill.input.parse(input), never, 'operator')),
    progress: async (...id: string[]) =>
      fillProgress.answer.parse(
        await api.fillProgress(fillProgress.input.parse({ id }), never, 'operator'),
      ),
    note: async (id: string, text: string) =>
      note.answer.parse(await api.note(note.input.parse({ id, note: text }), never, 'operator')),
  };
}

const tradeGaps = (store: Store) =>
  store.listGaps({ marketIds: [1], kinds: ['trades'], limit: 10 }, NOW_MS);

async function cover(store: Store, { streamId, span }: Pick<Gap, 'streamId' | 'span'>) {
  const stream = (await store.inspection.streams()).find((one) => one.streamId === streamId);
  assert.ok(stream !== undefined);
  await store.commit({ claims: [{ stream, span, evidence: {} }] });
}

test('estimates requests by the length of candles and the pace of trades', () => {
  const hour = { fromMs: 0, toMs: 3_600_000 };
  for (const [kind, variant, span, rowsPerDay, requests] of [
    ['candles', 60, hour, null, 1],
    ['candles', 60, { fromMs: 0, toMs: 60_000 * 1000 }, null, 1],
    ['candles', 60, { fromMs: 0, toMs: 60_000 * 1001 }, null, 2],
    ['candles', 86_400, { fromMs: 0, toMs: 365 * 86_400_000 }, null, 1],
    ['trades', 0, hour, null, 1],
    ['trades', 0, hour, 0, 1],
    ['trades', 0, hour, 24_000, 2],
    ['trades', 0, hour, 24_024, 3],
    ['trades', 0, { fromMs: 0, toMs: 86_400_000 }, 1_000_000, 1001],
    ['trades', 0, { fromMs: 5, toMs: 5 }, 1_000_000, 1],
  ] as const) {
    const said = fillRequests({ kind, variant, span, rowsPerDay });
    assert.equal(said, requests, `${kind} ${variant} ${span.toMs} ${rowsPerDay}`);
  }
});

test('says what filling would take, and changes nothing', async () => {
  const { fill, store, url } = await open();
  const before = await runSql(url, 'SELECT * FROM gap ORDER BY gap_id');
  assert.deepEqual(await fill({ ...MINE, isPreview: true }), {
    ...{ isPreview: true, gaps: 3, lengthMs: 4_400_000, requests: 6, seconds: 3 },
    leftOut: ['Skipped: 1 unfillable gap, unless tried again.'],
    ids: [`1@${at(-3600)}..${at(0)}`, `1@${at(8400)}..${at(9000)}`, `1@${at(-7200)}..${at(-7000)}`],
  });
  assert.equal((await fill({ ...MINE, isPreview: true, again: true })).gaps, 4);
  assert.deepEqual(await runSql(url, 'SELECT * FROM gap ORDER BY gap_id'), before);
  assert.equal((await tradeGaps(store)).length, 4);
});

test('ends the pauses of gaps, and with again tries unfillable ones', async () => {
  const { fill, store } = await open();
  const [newest] = await tradeGaps(store);
  assert.ok(newest !== undefined);
  const failed = { state: 'open', reason: 'exchange failed', isAttempt: true } as const;
  const stream = (await store.inspection.streams()).find(
    ({ streamId }) => streamId === newest.streamId,
  );
  assert.ok(stream !== undefined);
  await store.recordGap({
    ...{ stream, span: newest.span, ...failed, atMs: NOW_MS, nextAttemptAtMs: NOW_MS + 1e6 },
  });
  assert.equal((await store.fillRequests(NOW_MS)).due.length, 0);
  await fill({ ...MINE, state: ['open'] });
  const { due } = await store.fillRequests(NOW_MS);
  assert.deepEqual(
    due.map(({ span }) => span),
    [newest.span],
  );
  const [unfillable] = await store.listGaps({ states: ['unfillable'], limit: 1 }, NOW_MS);
  const again = await fill({ ids: [String(unfillable?.gapId)], again: true });
  assert.deepEqual([again.gaps, again.leftOut], [1, []]);
  assert.equal((await store.fillRequests(NOW_MS)).due.length, 2);
});

test('names what cannot be filled, and why', async () => {
  const leftOut: LeftOut = (streams) =>
    streams.some(({ kind }) => kind === 'candles') ? 'The settings switch off candles' : undefined;
  const { fill, store, url } = await open(leftOut);
  await runSql(url, `UPDATE stream SET collect_from = to_timestamp(${NOON_S - 60})`);
  const all = await fill({ market: ['BTC_USDT'], isPreview: true, to: at(13_000) });
  assert.deepEqual(
    all.leftOut.map((text) => text.slice(0, 30)),
    [
      ...['Not filled: 4 gaps of depth, s', 'The settings switch off candle'],
      'Skipped: 1 unfillable gap, unl',
    ],
  );
  assert.ok(all.ids.every((id) => id.startsWith('1@')));
  const { kind } = (await store.listGaps({ kinds: ['candles'], limit: 1 }, NOW_MS))[0] ?? {};
  assert.equal(kind, 'candles');
  await runSql(
    url,
    `UPDATE market SET delisted_at = to_timestamp(${NOON_S + 9999}) WHERE market_id = 1`,
  );
  const unlisted = await fill({ ...MINE, isPreview: true });
  assert.equal(unlisted.gaps, 0);
  assert.match(
    unlisted.leftOut[0] ?? '',
    /^Not filled: \d gaps of trades of BTC_USDT, which the exchange does not list/,
  );
});

test('follows time ranges until nothing of them is left to do', async () => {
  const { fill, progress, store } = await open();
  const { ids, lengthMs } = await fill(MINE);
  const begun = await progress(...ids);
  assert.deepEqual([begun.lengthMs, begun.coveredMs, begun.isDone], [lengthMs, 0, false]);
  const [newest, ...others] = (await tradeGaps(store)).filter(({ state }) => state === 'open');
  assert.ok(newest !== undefined);
  const half = { fromMs: ms(8700), toMs: ms(9000) };
  await cover(store, { ...newest, span: half });
  assert.equal((await progress(...ids)).coveredMs, 300_000);
  for (const gap of [newest, ...others]) await cover(store, gap);
  const ended = await progress(...ids);
  assert.deepEqual([ended.coveredMs, ended.isDone], [lengthMs, true]);
});

test('follows gaps by the ids of the list as well', async () => {
  const { progress, store } = await open();
  const [known] = await store.listGaps({ states: ['unfillable'], limit: 1 }, NOW_MS);
  const given = await progress(String(known?.gapId), `1@${at(8400)}`);
  assert.deepEqual([given.lengthMs, given.unfillableMs, given.isDone], [1_200_000, 600_000, false]);
  for (const id of ['x', '1@x..y', '999', '9@2026-01-01T00:00:00Z..2026-01-02T00:00:00Z']) {
    await assert.rejects(progress(id), { code: 'usage', message: /^id: / }, id);
  }
});

test('a note stays with its gap, whatever is found later', async () => {
  const { note, store } = await open();
  const [, known] = await tradeGaps(store);
  assert.ok(known !== undefined);
  const id = String(known.gapId);
  const html = `<script>alert('x')</script> "quoted"`;
  assert.deepEqual(await note(id, html), { id, note: `the exchange has no more\n${html}` });
  const stream = (await store.inspection.streams()).find((one) => one.streamId === known.streamId);
  assert.ok(stream !== undefined);
  const found = { state: 'open', reason: 'head moved', note: 'HTTP 500' } as const;
  await store.recordGap({ stream, span: known.span, ...found, atMs: NOW_MS, isAttempt: true });
  assert.equal((await note(id, 'again')).note, `HTTP 500\n${html}\nagain`);
});

test('a gap of which nothing is remembered gets a memory with its first note', async () => {
  const { note, store } = await open();
  const noted = await note(`1@${at(8400)}`, 'maintenance');
  assert.match(noted.id, /^\d+$/);
  assert.equal(noted.note, 'maintenance');
  const [newest] = await tradeGaps(store);
  assert.deepEqual([String(newest?.gapId), newest?.note], [noted.id, 'maintenance']);
  assert.ok(newest !== undefined);
  await cover(store, newest);
  await store.closeFilledGaps();
  await assert.rejects(note(noted.id, 'late'), { code: 'usage', message: /filled by now/ });
  const { input } = ENDPOINTS.note;
  assert.throws(() => input.parse({ id: '1', note: ' ' }));
  assert.throws(() => input.parse({ id: '1', note: 'x'.repeat(1001) }));
});
