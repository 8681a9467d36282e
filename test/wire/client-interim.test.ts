import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import test from 'node:test';
import { successEnvelope } from '../../src/contract/error-shapes.js';
import { rawJson, startTcpStub } from '../support/exchanges/stub-server.js';
import { makeStubClient } from '../support/exchanges/stub-server-client.js';

/** Interim responses (RFC 9110, section 15.2), which a client may get without having asked for them. */

const REPLY = rawJson(JSON.stringify(successEnvelope([])));
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const HINTS = 'HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n';

/** A server that answers each request on a connection with the same bytes, in pieces of a size. */
async function startAnswering(t: test.TestContext, bytes: string, pieceBytes = bytes.length) {
  let requests = 0;
  const answer = (socket: Socket) => {
    requests += 1;
    const send = (at: number) => {
      if (at >= bytes.length || socket.destroyed) return;
      socket.write(bytes.slice(at, at + pieceBytes), () => setImmediate(send, at + pieceBytes));
    };
    send(0);
  };
  const stub = await startTcpStub(t, (socket) => {
    answer(socket);
    socket.on('data', () => answer(socket));
  });
  const { client } = makeStubClient(t, `http://127.0.0.1:${stub.port}`, { connections: 1 });
  return { client, stub, requests: () => requests };
}

for (const [name, interim] of Object.entries({
  'a 100 Continue': CONTINUE,
  'a 100 Continue with fields': 'HTTP/1.1 100 Continue\r\nserver: old\r\n\r\n',
  'two of 100 Continue': CONTINUE + CONTINUE,
  'Early Hints': HINTS,
  'Early Hints, then a 100 Continue': HINTS + CONTINUE,
})) {
  for (const pieceBytes of [undefined, 1, 7]) {
    const how = pieceBytes === undefined ? 'in one piece' : `in pieces of ${pieceBytes}`;
    test(`reads the response behind ${name}, ${how}`, async (t) => {
      const { client, stub, requests } = await startAnswering(t, interim + REPLY, pieceBytes);
      for (let at = 0; at < 3; at += 1) assert.deepEqual((await client.markets()).data, []);
      assert.equal(requests(), 3, 'no request was repeated');
      assert.equal(stub.sockets.length, 1, 'the connection stayed');
    });
  }
}

test('a body that contains an interim response is left as it is', async (t) => {
  const text = `${CONTINUE}${HINTS}`;
  const reply = rawJson(JSON.stringify({ ...successEnvelope([]), note: text }));
  const { client } = await startAnswering(t, CONTINUE + reply, 16);
  assert.deepEqual((await client.markets()).data, []);
});

test('refuses an interim response that does not end', async (t) => {
  const endless = `HTTP/1.1 100 Continue\r\n${'x: y\r\n'.repeat(20_000)}`;
  const { client } = await startAnswering(t, endless);
  await assert.rejects(client.markets(), /no answer|connection/);
});
