import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { ExportGapsError } from '../../src/archive/errors.js';
import { exportFor } from '../../src/archive/interchange/interchange.js';
import type {
  InterchangePart,
  InterchangeRequest,
  Source,
} from '../../src/archive/interchange/request.js';
import { openReading } from '../../src/archive/reading.js';
import type { Store } from '../../src/store/index.js';
import { FakeClock } from '../support/fake-clock.js';
import { NOON_S } from '../support/postgres/postgres-rows.js';
import { type AnalystWorld, openAnalystWorld } from '../support/worlds/analyst-world.js';
import { archiveDay } from '../support/worlds/cold-world.js';
import { makeFolder } from '../support/worlds/export-world.js';

const MARKET = {
  name: 'BTC_USDT',
  marketId: 1,
  stock: 'BTC',
  money: 'USDT',
  stockPrec: 8,
  moneyPrec: 2,
};
const HOUR_S = 3600;
const STREAM_OF = { trades: 'trades', candles: 'candles', depth: 'depth' } as const;

type Asked = Pick<InterchangeRequest, 'tool' | 'content'> & {
  readonly kinds: readonly Source['kind'][];
  readonly intervalS?: number;
};

const ALL: readonly Asked[] = [
  { tool: 'freqtrade', content: 'candles', kinds: ['candles'], intervalS: HOUR_S },
  { tool: 'freqtrade', content: 'trades', kinds: ['trades'] },
  { tool: 'backtrader', content: 'candles', kinds: ['candles'], intervalS: HOUR_S },
  { tool: 'vectorbt', content: 'candles', kinds: ['trades'], intervalS: 900 },
  { tool: 'hftbacktest', content: 'events', kinds: ['trades', 'depth'] },
];

async function partOf(store: Store, asked: Asked, hours: number): Promise<InterchangePart> {
  const sources: Source[] = [];
  for (const kind of asked.kinds) {
    const variant = kind === 'candles' ? HOUR_S : 0;
    const stream = await store.ensureStream({ kind: STREAM_OF[kind], marketId: 1, variant });
    sources.push({ kind, stream });
  }
  const span = { fromMs: NOON_S * 1000, toMs: (NOON_S + hours * HOUR_S) * 1000 };
  return { market: MARKET, span, sources, notes: [] };
}

/** Everything that is written for every program, by path. */
async function writeAll(
  { store }: AnalystWorld,
  {
    dir,
    coldDir,
    hours,
    allowGaps,
  }: { dir: string; coldDir: string; hours: number; allowGaps: boolean },
): Promise<ReadonlyMap<string, Buffer>> {
  for (const asked of ALL) {
    const reading = await openReading(store, { coldDir });
    const ignore = () => undefined;
    try {
      await exportFor(
        {
          ...{ tool: asked.tool, content: asked.content, intervalS: asked.intervalS ?? 0, dir },
          ...{
            latency: { kind: 'received' },
            isAnyLatency: false,
            archive: null,
            version: '1.2.3',
          },
          ...{ parts: [await partOf(store, asked, hours)], allowGaps, isForced: true },
        },
        {
          ...{
            reader: reading,
            clock: new FakeClock(NOON_S * 1000),
            signal: new AbortController().signal,
          },
          ...{ onProgress: ignore, onPhase: ignore, onFile: ignore },
        },
      );
    } finally {
      await reading.close();
    }
  }
  const found = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = new Map<string, Buffer>();
  for (const one of found.filter((entry) => entry.isFile())) {
    const path = join(one.parentPath, one.name);
    files.set(path.slice(dir.length + 1), await readFile(path));
  }
  return files;
}

test('files are the same, byte for byte, whether the rows are in the database or in cold files', async (t) => {
  const world = await openAnalystWorld();
  const [hot, cold, coldDir] = [await makeFolder(t), await makeFolder(t), await makeFolder(t)];
  const asked = { coldDir, hours: 4, allowGaps: true };
  const before = await writeAll(world, { ...asked, dir: hot });
  assert.equal(before.size, 2 * ALL.length, 'each file has its manifest');
  for (const kind of ['trades', 'candles', 'depth'] as const) {
    const paths = await archiveDay({ ...world, coldDir }, kind, '2026-01-15');
    assert.ok(paths.length > 0);
  }
  const after = await writeAll(world, { ...asked, dir: cold });
  assert.deepEqual([...after.keys()].sort(), [...before.keys()].sort());
  for (const [path, bytes] of before) assert.deepEqual(after.get(path), bytes, path);
});

test('a span with a gap is refused whole, whatever else could be written', async (t) => {
  const world = await openAnalystWorld();
  const dir = await makeFolder(t);
  const asked = { dir, coldDir: dir, hours: 4, allowGaps: false };
  await assert.rejects(writeAll(world, asked), (error) => {
    assert.ok(error instanceof ExportGapsError);
    const [first] = error.gaps;
    assert.deepEqual([error.gaps.length, first?.market, first?.missingCount], [1, 'BTC_USDT', 2]);
    return true;
  });
  const written = (await readdir(dir)).sort();
  assert.deepEqual(written, ['BTC_USDT-1h.feather', 'BTC_USDT-1h.feather.manifest.json']);
});
