import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import { ENDPOINTS } from '../../src/console/api/endpoints.js';
import { gapHandlers } from '../../src/console/api/handlers/gaps.js';
import type { Store } from '../../src/store/index.js';
import { NOON_S } from '../support/postgres/postgres-rows.js';
import { runCommand } from '../support/programs/commands.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';

const NOW_S = 14_400;
const at = (s: number) => new Date((NOON_S + s) * 1000).toISOString();
const never = new AbortController().signal;

let store: Store;
let url: string;
let api: ReturnType<typeof gapHandlers>;

before(async () => {
  ({ store, url } = await openAnalystWorld('file'));
  const leftOut = () => undefined;
  api = gapHandlers({ store: () => store, nowMs: () => (NOON_S + NOW_S) * 1000, leftOut });
});

/** Asks as the server does: input and answer are checked. */
async function gaps(input: object) {
  const { gaps } = ENDPOINTS;
  return gaps.answer.parse(await api.gaps(gaps.input.parse(input), never, 'operator'));
}
async function gap(id: string) {
  return ENDPOINTS.gap.answer.parse(await api.gap({ id }, never, 'operator')).streams;
}
async function coverage(input: object) {
  const { coverage } = ENDPOINTS;
  return coverage.answer.parse(await api.coverage(coverage.input.parse(input), never, 'operator'))
    .streams;
}
async function incidents(input: object) {
  const { incidents } = ENDPOINTS;
  return incidents.answer.parse(
    await api.incidents(incidents.input.parse(input), never, 'operator'),
  );
}

test('lists gaps of a market and kind, the newest first', async () => {
  const { gaps: listed, isSumOfAll, sums } = await gaps({ market: ['BTC_USDT'], kind: ['trades'] });
  assert.deepEqual(
    listed.map(({ from, to, state, reason }) => [from, to, state, reason]),
    [
      [at(8400), at(9000), 'open', 'not collected'],
      [at(7800), at(8400), 'unfillable', 'beyond history'],
      [at(-3600), at(0), 'open', 'not collected'],
      [at(-7200), at(-7000), 'open', 'not collected'],
    ],
  );
  assert.equal(isSumOfAll, true);
  assert.deepEqual(sums[0], {
    ...{ state: 'open', reason: 'not collected', count: 3, lengthMs: 4_400_000 },
  });
});

test('counts beyond the limit, and cuts gaps to the time that was asked for', async () => {
  const one = await gaps({ market: ['BTC_USDT'], kind: ['trades'], limit: 1 });
  assert.deepEqual([one.gaps.length, one.sums.length], [1, 2]);
  const cut = await gaps({ kind: ['trades'], market: ['BTC_USDT'], from: at(8000), to: at(8500) });
  assert.deepEqual(cut.cutTo, { from: at(8000), to: at(8500) });
  assert.deepEqual(
    cut.gaps.map(({ from, to }) => [from, to]),
    [
      [at(8400), at(8500)],
      [at(8000), at(8400)],
    ],
  );
  assert.equal((await gaps({ from: '2h', state: ['unfillable'] })).gaps.length, 1);
});

test('explains a gap by its number and by its stream and start', async () => {
  const { gaps: listed } = await gaps({ market: ['BTC_USDT'], kind: ['trades'] });
  const [open, unfillable] = listed;
  const [found] = await gap(unfillable?.id ?? '');
  const [piece] = found?.pieces ?? [];
  assert.deepEqual(
    [piece?.id, piece?.state, piece?.note],
    [unfillable?.id, 'unfillable', 'the exchange has no more'],
  );
  assert.match(piece?.why ?? '', /\S/);
  assert.match(piece?.advice ?? '', /tapekeep gaps fill \d+ --again/);
  assert.deepEqual(piece?.before, { state: 'covered', from: at(0), to: at(7800) });
  assert.deepEqual(piece?.after, { state: 'open', from: at(8400), to: at(9000) });
  assert.match(open?.id ?? '', /^\d+@2026-01-15T14:20:00Z$/);
  const [derived] = await gap(open?.id ?? '');
  assert.deepEqual([derived?.pieces[0]?.from, derived?.pieces.length], [at(8400), 1]);
});

