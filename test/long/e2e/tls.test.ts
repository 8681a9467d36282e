import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import {
  AUTHORITY,
  type Certificate,
  startTlsFront,
} from '../../support/certificates/tls-front.js';
import { makeDatabase } from '../../support/postgres/postgres.js';
import { Program, startSandbox } from '../../support/programs/program.js';

/** Who is not believed is named with what to do, at once; who is right is collected from. */

const LOG = ['--log-level', 'debug', '--log-format', 'json'];
const WRONG: ReadonlyArray<readonly [Certificate, RegExp]> = [
  ['expired', /certificate has expired; renew it.*CERT_HAS_EXPIRED/],
  ['other-name', /for another host name: use the name.*ERR_TLS_CERT_ALTNAME_INVALID/],
  ['self-signed', /of no authority that this machine knows.*NODE_EXTRA_CA_CERTS/],
];

function start(t: TestContext, env: Readonly<Record<string, string>>): Program {
  const daemon = new Program([...LOG, 'start'], { env: { TAPEKEEP_HTTP_PORT: '0', ...env } });
  t.after(() => daemon.dispose());
  return daemon;
}

async function stopWell(daemon: Program): Promise<void> {
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null }, daemon.dump());
}

async function databaseBehind(t: TestContext, certificate: Certificate): Promise<string> {
  const url = new URL(await makeDatabase('empty'));
  url.port = String(await startTlsFront(t, url, certificate, 'postgres'));
  url.hostname = 'localhost';
  url.search = `?sslmode=verify-full&sslrootcert=${AUTHORITY}`;
  return url.href;
}

for (const [certificate, said] of WRONG) {
  test(`Postgres with a certificate that is ${certificate} is refused by name`, async (t) => {
    const daemon = start(t, { TAPEKEEP_DATABASE_URL: await databaseBehind(t, certificate) });
    assert.equal((await daemon.ended()).code, 3, daemon.dump());
    assert.match(daemon.text('stderr'), said);
    assert.match(daemon.text('stderr'), /no TLS connection to Postgres at localhost:\d+/);
    assert.doesNotMatch(daemon.text('stderr'), /waiting for the database/);
  });
}

test('Postgres with the right certificate, of the authority named, is collected into', async (t) => {
  const daemon = start(t, { TAPEKEEP_DATABASE_URL: await databaseBehind(t, 'right') });
  await daemon.line((line) => line.includes('"committed"'));
  await stopWell(daemon);
});

test('sslmode=require checks the certificate, too, and a word that is none is refused', async (t) => {
  const atMode = async (certificate: Certificate, mode: string) => {
    const url = await databaseBehind(t, certificate);
    return start(t, { TAPEKEEP_DATABASE_URL: url.replace('verify-full', mode) });
  };
  const daemon = await atMode('right', 'require');
  await daemon.line((line) => line.includes('"committed"'));
  await stopWell(daemon);
  assert.doesNotMatch(daemon.text('stderr'), /SECURITY WARNING/);
  const refused = await atMode('other-name', 'verify-ca');
  assert.equal((await refused.ended()).code, 3, refused.dump());
  const unknown = await atMode('right', 'bogus');
  assert.equal((await unknown.ended()).code, 2, unknown.dump());
  assert.match(
    unknown.text('stderr'),
    /database\.url is .*: a URL whose sslmode is one of disable/,
  );
});

test('Postgres without TLS, or an authority whose file is missing, is told at once', async (t) => {
  const plain = new URL(await makeDatabase('empty'));
  for (const [search, said] of [
    ['?sslmode=verify-full', /not set up for TLS: set ssl = on there, or sslmode=disable/],
    ['?sslrootcert=/nowhere/ca.pem', /the file \/nowhere\/ca\.pem, which database\.url names/],
  ] as const) {
    plain.search = search;
    const daemon = start(t, { TAPEKEEP_DATABASE_URL: plain.href });
    assert.equal((await daemon.ended()).code, 3, daemon.dump());
    assert.match(daemon.text('stderr'), said);
  }
});

/** A sandbox behind two fronts, one for each of its addresses. */
async function exchangeBehind(t: TestContext, https: Certificate, wss: Certificate) {
  const { program, ready } = await startSandbox([]);
  t.after(() => program.dispose());
  const front = (url: string, certificate: Certificate) =>
    startTlsFront(t, new URL(url), certificate);
  return {
    TAPEKEEP_EXCHANGE_URL: `https://localhost:${await front(ready.url, https)}`,
    TAPEKEEP_REALTIME_URL: `wss://localhost:${await front(ready.realtimeUrl, wss)}${new URL(ready.realtimeUrl).pathname}`,
    TAPEKEEP_DATABASE_URL: await makeDatabase('empty'),
  };
}

for (const [certificate, said] of WRONG) {
  test(`an exchange with a certificate that is ${certificate} is refused by name`, async (t) => {
    const addresses = await exchangeBehind(t, certificate, certificate);
    const daemon = start(t, { ...addresses, NODE_EXTRA_CA_CERTS: AUTHORITY });
    assert.equal((await daemon.ended()).code, 4, daemon.dump());
    assert.match(daemon.text('stderr'), said);
  });
}

test('an exchange with the right certificate is collected, states too', async (t) => {
  const addresses = await exchangeBehind(t, 'right', 'right');
  const daemon = start(t, { ...addresses, NODE_EXTRA_CA_CERTS: AUTHORITY });
  await daemon.line((line) => line.includes('real-time connection opened'));
  await daemon.line((line) => line.includes('"committed"'));
  await stopWell(daemon);
});

test('a wrong certificate of the real-time address alone is a warning that names it', async (t) => {
  const addresses = await exchangeBehind(t, 'right', 'expired');
  const daemon = start(t, { ...addresses, NODE_EXTRA_CA_CERTS: AUTHORITY });
  const closed = await daemon.line((line) => line.includes('real-time connection closed'));
  assert.match(closed, /"level":"warn".*certificate has expired/);
  await daemon.line((line) => line.includes('"committed"'));
  await stopWell(daemon);
});
