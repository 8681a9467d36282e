import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { StatusServerOptions } from '../../src/console/server.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/kernel/durations.js';
import { FakeClock } from '../support/fake-clock.js';
import { startTestStatus } from '../support/status-document.js';

/** Browsers: pages, the form, and the cookie. */

const TOKEN = 'a-token-of-some-length';

async function start(t: TestContext, options: Partial<StatusServerOptions> = {}) {
  const outcomes: string[] = [];
  const server = await startTestStatus({
    token: TOKEN,
    telemetry: {
      warned: () => undefined,
      consoleAnswered: () => undefined,
      loginTried: ({ outcome }) => outcomes.push(outcome),
    },
    ...options,
  });
  t.after(() => server.stop());
  /** As a browser would: fetch of Node has headers of its own about that. */
  const send = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    new Promise((resolve, reject) => {
      const asked = request(server.url + path, { headers }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.once('end', () => {
          const { statusCode: status = 0, headersDistinct } = answer;
          const names = Object.entries(headersDistinct).map(([name, values = []]) => {
            return [name, values.join(', ')] as [string, string];
          });
          const body = status === 304 || status === 204 ? null : Buffer.concat(chunks);
          resolve(new Response(body, { status, headers: names }));
        });
      });
      asked.on('error', reject);
      asked.end();
    });
  const post = (path: string, fields: Record<string, string>, headers = {}) =>
    fetch(server.url + path, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { origin: server.url, ...headers },
      redirect: 'manual',
    });
  return { server, outcomes, send, post };
}

