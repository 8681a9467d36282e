import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, sep } from 'node:path';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec, type TestEvent } from 'node:test/reporters';
import { pathToFileURL } from 'node:url';
import { POSTGRES_VARIABLE } from './support/postgres/postgres-variable.js';
import { factor, isExploring, runSeedText } from './support/seeds.js';

/**
 * Runs the test files, a few by one or many by some in a process. Arguments pick files whose path contains one of them:
 * `tsx test/run.ts unit/kernel wire`. Without any, and with less than all random worlds, those of `long` are left out:
 * daemons that are killed, exchanges that lie for minutes.
 */
const root = import.meta.dirname;
/** Tests that take long, and mostly wait, come first: what only computes fills the rest of the time. */
const ROOMS = ['fault', 'e2e', 'store', 'wire', 'unit'];
const LONG = `long${sep}`;
const roomOf = (path: string) => path.replace(LONG, '').split(sep)[0] ?? '';
const turnOf = (path: string) => ROOMS.indexOf(roomOf(path));
/** Beyond the two cores of a small machine: daemons and exchanges mostly wait for each other. */
const PROCESSES = 4;
/** A file that hangs fails by name, and does not take the others' time with it. */
const FILE_LIMIT_MS = 20 * 60_000 * Math.max(1, factor);
const picks = process.argv.slice(2);
const isUsual = picks.length === 0 && factor < 1;
const found = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.test.ts'))
  .filter((path) => picks.length === 0 || picks.some((pick) => path.includes(pick)))
  .sort((a, b) => turnOf(a) - turnOf(b) || (a < b ? -1 : 1));
const files = found
  .filter((path) => !(isUsual && path.startsWith(LONG)))
  .map((path) => join(root, path));
if (files.length < found.length) {
  process.stdout.write(
    `${found.length - files.length} long files are left out, TEST_WORLDS=1 runs them too\n`,
  );
}

if (isExploring) process.stdout.write(`${runSeedText} repeats what this run draws\n`);

if (files.length === 0) {
  process.stderr.write(`no test file matches ${picks.join(' ')}\n`);
  process.exit(2);
}

/** One Postgres for all files of the run that work with one; each makes databases of its own. */
async function startSharedPostgres() {
  const isNeeded = files.some((file) =>
    readFileSync(file, 'utf8').includes('support/postgres/postgres.js'),
  );
  if (!isNeeded || process.env[POSTGRES_VARIABLE] !== undefined) return undefined;
  const { startQuickPostgres } = await import('./support/postgres/postgres-server.js');
  const server = await startQuickPostgres();
  process.env[POSTGRES_VARIABLE] = server.url;
  return server;
}

/** Up to so many files each test has its line; beyond, each file has, and failures come whole. */
const DETAILED_FILES = 8;
const isDetailed = files.length <= DETAILED_FILES;
/** To start a process and load the program's source takes longer than most of these files do. */
const SHARE_PROCESSES: ReadonlySet<string> = new Set(['unit', 'wire', 'store']);
const SHARED_BY = 12;

/** The files that processes are started with: each imports the test files that share it. */
function entriesIn(folder: string): string[] {
  const alone: string[] = [];
  const shared = new Map<string, string[]>();
  for (const file of files) {
    const room = roomOf(relative(root, file));
    if (isDetailed || !SHARE_PROCESSES.has(room)) alone.push(file);
    else shared.set(room, [...(shared.get(room) ?? []), file]);
  }
  const entries = [...shared].flatMap(([room, paths]) => {
    const made: string[] = [];
    for (let from = 0; from < paths.length; from += SHARED_BY) {
      const imports = paths.slice(from, from + SHARED_BY).map((path) => {
        return `import ${JSON.stringify(pathToFileURL(path).href)};\n`;
      });
      made.push(join(folder, `${room}-${from}.mjs`));
      writeFileSync(made.at(-1) ?? '', imports.join(''));
    }
    return made;
  });
  return [...alone, ...entries];
}

/** One line a file, and the events that a reporter tells of failures with. */
async function* quietly(events: AsyncIterable<TestEvent>): AsyncGenerator<TestEvent> {
  let file: string | undefined;
  let [tests, ms] = [0, 0];
  const failed = new Set<string | undefined>();
  const line = () => {
    if (file === undefined) return;
    const name = relative(root, file);
    process.stdout.write(`${name}: ${tests} tests, ${(ms / 1000).toFixed(1)} s\n`);
  };
  for await (const event of events) {
    const { data, type } = event;
    const of = (data as { readonly file?: string }).file;
    if (type === 'test:pass' || type === 'test:fail') {
      if (of !== file) {
        line();
        [file, tests, ms] = [of, 0, 0];
      }
      tests += 1;
      if (data.nesting === 0) ms += data.details.duration_ms;
    }
    if (type === 'test:fail') failed.add(of);
    // The summary is of no file; seeds and figures matter where something failed.
    const isWanted = type === 'test:diagnostic' && (of === undefined || failed.has(of));
    if (type === 'test:fail' || isWanted) yield event;
  }
  line();
}

const postgres = await startSharedPostgres();
const folder = mkdtempSync(join(tmpdir(), 'tapekeep-test-run-'));
try {
  let failed = 0;
  // Each process inherits this one's loader flags, so TypeScript runs there as it does here.
  const stream = run({ files: entriesIn(folder), concurrency: PROCESSES, timeout: FILE_LIMIT_MS });
  stream.on('test:fail', () => {
    failed += 1;
  });
  const events = isDetailed ? stream : Readable.from(quietly(stream));
  const output = events.compose(new spec());
  output.pipe(process.stdout);
  await finished(output);
  if (failed > 0) process.stdout.write(`\n${runSeedText} repeats what this run drew\n`);
  process.exitCode = failed === 0 ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
  await postgres?.stop();
}
