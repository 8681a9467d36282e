import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import test from 'node:test';
import {
  type DaemonView,
  daemonChecks,
  openDaemonStatus,
} from '../../src/cli/daemon/daemon-status.js';
import type { Session } from '../../src/cli/opening/session.js';
import { loadConfig } from '../../src/config/load.js';
import { FakeClock } from '../support/fake-clock.js';

test('a database that does not answer is named as the check that failed', async (t) => {
  const clock = new FakeClock(0);
  const events = new EventEmitter();
  const asked = once(events, 'ping');
  let pings = 0;
  const store = {
    ping: () => {
      pings += 1;
      events.emit('ping');
      return new Promise<void>(() => undefined);
    },
    oldestCommitMs: () => 0,
    outage: () => undefined,
    spooledBytes: () => 0,
  };
  const view = {
    ...{
      phase: 'collecting',
      exchange: { name: 'x' },
      failure: undefined,
      databaseTrouble: undefined,
    },
    ...{ collector: undefined, access: undefined, store, idleMs: 0, silentMs: 0 },
    ...{ counted: undefined, leftOut: undefined },
  } as unknown as DaemonView;
  const config = loadConfig({ env: {}, overrides: { http: { port: 0 } } });
  const telemetry = { daemon: { warned: () => undefined }, metricsText: () => Promise.resolve('') };
  const session = { config, clock, telemetry, exchangeTime: { nowMs: () => 0 } };
  const live = { activity: () => undefined, changed: () => ({ mark: 0, kinds: [] }) };
  const opened = session as unknown as Session;
  const looks = daemonChecks(opened, () => view);
  const server = await openDaemonStatus(opened, () => view, looks, { live });
  t.after(() => server?.stop());
  const answer = fetch(new URL('/readyz', server?.url));
  await asked;
  // The look as a whole may take five seconds.
  clock.advance(3_000);
  await new Promise(setImmediate);
  clock.advance(2_000);
  const response = await answer;
  const { checks } = (await response.json()) as {
    checks: { name: string; ok: boolean; detail?: string }[];
  };
  assert.equal(response.status, 503);
  assert.deepEqual(
    checks.find(({ name }) => name === 'database'),
    { name: 'database', ok: false, detail: 'no answer within 3 s' },
  );
  assert.deepEqual(
    checks.flatMap(({ name, ok }) => (ok ? [] : [name])),
    ['database', 'archive'],
  );
  assert.equal(pings, 1);
});
