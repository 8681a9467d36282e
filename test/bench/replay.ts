import { rm } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { type Archive, openArchive } from '../../src/archive/events/archive.js';
import { systemClock } from '../../src/kernel/clock.js';
import { makeTempDir, startTestPostgres } from '../support/postgres/postgres-server.js';
import { bareCursor, bareScan } from './replay-bare.js';
import { run as serve } from './replay-server.js';
import { archiveAll, type MadeArchive, makeArchive } from './replay-world.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about =
  'events of four kinds and ten markets merged, against a bare cursor and a bare Parquet scan; the replay server';

const ROUNDS = 3;
const FIRSTS = 5;
const MARKETS = 10;

/** Rows of one market; the others of a shape follow from them. */
function shapeOf(name: string, trades: number, days: number) {
  const rows = { trades, depths: Math.ceil(trades / 8), tickers: Math.ceil(trades / 8) };
  return { name, markets: MARKETS, ...rows, days };
}

const whole = (archive: MadeArchive) => ({
  from: new Date(archive.fromMs),
  // The last candle closes at the very end.
  to: new Date(archive.toMs),
  gaps: 'ignore' as const,
});

async function readAll(archive: Archive, made: MadeArchive): Promise<number> {
  let count = 0;
  for await (const _ of archive.events(whole(made))) count += 1;
  return count;
}

async function secondsOf(work: () => Promise<number>): Promise<{ rows: number; seconds: number }> {
  const startMs = systemClock.monotonicMs();
  const rows = await work();
  return { rows, seconds: (systemClock.monotonicMs() - startMs) / 1000 };
}

/** Milliseconds to the first event, and from there until the reader has left. */
interface Visit {
  readonly firstMs: number;
  readonly leavingMs: number;
}

async function visit(archive: Archive, made: MadeArchive): Promise<Visit> {
  const [taken, left]: [number[], number[]] = [[], []];
  for (let round = 0; round < FIRSTS; round += 1) {
    const startMs = systemClock.monotonicMs();
    let firstMs = 0;
    for await (const _ of archive.events(whole(made))) {
      firstMs = systemClock.monotonicMs();
      break;
    }
    taken.push(firstMs - startMs);
    left.push(systemClock.monotonicMs() - firstMs);
  }
  return { firstMs: median(taken), leavingMs: Math.max(...left) };
}

/** Resident memory while all is read, MB: the most of the first tenth, and of all. */
async function memoryOf(archive: Archive, made: MadeArchive): Promise<readonly [number, number]> {
  const tenthUs = (made.fromMs + (made.toMs - made.fromMs) / 10) * 1000;
  let [early, most] = [0, 0];
  for await (const events of archive.events(whole(made)).batches()) {
    const rss = process.memoryUsage.rss() / 1e6;
    most = Math.max(most, rss);
    if ((events[0]?.atUs ?? 0) < tenthUs) early = most;
  }
  return [early, most];
}

interface Rates {
  readonly [name: string]: { readonly rows: number; readonly seconds: number }[];
}