test('says of a gap that was filled that it is', async () => {
  const { store: own } = await openAnalystWorld();
  const nowMs = (NOON_S + NOW_S) * 1000;
  const { gap: ask } = gapHandlers({
    ...{ store: () => own, nowMs: () => nowMs, leftOut: () => undefined },
  });
  const [known] = await own.listGaps({ states: ['unfillable'], limit: 1 }, nowMs);
  assert.ok(known !== undefined);
  const stream = (await own.inspection.streams()).find((one) => one.streamId === known.streamId);
  assert.ok(stream !== undefined);
  await own.commit({ claims: [{ stream, span: known.span, evidence: {} }] });
  await own.closeFilledGaps();
  const { streams } = await ask({ id: String(known.gapId) }, never, 'operator');
  const [piece] = streams[0]?.pieces ?? [];
  assert.deepEqual([piece?.state, piece?.from, piece?.advice], ['filled', at(7800), null]);
});

test('cuts the time of a market into pieces, each with what it means', async () => {
  const [trades, ...more] = await coverage({ market: 'BTC_USDT', kind: ['trades'], from: at(0) });
  assert.deepEqual(more, []);
  assert.deepEqual(
    trades?.pieces.map(({ from, to, state }) => [from, to, state]),
    [
      [at(0), at(7800), 'covered'],
      [at(7800), at(8400), 'unfillable'],
      [at(8400), at(9000), 'open'],
      [at(9000), at(NOW_S), 'covered'],
    ],
  );
  assert.deepEqual([trades?.isCut, trades?.pieces[0]?.id], [false, null]);
  const all = await coverage({ market: 'BTC_USDT', from: '2h', to: '1h' });
  assert.deepEqual(all.map(({ kind }) => kind).sort(), [
    ...['candles', 'depth', 'states', 'tickers', 'trades'],
  ]);
});

test('groups gaps of one cause and time', async () => {
  const { incidents: found, isAll } = await incidents({ market: ['BTC_USDT'], kind: ['trades'] });
  assert.equal(isAll, true);
  assert.deepEqual(
    found.map(({ cause, from, gapIds }) => [cause, from, gapIds.length]),
    [
      ['not collected', at(8400), 1],
      ['beyond history', at(7800), 1],
      ['not collected', at(-3600), 1],
      ['not collected', at(-7200), 1],
    ],
  );
  assert.equal((await incidents({ limit: 1 })).isAll, false);
});

test('refuses markets, times and ids that are none, and names them', async () => {
  const bad = '<img src=x onerror=alert(1)>';
  const usage = (message: RegExp) => ({ code: 'usage', message });
  await assert.rejects(
    gaps({ market: ['BTC_USDTT'] }),
    usage(/^market: .*Did you mean BTC_USDT\?/),
  );
  await assert.rejects(gaps({ market: [bad] }), usage(/^market: "<img .*unknown market/));
  await assert.rejects(coverage({ market: `'; DROP TABLE gap --`, from: '1h' }), usage(/DROP/));
  await assert.rejects(gaps({ from: '1h', to: '2h' }), usage(/^from: .*must be before to/));
  await assert.rejects(
    coverage({ market: 'BTC_USDT', from: '99999d' }),
    usage(/^from: .*write a time/),
  );
  for (const id of [
    bad,
    '',
    '1@',
    '-1',
    '1e3',
    '9'.repeat(400),
    '1@not-a-time',
    '999999',
    `1@${at(0)}`,
  ]) {
    await assert.rejects(gap(id), usage(/^id: /), id);
  }
  assert.throws(() => ENDPOINTS.gaps.input.parse({ limit: 1e9 }));
});

test('stops when its reader has gone', async () => {
  const signal = AbortSignal.abort();
  await assert.rejects(api.coverage({ market: 'BTC_USDT', from: '1h' }, signal, 'viewer'), {
    name: 'AbortError',
  });
  await assert.rejects(api.incidents({ limit: 1 }, signal, 'viewer'), { name: 'AbortError' });
});

test('--json of the commands prints the documents of the API', async () => {
  const [named] = (await gaps({ state: ['unfillable'] })).gaps;
  const { gap, partitions, quarantine } = ENDPOINTS;
  for (const [args, document] of [
    [['gaps', '--market', 'BTC_USDT'], ENDPOINTS.gaps.answer],
    [['gaps', 'explain', named?.id ?? ''], gap.answer],
    [['gaps', 'explain', 'BTC_USDT', 'trades', at(60)], gap.answer],
    [['partitions'], partitions.answer],
    [['quarantine'], quarantine.answer],
  ] as const) {
    const env = { TAPEKEEP_DATABASE_URL: url };
    const { code, out, err } = await runCommand([...args, '--json'], env);
    assert.equal(code, 0, err);
    const printed: unknown = JSON.parse(out);
    assert.deepEqual(document.parse(printed), printed, args.join(' '));
  }
});
