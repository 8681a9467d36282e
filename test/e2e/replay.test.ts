import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { blocksOf, readDocument } from '../support/documents/documents.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';
import { makeDatabase } from '../support/postgres/postgres.js';
import { runCommand } from '../support/programs/commands.js';
import { type Asked, askControl, controlled } from '../support/programs/control.js';
import { Program } from '../support/programs/program.js';
import {
  covered,
  exactTrade,
  noonMs,
  openWorld,
  state,
} from '../support/worlds/replayed-archive.js';

/** The built program plays an archive, and is steered over HTTP. */

interface Ready {
  readonly url: string;
  readonly realtimeUrl: string;
  readonly markets: readonly string[];
  readonly identity: string;
  readonly from: string;
  readonly to: string;
}

/** How time stands. */
interface Clock {
  readonly session: string | null;
  readonly nowMs: number;
  readonly state: string;
}

const isoOf = (atS: number) => new Date(noonMs(atS)).toISOString();
const SPAN = ['--from', isoOf(0), '--to', isoOf(600), '--allow-gaps'];

/** Trades and states of ten minutes, with a gap in the trades. */
async function makeArchive(): Promise<string> {
  const { store, url, stream, begun } = await openWorld();
  const [trades, states] = [await begun(0), await stream('states', 60)];
  const candles = await stream('candles', 60);
  await store.commit({
    trades: [exactTrade(1, 10.5), exactTrade(2, 300), exactTrade(3, 400)],
    states: [state(1, 20), state(2, 350.25)],
    claims: [
      covered(trades, 0, 100),
      covered(trades, 200, 600),
      covered(states, 0, 600),
      covered(candles, 60, 600),
    ],
  });
  return url;
}

async function play(t: TestContext, databaseUrl: string, ...args: readonly string[]) {
  const program = new Program(['replay', '--json', ...args], {
    env: { TAPEKEEP_DATABASE_URL: databaseUrl },
  });
  t.after(() => program.dispose());
  const line = await program.line((text) => text.startsWith('{"ready"'));
  const ready = JSON.parse(line) as Ready;
  const control = <T = Clock>(path: string, asked?: Asked) =>
    controlled<T>(ready.url, `replay/${path}`, asked);
  return { program, ready, control };
}

async function idsAt({ url }: Ready, session?: string) {
  const headers: Record<string, string> =
    session === undefined ? {} : { 'x-tapekeep-session': session };
  const reply = await fetch(`${url}/api/v1/public/history?market=BTC_USDT`, { headers });
  const { result } = (await reply.json()) as { result: Array<{ id: number }> };
  return result.map(({ id }) => id);
}

test('a span may begin at the start, and move in to what is covered', async (t) => {
  const url = await makeArchive();
  const newest = await play(t, url);
  assert.deepEqual([newest.ready.from, newest.ready.to], [isoOf(200), isoOf(600)]);
  assert.match(newest.ready.identity, /^replay-[0-9a-f]{32}-whole-trades-candles-states$/);
  const whole = await play(t, url, '--from', 'start', '--allow-gaps');
  assert.match(whole.ready.identity, /^replay-[0-9a-f]{32}-with-gaps$/);
  assert.deepEqual([whole.ready.from, whole.ready.to], [isoOf(0), isoOf(600)]);
  const wide = ['--from', isoOf(-90_000), '--to', isoOf(90_000), '--allow-gaps'];
  const inWhole = await play(t, url, ...wide.slice(0, -1), '--clamp');
  assert.deepEqual([inWhole.ready.from, inWhole.ready.to], [isoOf(200), isoOf(600)]);
  const clamped = await play(t, url, ...wide, '--clamp');
  assert.deepEqual([clamped.ready.from, clamped.ready.to], [isoOf(0), isoOf(600)]);
  // Time may go on as long as something is collected, and never begins before anything was.
  const early = await play(t, url, ...wide);
  assert.deepEqual([early.ready.from, early.ready.to], [isoOf(0), isoOf(90_000)]);
  const text = await runCommand(['replay', ...wide, '--port', '0', '--for', '0.1s'], {
    TAPEKEEP_DATABASE_URL: url,
  });
  assert.match(
    text.out,
    /begins at the first recording: nothing older than 2026-01-15 12:00:00 is covered/,
  );
  const inner = await play(t, url, '--from', isoOf(50), '--to', isoOf(60), '--clamp');
  assert.deepEqual([inner.ready.from, inner.ready.to], [isoOf(50), isoOf(60)]);
  const env = { TAPEKEEP_DATABASE_URL: url };
  const past = ['--from', isoOf(-90_000), '--to', isoOf(-80_000)];
  const none = await runCommand(['replay', ...past, '--clamp'], env);
  assert.notEqual(none.code, 0);
  assert.match(none.err, /the archive covers .* of these markets, and nothing of this span/);
});

