import assert from 'node:assert/strict';
import test from 'node:test';
import type { ColdManifest } from '../../../src/archive/cold/manifest.js';
import { hotBlocks, makeRows, rowMaker } from '../../../src/archive/row-blocks.js';
import { filesWithin } from '../../../src/archive/segments.js';
import { DAY_MS } from '../../../src/kernel/durations.js';
import type { ArchiveSnapshot } from '../../../src/store/index.js';
import fc from '../../support/properties.js';

/** A text as the database hands it out: in pieces that end anywhere. */
async function* inPieces(text: string, length: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < text.length; at += length) yield Buffer.from(text.slice(at, at + length));
}

const SLICE = { kind: 'trades', marketIds: [7], variantS: 0, isByReceipt: false } as const;

async function tradesOf(text: string, length = text.length) {
  const snapshot = { merged: () => inPieces(text, length) } as unknown as ArchiveSnapshot;
  const blocks = hotBlocks(snapshot, { ...SLICE, fromUs: 0, toUs: 1 }, undefined);
  const batches = [];
  for await (const batch of makeRows(blocks, SLICE, rowMaker('trades', [7], 0)))
    batches.push(batch);
  return batches.flat();
}

const line = (at: string, tid: number, exact = '\\N') =>
  `0\t${at}\t${tid}\t${exact}\tbuy\t100.10\t2\t200.20\t2026-01-15 12:00:00.5+00\n`;

test('a time is read to the microsecond, and nothing else is taken for one', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1_230_768_000, max: 4_102_444_800 }),
      fc.nat(999_999),
      async (s, us) => {
        const moment = new Date(s * 1000).toISOString().slice(0, 19).replace('T', ' ');
        const fraction = String(us).padStart(6, '0').replace(/0+$/, '');
        const point = fraction === '' ? '' : `.${fraction}`;
        const [row] = await tradesOf(line(`${moment}+00`, 1, `${moment}${point}+00`));
        assert.deepEqual([row?.tradedAtS, row?.executedAtUs], [s, s * 1_000_000 + us]);
      },
    ),
  );
  for (const text of [
    '',
    '2026-01-15',
    '2026-01-15 12:00:00',
    '2026-01-15 12:00:00+01',
    '2026-01-15 12:00:00+0030',
    '12026-01-15 12:00:00+00',
    'x',
  ]) {
    await assert.rejects(tradesOf(line(text, 1)), RangeError, text);
  }
});

test('rows are the same wherever the pieces end', async () => {
  const text = `${line('2026-01-15 12:00:00+00', 1)}${line('2026-01-15 12:01:01+00', 2)}`;
  const all = await tradesOf(text);
  const noonS = Date.parse('2026-01-15T12:00:00Z') / 1000;
  const rest = { marketId: 7, side: 'buy', price: '100.10', amount: '2', total: '200.20' };
  const known = { executedAtUs: null, receivedAtMs: noonS * 1000 + 500 };
  assert.deepEqual(all, [
    { ...rest, ...known, tid: 1, tradedAtS: noonS },
    { ...rest, ...known, tid: 2, tradedAtS: noonS + 61 },
  ]);
  for (let length = 1; length < 40; length += 1)
    assert.deepEqual(await tradesOf(text, length), all);
});

test('files of a manifest are read by day, then by market, whatever their order there', () => {
  const files = ['02 1', '01 2', '02 2', '01 1'].map((text) => {
    const [day = '', marketId] = text.split(' ');
    return { date: `2026-01-${day}`, marketId: Number(marketId), path: text };
  });
  const days = { from: '2026-01-01T00:00:00Z', to: '2026-01-03T00:00:00Z' };
  const manifest = { ...days, files } as unknown as ColdManifest;
  const span = { fromMs: Date.parse(days.from), toMs: Date.parse(days.to) };
  const paths = filesWithin(manifest, span).map(({ path }) => path);
  assert.deepEqual(paths, ['01 1', '01 2', '02 1', '02 2']);
  const second = { ...span, fromMs: span.fromMs + DAY_MS };
  const later = filesWithin(manifest, second).map(({ path }) => path);
  assert.deepEqual(later, ['02 1', '02 2'], 'none of a day that was not asked for');
});
