/**
 * Imports a CSV of trades of BTC_USDT, to be killed. Arguments are the address of the built program, the database, the
 * cold folder, the file, and the step at which it stands still, with how often it comes before. It says `at STEP` there,
 * and `done` with the outcomes at the end.
 */
const [built, databaseUrl = '', coldDir = '', path = '', deadly = '', before = '0'] =
  process.argv.slice(1);
const load = (of: string): Promise<unknown> => import(new URL(of, built).href);
const { FolderStorage } = (await load(
  'archive/cold/storage.js',
)) as typeof import('../../../src/archive/cold/storage.js');
const { ImportSource } = (await load(
  'archive/import/source.js',
)) as typeof import('../../../src/archive/import/source.js');
const { importRows } = (await load(
  'archive/import/import.js',
)) as typeof import('../../../src/archive/import/import.js');
const { systemClock } = (await load(
  'kernel/clock.js',
)) as typeof import('../../../src/kernel/clock.js');
const { systemRandom } = (await load(
  'kernel/random.js',
)) as typeof import('../../../src/kernel/random.js');
const { openStore } = (await load(
  'store/index.js',
)) as typeof import('../../../src/store/index.js');
const { silentStoreEvents: telemetry } = (await load(
  'observe/events.js',
)) as typeof import('../../../src/observe/events.js');
const store = await openStore({
  ...{ databaseUrl, clock: systemClock, random: systemRandom, telemetry },
});
const { signal } = new AbortController();
const source = await ImportSource.open({
  ...{ path, format: 'csv', kind: 'trades', intervalS: 0, market: 'BTC_USDT', signal },
  columns: new Map(),
});
let left = Number(before);
const nowMs = systemClock.wallMs();
const outcome = await importRows({
  ...{ store, source, path, kind: 'trades', intervalS: 0, claim: undefined, nowMs, signal },
  onProgress: () => undefined,
  files: {
    ...{ cold: new FolderStorage(coldDir), nowMs, clock: systemClock, version: '1.2.3' },
    rules: {
      ...{ sealAfterMs: 0, coldAfterMs: 0, restMs: 0, retentionMs: {} },
      ...{ needsChecks: true, needsTimes: true },
    },
    watcher: {
      onRows: () => undefined,
      async onStep(step: string): Promise<void> {
        if (step !== deadly) return;
        if (left > 0) {
          left -= 1;
          return;
        }
        process.stdout.write(`at ${step}\n`);
        await new Promise<void>((resolve) => {
          systemClock.after(600_000, resolve);
        });
      },
    },
  },
});
await source.close();
await store.stop();
process.stdout.write(`done ${outcome.stored} ${outcome.duplicate}\n`);