test('time is read, stepped, moved, sped up and stopped over HTTP', async (t) => {
  const url = await makeArchive();
  const { program, ready, control } = await play(t, url, ...SPAN, '--speed', 'step');
  assert.deepEqual([ready.from, ready.to], [isoOf(0), isoOf(600)]);
  assert.deepEqual(ready.markets, ['BTC_USDT', 'ETH_USDT']);
  const socket = await TapeSocket.open(t, ready.realtimeUrl);
  const { result } = await socket.ask('state.subscribe', ['BTC_USDT', 60]);
  assert.deepEqual(result, { status: 'success' });

  const now = async (path: string, asked?: Asked) => (await control(path, asked)).nowMs;
  const step: Asked = { method: 'POST' };
  const seek = (atS: number): Asked => ({ body: { to: isoOf(atS) } });
  assert.equal(await now('clock'), noonMs(0));
  assert.deepEqual(await idsAt(ready), []);
  assert.equal(await now('step', step), noonMs(10.5), 'to the first trade');
  assert.deepEqual(await idsAt(ready), [1]);
  assert.equal(await now('step', { body: { ms: 30_000 } }), noonMs(40.5));
  assert.equal(((await socket.next()).result as { last: string }).last, '1');
  assert.equal(await now('seek', seek(350)), noonMs(350));
  assert.deepEqual(await idsAt(ready), [2, 1]);
  assert.equal(await now('step', step), noonMs(350.25), 'to the next state');
  const mine = { session: 'mine' };
  const refusalOf = async (path: string, asked?: Asked) => {
    const { status, text } = await askControl(ready.url, `replay/${path}`, asked);
    assert.equal(status, 400, text);
    return text;
  };
  assert.match(
    await refusalOf('clock', { session: 'mien' }),
    /no session of the name mien; there is only the shared one\. .*POST \/replay\/sessions/,
  );
  assert.equal((await control('sessions', { method: 'POST', ...mine })).state, 'waiting');
  assert.match(await refusalOf('clock', { session: 'mien' }), /name mien; there are mine\./);
  assert.deepEqual(await control('speed', { body: { speed: 100 }, ...mine }), {
    ...{ session: 'mine', nowMs: noonMs(0), fromMs: noonMs(0), toMs: noonMs(600) },
    ...{ state: 'waiting', speed: 100, connections: 0 },
  });
  await idsAt(ready, 'mine');
  const paused = await control('pause', { method: 'POST', ...mine });
  assert.ok(paused.nowMs > noonMs(0), 'time passed by itself');
  assert.equal(await now('clock?session=mine'), paused.nowMs, 'named in the address');
  await now('seek', { ...seek(100), ...mine });
  const asked = ['api', 'history', 'BTC_USDT', '--json', '--url'];
  const [own, others] = await Promise.all(
    [`${ready.url}/?session=mine`, ready.url].map((address) => runCommand([...asked, address])),
  );
  assert.deepEqual(
    [own, others].map((end) => (JSON.parse(end?.out ?? '') as Array<{ id: number }>).length),
    [1, 2],
    own?.err,
  );
  assert.equal((await control('resume', { method: 'POST', ...mine })).state, 'running');
  const sessions = await control<Clock[]>('sessions');
  assert.deepEqual(
    sessions.map(({ session }) => session),
    [null, 'mine'],
  );
  await control('sessions', { method: 'DELETE', ...mine });
  assert.equal((await control<Clock[]>('sessions')).length, 1);
  assert.equal(await now('clock'), noonMs(350.25), 'the time of others is theirs');
  assert.match(
    await refusalOf('seek', seek(700)),
    /12:11:40.000Z is not allowed; this replay goes from 2026-01-15T12:00/,
  );
  assert.match(await refusalOf('seek', { body: { to: 'noon' } }), /a time such as 2026/);
  program.kill('SIGTERM');
  assert.deepEqual(await program.ended(), { code: 0, signal: null });
});

test('every curl command of the guide works as it stands there', async (t) => {
  const url = await makeArchive();
  const { ready } = await play(t, url, ...SPAN);
  const guide = readDocument('docs/guides/replay.md').text;
  const lines = blocksOf(guide, 'sh').flatMap((block) => block.split('\n'));
  const script = lines
    .filter((line) => /^curl |^\w+=/.test(line))
    .join('\n')
    .replaceAll('127.0.0.1:8080', new URL(ready.url).host)
    // The day that the archive of this test has.
    .replaceAll('2026-01-31T12:0', '2026-01-15T12:0');
  assert.ok(script.split('\n').length >= 9, script);
  const bash = `set -eu\ncurl() { command curl -fsS "$@"; }\n${script}\n`;
  const { stdout } = await promisify(execFile)('bash', ['--norc', '-c', bash]);
  assert.match(stdout, /"session":"mine"/);
});

