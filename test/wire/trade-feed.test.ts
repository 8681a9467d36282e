import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import {
  createExchangeClock,
  openTradeFeed,
  type TradeFeedEvent,
  type TradeFeedOptions,
} from '../../src/client/index.js';
import { type DialectName, dialectOf } from '../../src/contract/dialects.js';
import {
  responseMessage,
  STATUS_SUCCESS,
  type TradeWords,
  tradesUpdateMessage,
} from '../../src/contract/realtime.js';
import { KNOWN_EXCHANGES, type ServerVariants } from '../../src/contract/variants.js';
import { type StubConnection, startRealtimeStub } from '../support/exchanges/stub-server.js';
import { startTapeExchange, writeTape } from '../support/exchanges/tape-exchange.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';
import { FakeClock } from '../support/fake-clock.js';
import { hearing, noTelemetry } from '../support/no-telemetry.js';

/** Trades as exchanges of the family push them: the sandbox's side and the client's. */

const START_MS = 1_780_000_000_000;
const MARKET = 'BTC_USDT';
const SPEAKERS = { earnbit: 'contract', whitebit: 'whitebit' } as const;
const wordsOf = (dialect: DialectName) => dialectOf(dialect).realtime.trades as TradeWords;

interface PushedRow {
  readonly id: number;
  readonly time: number;
}

/** Two markets that trade at other times, some of it within one millisecond. */
async function tapes(t: TestContext) {
  const lines = (ids: number, times: readonly number[]) =>
    times.map((ms, at) => `${ids + at},${START_MS + ms},${100 + at}.0,1,buy`);
  const btc = Array.from({ length: 450 }, (_, at) => (at < 3 ? at : 1000 + Math.floor(at / 3) * 7));
  return {
    tapes: [
      { market: MARKET, path: await writeTape(t, lines(1, btc)) },
      { market: 'ETH_USDT', path: await writeTape(t, lines(5000, [0, 1500, 1500, 9000])) },
    ],
  };
}

async function serve(t: TestContext, variants: Partial<ServerVariants>) {
  const clock = new FakeClock(START_MS);
  const { server, backend } = await startTapeExchange(t, await tapes(t), variants, clock);
  return { clock, server, backend, socket: await TapeSocket.open(t, server.realtimeUrl) };
}

for (const [name, dialect] of Object.entries(SPEAKERS)) {
  const words = wordsOf(dialect);

  test(`${name}: each trade after the subscription comes once, in order, by market`, async (t) => {
    const { clock, socket } = await serve(t, KNOWN_EXCHANGES[name as keyof typeof SPEAKERS]);
    await clock.run(10);
    const asked = words.isAll === true ? [] : [MARKET, 'NO_SUCH', 'ETH_USDT'];
    const answer = await socket.ask(words.subscribe, asked);
    assert.deepEqual(answer, { id: 1, params: [], result: { status: 'success' }, error: null });
    const came = new Map<string, PushedRow[]>();
    let most = 0;
    for (let step = 0; step < 40; step += 1) {
      await clock.run(250);
      // Its answer comes behind all that was pushed before it.
      const frames = await socket.untilAnswered(name === 'whitebit' ? 'ping' : 'server.ping');
      for (const { method, params, id } of frames) {
        assert.deepEqual([method, id], [words.update, null]);
        const [market, rows] = params as [string, PushedRow[]];
        most = Math.max(most, rows.length);
        came.set(market, [...(came.get(market) ?? []), ...rows.toReversed()]);
      }
    }
    const ids = (market: string) => came.get(market)?.map(({ id }) => id);
    assert.deepEqual(
      ids(MARKET),
      Array.from({ length: 447 }, (_, at) => at + 4),
    );
    assert.deepEqual(ids('ETH_USDT'), [5001, 5002, 5003]);
    assert.ok(most > 1 && most <= 100, `${most} rows in a frame`);
    const [first] = came.get(MARKET) ?? [];
    const total = name === 'earnbit' ? { total: '103' } : {};
    const row = { id: 4, time: (START_MS + 1007) / 1000, price: '103.0', amount: '1', type: 'buy' };
    assert.deepEqual(first, { ...row, ...total });
  });
}

