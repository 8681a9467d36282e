import { systemClock } from '../../../src/kernel/clock.js';
import { startEmbeddedPostgres } from '../../../src/store/index.js';
import { quietStoreEvents } from './postgres-server.js';

/** A daemon of its own for tests: starts the server in the folder given, prints its address. */
const server = await startEmbeddedPostgres({
  dataDir: process.argv[2] ?? '',
  clock: systemClock,
  telemetry: quietStoreEvents(),
});
// The server is in no way tied to this process's life, so something must keep it running.
const letGo = systemClock.after(600_000, () => undefined);
process.once('SIGTERM', () => {
  letGo();
  void server.stop();
});
process.stdout.write(`${server.url}\n`);
