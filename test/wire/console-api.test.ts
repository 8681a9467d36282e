import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { Handlers } from '../../src/console/api/endpoints.js';
import { Refusal } from '../../src/console/api/refusal.js';
import type { StatusServerOptions } from '../../src/console/server.js';
import { TapekeepError } from '../../src/kernel/errors.js';
import { FakeClock } from '../support/fake-clock.js';
import { startTestStatus } from '../support/status-document.js';

/** The API as the table of endpoints has it: input, formats, failures. */

/** Inputs that handlers got, by endpoint. */
const got = new Map<string, unknown>();

const keep =
  <T>(name: string, answer: T) =>
  async (input: unknown) => {
    got.set(name, input);
    return answer;
  };

const TRADE = { timeMs: 1000, id: '1', side: 'buy', price: '1.50', amount: '2' } as const;
const HANDLERS: Partial<Handlers> = {
  gaps: keep('gaps', { gaps: [] } as never),
  gap: keep('gap', {} as never),
  note: keep('note', { id: '7', note: 'x' }),
  day: keep('day', {} as never),
  trades: keep('trades', {
    market: 'A',
    from: '2026-01-01T00:00:00.000Z',
    to: '2026-01-02T00:00:00.000Z',
    trades: [TRADE, { ...TRADE, id: 'a"b,c' }],
    isCut: true,
  }),
  query: keep('query', {
    columns: [
      { name: 'n', type: 'int8' },
      { name: 'what', type: 'text' },
    ],
    rows: [
      ['1', null],
      ['2', '<b>\nline'],
    ],
    isCut: false,
    durationMs: 1,
  }),
};

async function start(t: TestContext, options: Partial<StatusServerOptions> = {}) {
  const server = await startTestStatus({ handlers: HANDLERS, ...options });
  t.after(() => server.stop());
  const ask = async (path: string, init: RequestInit = {}) => {
    const answer = await fetch(`${server.url}/api/v1${path}`, init);
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, text };
  };
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    ask(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const fault = async (path: string) => {
    const { status, text } = await ask(path);
    assert.equal(status, 400, text);
    return (JSON.parse(text) as { error: string }).error;
  };
  return { server, ask, post, fault };
}

test('lists are repeated parameters or commas, in any case, singular or plural', async (t) => {
  const { ask } = await start(t);
  await ask('/gaps?market=A,B&market=C&kind=trade&kind=Candles&state=open');
  assert.deepEqual(got.get('gaps'), {
    ...{ market: ['A', 'B', 'C'], kind: ['trades', 'candles'], state: ['open'], limit: 50 },
  });
  await ask('/gaps/trades%2FA%201');
  assert.deepEqual(got.get('gap'), { id: 'trades/A 1' });
  await ask('/days/%3Cimg%20src=x%3E/candles/2026-01-31?variant=60');
  assert.deepEqual(got.get('day'), {
    ...{ market: '<img src=x>', kind: 'candles', day: '2026-01-31', variant: 60 },
  });
});

test('a wrong parameter is named, with what to do', async (t) => {
  const { fault, post } = await start(t);
  for (const [path, text] of [
    ['/gaps?martket=A', 'unknown parameter "martket"; did you mean market?'],
    ['/gaps?__proto__=A', /^unknown parameter "__proto__"; known are market, kind, state/],
    ['/who?a=1', 'unknown parameter "a"; this endpoint takes none'],
    ['/gaps?limit=0', 'limit is "0" and must be a whole number from 1 to 5000'],
    ['/gaps?limit=x', 'limit is "x" and must be a whole number from 1 to 5000'],
    ['/gaps?limit=1&limit=2', 'limit is given 2 times; give it once'],
    ['/gaps?limit=', 'limit is empty; leave it out or give it a value'],
    ['/gaps?state=opne', /^state is "opne" and must be a list, each one of open, filling/],
    ['/gaps?state=opne', /did you mean open\?$/],
    ['/gaps?from=noon', /^from is "noon" and must be an ISO 8601 time, a date, or a duration/],
    ['/trades', 'market is missing; it must be a text of 1 to 200 characters'],
    ['/trades?market=A&format=xml', 'format is "xml" and must be one of json, ndjson, csv'],
    ['/gaps?format=csv', /^unknown parameter "format"/],
    ['/gaps/7?id=8', 'id is part of the path; give it there alone'],
    ['/days/A/bids/2026-01-31', /^kind is "bids" and must be one of trades/],
    ['/days/A/trades/2026-02-31', 'day is "2026-02-31" and must be a date such as 2026-01-31'],
  ] as const) {
    const error = await fault(path);
    if (typeof text === 'string') assert.equal(error, text);
    else assert.match(error, text);
  }
  const { status, text } = await post('/gaps/7/note', { note: 'x', nope: 1 });
  assert.deepEqual(
    [status, JSON.parse(text)],
    [...[400, { error: 'unknown parameter "nope"; did you mean note?' }]],
  );
  const again = await post('/gaps/7/note', { note: 5 });
  assert.match(again.text, /note is 5 and must be a text of 1 to 1000 characters/);
  assert.equal((await post('/gaps/7/note', { note: ' why ' })).status, 200);
  assert.deepEqual(got.get('note'), { id: '7', note: 'why' });
});

