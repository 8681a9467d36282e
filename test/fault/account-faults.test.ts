import assert from 'node:assert/strict';
import test from 'node:test';
import { sleep, systemClock } from '../../src/kernel/clock.js';
import { Faults } from '../../src/sandbox/faults/faults.js';
import type { FaultRuleInput } from '../../src/sandbox/faults/script.js';
import { openLive } from '../../src/sandbox/live/open-live.js';
import { startExchangeServer } from '../../src/server/exchange-server.js';
import { STILL_MARKET, Trader } from '../support/exchanges/live-exchange.js';
import { ServerRecord } from '../support/exchanges/served.js';
import { temporaryFolder } from '../support/exchanges/tape-exchange.js';
import { makeDatabase, runSql } from '../support/postgres/postgres.js';
import { Program } from '../support/programs/program.js';

/**
 * The account's streams in trouble: broken answers, a key that is revoked for a while, nonces that
 * somebody else uses up, an exchange that is away, and kills. What the exchange held at each time is
 * known here, because nothing else changes it.
 */
const KEY = 'canary-key-5c81d2';
const SECRET = 'canary-secret-e07f44';
const SIGNED = ['balances', 'orders'] as const;

type Trouble = Omit<FaultRuleInput, 'where' | 'id'>;
const everywhere = (troubles: readonly Trouble[]): FaultRuleInput[] =>
  SIGNED.flatMap((where) =>
    troubles.map((rule, at) => ({ ...rule, where, id: `${where}-${rule.kind}-${at}` })),
  );
const TROUBLE: readonly Trouble[] = [
  { kind: 'status', status: 503, probability: 0.12 },
  { kind: 'truncate', probability: 0.12 },
  { kind: 'malformed', probability: 0.06 },
  { kind: 'emptyBody', probability: 0.06 },
  { kind: 'reset', probability: 0.06 },
  { kind: 'rateLimit', probability: 0.03, retryAfterS: 1 },
];
const REVOKED: readonly Trouble[] = [{ kind: 'status', status: 401 }];
/** Rounds of trading under trouble; each waits until both streams have looked again. */
const ROUNDS = 8;
/** Longer than a schedule of a second may be left out and count as kept (see schedule.ts). */
const AWAY_MS = 12_000;
/** A look counts from when it was asked for to when it was stored. */
const EDGE_MS = 1500;

interface Covered {
  readonly kind: string;
  readonly fromMs: number;
  readonly toMs: number;
}

