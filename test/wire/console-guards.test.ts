import assert from 'node:assert/strict';
import { request } from 'node:http';
import { type TestContext, test } from 'node:test';
import { healthReport } from '../../src/console/health.js';
import type { StatusServer, StatusServerOptions } from '../../src/console/server.js';
import { sendRaw } from '../support/fuzz/fuzz-http.js';
import { startTestStatus } from '../support/status-document.js';

/** Who is answered by the console, and who is not. */

const TOKEN = 'a-token-of-some-length';
const VIEWER = 'another-token-of-a-viewer';

async function start(t: TestContext, options: Partial<StatusServerOptions> = {}) {
  const server = await startTestStatus(options);
  t.after(() => server.stop());
  return server;
}

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
const basic = (login: string) => ({
  headers: { authorization: `Basic ${Buffer.from(login).toString('base64')}` },
});

/** Status of a GET with a Host header of choice, which fetch would not send. */
function statusFor(server: StatusServer, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request({ port: server.port, host: '127.0.0.1', headers: { host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asked.on('error', reject);
    asked.end();
  });
}

/** Status of a request with these header lines, and its answer. */
async function raw(port: number, lines: readonly string[], body = ''): Promise<string> {
  const [first = '', ...more] = lines;
  const head = [first, 'Host: 127.0.0.1', ...more, 'Connection: close', '', body];
  return await sendRaw(port, head.join('\r\n'));
}

const statusOf = (answer: string) => Number(answer.split(' ')[1]);

test('each address answers its own methods', async (t) => {
  const server = await start(t);
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
    const answer = await fetch(`${server.url}/status`, { method });
    assert.equal(answer.status, 405, method);
    assert.equal(answer.headers.get('allow'), 'GET, HEAD');
  }
  const fill = await fetch(`${server.url}/api/v1/fill`, { method: 'DELETE' });
  assert.equal(fill.headers.get('allow'), 'POST, GET, HEAD');
  for (const path of ['/', '/status', '/metrics', '/healthz', '/readyz']) {
    const answer = await fetch(server.url + path, { method: 'HEAD' });
    assert.equal(answer.status, 200, path);
    assert.notEqual(answer.headers.get('content-length'), '0', path);
    assert.equal(await answer.text(), '');
  }
});

test('with a token set, everything but health asks for it', async (t) => {
  const ill = healthReport([{ name: 'database', ok: false, detail: 'refused' }]);
  const server = await start(t, { token: TOKEN, ready: async () => ill });
  for (const path of ['/', '/status', '/metrics', '/absent', '//healthz', '/healthz/']) {
    assert.equal((await fetch(server.url + path)).status, 401, path);
  }
  for (const path of ['/', '/status', '/metrics', '/api/v1/who']) {
    assert.equal((await fetch(server.url + path, bearer('wrong-token'))).status, 401, path);
    assert.equal((await fetch(server.url + path, bearer(TOKEN))).status, 200, path);
  }
  const asked = (await fetch(server.url)).headers.get('www-authenticate') ?? '';
  assert.match(asked, /^Basic realm="tapekeep", charset="UTF-8", Bearer$/);
  for (const [login, status] of [
    [`operator:${TOKEN}`, 200],
    [`:${TOKEN}`, 200],
    [`${TOKEN}:`, 401],
    [`operator:${TOKEN}x`, 401],
    ['operator', 401],
    ['', 401],
  ] as const) {
    assert.equal((await fetch(server.url, basic(login))).status, status, login);
  }
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
  const open = await fetch(`${server.url}/readyz`);
  assert.equal(open.status, 503);
  assert.doesNotMatch(await open.text(), /refused/);
  assert.match(await (await fetch(`${server.url}/readyz`, bearer(TOKEN))).text(), /refused/);
});

test('a viewer reads and does not act', async (t) => {
  const server = await start(t, { token: TOKEN, viewerToken: VIEWER });
  const of = async (path: string, token: string, method = 'GET') => {
    const body = method === 'GET' ? {} : { body: '{}' };
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(server.url + path, { method, headers, ...body });
    return [answer.status, await answer.json()] as const;
  };
  assert.deepEqual(await of('/api/v1/who', VIEWER), [
    ...[200, { role: 'viewer', isLoginNeeded: true, version: '0.0.0' }],
  ]);
  assert.equal((await of('/api/v1/status', VIEWER))[0], 200);
  const refused = {
    error: 'this needs the token of http.token; yours is that of http.viewerToken',
  };
  assert.deepEqual(await of('/api/v1/log', VIEWER), [403, refused]);
  assert.deepEqual(await of('/api/v1/fill', VIEWER, 'POST'), [403, refused]);
  // No handler is there in this test, but the right is.
  assert.equal((await of('/api/v1/log', TOKEN))[0], 501);
  assert.equal((await of('/api/v1/fill', TOKEN, 'POST'))[0], 501);
});

