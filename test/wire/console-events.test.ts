import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { ActivityColumns } from '../../src/console/activity.js';
import { STATE } from '../../src/console/api/documents.js';
import type { StatusServerOptions } from '../../src/console/server.js';
import { FakeClock } from '../support/fake-clock.js';
import { servedDocument, startTestStatus } from '../support/status-document.js';

/** Server-Sent Events: one producer for all pages. */

interface Told {
  readonly name: string;
  readonly data: unknown;
}

/** A page that listens, and what it was told. */
class Page {
  readonly events: Told[] = [];
  comments = 0;
  #rest = '';
  readonly response: IncomingMessage;

  constructor(response: IncomingMessage) {
    this.response = response;
    response.setEncoding('utf8').on('data', (text: string) => {
      const parts = (this.#rest + text).split('\n\n');
      this.#rest = parts.pop() ?? '';
      for (const part of parts) this.#read(part);
    });
    response.on('error', () => undefined);
  }

  #read(part: string): void {
    const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(part) ?? [];
    if (name === undefined || data === undefined) this.comments += 1;
    else this.events.push({ name, data: JSON.parse(data) });
  }

  names(): string[] {
    return this.events.map(({ name }) => name);
  }
}

async function start(t: TestContext, options: Partial<StatusServerOptions> = {}) {
  const clock = new FakeClock();
  const warned: string[] = [];
  const server = await startTestStatus({
    clock,
    telemetry: {
      warned: ({ message }) => warned.push(message),
      consoleAnswered: () => undefined,
      loginTried: () => undefined,
    },
    ...options,
  });
  t.after(() => server.stop());
  const listen = async (topics: string): Promise<Page> => {
    const asked = get(`${server.url}/api/v1/events?topics=${topics}`, { agent: false });
    asked.on('error', () => undefined);
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    t.after(() => response.destroy());
    return new Page(response);
  };
  /** Moves time a second at a time, and lets what was written arrive. */
  const run = async (seconds: number) => {
    for (let at = 0; at < seconds; at += 1) {
      await clock.run(1000);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const until = async (isSo: () => boolean) => {
    while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
  };
  return { server, clock, warned, listen, run, until };
}

test('a page gets the state at once, and again when it is another', async (t) => {
  let markets = 1;
  let asked = 0;
  const { listen, run, until } = await start(t, {
    statusJson: (_selection, reports) => {
      asked += 1;
      return servedDocument({ daemon: { ...reports, markets } });
    },
  });
  const first = await listen('state');
  assert.match(first.response.headers['content-type'] ?? '', /^text\/event-stream/);
  await until(() => first.events.length >= 1);
  const second = await listen('state');
  await until(() => second.events.length >= 1);
  assert.equal(asked, 1, 'the text was there already');
  await run(10);
  assert.equal(asked, 6, 'one producer for both');
  assert.deepEqual([first.names(), second.names()], [['state'], ['state']]);
  markets = 2;
  await run(2);
  await until(() => first.events.length >= 2 && second.events.length >= 2);
  const { text } = STATE.parse(first.events[1]?.data);
  assert.equal(text, 'Ready: 2 markets are collected.');
  await run(30);
  await until(() => first.comments > 1);
});

test('nothing is asked while nobody listens', async (t) => {
  let asked = 0;
  const { clock, listen, run, until } = await start(t, {
    statusJson: (_selection, reports) => {
      asked += 1;
      return servedDocument({ daemon: reports });
    },
  });
  await run(10);
  assert.equal(asked, 0);
  const page = await listen('state');
  await until(() => asked === 1);
  page.response.destroy();
  await until(() => clock.pendingTimers === 0);
  await run(10);
  assert.equal(asked, 1);
});

test('trades of a market are polled for all pages, and none is told twice', async (t) => {
  const trade = (id: number) => ({
    ...{ timeMs: 1000 * id, id: String(id), side: 'buy' as const, price: '1', amount: '2' },
  });
  const asked: [string, number][] = [];
  let stored = [trade(9), trade(10)];
  let fails = false;
  const { listen, run, until, warned } = await start(t, {
    live: {
      activity: () => undefined,
      changed: () => ({ mark: 0, kinds: [] }),
      trades: async (market, sinceMs) => {
        asked.push([market, sinceMs]);
        if (fails) throw new Error('no database');
        return stored.filter(({ timeMs }) => timeMs >= sinceMs);
      },
      book: async (market) => ({ market, timeMs: 5, bids: [], asks: [], spread: null }),
    },
  });
  const market = '<b>:X';
  const first = await listen(`trades:${encodeURIComponent(market)},book:A`);
  await until(() => first.events.length >= 2);
  const second = await listen(`trades:${encodeURIComponent(market)}`);
  await run(1);
  assert.equal(asked.length, 2);
  stored = [trade(10), trade(11)];
  await run(1);
  await until(() => first.events.length >= 3);
  fails = true;
  await run(2);
  fails = false;
  stored = [trade(11), trade(12)];
  await run(1);
  await until(() => first.events.length >= 4);
  const ids = first.events
    .filter(({ name }) => name === 'trades')
    .map(({ data }) => (data as { trades: { id: string }[] }).trades.map(({ id }) => id));
  assert.deepEqual(ids, [['9', '10'], ['11'], ['12']]);
  assert.deepEqual(
    first.names().filter((name) => name === 'book'),
    ['book'],
  );
  assert.deepEqual(asked.at(-1), [market, 11_000]);
  assert.equal(warned[0], `console: events of trades:${market}: no database`);
  await until(() => second.events.length >= 3);
});

test('activity and changes are told once each', async (t) => {
  const step = (atMs: number): ActivityColumns => ({
    ...{ stepS: 10, atMs: [atMs], rowsPerS: { trades: [1] }, lagS: [1], requestsPerS: [1] },
    ...{ commitsPerS: [1], sockets: [1] },
  });
  let atMs = 1;
  let mark = 1;
  const { listen, run, until } = await start(t, {
    live: {
      activity: () => step(atMs),
      changed: (before) => ({ mark, kinds: before === mark ? [] : ['trades'] }),
    },
  });
  const page = await listen('activity,changed');
  await run(6);
  atMs = 2;
  mark = 2;
  await run(6);
  await until(() => page.events.length >= 3);
  assert.deepEqual([...page.names()].sort(), ['activity', 'activity', 'changed']);
});

test('a page that does not read is dropped, and others are told on', async (t) => {
  let at = 0;
  const long = 'x'.repeat(100_000);
  const { server, listen, run, until } = await start(t, {
    live: {
      activity: () => undefined,
      changed: () => ({ mark: 0, kinds: [] }),
      book: async (market) => {
        at += 1;
        return { market, timeMs: at, bids: [[long, '1']], asks: [], spread: null };
      },
    },
  });
  const slow = connect(server.port, '127.0.0.1');
  t.after(() => slow.destroy());
  slow.on('error', () => undefined);
  slow.write('GET /api/v1/events?topics=book:A HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
  await once(slow, 'readable');
  const page = await listen('book:A');
  const before = process.memoryUsage().external;
  await run(200);
  await until(() => page.events.length > 150);
  assert.ok(process.memoryUsage().external - before < 30e6);
  // It reads what the system kept for it, and then the end.
  slow.resume();
  await once(slow, 'close');
  const told = page.events.length;
  await run(2);
  await until(() => page.events.length > told);
});

test('more pages than are served, and topics that there are not, are refused', async (t) => {
  const { server, listen } = await start(t);
  const refusal = async (topics: string) => {
    const answer = await fetch(`${server.url}/api/v1/events${topics}`);
    return [answer.status, ((await answer.json()) as { error: string }).error];
  };
  assert.deepEqual(await refusal('?topics=stats'), [
    400,
    'topics has "stats"; known are state, activity, changed, trades:MARKET, book:MARKET',
  ]);
  assert.equal((await refusal(''))[0], 400);
  assert.equal((await refusal('?topics=trades:'))[0], 400);
  assert.equal((await refusal('?topic=state'))[0], 400);
  const many = Array.from({ length: 13 }, (_, at) => `book:${at}`).join(',');
  assert.equal((await refusal(`?topics=${many}`))[0], 400);
  for (let at = 0; at < 3; at += 1) {
    const own = Array.from({ length: 10 }, (_, one) => `book:${at}-${one}`).join(',');
    await listen(own);
  }
  assert.match(String((await refusal('?topics=book:a,book:b,book:c'))[1]), /^32 markets are/);
  await listen('book:a,book:b');
  // Each has a connection of its own; those beyond the limit take the place of others.
  for (let at = 0; at < 59; at += 1) await listen('state');
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
});

test('a stream ends after an hour, and with the server', async (t) => {
  const { server, clock, listen } = await start(t);
  const page = await listen('changed');
  const ended = once(page.response, 'end');
  clock.standStill(3_600_000);
  clock.advance(1000);
  await ended;
  const second = await listen('changed');
  const closed = new Promise((resolve) => second.response.once('close', resolve));
  await Promise.all([server.stop(), closed]);
  assert.equal(clock.pendingTimers, 0);
});
