import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { KNOWN_EXCHANGES } from '../../src/contract/variants.js';
import { type Random, seededRandom } from '../../src/kernel/random.js';
import { startTapeExchange, writeTape } from '../support/exchanges/tape-exchange.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';
import { FakeClock } from '../support/fake-clock.js';
import { inEachWorld, seedsOf } from '../support/seeds.js';

/** Trades, subscriptions and cuts at random: each trade of a subscribed market is pushed exactly once. */

const START_MS = 1_780_000_000_000;
const NAMES = ['BTC_USDT', 'ETH_USDT', 'LTC_USDT', 'XRP_USDT'];
const STEPS = 60;
/** The backend reports news at most this often. */
const NEWS_MS = 50;
const SPEAKERS = [
  { variants: KNOWN_EXCHANGES.earnbit, subscribe: 'deals.subscribe', ping: 'server.ping' },
  { variants: KNOWN_EXCHANGES.whitebit, subscribe: 'trades_subscribe', ping: 'ping' },
] as const;

interface Issued {
  readonly id: number;
  readonly ms: number;
}

const below = (random: Random, limit: number) => Math.floor(random() * limit);

/** Trades of one market, several of them within one millisecond, with jumps of ids. */
function issue(random: Random): Issued[] {
  const isBusy = random() < 0.4;
  const issued = [{ id: 1 + below(random, 100), ms: 0 }];
  for (let left = isBusy ? 1200 : 60; left > 0; left -= 1) {
    const { id = 0, ms = 0 } = issued.at(-1) ?? {};
    const idBy = random() < 0.1 ? 1 + below(random, 50) : 1;
    const msBy = random() < 0.5 ? 0 : below(random, isBusy ? 20 : 400);
    issued.push({ id: id + idBy, ms: Math.max(1, ms + msBy) });
  }
  return issued;
}

/** What one connection was pushed since each of its markets is subscribed. */
class Follower {
  readonly socket: TapeSocket;
  /** Since when, and the ids that came; a market that a second list names again goes on. */
  markets = new Map<string, { readonly sinceMs: number; readonly ids: number[] }>();

  constructor(socket: TapeSocket) {
    this.socket = socket;
  }

  async take(word: string): Promise<void> {
    for (const { params } of await this.socket.untilAnswered(word)) {
      const [market, rows] = params as [string, Issued[]];
      assert.ok(rows.length > 0 && rows.length <= 100, `${rows.length} rows in a frame`);
      const followed = this.markets.get(market);
      assert.ok(followed, `${market} was not asked for`);
      followed.ids.push(...rows.map(({ id }) => id).toReversed());
    }
  }

  judge(issued: ReadonlyMap<string, readonly Issued[]>, nowMs: number): void {
    for (const [market, { sinceMs, ids }] of this.markets) {
      const due = (issued.get(market) ?? []).filter(({ ms }) => ms > sinceMs && ms <= nowMs);
      assert.deepEqual(
        ids,
        due.slice(0, ids.length).map(({ id }) => id),
        market,
      );
      const [next] = due.slice(ids.length);
      assert.ok(next === undefined || next.ms >= nowMs - NEWS_MS, `${market} ${next?.id} is late`);
    }
  }
}

