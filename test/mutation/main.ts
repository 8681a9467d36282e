import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { startQuickPostgres } from '../support/postgres/postgres-server.js';
import { POSTGRES_VARIABLE } from '../support/postgres/postgres-variable.js';
import { repositoryPath } from '../support/repository/repository.js';
import { EQUIVALENTS } from './equivalents.js';
import { findMutants, instrument, type Mutant, sampleOf } from './mutants.js';

/**
 * Changes the program in one place after another and looks whether a test fails:
 * `npm run test:mutation -- [--sample N] [--seed S] [--jobs N] [ID…]`. Works in a copy of the tree.
 * Room by room, and of a room's test files those that reach the place, the quickest first, up to
 * the first that fails. Prints each mutant that no test caught, a table, and the figures as JSON.
 * After Ctrl-C the table is of what was done.
 */
const ROOMS = {
  engine: { sources: ['sandbox/engine/'], tests: ['unit/sandbox/engine/'] },
  kernel: {
    sources: ['kernel/'],
    tests: ['unit/kernel/', 'unit/client/', 'unit/documents', 'wire/held'],
  },
  model: {
    sources: ['model/'],
    tests: [
      ...['unit/model/', 'unit/collect/candles', 'unit/collect/snapshots'],
      ...['unit/collect/walk-pages', 'store/gap-memories'],
    ],
  },
  reader: {
    sources: [
      ...['archive/rows.ts', 'archive/row-blocks.ts', 'archive/merge.ts', 'archive/segments.ts'],
      ...['archive/reading.ts', 'archive/events/'],
    ],
    tests: [
      ...['unit/archive/', 'store/reading.', 'store/export', 'store/events'],
      ...['store/cold-manifests', 'wire/library'],
    ],
  },
  writer: {
    sources: ['store/writer/'],
    tests: [
      'unit/store/',
      'store/writer',
      'store/conflicts',
      'store/sealing-late',
      'store/blocked',
      'store/check-results',
      'store/present',
      'store/failover',
    ],
  },
  walk: { sources: ['collect/trades/'], tests: ['unit/collect/'] },
} as const;

/** Beyond so many times what the file takes otherwise, a mutant hangs, which counts as caught. */
const LIMIT_FACTOR = 4;
const LIMIT_MIN_MS = 15_000;
const NOT_COPIED = new Set(['.git', 'node_modules', 'dist', 'data', 'coverage']);
/** Share of the random worlds that a usual run of the tests lives through. */
const WORLDS = '0.2';
/** Read by the switches that Stryker puts into the source. */
const SWITCH_VARIABLE = '__STRYKER_ACTIVE_MUTANT__';