test('a second subscription takes the place of the first; bad ones are refused', async (t) => {
  const { clock, socket } = await serve(t, KNOWN_EXCHANGES.earnbit);
  for (const params of [[], [1], Array(2001).fill('A'), { market: MARKET }]) {
    const { error } = await socket.ask('deals.subscribe', params);
    assert.equal((error as { code: number } | null)?.code, 1, JSON.stringify(params).slice(0, 40));
  }
  await socket.ask('deals.subscribe', [MARKET]);
  await socket.ask('deals.subscribe', ['ETH_USDT']);
  await clock.run(2000);
  const frames = await socket.untilAnswered('server.ping');
  assert.deepEqual(
    new Set(frames.map(({ params }) => (params as [string])[0])),
    new Set(['ETH_USDT']),
  );
});

test('the newest trades are answered where the exchange has a word for it', async (t) => {
  const { clock, socket } = await serve(t, KNOWN_EXCHANGES.whitebit);
  await clock.run(4000);
  const { result } = await socket.ask('trades_request', [MARKET, 100, 0]);
  const rows = result as PushedRow[];
  assert.deepEqual([rows.length, rows[0]?.id, rows.at(-1)?.id], [100, 450, 351]);
  const above = await socket.ask('trades_request', [MARKET, 100, 448]);
  assert.deepEqual(
    (above.result as PushedRow[]).map(({ id }) => id),
    [450, 449],
  );
  for (const params of [[], [MARKET], [MARKET, 0, 0], [MARKET, 10, -1], ['NO_SUCH', 10, 0]]) {
    const { error } = await socket.ask('trades_request', params);
    assert.equal((error as { code: number } | null)?.code, 1, JSON.stringify(params));
  }
});

test('one that does not push trades does not know the method, or is silent after taking it', async (t) => {
  const none = await serve(t, {});
  const { error } = await none.socket.ask('deals.subscribe', [MARKET]);
  assert.equal((error as { code: number }).code, 4);
  const silent = await serve(t, { tradeFeed: 'silent' });
  assert.equal((await silent.socket.ask('deals.subscribe', [MARKET])).error, null);
  await silent.clock.run(2000);
  assert.deepEqual(await silent.socket.untilAnswered('server.ping'), []);
});

/** A feed on a clock of its own, read one event at a time. */
class FeedReader {
  readonly clock = new FakeClock(START_MS);
  readonly frames: string[] = [];
  readonly feed;
  readonly #events: AsyncIterator<TradeFeedEvent>;

  constructor(
    t: TestContext,
    url: string,
    own: Partial<TradeFeedOptions> = {},
    dialect: DialectName = 'contract',
  ) {
    const { clock } = this;
    this.feed = openTradeFeed({
      ...{ url, clock, random: () => 0.5, markets: () => [MARKET] },
      telemetry: hearing(noTelemetry.client, {
        frameReceived: ({ outcome }) => this.frames.push(outcome),
      }),
      exchangeClock: createExchangeClock({ clock }),
      words: dialectOf(dialect).realtime,
      ...own,
    });
    this.#events = this.feed[Symbol.asyncIterator]();
    t.after(() => this.feed.stop());
  }

  async expect<K extends TradeFeedEvent['kind']>(
    kind: K,
  ): Promise<Extract<TradeFeedEvent, { kind: K }>> {
    const { value } = await this.#events.next();
    const event = value as TradeFeedEvent | undefined;
    assert.equal(event?.kind, kind, JSON.stringify(event));
    return event as Extract<TradeFeedEvent, { kind: K }>;
  }
}

const row = (id: number, own: object = {}) => ({
  ...{ id, time: START_MS / 1000 + id / 8, price: '10', amount: '2', type: 'buy', ...own },
});
const push = (connection: StubConnection, market: string, rows: readonly unknown[]) =>
  connection.send(tradesUpdateMessage(market, rows, wordsOf('contract')));