/**
 * Options: --trades (of each of ten markets, default 40,000), --large (the same for the archive whose
 * first event is compared with that of one of a hundred thousand rows, default 80,000; 800,000 makes ten
 * million rows).
 */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      trades: { type: 'string', default: '40000' },
      large: { type: 'string', default: '80000' },
    },
  });
  const server = await startTestPostgres();
  const dir = await makeTempDir();
  try {
    const made = await makeArchive(
      server.url,
      dir,
      shapeOf('bench_events', Number(values.trades), 1),
    );
    const small = await makeArchive(server.url, dir, shapeOf('bench_small', 8_000, 1));
    const large = await makeArchive(
      server.url,
      dir,
      shapeOf('bench_large', Number(values.large), 3),
    );
    const rates: Rates = { cursor: [], hot: [], scan: [], cold: [] };
    const at = (one: MadeArchive) => openArchive({ databaseUrl: one.url, coldDir: one.coldDir });

    const archive = await at(made);
    await readAll(archive, made);
    for (let round = 0; round < ROUNDS; round += 1) {
      rates.cursor?.push(await secondsOf(() => bareCursor(made)));
      rates.hot?.push(await secondsOf(() => readAll(archive, made)));
    }
    await archive.close();
    const [ofSmall, ofLarge] = [await at(small), await at(large)];
    const hotVisits = [await visit(ofSmall, small), await visit(ofLarge, large)] as const;
    const memory = {
      hot: await memoryOf(ofLarge, large),
      cold: [0, 0] as readonly [number, number],
    };
    await Promise.all([ofSmall.close(), ofLarge.close()]);

    const files = await archiveAll(made);
    await archiveAll(small);
    await archiveAll(large);
    const cold = await at(made);
    await readAll(cold, made);
    for (let round = 0; round < ROUNDS; round += 1) {
      rates.scan?.push(await secondsOf(() => bareScan(files, dir)));
      rates.cold?.push(await secondsOf(() => readAll(cold, made)));
    }
    await cold.close();
    const [coldSmall, coldLarge] = [await at(small), await at(large)];
    const coldVisits = [await visit(coldSmall, small), await visit(coldLarge, large)] as const;
    memory.cold = await memoryOf(coldLarge, large);
    await Promise.all([coldSmall.close(), coldLarge.close()]);
    const served = await serve(['100000', '3', '300000']);
    return report(rates, { hot: hotVisits, cold: coldVisits }, memory, served.figures);
  } finally {
    await rm(dir, { recursive: true, force: true });
    await server.stop();
  }
}

type Place = 'hot' | 'cold';

function report(
  rates: Rates,
  visits: Readonly<Record<Place, readonly [small: Visit, large: Visit]>>,
  memory: Readonly<Record<Place, readonly [number, number]>>,
  served: Readonly<Record<string, unknown>>,
): BenchReport {
  const perS = (name: string) =>
    Math.round(median((rates[name] ?? []).map(({ rows, seconds }) => rows / seconds)));
  const rows = (name: string) => rates[name]?.[0]?.rows ?? 0;
  /** Rounds are compared with themselves: the machine may be slower in one than in another. */
  const ratio = (name: string, base: string) =>
    Math.round(
      100 *
        median(
          (rates[name] ?? []).map(
            ({ seconds }, index) => (rates[base]?.[index]?.seconds ?? 0) / seconds,
          ),
        ),
    ) / 100;
  const line = (text: string, name: string, base: string) => [
    text,
    rows(name).toLocaleString('en-US'),
    perS(name).toLocaleString('en-US'),
    name === base ? '' : `${ratio(name, base)}`,
  ];
  const told = (place: Place) => {
    const [small, large] = visits[place];
    const leavingMs = Math.max(small.leavingMs, large.leavingMs);
    return `${place} ${Math.round(small.firstMs)} ms of the small archive, ${Math.round(large.firstMs)} ms of the large one, and at most ${Math.round(leavingMs)} ms to leave`;
  };
  const mb = ([early, most]: readonly [number, number]) =>
    `${Math.round(early)} MB after a tenth, ${Math.round(most)} MB at most`;
  return {
    table: [
      tableOf([
        ['', 'rows', 'rows/s', 'of the bare one'],
        line('bare cursor, one market after the other', 'cursor', 'cursor'),
        line('hot events, merged', 'hot', 'cursor'),
        line('bare Parquet scan, one file after the other', 'scan', 'scan'),
        line('cold events, merged', 'cold', 'scan'),
      ]),
      `first event: ${told('hot')}; ${told('cold')}`,
      `memory of this process over the large archive: hot ${mb(memory.hot)}; cold ${mb(memory.cold)}`,
      `replay server: ${served.oursPerS} messages/s, a bare loop ${served.barePerS} ("bench -- replay-server" tells more)`,
    ].join('\n'),
    figures: {
      ratio: {
        ...{ hot: ratio('hot', 'cursor'), cold: ratio('cold', 'scan') },
        server: (served.ratio as { readonly realtime: number }).realtime,
      },
      rowsPerS: Object.fromEntries(Object.keys(rates).map((name) => [name, perS(name)])),
      visits,
      memoryMb: memory,
    },
  };
}