/** Writes the ids of the reached switches at a process's end. */
const RECORDER = `
import { mkdirSync, writeFileSync } from 'node:fs';
import { threadId } from 'node:worker_threads';
const folder = process.env.MUTATION_REACHED;
if (folder !== undefined) process.on('exit', () => {
  const reached = Object.keys(globalThis.__stryker__?.mutantCoverage?.static ?? {});
  mkdirSync(folder, { recursive: true });
  writeFileSync(folder + '/' + process.pid + '-' + threadId, JSON.stringify(reached));
});
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    jobs: { type: 'string', default: String(Math.max(1, availableParallelism() - 1)) },
  },
});
const [size, seed, jobs] = [values.sample, values.seed, values.jobs].map(Number);
if (![size, seed, jobs].every((value) => Number.isSafeInteger(value) && Number(value) > 0)) {
  process.stderr.write('--sample, --seed and --jobs take a whole number above 0\n');
  process.exit(2);
}

const copy = mkdtempSync(join(tmpdir(), 'tapekeep-mutation-'));
const children = new Set<ChildProcess>();
let isStopping = false;
const kill = ({ pid }: ChildProcess) => {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
};
process.on('exit', () => rmSync(copy, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    isStopping = true;
    children.forEach(kill);
  });
}

interface Run {
  readonly isGreen: boolean;
  readonly ms: number;
  readonly output: string;
}

/** Runs one test file of the copy. */
function runFile(file: string, env: Readonly<Record<string, string>>, limitMs: number) {
  return new Promise<Run>((resolve) => {
    const startedMs = performance.now();
    const child = spawn(process.execPath, ['--test-reporter=spec', file], {
      cwd: copy,
      detached: true,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.add(child);
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output = (output + chunk).slice(-20_000)));
    child.stderr.on('data', (chunk: Buffer) => (output = (output + chunk).slice(-20_000)));
    const timer = setTimeout(() => kill(child), limitMs);
    child.on('close', (code) => {
      clearTimeout(timer);
      children.delete(child);
      kill(child);
      resolve({ isGreen: code === 0, ms: performance.now() - startedMs, output });
    });
  });
}

/** Does work for each item, some at a time. */
async function forEach<Item>(items: readonly Item[], work: (item: Item) => Promise<void>) {
  const rest = [...items].reverse();
  const worker = async () => {
    for (let item = rest.pop(); item !== undefined && !isStopping; item = rest.pop()) {
      await work(item);
    }
  };
  await Promise.all(Array.from({ length: Number(jobs) }, worker));
}

function testsOf(room: string): string[] {
  const parts: readonly string[] = ROOMS[room as keyof typeof ROOMS].tests;
  return readdirSync(join(copy, 'test'), { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.test.ts') && parts.some((part) => path.startsWith(part)),
  );
}

/** How long each test file takes, and the switches that it reaches. */
async function dryRun(files: readonly string[]) {
  const tests = new Map<string, { readonly ms: number; readonly reached: ReadonlySet<string> }>();
  await forEach(files, async (file) => {
    const folder = join(copy, 'reached', file);
    const { isGreen, ms, output } = await runFile(
      join('test', file),
      { MUTATION_REACHED: folder },
      20 * 60_000,
    );
    if (isStopping) return;
    if (!isGreen) throw new Error(`${file} fails without any change:\n${output}`);
    const reached = readdirSync(folder).flatMap(
      (name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as string[],
    );
    tests.set(file, { ms, reached: new Set(reached) });
  });
  return tests;
}

async function main(): Promise<number> {
  const src = join(repositoryPath, 'src');
  const sources = Object.entries(ROOMS).map(([room, one]) => [room, one.sources] as const);
  const all = await findMutants(src, Object.fromEntries(sources));
  const picked = all.filter(({ id }) => positionals.includes(id));
  const { sample, equivalent, invalid } =
    positionals.length > 0
      ? { sample: picked, equivalent: 0, invalid: 0 }
      : sampleOf(repositoryPath, all, Number(size), Number(seed));
  const gone = EQUIVALENTS.filter((one) => !all.some(({ id }) => id === one.id));
  for (const { id, file } of gone) {
    process.stdout.write(
      `equivalents.ts names ${id} of ${file}, which is gone: look at it again\n`,
    );
  }
  process.stdout.write(
    `seed ${seed}: ${sample.length} of ${all.length} mutants; left out ${equivalent} equivalent and ${invalid} that do not compile\n`,
  );

  cpSync(repositoryPath, copy, {
    recursive: true,
    filter: (path) => !NOT_COPIED.has(relative(repositoryPath, path)),
  });
  symlinkSync(join(repositoryPath, 'node_modules'), join(copy, 'node_modules'));
  // A test asks git what is ignored.
  execFileSync('git', ['init', '--quiet'], { cwd: copy });
  const { texts, switches } = await instrument(src, sample);
  for (const [file, text] of texts) writeFileSync(join(copy, 'src', file), text);
  const recorder = join(copy, 'recorder.mjs');
  writeFileSync(recorder, RECORDER);
  process.env.NODE_OPTIONS = `--import tsx --import ${pathToFileURL(recorder).href}`;

  const postgres = await startQuickPostgres();
  process.env[POSTGRES_VARIABLE] = postgres.url;
  process.env.TEST_WORLDS ??= WORLDS;
  try {
    const done: Mutant[] = [];
    const survivors: Mutant[] = [];
    for (const room of Object.keys(ROOMS)) {
      const mutants = sample.filter((mutant) => mutant.room === room);
      const tests = await dryRun(mutants.length === 0 ? [] : testsOf(room));
      await forEach(mutants, async (mutant) => {
        const isCaught = await isCaughtBy(switches.get(mutant) ?? '', tests);
        if (isStopping) return;
        done.push(mutant);
        if (isCaught) return;
        survivors.push(mutant);
        const { id, file, line, original, replacement } = mutant;
        process.stdout.write(
          `${room}: survived (${survivors.length} of ${done.length}) ${id} src/${file}:${line}\n    ${original}\n  → ${replacement}\n`,
        );
      });
    }
    report(done, survivors);
  } finally {
    await postgres.stop();
  }
  return isStopping ? 130 : 0;
}

async function isCaughtBy(id: string, tests: Awaited<ReturnType<typeof dryRun>>): Promise<boolean> {
  const own = [...tests]
    .map(([file, { ms, reached }]) => ({ file, ms, isReached: reached.has(id) }))
    .filter(({ isReached }) => isReached)
    .sort((a, b) => a.ms - b.ms);
  for (const { file, ms } of own) {
    const limitMs = LIMIT_MIN_MS + LIMIT_FACTOR * ms;
    const { isGreen } = await runFile(join('test', file), { [SWITCH_VARIABLE]: id }, limitMs);
    if (!isGreen) return true;
  }
  return false;
}

function report(sample: readonly Mutant[], survivors: readonly Mutant[]): void {
  const rooms = ['all', ...Object.keys(ROOMS)].map((room) => {
    const of = (mutants: readonly Mutant[]) =>
      mutants.filter((mutant) => room === 'all' || mutant.room === room).length;
    const [mutants, survived] = [of(sample), of(survivors)];
    const caught = mutants - survived;
    return { room, mutants, caught, share: caught / mutants };
  });
  const measured = rooms.filter(({ mutants }) => mutants > 0);
  for (const { room, mutants, caught, share } of measured) {
    const percent = `${(share * 100).toFixed(1)} %`;
    process.stdout.write(
      `${room.padEnd(8)} ${String(caught).padStart(4)} of ${String(mutants).padStart(4)} caught ${percent.padStart(8)}\n`,
    );
  }
  const figures = { seed, rooms: measured, survivors: survivors.map(({ id }) => id) };
  process.stdout.write(`${JSON.stringify(figures)}\n`);
}

process.exitCode = await main();