test('rows are judged one by one; a market that was not asked for is dropped', async (t) => {
  const stub = await startRealtimeStub(t, {
    call: (connection, { method, params, id }) => {
      assert.deepEqual([method, params], ['deals.subscribe', [MARKET]]);
      push(connection, MARKET, [row(1)]);
      connection.send(responseMessage(id, [], STATUS_SUCCESS));
      push(connection, 'ETH_USDT', [row(2)]);
      push(connection, MARKET, [row(4), row(3, { price: 'seven' }), { id: 'x' }, null]);
    },
  });
  const reader = new FeedReader(t, stub.url);
  assert.equal((await reader.expect('opened')).identity, null);
  const { trades, rejected, origin, market } = await reader.expect('trades');
  assert.deepEqual([origin, market], ['update', MARKET]);
  assert.deepEqual(trades, [{ ...row(4), total: '20' }]);
  assert.deepEqual(
    rejected.map(({ at }) => at),
    [1, 2, 3],
  );
  assert.deepEqual(reader.frames, ['dropped', 'response', 'dropped', 'update']);
});

test('what is refused, ignored or unreadable ends the connection by its name', async (t) => {
  const ends = {
    subscribe_refused: (connection: StubConnection, id: number) =>
      connection.send({ id, result: null, error: { code: 4, message: 'method not found' } }),
    subscribe_ignored: () => undefined,
    garbage: (connection: StubConnection) => {
      for (let at = 0; at < 10; at += 1) push(connection, MARKET, 'none' as never);
    },
    silent: (connection: StubConnection, id: number) =>
      connection.send(responseMessage(id, [], STATUS_SUCCESS)),
  };
  for (const [reason, act] of Object.entries(ends)) {
    const stub = await startRealtimeStub(t, {
      call: (connection, { id, method }) => {
        if (method === 'deals.subscribe') act(connection, id);
      },
    });
    const reader = new FeedReader(t, stub.url, { queryEveryMs: 5000 });
    if (reason === 'silent') await reader.expect('opened');
    await stub.received(1);
    const closed = reader.expect('closed');
    if (reason === 'silent' || reason === 'subscribe_ignored') await reader.clock.run(16_000);
    assert.equal((await closed).reason, reason);
    const { waitMs } = await reader.expect('retrying');
    assert.equal(waitMs >= 600_000, reason === 'subscribe_refused', `${reason} ${waitMs}`);
  }
});

/** Frames that are no update of trades, though some look like one. */
const UNKNOWN: Readonly<Record<string, string | Buffer>> = {
  'no JSON': '{"method":"deals.update","params":["BTC',
  'no text': Buffer.from(JSON.stringify(tradesUpdateMessage(MARKET, [], wordsOf('contract')))),
  ...Object.fromEntries(
    Object.entries({
      'rows that are no list': { params: [MARKET, { id: 5 }], id: null },
      'no market': { params: [null, [{ id: 5 }]], id: null },
      'no list of params': { params: { market: MARKET, trades: [] }, id: null },
      'an id': { params: [MARKET, [{ id: 5 }]], id: 1 },
      'an id that is a text': { params: [MARKET, [{ id: 5 }]], id: 'x' },
      'another method': { method: 'deals.updated', params: [MARKET, []], id: null },
    }).map(([name, frame]) => [name, JSON.stringify({ method: 'deals.update', ...frame })]),
  ),
};

test('a frame that is not known is told of: whatever it was to push is lost', async (t) => {
  for (const [name, frame] of Object.entries(UNKNOWN)) {
    const stub = await startRealtimeStub(t, {
      call: (connection, { id }) => {
        connection.socket.send(frame);
        connection.send(responseMessage(id, [], STATUS_SUCCESS));
        push(connection, MARKET, [row(4)]);
        connection.socket.send(frame);
        push(connection, MARKET, [row(6)]);
      },
    });
    const reader = new FeedReader(t, stub.url);
    await reader.expect('opened');
    await reader.expect('trades');
    await reader.expect('unread');
    assert.equal((await reader.expect('trades')).trades[0]?.id, 6, name);
    const frames = ['unrecognised', 'response', 'update', 'unrecognised', 'update'];
    assert.deepEqual(reader.frames, frames, name);
  }
});