async function live(t: TestContext, seed: number): Promise<void> {
  const random = seededRandom(seed);
  const { variants, subscribe, ping } = SPEAKERS[below(random, 2)] ?? SPEAKERS[0];
  const issued = new Map(NAMES.map((market) => [market, issue(random)]));
  const tapes = [];
  for (const [market, trades] of issued) {
    const lines = trades.map(({ id, ms }) => `${id},${START_MS + ms},1.0,1,buy`);
    tapes.push({ market, path: await writeTape(t, lines) });
  }
  const clock = new FakeClock(START_MS);
  const { server, record } = await startTapeExchange(t, { tapes }, variants, clock);
  const open = async () => new Follower(await TapeSocket.open(t, server.realtimeUrl));
  let follower = await open();
  for (let step = 0; step < STEPS; step += 1) {
    const nowMs = clock.wallMs() - START_MS;
    const drawn = random();
    if (drawn < 0.18) {
      await follower.take(ping);
      follower.judge(issued, nowMs);
    }
    if (drawn < 0.06) {
      follower.socket.socket.terminate();
      follower = await open();
    } else if (drawn < 0.18) {
      const isAll = subscribe === 'trades_subscribe' && random() < 0.4;
      const asked = isAll ? [] : NAMES.filter(() => random() < 0.6);
      if (!isAll && asked.length === 0) continue;
      const answer = await follower.socket.ask(subscribe, asked);
      assert.deepEqual(answer.result, { status: 'success' });
      const before = follower.markets;
      follower.markets = new Map(
        (isAll ? NAMES : asked).map((market) => [
          market,
          before.get(market) ?? { sinceMs: nowMs, ids: [] },
        ]),
      );
    } else {
      await clock.run(random() < 0.1 ? 3000 : below(random, 300));
      if (random() < 0.6) await follower.take(ping);
    }
  }
  await follower.take(ping);
  follower.judge(issued, clock.wallMs() - START_MS);
  assert.deepEqual(record.failures, []);
}

test('each trade of a subscribed market is pushed exactly once, whatever is asked and cut', (t) =>
  inEachWorld(seedsOf(60), (seed) => live(t, seed)));

test('as many markets as a subscription may name fit into its frame', async (t) => {
  const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES.earnbit);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const names = Array.from({ length: 2000 }, (_, at) => `LONGCOINNAME${at}_USDT`);
  const answer = await Promise.race([socket.ask('deals.subscribe', names), socket.closed()]);
  assert.deepEqual(answer, { id: 1, params: [], result: { status: 'success' }, error: null });
});

test('a market that a second subscription names again goes on without a loss', async (t) => {
  const clock = new FakeClock(START_MS);
  const lines = Array.from({ length: 100 }, (_, at) => `${at + 1},${START_MS + at * 10},1.0,1,buy`);
  const tapes = [{ market: 'BTC_USDT', path: await writeTape(t, lines) }];
  const { server } = await startTapeExchange(t, { tapes }, KNOWN_EXCHANGES.earnbit, clock);
  const follower = new Follower(await TapeSocket.open(t, server.realtimeUrl));
  await follower.socket.ask('deals.subscribe', ['BTC_USDT']);
  follower.markets.set('BTC_USDT', { sinceMs: 0, ids: [] });
  // It comes between two reports of news.
  await clock.run(237);
  await follower.take('server.ping');
  await follower.socket.ask('deals.subscribe', ['BTC_USDT', 'NO_SUCH']);
  await clock.run(2000);
  await follower.take('server.ping');
  assert.deepEqual(
    follower.markets.get('BTC_USDT')?.ids,
    Array.from({ length: 99 }, (_, at) => at + 2),
  );
});

test('a burst comes whole, in frames of a hundred rows; so many are answered at most', async (t) => {
  const clock = new FakeClock(START_MS);
  const lines = Array.from(
    { length: 1050 },
    (_, at) => `${at + 1},${START_MS + (at && 5)},1.0,1,buy`,
  );
  const tapes = [{ market: 'BTC_USDT', path: await writeTape(t, lines) }];
  const { server } = await startTapeExchange(t, { tapes }, KNOWN_EXCHANGES.whitebit, clock);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('trades_subscribe', ['BTC_USDT']);
  await clock.run(100);
  const frames = await socket.untilAnswered('ping');
  const pages = frames.map(({ params }) => (params as [string, Issued[]])[1].map(({ id }) => id));
  assert.deepEqual(
    pages.map(({ length }) => length),
    [...Array<number>(10).fill(100), 49],
  );
  assert.deepEqual(
    pages.flatMap((ids) => ids.toReversed()),
    Array.from({ length: 1049 }, (_, at) => at + 2),
  );
  const { result } = await socket.ask('trades_request', ['BTC_USDT', 1000, 0]);
  assert.equal((result as Issued[]).length, 100);
});
