import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { importRows } from '../../../src/archive/import/import.js';
import { ImportSource } from '../../../src/archive/import/source.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { systemRandom } from '../../../src/kernel/random.js';
import { silentStoreEvents as telemetry } from '../../../src/observe/events.js';
import { openStore } from '../../../src/store/index.js';

/**
 * Imports a CSV of trades of BTC_USDT, to be killed. Arguments are the database, the cold folder, the file, and the step at which it stands still, with how often it comes before. It says `at STEP` there,
 * and `done` with the outcomes at the end.
 */
const [databaseUrl = '', coldDir = '', path = '', deadly = '', before = '0'] =
  process.argv.slice(1);
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