test('the newest trades of a market are asked for where they are wanted, once at a time', async (t) => {
  const asked: unknown[] = [];
  const stub = await startRealtimeStub(t, {
    call: (connection, { method, params, id }) => {
      if (method === 'trades_subscribe') {
        connection.send(responseMessage(id, [], STATUS_SUCCESS));
        // All markets are pushed; one that is not wanted is passed over.
        connection.send(tradesUpdateMessage('ETH_USDT', [row(1)], wordsOf('whitebit')));
      } else {
        asked.push([method, params]);
        const isKnown = (params as [string])[0] === MARKET;
        connection.send(responseMessage(id, [], isKnown ? [row(9), row(8)] : null));
      }
    },
  });
  const reader = new FeedReader(t, stub.url, {}, 'whitebit');
  reader.feed.ask('TOO_EARLY');
  await reader.expect('opened');
  for (const name of ['NO_SUCH', MARKET, MARKET]) reader.feed.ask(name);
  const { origin, market, trades } = await reader.expect('trades');
  assert.deepEqual([origin, market, trades.map(({ id }) => id)], ['answer', MARKET, [9, 8]]);
  assert.deepEqual(asked, [
    ['trades_request', ['NO_SUCH', 100, 0]],
    ['trades_request', [MARKET, 100, 0]],
  ]);
  reader.feed.ask(MARKET);
  await reader.expect('trades');
  assert.equal(asked.length, 3);
});

test('questions for newest trades keep the limit that an exchange has for a connection', async (t) => {
  let asked = 0;
  const stub = await startRealtimeStub(t, {
    call: (connection, { method, id }) => {
      const isQuestion = method === 'trades_request';
      if (isQuestion) asked += 1;
      connection.send(responseMessage(id, [], isQuestion ? [row(9)] : STATUS_SUCCESS));
    },
  });
  const markets = Array.from({ length: 70 }, (_, at) => `M${at}_USDT`);
  const reader = new FeedReader(t, stub.url, { markets: () => markets }, 'whitebit');
  await reader.expect('opened');
  for (const name of markets) reader.feed.ask(name);
  for (let answers = 1; answers <= 50; answers += 1) await reader.expect('trades');
  for (let answers = 51; answers <= 53; answers += 1) {
    assert.equal(asked, answers - 1);
    assert.equal(reader.clock.nextForegroundTimerMs, 600);
    await reader.clock.run(600);
    await reader.expect('trades');
  }
});

test('markets that change are subscribed anew, once for all changes of meanwhile', async (t) => {
  const asked: unknown[] = [];
  let early: (() => void) | undefined;
  const stub = await startRealtimeStub(t, {
    // The client does not know yet that it is connected: its subscription will ask for the markets of then.
    connection: () => early?.(),
    call: (connection, { method, id }) => {
      asked.push(method);
      connection.send(responseMessage(id, [], STATUS_SUCCESS));
      if (asked.length < 3) return;
      for (const name of markets) {
        connection.send(tradesUpdateMessage(name, [row(7)], wordsOf('whitebit')));
      }
    },
  });
  const markets = [MARKET];
  const reader = new FeedReader(t, stub.url, { markets: () => markets }, 'whitebit');
  early = () => reader.feed.resubscribe();
  await reader.expect('opened');
  for (const name of ['ETH_USDT', 'LTC_USDT', 'XRP_USDT']) {
    markets.push(name);
    reader.feed.resubscribe();
  }
  // What comes between the two proves nothing; the second subscription of three changes has all markets.
  await reader.expect('resubscribing');
  await reader.expect('resubscribing');
  await reader.expect('opened');
  for (const name of markets) assert.equal((await reader.expect('trades')).market, name);
  assert.deepEqual(asked, Array(3).fill('trades_subscribe'));
});

test('a subscription anew has a deadline, which the answer to a ping does not lift', async (t) => {
  let subscriptions = 0;
  const stub = await startRealtimeStub(t, {
    call: (connection, { method, id }) => {
      if (method === 'server.ping') {
        reader.feed.resubscribe();
        connection.send(responseMessage(id, [], 'pong'));
      } else {
        subscriptions += 1;
        if (subscriptions === 1) connection.send(responseMessage(id, [], STATUS_SUCCESS));
      }
    },
  });
  const reader: FeedReader = new FeedReader(t, stub.url, { queryEveryMs: 5000 });
  await reader.expect('opened');
  const resubscribing = reader.expect('resubscribing');
  await reader.clock.run(5000);
  await resubscribing;
  await stub.received(3);
  const closed = reader.expect('closed');
  await reader.clock.run(10_000);
  assert.equal((await closed).reason, 'subscribe_ignored');
  assert.equal(subscriptions, 2);
});