const cookieOf = (answer: Response) => (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
const NAVIGATION = { 'sec-fetch-mode': 'navigate', 'sec-fetch-site': 'none' };

test('a browser without a login is led to the form and back', async (t) => {
  const { send, post, outcomes } = await start(t);
  for (const path of ['/', '/gaps?state=open', '/market/BTC_USDT']) {
    const answer = await send(path, NAVIGATION);
    assert.equal(answer.status, 303, path);
    assert.equal(answer.headers.get('location'), `/login?next=${encodeURIComponent(path)}`);
    assert.equal((await send(path, { accept: 'text/html,*/*' })).status, 303);
    assert.equal((await send(path)).status, 401, 'a program');
  }
  assert.equal((await send('/metrics', NAVIGATION)).status, 401);
  const form = await send('/login', NAVIGATION);
  assert.equal(form.status, 200);
  assert.match(form.headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/);
  const wrong = await post('/login', { token: 'x', next: '/gaps' });
  assert.equal(wrong.status, 303);
  assert.equal(wrong.headers.get('location'), '/login?next=%2Fgaps#wrong');
  const right = await post('/login', { token: TOKEN, next: '/gaps?state=open' });
  assert.equal(right.status, 303);
  assert.equal(right.headers.get('location'), '/gaps?state=open');
  assert.match(
    right.headers.get('set-cookie') ?? '',
    /^tapekeep_session=[\w-]{43}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Strict$/,
  );
  const cookie = cookieOf(right);
  assert.equal((await send('/gaps', { ...NAVIGATION, cookie })).status, 200);
  assert.equal((await send('/api/v1/who', { cookie: `a=b; ${cookie}; c=d` })).status, 200);
  assert.deepEqual(outcomes, ['wrong', 'ok']);
  for (const next of ['//evil.example', 'https://evil.example', '/\\evil.example', '/login', 'x']) {
    const answer = await post('/login', { token: TOKEN, next });
    assert.equal(answer.headers.get('location'), '/', next);
  }
});

test('a script of a page gets no question of the browser', async (t) => {
  const { send } = await start(t);
  const script = { 'sec-fetch-mode': 'cors', 'sec-fetch-site': 'same-origin' };
  const answer = await send('/api/v1/status', script);
  assert.equal(answer.status, 401);
  assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
});

test('a link on another site shows the page, which asks with its cookie', async (t) => {
  const { send } = await start(t);
  const link = { 'sec-fetch-mode': 'navigate', 'sec-fetch-site': 'cross-site' };
  assert.equal((await send('/gaps', link)).status, 200);
  assert.equal((await send('/api/v1/gaps', link)).status, 401);
});

test('a cookie ends by logout, after a pause and after a week', async (t) => {
  const clock = new FakeClock();
  const { send, post } = await start(t, { clock });
  const login = async () => cookieOf(await post('/login', { token: TOKEN }));
  const isKnown = async (cookie: string) => (await send('/api/v1/who', { cookie })).status === 200;
  const first = await login();
  const out = await post('/logout', {}, { cookie: first });
  assert.equal(out.headers.get('location'), '/login');
  assert.match(out.headers.get('set-cookie') ?? '', /^tapekeep_session=; Path=\/; Max-Age=0;/);
  assert.equal(await isKnown(first), false);

  const second = await login();
  clock.advance(11 * HOUR_MS);
  assert.equal(await isKnown(second), true);
  clock.advance(11 * HOUR_MS);
  assert.equal(await isKnown(second), true);
  clock.advance(12 * HOUR_MS + 1);
  assert.equal(await isKnown(second), false);

  const third = await login();
  for (let day = 0; day < 14; day += 1) {
    assert.equal(await isKnown(third), true);
    clock.advance(DAY_MS / 2);
  }
  clock.advance(1);
  assert.equal(await isKnown(third), false, 'a week');
  const stranger = `tapekeep_session=${'A'.repeat(43)}`;
  assert.equal(await isKnown(stranger), false);
});

test('a cookie acts for its own page alone', async (t) => {
  const { server, post } = await start(t);
  const cookie = cookieOf(await post('/login', { token: TOKEN }));
  const fill = async (headers: Record<string, string>) => {
    const all = { 'content-type': 'application/json', cookie, ...headers };
    const answer = await fetch(`${server.url}/api/v1/fill`, {
      ...{ method: 'POST', body: '{}', headers: all },
    });
    return answer.status;
  };
  assert.equal(await fill({ origin: server.url }), 501);
  assert.equal(await fill({ 'sec-fetch-site': 'same-origin' }), 501);
  assert.equal(await fill({}), 403);
  assert.equal(await fill({ origin: 'http://evil.example' }), 403);
  assert.equal(await fill({ 'sec-fetch-site': 'same-site' }), 403);
  assert.equal(
    (await post('/login', { token: TOKEN }, { origin: 'http://evil.example' })).status,
    403,
  );
});

test('after ten wrong tokens an address waits, and others do not', async (t) => {
  const clock = new FakeClock();
  const { send, post, outcomes } = await start(t, { clock });
  const from = (address: string) => ({ 'x-forwarded-for': address });
  const type = async (token: string, address: string) => {
    const answer = await post('/login', { token }, from(address));
    return [answer.headers.get('location'), answer.headers.get('retry-after')];
  };
  for (let at = 0; at < 10; at += 1) {
    assert.deepEqual(await type('wrong', '10.0.0.1'), ['/login?next=%2F#wrong', null]);
  }
  assert.deepEqual(await type(TOKEN, '10.0.0.1'), ['/login?next=%2F#limited', '60']);
  assert.deepEqual(await type(TOKEN, '10.0.0.2'), ['/', null]);
  const program = { authorization: `Bearer ${TOKEN}` };
  assert.equal((await send('/status', { ...program, ...from('10.0.0.1') })).status, 429);
  assert.equal((await send('/status', program)).status, 200);
  assert.equal((await send('/healthz', { ...program, ...from('10.0.0.1') })).status, 200);
  clock.advance(MINUTE_MS);
  assert.deepEqual(await type(TOKEN, '10.0.0.1'), ['/', null]);

  // Sixty of as many addresses: people wait, programs do not.
  for (let at = 0; at < 60; at += 1) await type('wrong', `10.0.1.${at}`);
  assert.deepEqual(await type(TOKEN, '10.0.0.3'), ['/login?next=%2F#limited', '60']);
  assert.equal((await send('/status', program)).status, 200);
  const count = (name: string) => outcomes.filter((one) => one === name).length;
  assert.deepEqual([count('wrong'), count('limited'), count('ok')], [70, 4, 2]);
});

test('a script that logs in gets a status', async (t) => {
  const { server } = await start(t);
  const login = async (token: string) => {
    const headers = { 'content-type': 'application/json', origin: server.url };
    const body = JSON.stringify({ token });
    return await fetch(`${server.url}/login`, { method: 'POST', headers, body });
  };
  const right = await login(TOKEN);
  assert.equal(right.status, 204);
  assert.match(cookieOf(right), /^tapekeep_session=/);
  assert.equal((await login('wrong')).status, 401);
});

test('behind a proxy with TLS the cookie is for TLS alone', async (t) => {
  const { post } = await start(t);
  const answer = await post('/login', { token: TOKEN }, { 'x-forwarded-proto': 'https' });
  assert.match(answer.headers.get('set-cookie') ?? '', /; Secure$/);
});

test('files of the pages are compressed, and asked for again by their tag', async (t) => {
  const assetsFolder = await mkdtemp(join(tmpdir(), 'tapekeep-assets-'));
  t.after(() => rm(assetsFolder, { recursive: true }));
  const text = 'document.title = "ready";';
  await writeFile(join(assetsFolder, 'app.js'), text);
  await writeFile(join(assetsFolder, 'app.js.gz'), gzipSync(text));
  const { server, send } = await start(t, { assetsFolder });
  const whole = await send('/assets/app.js', { 'accept-encoding': 'gzip' });
  assert.equal(whole.headers.get('content-encoding'), 'gzip');
  assert.equal(gunzipSync(Buffer.from(await whole.arrayBuffer())).toString(), text);
  const plain = await send('/assets/app.js', { 'accept-encoding': 'identity' });
  assert.equal(plain.headers.get('content-encoding'), null);
  assert.equal(plain.headers.get('content-type'), 'text/javascript; charset=utf-8');
  const again = await send('/assets/app.js', {
    'if-none-match': plain.headers.get('etag') ?? '',
  });
  assert.equal(again.status, 304);
  const headers = { authorization: `Bearer ${TOKEN}` };
  const page = await fetch(server.url, { headers });
  assert.equal(page.status, 503);
  assert.match(await page.text(), /npm run build/);
});
