import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import { openTestStore } from '../support/postgres/postgres.js';
import { runCommand } from '../support/programs/commands.js';
import { makeFolder } from '../support/worlds/export-world.js';
import { BTC } from '../support/worlds/store-world.js';

/** Coverage of time that has not come, as a clock that lies leaves it: no command takes it for true. */

const HOUR_MS = 3_600_000;
const KINDS = ['candles 1m', 'depth', 'tickers', 'trades'];

/** An archive of an hour, and of one more that has not happened. */
async function openFuture() {
  const nowMs = Math.floor(systemClock.wallMs() / 60_000) * 60_000;
  const { store, url } = await openTestStore({ exchangeNowMs: () => nowMs + 2 * HOUR_MS });
  const { ids } = await store.ensureMarkets([BTC], nowMs - HOUR_MS);
  const marketId = ids.get(BTC.name) ?? 0;
  await store.claimArchive({ name: 'x', baseUrl: 'http://x', isSandbox: false, identity: null });
  const streams = [
    await store.ensureStream({ kind: 'trades', marketId, variant: 0 }),
    await store.ensureStream({ kind: 'candles', marketId, variant: 60 }),
    await store.ensureStream({ kind: 'depth', marketId, variant: 0 }),
    await store.ensureStream({ kind: 'tickers', marketId, variant: 0 }),
  ];
  const cover = (fromMs: number, toMs: number) =>
    store.commit({
      claims: streams.map((stream) => ({
        stream,
        span: { fromMs, toMs },
        evidence: { by: 'poll' },
      })),
    });
  await cover(nowMs - HOUR_MS, nowMs);
  await store.notePresent(() => ({ presentMs: nowMs, pace: 1 }));
  const run = (...args: readonly string[]) => runCommand(args, { TAPEKEEP_DATABASE_URL: url });
  return { store, nowMs, run, coverFuture: () => cover(nowMs, nowMs + HOUR_MS) };
}

type World = Awaited<ReturnType<typeof openFuture>>;

/** Streams that `verify` finds suspect, as people and as programs are told. */
async function suspectsOf({ run }: World) {
  const { out } = await run('verify');
  const lines = out.split('\n').filter((line) => line.startsWith('  SUSPECT '));
  const json = await run('verify', '--json');
  const document = JSON.parse(json.out) as {
    isProven: boolean;
    markets: { suspects: { kind: string; variant: number; from: string; to: string }[] }[];
  };
  return { out, lines, code: json.code, document };
}

test('verify names every stream that is covered beyond the present, until it is taken back', async () => {
  const world = await openFuture();
  const { store, nowMs, coverFuture } = world;
  assert.deepEqual((await suspectsOf(world)).lines, []);
  await coverFuture();
  const { out, lines, code, document } = await suspectsOf(world);
  assert.equal(code, 6, out);
  const text =
    / SUSPECT (.*) 20\S+ \S+ – 20\S+ \S+: covered, but in the future of the exchange clock/;
  assert.deepEqual(lines.map((line) => text.exec(line)?.[1]).sort(), KINDS);
  assert.match(out, /^Not proven: BTC_USDT\.$/m);
  assert.equal(document.isProven, false);
  const suspects = document.markets.flatMap((one) => one.suspects);
  assert.equal(suspects.length, KINDS.length);
  for (const { from, to } of suspects) {
    assert.equal(to, new Date(nowMs + HOUR_MS).toISOString());
    assert.ok(new Date(from).getTime() >= nowMs, from);
  }
  await store.revokeBeyond(nowMs, { isStart: false });
  assert.deepEqual((await suspectsOf(world)).lines, []);
  const inFuture = new Date(nowMs + HOUR_MS / 2).toISOString();
  const why = await world.run('gaps', 'explain', BTC.name, 'trades', inFuture);
  assert.match(
    why.out + why.err,
    /This time has not come yet at the exchange|a time in the future/,
  );
});

test('export says of covered time that has not come that there is none so far, and why', async (t) => {
  const { nowMs, run, coverFuture } = await openFuture();
  await coverFuture();
  const folder = await makeFolder(t);
  const at = (ms: number) => new Date(nowMs + ms).toISOString();
  const told = async (fromMs: number, toMs: number, kind: string) => {
    const span = ['--from', at(fromMs), '--to', at(toMs)];
    const file = ['--out', join(folder, `${kind}.csv`), '--force'];
    const args = ['export', '--market', BTC.name, '--kind', kind, ...span, ...file];
    const { code, err } = await run(...args);
    assert.equal(code, 0, err);
    return err;
  };
  for (const kind of ['trades', 'depth', 'tickers']) {
    const past = await told(-HOUR_MS / 2, -HOUR_MS / 4, kind);
    assert.match(
      past,
      new RegExp(
        `^${BTC.name}: no ${kind} from .*: ${kind === 'trades' ? 'all of it is covered, and there were none' : 'nothing changed, '}`,
        'm',
      ),
    );
    const future = await told(HOUR_MS / 4, HOUR_MS / 2, kind);
    assert.match(
      future,
      /: no \w+ from .*: this time has not come yet at the exchange; .*verify/m,
      kind,
    );
    assert.doesNotMatch(future, /there were none/);
    // One that begins in the past as well.
    assert.match(
      await told(-HOUR_MS / 4, HOUR_MS / 4, kind),
      /: no \w+ from .*: this time has not come/m,
      kind,
    );
  }
});
