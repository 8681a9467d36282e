import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { limitConnections } from '../../src/kernel/connections.js';
import { startTestStatus } from '../support/status-document.js';

/** Connections that are opened and held, by many or by one. */

const BEGUN = 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n';
/** A login whose body never ends. */
const LOGIN = [
  ...['POST /login HTTP/1.1', 'Host: 127.0.0.1', 'Origin: http://127.0.0.1'],
  ...['Content-Type: application/x-www-form-urlencoded', 'Content-Length: 4000', '', 'token='],
].join('\r\n');

/** Connections whose requests never end; those that are cut are opened again. */
class Drippers {
  readonly #port: number;
  readonly #count: number;
  readonly #begun: string;
  readonly #sockets = new Set<Socket>();
  cut = 0;

  constructor(t: TestContext, port: number, count: number, begun = BEGUN) {
    this.#begun = begun;
    this.#port = port;
    this.#count = count;
    t.after(() => {
      for (const socket of this.#sockets) socket.destroy();
    });
  }

  /** Another header of each, and a new connection for each that was gone. */
  async drip(): Promise<void> {
    for (const socket of this.#sockets) socket.write('X-More: 1\r\n');
    const missing = this.#count - this.#sockets.size;
    for (let at = 0; at < missing; at += 1) {
      const socket = connect(this.#port, '127.0.0.1');
      socket.on('error', () => undefined);
      this.#sockets.add(socket);
      const closed = once(socket, 'close').then(() => {
        this.cut += 1;
        this.#sockets.delete(socket);
      });
      await Promise.race([once(socket, 'connect'), closed]);
      socket.write(this.#begun);
    }
  }
}

function ask(url: string): Promise<number | string> {
  return new Promise((resolve) => {
    const asked = get(url, { agent: false }, (answer: IncomingMessage) => {
      answer.resume();
      answer.once('end', () => resolve(answer.statusCode ?? 0));
    });
    asked.on('error', ({ message }) => resolve(message));
  });
}

for (const [count, begun, what] of [
  [64, BEGUN, 'headers'],
  [500, BEGUN, 'headers'],
  [500, LOGIN, 'a login'],
] as const) {
  test(`health is answered while ${count} connections of one address drip ${what}`, async (t) => {
    const server = await startTestStatus({ token: 'of-some-length' });
    t.after(() => server.stop());
    const drippers = new Drippers(t, server.port, count, begun);
    const answers: (number | string)[] = [];
    for (let round = 0; round < 20; round += 1) {
      await drippers.drip();
      for (const path of ['/healthz', '/readyz']) answers.push(await ask(server.url + path));
    }
    assert.deepEqual(new Set(answers), new Set([200]));
    t.diagnostic(
      `${answers.length} of ${answers.length} answered, ${drippers.cut} connections cut`,
    );
  });
}

test('a request for another protocol is answered, and its connection counts', {
  timeout: 30_000,
}, async (t) => {
  const server = await startTestStatus({ token: 'of-some-length' });
  const sockets: Socket[] = [];
  // They go first: the end of the server waits for a connection that another protocol has.
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  t.after(() => server.stop());
  const closed: Promise<unknown>[] = [];
  const heads = new Set<string>();
  for (let at = 0; at < 70; at += 1) {
    const socket = connect(server.port, '127.0.0.1');
    sockets.push(socket);
    closed.push(once(socket, 'close'));
    socket.write(`${BEGUN}Connection: Upgrade\r\nUpgrade: other\r\n\r\n`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    heads.add(answer.toString().split('\r\n')[0] ?? '');
  }
  assert.deepEqual([...heads], ['HTTP/1.1 200 OK']);
  await Promise.all(closed.slice(0, 6));
});

test('beyond the limit the address that holds most makes room, its longest waiting one first', async (t) => {
  const server = createServer((_request, response) => {
    response.writeHead(200);
    response.write('begun');
  });
  limitConnections(server, 6);
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = async (localAddress: string) => {
    const accepted = once(server, 'connection');
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    socket.on('error', () => undefined);
    t.after(() => socket.destroy());
    await Promise.all([once(socket, 'connect'), accepted]);
    return socket;
  };
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const modest = await open('127.0.0.3');
  const answered = await open('127.0.0.2');
  answered.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(answered, 'data');
  const greedy: Socket[] = [];
  for (let at = 0; at < 4; at += 1) greedy.push(await open('127.0.0.2'));
  const oldest = once(greedy[0] as Socket, 'close');
  const newcomer = await open('127.0.0.4');
  await oldest;
  const next = once(greedy[1] as Socket, 'close');
  const again = await open('127.0.0.2');
  await next;
  const closed = [modest, answered, newcomer, again, ...greedy].map(({ closed: is }) => is);
  assert.deepEqual(closed, [false, false, false, false, true, true, false, false]);
});

test('a connection that has ended takes no room from others', async (t) => {
  const server = createServer();
  limitConnections(server, 2);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.after(() => server.close());
  const open = async () => {
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    return { socket, ofServer: (await accepted)[0] };
  };
  const first = await open();
  const ended = await open();
  const left = once(ended.ofServer, 'close');
  ended.socket.destroy();
  await left;
  await open();
  assert.equal(first.ofServer.destroyed, false);
});

test('a connection whose request was answered makes room before one that waits for its answer', async (t) => {
  const server = createServer((request, response) => {
    response.write('begun');
    if (request.url === '/whole') response.end();
  });
  limitConnections(server, 2);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const ask = async (path: string) => {
    const socket = connect(port, '127.0.0.1').resume();
    socket.on('error', () => undefined);
    t.after(() => socket.destroy());
    const [answered] = await Promise.all([
      once(server, 'request') as Promise<[IncomingMessage, ServerResponse]>,
      once(socket, 'connect').then(() => socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)),
    ]);
    if (path === '/whole' && !answered[1].closed) await once(answered[1], 'close');
    return socket;
  };
  const waiting = await ask('/slow');
  const answered = await ask('/whole');
  const left = once(answered, 'close');
  await ask('/slow');
  await left;
  assert.equal(waiting.closed, false);
});
