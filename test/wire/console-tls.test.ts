import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { StatusServerError } from '../../src/console/server.js';
import { AUTHORITY } from '../support/certificates/tls-front.js';
import { repositoryPath } from '../support/repository/repository.js';
import { startTestStatus } from '../support/status-document.js';

/** The console over TLS. */

const folder = join(repositoryPath, 'test/support/certificates');
const tls = {
  certFile: join(folder, 'right.pem'),
  keyFile: join(folder, 'test-only-key.pem'),
};
const ca = readFileSync(AUTHORITY);
const TOKEN = 'a-token-of-some-length';

async function start(t: TestContext) {
  const server = await startTestStatus({ tls, token: TOKEN });
  t.after(() => server.stop());
  const ask = (path: string, method = 'GET', body = ''): Promise<[number, string, string]> =>
    new Promise((resolve, reject) => {
      const headers = { origin: server.url, 'content-type': 'application/json' };
      const options = { ca, agent: false, method, headers };
      const asked = request(server.url + path, options, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => {
          text += part;
        });
        const [cookie = ''] = answer.headers['set-cookie'] ?? [];
        answer.once('end', () => resolve([answer.statusCode ?? 0, text, cookie]));
      });
      asked.on('error', reject);
      asked.end(body);
    });
  return { server, ask };
}

test('with a certificate it speaks https, and cookies are for that alone', async (t) => {
  const { server, ask } = await start(t);
  assert.match(server.url, /^https:/);
  assert.equal((await ask('/healthz'))[0], 200);
  const [status, , cookie] = await ask('/login', 'POST', JSON.stringify({ token: TOKEN }));
  assert.equal(status, 204);
  assert.match(cookie, /; SameSite=Strict; Secure$/);
  await assert.rejects(fetch(server.url.replace('https', 'http')));
});

test('health is answered beside connections that never finish a handshake or a request', async (t) => {
  const { server, ask } = await start(t);
  const open: Socket[] = [];
  t.after(() => {
    for (const socket of open) socket.destroy();
  });
  const keep = async (socket: Socket, event: string) => {
    socket.on('error', () => undefined);
    open.push(socket);
    await once(socket, event);
  };
  for (let at = 0; at < 100; at += 1) await keep(connect(server.port, '127.0.0.1'), 'connect');
  for (let at = 0; at < 30; at += 1) {
    const socket = connectTls({
      port: server.port,
      host: '127.0.0.1',
      ca,
      servername: 'localhost',
    });
    await keep(socket, 'secureConnect');
    socket.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n');
  }
  for (let at = 0; at < 5; at += 1) assert.equal((await ask('/healthz'))[0], 200);
  const kept = open.filter(({ destroyed }) => !destroyed).length;
  assert.ok(kept <= 64, `${kept} are held`);
});

test('requests of one TLS connection take turns', async (t) => {
  const { server } = await start(t);
  const socket = connectTls({ port: server.port, host: '127.0.0.1', ca, servername: 'localhost' });
  t.after(() => socket.destroy());
  await once(socket, 'secureConnect');
  socket.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(50));
  let text = '';
  while (text.split('HTTP/1.1 200').length <= 50) {
    const [bytes] = (await once(socket, 'data')) as [Buffer];
    text += bytes.toString();
  }
});

test('files that are no certificate and its key are named', async () => {
  const refused = async (files: typeof tls, text: RegExp) => {
    await assert.rejects(startTestStatus({ tls: files }), (error) => {
      assert.ok(error instanceof StatusServerError);
      assert.match(error.message, text);
      return true;
    });
  };
  await refused({ ...tls, keyFile: '/absent.pem' }, /http\.tls\.keyFile cannot be read/);
  await refused({ certFile: tls.keyFile, keyFile: tls.certFile }, /no certificate and its key/);
});
