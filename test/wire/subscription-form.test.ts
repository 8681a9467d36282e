import assert from 'node:assert/strict';
import test from 'node:test';
import {
  createExchangeClock,
  type StateEvent,
  StateFeeds,
  type StateFeedsOptions,
} from '../../src/client/index.js';
import {
  errorMessage,
  familyUpdateMessage,
  LIST_PERIOD_S,
  REALTIME_ERRORS,
  responseMessage,
  STATUS_SUCCESS,
} from '../../src/contract/realtime.js';
import {
  type RealtimeStub,
  type StubCall,
  type StubConnection,
  startRealtimeStub,
} from '../support/exchanges/stub-server.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';
import { FakeClock } from '../support/fake-clock.js';
import { noTelemetry } from '../support/no-telemetry.js';

/** Servers that take `state.subscribe` with a list of markets and tell them by the day. */

const RECORD = {
  ...{ period: 86_400, last: '2', open: '1', close: '2', high: '9', low: '1' },
  ...{ deal: '100', volume: '10', change: '1.13' },
};

/** As recorded from a server that runs: a period is an invalid argument of the subscription. */
function answerLists(connection: StubConnection, { method, params, id }: StubCall): void {
  if (method === 'state.query') connection.send(responseMessage(id, params, RECORD));
  else if (params.every((param) => typeof param === 'string')) {
    connection.send(responseMessage(id, [], STATUS_SUCCESS));
    connection.send(familyUpdateMessage(params[0] ?? '', RECORD, { isList: true }));
  } else connection.send(errorMessage(id, params, REALTIME_ERRORS.invalidArgument));
}

const clock = new FakeClock();

function feedsAt({ url }: RealtimeStub, own = clock, more: Partial<StateFeedsOptions> = {}) {
  return new StateFeeds({
    ...{ url, clock: own, random: () => 0.5, telemetry: noTelemetry.client },
    ...{ exchangeClock: createExchangeClock({ clock: own }), ...more },
  });
}

/** What a feed reports up to the first of this kind. */
async function until(
  feeds: StateFeeds,
  kind: StateEvent['kind'],
  periodS = LIST_PERIOD_S,
): Promise<StateEvent[]> {
  const events: StateEvent[] = [];
  for await (const event of feeds.open('BTC_USDT', periodS)) {
    events.push(event);
    if (event.kind === kind) break;
  }
  return events;
}

/** A connection that takes a list waits for others to join. */
async function gathered<T>(own: FakeClock, work: Promise<T>): Promise<T> {
  own.advance(500);
  return work;
}

const subscribed = ({ calls }: RealtimeStub) =>
  calls.flatMap(({ method, params }) => (method === 'state.subscribe' ? [params] : []));

test('refused with code 1, markets are subscribed as a list, and that is remembered', async (t) => {
  const stub = await startRealtimeStub(t, { call: answerLists });
  const feeds = feedsAt(stub);
  const events = await until(feeds, 'alive');
  assert.deepEqual(
    events.map((event) => (event.kind === 'record' ? event.origin : event.kind)),
    ['opened', 'update', 'query', 'alive'],
  );
  assert.equal(stub.connections, 1);
  await gathered(clock, until(feeds, 'alive'));
  assert.deepEqual(subscribed(stub), [['BTC_USDT', 86_400], ['BTC_USDT'], ['BTC_USDT']]);
  // An exchange may learn the contract's form: it is asked so again after an hour.
  clock.advance(3_600_000);
  await until(feeds, 'alive');
  assert.deepEqual(subscribed(stub).slice(3), [['BTC_USDT', 86_400], ['BTC_USDT']]);
});

test('another period is told as not offered, and no more connections are made for it', async (t) => {
  const stub = await startRealtimeStub(t, { call: answerLists });
  const feeds = feedsAt(stub);
  for (const connections of [1, 1]) {
    const events = await until(feeds, 'retrying', 60);
    assert.deepEqual(
      events.map((event) => (event.kind === 'closed' ? event.reason : event.kind)),
      ['period_not_offered', 'retrying'],
    );
    assert.equal(stub.connections, connections);
  }
});

test('what refuses a list too, or refuses for another reason, has refused the subscription', async (t) => {
  const { invalidArgument, unavailable } = REALTIME_ERRORS;
  for (const [error, asked] of [
    [invalidArgument, 2],
    [unavailable, 1],
  ] as const) {
    const stub = await startRealtimeStub(t, {
      call: (connection, { id, params }) => connection.send(errorMessage(id, params, error)),
    });
    const closed = (await until(feedsAt(stub), 'closed')).at(-1);
    assert.equal(closed?.kind === 'closed' && closed.reason, 'subscribe_refused');
    assert.equal(stub.calls.length, asked);
  }
});

test('updates without an answer to the question are life enough; no updates are not', async (t) => {
  const connections: StubConnection[] = [];
  const stub = await startRealtimeStub(t, {
    connection: (connection) => connections.push(connection),
    call: (connection, call) => {
      if (call.method === 'state.subscribe') answerLists(connection, call);
    },
  });
  const own = new FakeClock();
  const feed = feedsAt(stub, own).open('BTC_USDT', LIST_PERIOD_S);
  t.after(() => feed.stop());
  const events = feed[Symbol.asyncIterator]();
  const next = async () => (await events.next()).value as StateEvent;
  assert.deepEqual([(await next()).kind, (await next()).kind], ['opened', 'record']);
  connections[0]?.send(familyUpdateMessage('BTC_USDT', { ...RECORD, last: '3' }, { isList: true }));
  assert.equal((await next()).kind, 'record');
  own.advance(10_000);
  own.advance(20_000);
  own.advance(10_000);
  const closed = await next();
  assert.equal(closed.kind === 'closed' && closed.reason, 'silent');
  assert.equal(closed.kind === 'closed' && closed.livedMs, 40_000);
});

test('the sandbox as such a server: strict about the form, markets named, a second list replaces', async (t) => {
  const { server } = await startTapeExchange(t, undefined, { subscribeForm: 'markets' });
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const refused = await socket.ask('state.subscribe', ['BTC_USDT', 86_400]);
  assert.deepEqual(refused.error, REALTIME_ERRORS.invalidArgument);
  assert.deepEqual(
    (await socket.ask('state.subscribe', [])).error,
    REALTIME_ERRORS.invalidArgument,
  );
  const accepted = await socket.ask('state.subscribe', ['BTC_USDT', 'NO_SUCH', 'ETH_USDT']);
  assert.deepEqual(accepted.result, STATUS_SUCCESS);
  const told = [await socket.next(), await socket.next()].map(({ method, params, id }) => {
    const [market, { period, change }] = params as [string, typeof RECORD];
    return [method, market, period, typeof change, id];
  });
  assert.deepEqual(told, [
    ['state.update', 'BTC_USDT', 86_400, 'string', null],
    ['state.update', 'ETH_USDT', 86_400, 'string', null],
  ]);
  await socket.ask('state.subscribe', ['NO_SUCH']);
  assert.equal(socket.unread, 0);
});