test('without a token, a page of another origin cannot read through a name of its own', async (t) => {
  const server = await start(t);
  assert.equal(await statusFor(server, `evil.example:${server.port}`), 403);
  assert.equal(await statusFor(server, `localhost:${server.port}`), 200);
  assert.equal(await statusFor(server, `[::1]:${server.port}`), 200);
});

test('two Host headers, and what pages of other sites ask, are refused', async (t) => {
  for (const token of [null, TOKEN]) {
    const { port } = await start(t, { token });
    const login = `Authorization: Basic ${Buffer.from(`a:${TOKEN}`).toString('base64')}`;
    const get = async (...more: string[]) =>
      statusOf(await raw(port, ['GET /status HTTP/1.1', login, ...more]));
    assert.equal(await get(), 200);
    assert.equal(await get('Host: 127.0.0.1'), 400);
    assert.equal(await get('Host: evil.example'), 400);
    assert.equal(await get('Sec-Fetch-Site: cross-site'), 403);
    assert.equal(await get('Sec-Fetch-Site: same-site'), 403);
    assert.equal(await get('Sec-Fetch-Site: same-origin'), 200);
    assert.equal(await get('Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate'), 200);
  }
});

test('a page of another site changes nothing, whatever login the browser adds', async (t) => {
  const { port } = await start(t, { token: TOKEN });
  const basicLogin = `Authorization: Basic ${Buffer.from(`a:${TOKEN}`).toString('base64')}`;
  const post = async (...more: string[]) => {
    const body = ['Content-Type: application/json', 'Content-Length: 2'];
    return statusOf(await raw(port, ['POST /api/v1/fill HTTP/1.1', ...body, ...more], '{}'));
  };
  const bearerLogin = `Authorization: Bearer ${TOKEN}`;
  assert.equal(await post(bearerLogin), 501, 'a program');
  assert.equal(await post(basicLogin), 403, 'a browser that names no page');
  assert.equal(await post(basicLogin, 'Origin: http://127.0.0.1'), 501);
  assert.equal(await post(basicLogin, 'Origin: http://127.0.0.1:9'), 403);
  for (const login of [basicLogin, bearerLogin]) {
    assert.equal(await post(login, 'Origin: http://evil.example'), 403);
    assert.equal(await post(login, 'Origin: null'), 403);
    const navigation = ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: navigate'];
    assert.equal(await post(login, ...navigation), 403);
  }
  const form = ['Content-Type: application/x-www-form-urlencoded', 'Content-Length: 2'];
  const sent = await raw(port, ['POST /api/v1/fill HTTP/1.1', ...form, bearerLogin], '{}');
  assert.equal(statusOf(sent), 415);
});

test('huge headers and bodies are refused, and counted', async (t) => {
  const answered: string[] = [];
  const server = await start(t, {
    telemetry: {
      warned: () => undefined,
      loginTried: () => undefined,
      consoleAnswered: ({ endpoint, status }) => answered.push(`${endpoint} ${status}`),
    },
  });
  const long = await fetch(server.url, { headers: { 'x-long': 'a'.repeat(20_000) } });
  assert.equal(long.status, 431);
  const post = async (path: string, body: string) => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(server.url + path, { method: 'POST', headers, body });
    return [answer.status, ((await answer.json()) as { error: string }).error];
  };
  const large = JSON.stringify({ sql: 'x'.repeat(600_000) });
  const tooLarge = [413, 'the body is too large; ask in parts'];
  assert.deepEqual(await post('/api/v1/query', large), tooLarge);
  assert.deepEqual(await post('/login', large), tooLarge);
  assert.deepEqual(await post('/api/v1/query', '{"sql":'), [
    ...[400, 'the body is no valid JSON; send one JSON object'],
  ]);
  assert.deepEqual(await post('/api/v1/query', '{"__proto__":{"limit":1}}'), [
    ...[400, 'the body is no valid JSON; send one JSON object'],
  ]);
  assert.deepEqual(await post('/api/v1/query', '[]'), [400, 'send one JSON object as the body']);
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
  assert.deepEqual(answered, [
    ...['other 431', 'api/query 413', 'login 413', 'api/query 400', 'api/query 400'],
    ...['api/query 400', 'healthz 200'],
  ]);
});

test('no path leads out of the files of the pages', async (t) => {
  const { port } = await start(t);
  const get = async (path: string) => statusOf(await raw(port, [`GET ${path} HTTP/1.1`]));
  assert.equal(await get('/assets/app.js'), 200);
  assert.equal(await get('/assets/deep/app.css'), 200);
  for (const path of [
    ...['/assets/../package.json', '/assets/%2e%2e/package.json', '/assets/..%2f..%2fpackage.json'],
    ...['/assets/deep/../app.js', '/assets//etc/passwd', '/assets/', '/assets', '/../etc/passwd'],
    ...['/assets/app.js%00.css', '/assets/..\\package.json', '/assets/constructor', '/assets/%ff'],
  ]) {
    const status = await get(path);
    assert.ok(status === 404 || status === 400, `${path} ${status}`);
  }
});