test('without permission nobody steers, and time passes', async (t) => {
  const url = await makeArchive();
  const fast = [...SPAN, '--speed', '3000', '--no-control'];
  const { ready, program } = await play(t, url, ...fast, '--markets', 'BTC_USDT');
  assert.deepEqual(ready.markets, ['BTC_USDT']);
  for (const [path, body] of [
    ['clock', undefined],
    ['seek', { to: isoOf(1) }],
    ['speed', { speed: 2 }],
  ] as const) {
    const refused = await askControl(ready.url, `replay/${path}`, { body });
    assert.equal(refused.status, 403, refused.text);
    assert.match(refused.text, /start it with --control/);
  }
  const dateMs = async () => {
    const { headers } = await fetch(`${ready.url}/api/v1/public/markets`);
    return Date.parse(headers.get('date') ?? '');
  };
  while ((await dateMs()) < noonMs(600));
  program.kill('SIGINT');
  assert.deepEqual(await program.ended(), { code: 0, signal: null });
});

test('a replay says at its start what the span holds of each market, of candles whole ones', async () => {
  const url = await makeArchive();
  // Ten seconds before the end of a minute.
  const span = ['--from', isoOf(0), '--to', isoOf(590), '--allow-gaps'];
  const { code, out } = await runCommand(['replay', ...span, '--port', '0', '--for', '0.1s'], {
    TAPEKEEP_DATABASE_URL: url,
  });
  assert.equal(code, 0);
  assert.match(out, /^replay ready: .* from 2026-01-15T12:00:00/);
  assert.match(out, /^ {2}BTC_USDT: .*trades 2026-01-15 12:00:00 – 2026-01-15 12:09:50 in parts/m);
  assert.match(out, /candles 1m 2026-01-15 12:01:00 – 2026-01-15 12:09:00(,|$)/m);
  assert.match(out, /^ {2}ETH_USDT: nothing of it in this span$/m);
  // Between covered times lies one of which there is nothing.
  const within = [
    '--from',
    isoOf(110),
    '--to',
    isoOf(190),
    '--allow-gaps',
    '--port',
    '0',
    '--for',
    '0.1s',
  ];
  const gap = await runCommand(['replay', ...within], { TAPEKEEP_DATABASE_URL: url });
  assert.match(gap.out, /^ {2}BTC_USDT: .*states 1m 2026-01-15 12:01:50 – 2026-01-15 12:03:10/m);
  assert.doesNotMatch(gap.out, /trades/);
});

test('what cannot be replayed is refused by its name', async () => {
  const url = await makeArchive();
  const empty = await makeDatabase();
  const never = ['--from', '2020-01-01', '--to', '2020-01-02'];
  for (const [args, code, said, databaseUrl] of [
    [['--markets', 'BTC_USD'], 2, /--markets.*BTC_USD.*Did you mean BTC_USDT/],
    [['--markets', 'ETH_USDT'], 2, /covers no time of these markets yet/],
    [never, 2, /--to.*2020-01-02.*lies outside of the archive, which covers .*2026-01-15T12:00:00/],
    [['--from', '2031-01-01', '--to', '2031-01-02'], 2, /--from.*2031-01-01.*lies outside/],
    [['--from', isoOf(600)], 2, /--from.*12:10:00.000Z lies outside .*covers time from/],
    [['--from', isoOf(60), '--to', isoOf(60)], 2, /--from.*must be before --to/],
    [['--from', isoOf(60), '--to', isoOf(0)], 2, /--from.*must be before --to/],
    [
      ['--from', isoOf(60)],
      2,
      /has gaps in its trades or candles: trades of BTC_USDT from 2026-01-15T12:01:40.000Z to 2026-01-15T12:03:20.000Z \(not collected\); choose .*--allow-gaps/,
    ],
    [['--speed', '0'], 2, /--speed.*0/],
    [['--markets', 'BTC_USDT,'], 2, /commas between/],
    [[], 2, /the archive is empty|covers no time/, empty],
  ] as const) {
    const end = await runCommand(['replay', ...args], {
      TAPEKEEP_DATABASE_URL: databaseUrl ?? url,
    });
    assert.equal(end.code, code, `${args.join(' ')}: ${end.err}`);
    assert.match(end.err, said, args.join(' '));
    assert.equal(end.out, '');
  }
});