const REFUSAL = (code: number) => (connection: StubConnection, id: number) =>
  connection.send({ id, result: null, error: { code, message: 'no' } });

test('only a refusal of all that was asked lets the feed wait for long', async (t) => {
  const codes = { 1: true, 2: false, 3: false, 4: true, 5: false, 6: true };
  for (const [code, isLong] of Object.entries(codes)) {
    const stub = await startRealtimeStub(t, {
      call: (connection, { id }) => REFUSAL(Number(code))(connection, id),
    });
    const reader = new FeedReader(t, stub.url);
    assert.equal((await reader.expect('closed')).reason, 'subscribe_refused');
    const { waitMs } = await reader.expect('retrying');
    assert.equal(waitMs >= 600_000, isLong, `code ${code}: ${waitMs} ms`);
  }
});

test('a refused change of markets ends the connection, and another one is made soon', async (t) => {
  let isFirst = true;
  const stub = await startRealtimeStub(t, {
    call: (connection, { id }) => {
      if (isFirst) connection.send(responseMessage(id, [], STATUS_SUCCESS));
      else REFUSAL(1)(connection, id);
      isFirst = false;
    },
  });
  const reader = new FeedReader(t, stub.url);
  await reader.expect('opened');
  reader.feed.resubscribe();
  await reader.expect('resubscribing');
  assert.equal((await reader.expect('closed')).reason, 'subscribe_refused');
  assert.ok((await reader.expect('retrying')).waitMs <= 500);
});

test('a list that is refused for one name is subscribed without it', async (t) => {
  const lists: string[][] = [];
  const stub = await startRealtimeStub(t, {
    call: (connection, { params, id }) => {
      lists.push(params as string[]);
      if ((params as string[]).includes('C')) REFUSAL(1)(connection, id);
      else {
        connection.send(responseMessage(id, [], STATUS_SUCCESS));
        push(connection, 'E', [row(1)]);
      }
    },
  });
  const reader = new FeedReader(t, stub.url, { markets: () => ['A', 'B', 'C', 'D', 'E'] });
  await reader.expect('opened');
  assert.deepEqual(lists.at(-1), ['A', 'B', 'D', 'E']);
  assert.equal((await reader.expect('trades')).market, 'E');
});

test('a connection that is renewed counts as stalled, and waits longer each time that it brought nothing', async (t) => {
  const stub = await startRealtimeStub(t, {
    call: (connection, { id }) => connection.send(responseMessage(id, [], STATUS_SUCCESS)),
  });
  const reader = new FeedReader(t, stub.url);
  const waits: number[] = [];
  for (let at = 0; at < 3; at += 1) {
    await reader.expect('opened');
    reader.feed.renew();
    assert.equal((await reader.expect('closed')).reason, 'stalled');
    const { waitMs } = await reader.expect('retrying');
    waits.push(waitMs);
    await reader.clock.run(waitMs);
  }
  assert.deepEqual(waits, [250, 500, 1000]);
});

test('without a market there is no connection', async (t) => {
  const stub = await startRealtimeStub(t, {
    call: (connection, { id }) => connection.send(responseMessage(id, [], STATUS_SUCCESS)),
  });
  const markets: string[] = [];
  const reader = new FeedReader(t, stub.url, { markets: () => markets });
  const { waitMs } = await reader.expect('retrying');
  assert.equal(stub.connections, 0);
  markets.push(MARKET);
  await reader.clock.run(waitMs);
  await reader.expect('opened');
});

test('an exchange without words for it has no such feed', () => {
  const clock = new FakeClock();
  const options = {
    ...{ url: 'ws://127.0.0.1:1', clock, random: () => 0.5, markets: () => [MARKET] },
    ...{ telemetry: noTelemetry.client, exchangeClock: createExchangeClock({ clock }) },
    words: dialectOf('p2b').realtime,
  };
  assert.throws(() => openTradeFeed(options), RangeError);
});