test('an account is followed truly through broken answers, revocation, foreign nonces, absence and kills', async (t) => {
  const backend = await openLive(
    {
      ...{ runId: 'test', markets: [STILL_MARKET] },
      keys: [{ key: KEY, secret: SECRET, balances: { AAA: '1000', ZZZ: '1000' } }],
    },
    systemClock,
  );
  const faults = new Faults({ rules: everywhere(TROUBLE), seed: 11, clock: systemClock });
  const telemetry = new ServerRecord();
  const open = (port: number) =>
    startExchangeServer({
      ...{ backend, clock: systemClock, telemetry, interference: faults, port },
    });
  let server = await open(0);
  const { url, realtimeUrl, port } = server;
  t.after(async () => {
    await server.stop();
    backend.stop();
  });
  const databaseUrl = await makeDatabase('empty');
  const env = {
    TAPEKEEP_EXCHANGE_URL: url,
    TAPEKEEP_REALTIME_URL: realtimeUrl,
    TAPEKEEP_DATABASE_URL: databaseUrl,
    TAPEKEEP_DATA_DIR: await temporaryFolder(t),
    TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '50',
    TAPEKEEP_HTTP_PORT: '0',
    TAPEKEEP_LOG_LEVEL: 'trace',
    TAPEKEEP_ACCOUNT_KEY: KEY,
    TAPEKEEP_ACCOUNT_SECRET: SECRET,
    TAPEKEEP_ACCOUNT_ENABLED: 'true',
    TAPEKEEP_ACCOUNT_SCHEDULE: '* * * * * *',
  };
  const daemons: Program[] = [];
  const startDaemon = () => {
    const daemon = new Program(['start'], { env });
    daemons.push(daemon);
    t.after(() => daemon.dispose());
    return daemon;
  };
  const ask = <Row extends object>(sql: string, values: readonly unknown[] = []) =>
    runSql<Row>(databaseUrl, sql, values).catch((): Row[] => []);
  const covered = () =>
    ask<Covered>(
      `SELECT kind, (extract(epoch FROM lower(span)) * 1000)::float8 AS "fromMs",
              (extract(epoch FROM upper(span)) * 1000)::float8 AS "toMs"
       FROM coverage JOIN stream USING (stream_id) WHERE kind IN ('balances', 'orders')`,
    );
  let daemon = startDaemon();
  let isRunning = true;
  /** Both streams have looked, and stored it, after a time. */
  const lookedAfter = (atMs: number) =>
    daemon.until(async () => {
      const spans = await covered();
      return ['balances', 'orders'].every((kind) =>
        spans.some((span) => span.kind === kind && span.toMs > atMs),
      );
    });
  await lookedAfter(0);

  // What the account held: each text was true from its time on.
  const held = new Set<string>();
  const note = () => {
    const account = backend.balances(KEY);
    for (const [currency, { available, freeze }] of Object.entries(account)) {
      held.add(`${currency} ${Number(available)} ${Number(freeze)}`);
    }
  };
  note();
  const trade = async (price: string) => {
    // Somebody else uses the key as well, with nonces ahead of ours: our next ones are refused.
    const other = new Trader(url, KEY, SECRET, systemClock.wallMs() + 1500);
    await other.order('AAA_ZZZ', 'sell', price, '2');
    note();
  };
  const nowhere: { readonly name: string; readonly fromMs: number; readonly toMs: number }[] = [];
  /** A time in which nothing can be seen. */
  const away = async (
    name: string,
    begin: () => Promise<unknown>,
    /** @returns until when nothing was to be seen for certain */
    end: () => Promise<number>,
  ) => {
    await begin();
    const fromMs = systemClock.wallMs();
    await trade(`${200 + nowhere.length}`).catch(() => undefined);
    const isOver = () => Promise.resolve(systemClock.wallMs() - fromMs > AWAY_MS);
    if (isRunning) await daemon.until(isOver);
    // What is tested is an absence of that length, in which nothing happens that could be waited for.
    else await sleep(systemClock, Math.max(0, fromMs + AWAY_MS - systemClock.wallMs()));
    const toMs = await end();
    nowhere.push({ name, fromMs, toMs });
    await lookedAfter(systemClock.wallMs());
  };

  for (let round = 0; round < ROUNDS; round += 1) {
    await trade(`${120 + round}`);
    await lookedAfter(systemClock.wallMs());
  }
  const fired = faults.report().filter((one) => one.fired > 0);
  const refused = (status: number) =>
    telemetry.requests.filter((one) => one.status === status).length;
  const foreign = refused(400);
  const replace = (rules: readonly Trouble[]) => {
    faults.control.replace({ rules: everywhere(rules) });
    return Promise.resolve(systemClock.wallMs());
  };
  await away(
    'key revoked',
    () => replace(REVOKED),
    () => replace(TROUBLE),
  );
  await away(
    'exchange away',
    () => server.stop(),
    async () => {
      const untilMs = systemClock.wallMs();
      server = await open(port);
      return untilMs;
    },
  );
  await away(
    'daemon killed',
    async () => {
      daemon.kill('SIGKILL');
      await daemon.ended();
      isRunning = false;
    },
    async () => {
      daemon = startDaemon();
      isRunning = true;
      await daemon.page();
      return systemClock.wallMs();
    },
  );
  await replace([]);
  await trade('300');
  const calmMs = systemClock.wallMs() + 2000;
  await lookedAfter(calmMs);
  const metrics = daemon.text('stdout').match(/metrics +(\S+)/)?.[1] ?? '';
  const shown = await (await fetch(metrics)).text();
  daemon.kill('SIGTERM');
  assert.equal((await daemon.ended()).code, 0, daemon.dump());

  assert.ok(fired.length >= 6, `faults that fired: ${JSON.stringify(fired)}`);
  assert.ok(foreign > 0 && refused(401) > 0, 'nonces really collided, and the key was refused');
  // Nothing is claimed of a time in which nothing could be seen, and each has its gap and reason.
  const spans = await covered();
  for (const { name, fromMs, toMs } of nowhere) {
    for (const { kind, fromMs: a, toMs: b } of spans) {
      const overlap = Math.min(b, toMs) - Math.max(a, fromMs);
      assert.ok(overlap <= EDGE_MS, `${kind} is covered for ${overlap} ms of "${name}"`);
    }
    const gaps = await ask<{ kind: string; reason: string }>(
      `SELECT kind, reason FROM gap JOIN stream USING (stream_id)
       WHERE kind IN ('balances', 'orders') AND span && tstzrange(to_timestamp($1), to_timestamp($2))
       ORDER BY kind`,
      [(fromMs + EDGE_MS) / 1000, toMs / 1000],
    );
    assert.deepEqual(
      gaps.map(({ kind, reason }) => `${kind}: ${reason}`),
      ['balances: not observed', 'orders: not observed'],
      name,
    );
  }
  // Every row was true once, none repeats the one before it, and the last ones are true now.
  const rows = await ask<{ currency: string; available: string; frozen: string; same: boolean }>(
    `SELECT currency, available, frozen, coalesce((available, frozen) = lag((available, frozen))
       OVER (PARTITION BY currency ORDER BY observed_at), false) AS same FROM balance
     ORDER BY observed_at`,
  );
  assert.ok(rows.length > ROUNDS, `${rows.length} rows`);
  for (const { currency, available, frozen, same } of rows) {
    const text = `${currency} ${Number(available)} ${Number(frozen)}`;
    assert.ok(held.has(text), `never held: ${text}`);
    assert.ok(!same, `stored twice: ${text}`);
  }
  const last = new Map(rows.map((row) => [row.currency, row]));
  for (const [currency, { available, freeze }] of Object.entries(backend.balances(KEY))) {
    const row = last.get(currency);
    assert.deepEqual(
      [Number(row?.available), Number(row?.frozen)],
      [Number(available), Number(freeze)],
    );
  }
  const [orders] = await ask<{ open: number; rows: number; ids: number }>(
    `SELECT count(*) FILTER (WHERE NOT is_gone)::int AS open, count(*)::int AS rows,
            count(DISTINCT order_id)::int AS ids FROM active_order`,
  );
  const truth = backend.activeOrders(KEY, 'AAA_ZZZ', 0, 100);
  assert.deepEqual(orders, { open: truth.total, rows: truth.total, ids: truth.total });

  const told = [...daemons.flatMap((one) => [one.text('stdout'), one.text('stderr')]), shown];
  for (const text of told) assert.doesNotMatch(text, /canary/);
  const kept = await ask<{ n: number }>(
    `SELECT (SELECT count(*) FROM quarantine WHERE payload LIKE '%canary%')::int
          + (SELECT count(*) FROM gap WHERE note LIKE '%canary%')::int AS n`,
  );
  assert.deepEqual(kept, [{ n: 0 }]);
  t.diagnostic(
    `${rows.length} balances, ${truth.total} orders, ${fired.length} rules fired, ${foreign} nonces refused`,
  );
});