test('rows come as JSON, NDJSON or CSV', async (t) => {
  const { ask, post } = await start(t);
  const json = await ask('/trades?market=A');
  assert.match(json.headers.get('content-type') ?? '', /^application\/json/);
  const lines = await ask('/trades?market=A&format=ndjson');
  assert.match(lines.headers.get('content-type') ?? '', /^application\/x-ndjson/);
  assert.equal(lines.headers.get('x-is-cut'), 'true');
  assert.deepEqual(
    lines.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
    [...[TRADE, { ...TRADE, id: 'a"b,c' }]],
  );
  const csv = await ask('/trades?market=A', { headers: { accept: 'text/csv' } });
  assert.equal(
    csv.text,
    'timeMs,id,side,price,amount\r\n1000,1,buy,1.50,2\r\n1000,"a""b,c",buy,1.50,2\r\n',
  );
  const sql = await post('/query?format=csv', { sql: 'select 1' });
  assert.equal(sql.text, 'n,what\r\n1,\r\n2,"<b>\nline"\r\n');
  const rows = await post('/query', { sql: 'x' }, { accept: 'application/x-ndjson' });
  assert.equal(rows.text, '{"n":"1","what":null}\n{"n":"2","what":"<b>\\nline"}\n');
  const head = await ask('/trades?market=A&format=csv', { method: 'HEAD' });
  assert.deepEqual([head.status, head.text], [200, '']);
});

test('what a handler refuses is told, what fails is logged', async (t) => {
  const warned: string[] = [];
  const throws = (error: Error) => ({ gaps: () => Promise.reject(error) });
  let handlers: Partial<Handlers> = {};
  const { ask } = await start(t, {
    handlers: { gaps: (...of) => (handlers.gaps ?? (() => Promise.reject(new Error())))(...of) },
    telemetry: {
      warned: ({ message }) => warned.push(message),
      consoleAnswered: () => undefined,
      loginTried: () => undefined,
    },
  });
  const answer = async (error: Error) => {
    handlers = throws(error);
    const { status, text, headers } = await ask('/gaps');
    return [status, (JSON.parse(text) as { error: string }).error, headers.get('retry-after')];
  };
  assert.deepEqual(await answer(new Refusal(404, 'no gap 7')), [404, 'no gap 7', null]);
  assert.deepEqual(await answer(new Refusal(429, 'later', 5)), [429, 'later', '5']);
  const usage = new TapekeepError('usage', 'no such kind');
  assert.deepEqual(await answer(usage), [400, 'no such kind', null]);
  assert.deepEqual(warned, []);
  const inner = await answer(new Error('inner canary'));
  assert.deepEqual(inner, [503, 'cannot be answered at present; see the log', null]);
  assert.deepEqual(warned, ['console: api/gaps: inner canary']);
});

test('work ends when the client is gone, and after its time', async (t) => {
  const clock = new FakeClock();
  const events = new EventEmitter();
  const signals: AbortSignal[] = [];
  const { server } = await start(t, {
    clock,
    handlers: {
      gaps: (_input, signal) => {
        signals.push(signal);
        events.emit('asked');
        return new Promise(() => undefined);
      },
    },
  });
  const url = `${server.url}/api/v1/gaps`;
  const leaving = new AbortController();
  let asked = once(events, 'asked');
  const left = fetch(url, { signal: leaving.signal }).catch(() => 'left');
  await asked;
  const [first] = signals;
  assert.ok(first !== undefined);
  const ended = once(first, 'abort');
  leaving.abort();
  assert.equal(await left, 'left');
  await ended;
  asked = once(events, 'asked');
  const late = fetch(url);
  await asked;
  clock.advance(30_000);
  const answer = await late;
  assert.equal(answer.status, 503);
  assert.match(await answer.text(), /no answer within 30 s; ask for less/);
  assert.equal(signals[1]?.aborted, true);
});

test('an endpoint without a handler is answered 501', async (t) => {
  const { ask } = await start(t);
  const { status, text } = await ask('/markets');
  assert.deepEqual([status, text], [501, '{"error":"markets is not served by this version"}']);
});

test('answers that nobody reads are bounded, and make room when their readers go', async (t) => {
  const trade = { ...TRADE, id: 'x'.repeat(1_048_576) };
  const trades = Array.from({ length: 20 }, () => trade);
  const { server, ask } = await start(t, {
    handlers: { ...HANDLERS, trades: async () => ({ trades }) as never },
  });
  const sockets = [];
  for (let reader = 0; reader < 4; reader += 1) {
    const socket = connect(server.port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.write('GET /api/v1/trades?market=A HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
    await once(socket, 'data');
    socket.pause();
    sockets.push(socket);
  }
  const refused = await ask('/trades?market=A');
  assert.equal(refused.status, 503);
  assert.match(refused.text, /answers of 64 MB wait for their readers/);
  for (const socket of sockets) socket.destroy();
  let status: number = refused.status;
  while (status === 503) ({ status } = await ask('/trades?market=A'));
  assert.equal(status, 200);
});
