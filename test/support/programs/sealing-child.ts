import type { LifeRules } from '../../../src/archive/sealing/plan.js';

/**
 * Works on the lives of partitions, to be killed. Arguments are the address of the built program, the
 * database, the cold folder, the rules as JSON (`restore` brings back instead, `restore bare` without the
 * files), the time, and the step at which it stands still. It says `at STEP` there, and `done` at the end.
 */
const [built, databaseUrl = '', coldDir = '', rules = '', now = '0', deadly = ''] =
  process.argv.slice(1);
const load = (path: string): Promise<unknown> => import(new URL(path, built).href);
const { FolderStorage } = (await load(
  'archive/cold/storage.js',
)) as typeof import('../../../src/archive/cold/storage.js');
const { liveOn, restore } = (await load(
  'archive/sealing/life.js',
)) as typeof import('../../../src/archive/sealing/life.js');
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
const options = {
  ...{
    store,
    cold: new FolderStorage(coldDir),
    clock: systemClock,
    version: '1.2.3',
    nowMs: Number(now),
  },
  signal: new AbortController().signal,
  watcher: {
    onRows: () => undefined,
    async onStep(step: string): Promise<void> {
      if (step !== deadly) return;
      process.stdout.write(`at ${step}\n`);
      await new Promise<void>((resolve) => {
        systemClock.after(600_000, resolve);
      });
    },
  },
};
const { failures } = rules.startsWith('restore')
  ? await restore(options, rules === 'restore bare')
  : await liveOn({ ...options, rules: JSON.parse(rules) as LifeRules });
await store.stop();
process.stdout.write(`done ${failures.length}\n`);
