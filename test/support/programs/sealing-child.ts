import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { liveOn, restore } from '../../../src/archive/sealing/life.js';
import type { LifeRules } from '../../../src/archive/sealing/plan.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { systemRandom } from '../../../src/kernel/random.js';
import { silentStoreEvents as telemetry } from '../../../src/observe/events.js';
import { openStore } from '../../../src/store/index.js';

/**
 * Works on the lives of partitions, to be killed. Arguments are the database, the cold folder, the rules as JSON (`restore` brings back instead, `restore bare` without the
 * files), the time, and the step at which it stands still. It says `at STEP` there, and `done` at the end.
 */
const [databaseUrl = '', coldDir = '', rules = '', now = '0', deadly = ''] = process.argv.slice(1);
const store = await openStore({
  ...{ databaseUrl, clock: systemClock, random: systemRandom, telemetry },
});
const options = {
  ...{ store, cold: new FolderStorage(coldDir), clock: systemClock },
  ...{ version: '1.2.3', nowMs: Number(now) },
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
