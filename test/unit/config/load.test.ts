import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Document, parse } from 'yaml';
import { DEFAULTS, KEY_PATHS, VARIABLES, variableOf } from '../../../src/config/keys.js';
import { ConfigError } from '../../../src/config/layers.js';
import {
  exchangeNameOf,
  type LoadOptions,
  lineOfFile,
  loadConfig,
  loadSettings,
  redactUrl,
} from '../../../src/config/load.js';
import { SECRET_KEYS } from '../../../src/config/schema.js';
import { defaultYaml, defaultYamlPath } from '../../support/repository/repository.js';

const folder = mkdtempSync(join(tmpdir(), 'tapekeep-config-'));
after(() => rmSync(folder, { recursive: true }));

let files = 0;
function fileOf(text: string): string {
  files += 1;
  const path = join(folder, `${files}.yaml`);
  writeFileSync(path, text);
  return path;
}

function refusal(options: LoadOptions): ConfigError {
  try {
    loadConfig(options);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error;
  }
  return assert.fail('the settings were accepted');
}

const EXCHANGE = {
  exchange: { url: 'https://api.example.test' },
  realtime: { url: 'wss://ws.example.test' },
};

test('the documented file holds every key with the default that the program uses', () => {
  assert.deepEqual(loadConfig({ file: defaultYamlPath, env: {} }), DEFAULTS);
  const leaves = (tree: object, above: string): string[] =>
    Object.entries(tree).flatMap(([name, value]) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? leaves(value, `${above}${name}.`)
        : [`${above}${name}`],
    );
  assert.deepEqual(new Set(leaves(parse(defaultYaml()) as object, '')), KEY_PATHS);
});

test('every setting is shown with its source as the file has it, and secrets are not', () => {
  const file = fileOf('http:\n  token: 0123456789abcdef\nstreams:\n  trades:\n    history: 5d\n');
  const env = {
    TAPEKEEP_DATABASE_URL: 'postgres://u:hidden@h/d',
    TAPEKEEP_MARKETS: 'A_B,C_D',
    TAPEKEEP_EXCHANGE_NAME: '17',
    TAPEKEEP_HTTP_PORT: '9000',
    TAPEKEEP_STREAMS_DEPTH_ENABLED: 'false',
    TAPEKEEP_STREAMS_CANDLES_HISTORY: 'none',
    TAPEKEEP_RETENTION_DEPTH: 'forever',
    TAPEKEEP_REALTIME_URL: 'null',
    TAPEKEEP_ACCOUNT_KEY: 'key://of-an-account',
    TAPEKEEP_ACCOUNT_SECRET: '12345678',
  };
  const shown = loadSettings({ file, env }).shown();
  assert.deepEqual(new Set(shown.map(({ name }) => name)), KEY_PATHS);
  const set = shown.filter(({ isDefault }) => !isDefault);
  const port = shown.find(({ name }) => name === 'http.port');
  assert.equal(port?.about, '0: a free port.');
  assert.deepEqual(
    set.map(({ name, value, source }) => [
      name,
      value,
      lineOfFile(value),
      source.split(' ').at(-1),
    ]),
    [
      ['markets', ['A_B', 'C_D'], '[A_B, C_D]', 'TAPEKEEP_MARKETS'],
      ['exchange.name', '17', '"17"', 'TAPEKEEP_EXCHANGE_NAME'],
      ['realtime.url', null, 'null', 'TAPEKEEP_REALTIME_URL'],
      ...[
        ['database.url', 'postgres://u:***@h/d', 'postgres://u:***@h/d', 'TAPEKEEP_DATABASE_URL'],
      ],
      ['streams.trades.history', '5d', '5d', `${file}:5`],
      ['streams.depth.enabled', false, 'false', 'TAPEKEEP_STREAMS_DEPTH_ENABLED'],
      ['streams.candles.history', 'none', 'none', 'TAPEKEEP_STREAMS_CANDLES_HISTORY'],
      ['retention.depth', 'forever', 'forever', 'TAPEKEEP_RETENTION_DEPTH'],
      ['account.key', '***', '***', 'TAPEKEEP_ACCOUNT_KEY'],
      ['account.secret', '***', '***', 'TAPEKEEP_ACCOUNT_SECRET'],
      ['http.port', 9000, '9000', 'TAPEKEEP_HTTP_PORT'],
      ['http.token', '***', '***', `${file}:2`],
    ],
  );
  assert.throws(() => loadSettings({ env: { TAPEKEEP_HTTP_PORT: 'x' } }), ConfigError);
});

test('a file of all lines that are shown means the same settings', () => {
  const env = {
    TAPEKEEP_MARKETS: 'A_B,C_D',
    TAPEKEEP_EXCHANGE_NAME: '17',
    TAPEKEEP_LOG_LEVEL: 'warn',
  };
  const tree = new Document({});
  for (const { name, value } of loadSettings({ env }).shown()) {
    tree.setIn(name.split('.'), parse(lineOfFile(value)));
  }
  assert.deepEqual(loadConfig({ file: fileOf(tree.toString()), env: {} }), loadConfig({ env }));
});

test('without any source the defaults hold, with durations in milliseconds', () => {
  const config = loadConfig({ env: {} });
  assert.equal(config.exchange.timeout, 10_000);
  assert.equal(config.streams.trades.history, 'all');
  assert.equal(config.streams.candles.history, 604_800_000);
  assert.equal(config.database.statementTimeout, 30_000);
  assert.ok(Object.isFrozen(config.streams.candles.intervalsS));
});

test('the environment wins over the file, and the command line over both', () => {
  const file = fileOf('streams:\n  markets: {max: 1}\n  depth: {levels: 2}\nhttp: {port: 3}\n');
  const config = loadConfig({
    file,
    env: { TAPEKEEP_STREAMS_DEPTH_LEVELS: '20', TAPEKEEP_HTTP_PORT: '30' },
    overrides: { http: { port: 40 } },
  });
  assert.equal(config.streams.markets.max, 1);
  assert.equal(config.streams.depth.levels, 20);
  assert.equal(config.http.port, 40);
  assert.equal(config.exchange.timeout, 10_000);
});

test('TAPEKEEP_CONFIG names the file, and --config wins over it', () => {
  const one = fileOf('sandbox: {seed: 1}\n');
  const two = fileOf('sandbox: {seed: 2}\n');
  assert.equal(loadConfig({ env: { TAPEKEEP_CONFIG: one } }).sandbox.seed, 1);
  assert.equal(loadConfig({ file: two, env: { TAPEKEEP_CONFIG: one } }).sandbox.seed, 2);
});

test('every key has its own environment variable, and the rule gives the promised names', () => {
  assert.equal(variableOf('database.url'), 'TAPEKEEP_DATABASE_URL');
  assert.equal(variableOf('exchange.requestsPerS'), 'TAPEKEEP_EXCHANGE_REQUESTS_PER_S');
  assert.equal(VARIABLES.size, KEY_PATHS.size + SECRET_KEYS.size);
});

test('variables of all kinds are read; empty ones count as not set', () => {
  const config = loadConfig({
    env: {
      TAPEKEEP_MARKETS: 'BTC_USDT, ETH_USDT',
      TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '60,900',
      TAPEKEEP_STREAMS_DEPTH_ENABLED: 'false',
      TAPEKEEP_EXCHANGE_REQUESTS_PER_S: '0.5',
      TAPEKEEP_STREAMS_TRADES_HISTORY: 'none',
      TAPEKEEP_DATABASE_URL: '',
      HOME: '/nowhere',
    },
  });
  assert.deepEqual(config.markets, ['BTC_USDT', 'ETH_USDT']);
  assert.deepEqual(config.streams.candles.intervalsS, [60, 900]);
  assert.equal(config.streams.depth.enabled, false);
  assert.equal(config.exchange.requestsPerS, 0.5);
  assert.equal(config.streams.trades.history, 0);
  assert.equal(config.database.url, null);
});

test('a secret may come from a file, but not twice', () => {
  const secret = fileOf('postgres://me:hunter2@db/tape\n');
  const env = { TAPEKEEP_DATABASE_URL_FILE: secret };
  assert.equal(loadConfig({ env }).database.url, 'postgres://me:hunter2@db/tape');
  const twice = refusal({ env: { ...env, TAPEKEEP_DATABASE_URL: 'postgres://db/tape' } });
  assert.match(twice.message, /set it once/);
  const missing = refusal({ env: { TAPEKEEP_DATABASE_URL_FILE: join(folder, 'absent') } });
  assert.match(missing.message, /cannot be read/);
});

test('the file of settings can name files with secrets, and an account needs both halves', () => {
  const [key, secret] = [fileOf('public-key-1\n'), fileOf('canary-secret-1\n')];
  const settings = (more = '') =>
    fileOf(`account:\n  keyFile: ${key}\n  secretFile: ${secret}\n${more}`);
  const { account } = loadConfig({ file: settings(), env: {} });
  assert.deepEqual([account.key, account.secret], ['public-key-1', 'canary-secret-1']);
  const twice = refusal({ file: settings('  secret: canary-secret-2\n'), env: {} });
  assert.match(twice.message, /account\.secret .*: set it once/);
  const half = refusal({ env: { TAPEKEEP_ACCOUNT_SECRET_FILE: secret } });
  assert.match(half.message, /account\.key .*: must be set too/);
  const short = refusal({
    env: { TAPEKEEP_ACCOUNT_SECRET: 'canary', TAPEKEEP_ACCOUNT_KEY: 'a b' },
  });
  assert.match(short.message, /account\.key is \*\*\*/);
  for (const { message } of [twice, half, short]) assert.ok(!message.includes('canary'));
});

test('unknown keys and variables are refused with the nearest known name', () => {
  const file = fileOf('exchange:\n  requestPerS: 3\nstream:\n  depth: {}\nzzzzzzzz: 1\n');
  const { problems, code, action } = refusal({
    file,
    env: { TAPEKEEP_DATABSE_URL: 'x', TAPEKEEP_CONFG: 'y' },
  });
  const told = problems.map(({ key, source, expected }) => `${key} | ${source} | ${expected}`);
  assert.deepEqual(told, [
    `exchange.requestPerS | ${file}:2 | no such key; did you mean exchange.requestsPerS?`,
    `stream | ${file}:3 | no such key; did you mean streams?`,
    `zzzzzzzz | ${file}:5 | no such key`,
    'TAPEKEEP_DATABSE_URL | environment | no such variable; did you mean TAPEKEEP_DATABASE_URL?',
    'TAPEKEEP_CONFG | environment | no such variable; did you mean TAPEKEEP_CONFIG?',
  ]);
  assert.equal(code, 'config_invalid');
  assert.equal(action, 'fatal');
});

test('what Kubernetes says of services is no setting, and hides none', () => {
  const linksOf = (service: string) => ({
    [`${service}_SERVICE_HOST`]: '10.96.0.7',
    [`${service}_SERVICE_PORT`]: '9464',
    [`${service}_SERVICE_PORT_METRICS`]: '9464',
    [`${service}_PORT`]: 'tcp://10.96.0.7:9464',
    [`${service}_PORT_9464_TCP`]: 'tcp://10.96.0.7:9464',
    [`${service}_PORT_9464_TCP_PROTO`]: 'tcp',
    [`${service}_PORT_9464_TCP_PORT`]: '9464',
    [`${service}_PORT_9464_TCP_ADDR`]: '10.96.0.7',
  });
  // The second service's port has the name of a setting.
  const env = { ...linksOf('TAPEKEEP'), ...linksOf('TAPEKEEP_HTTP') };
  assert.deepEqual(loadConfig({ env }), loadConfig({ env: {} }));
  const { http } = loadConfig({ env: { ...linksOf('TAPEKEEP'), TAPEKEEP_HTTP_PORT: '8000' } });
  assert.equal(http.port, 8000);
  const { problems } = refusal({ env: { TAPEKEEP_PORT: '9464' } });
  assert.deepEqual(
    problems.map(({ key }) => key),
    ['TAPEKEEP_PORT'],
  );
});

test('all mistakes are told at once, each with its source, value and what is allowed', () => {
  const file = fileOf('exchange:\n  url: ftp://example.test\n  timeout: 10\nlog: loud\n');
  const { message, problems } = refusal({
    file,
    env: { TAPEKEEP_HTTP_PORT: '70000' },
    overrides: { streams: { depth: { schedule: 'every minute' } } },
  });
  assert.equal(problems.length, 5);
  assert.ok(message.includes(`exchange.url is "ftp://example.test" (${file}:2): allowed is a URL`));
  assert.ok(message.includes(`exchange.timeout is 10 (${file}:3): allowed is a duration`));
  assert.ok(message.includes(`log (${file}:4): a section`));
  assert.ok(message.includes('http.port is "70000" (environment variable TAPEKEEP_HTTP_PORT)'));
  assert.ok(
    message.includes('streams.depth.schedule is "every minute" (command line): allowed is'),
  );
});

test('a file that is absent, broken or a list is refused by name', () => {
  assert.match(refusal({ file: join(folder, 'absent.yaml'), env: {} }).message, /cannot be read/);
  const broken = fileOf('exchange:\n  url: "open\n');
  assert.ok(refusal({ file: broken, env: {} }).message.includes(`${broken}:`));
  assert.match(refusal({ file: fileOf('- a\n- b\n'), env: {} }).message, /must hold keys/);
  assert.deepEqual(loadConfig({ file: fileOf('# nothing\nexchange:\n'), env: {} }), DEFAULTS);
});

test('no secret shows in a refusal', () => {
  const token = 'short-canary';
  const { message } = refusal({
    env: {
      TAPEKEEP_DATABASE_URL: 'mysql://me:canary@db/tape?password=canary',
      TAPEKEEP_EXCHANGE_URL: 'gopher://me:canary@example.test',
      TAPEKEEP_HTTP_TOKEN: token,
    },
  });
  assert.match(message, /database\.url is "mysql:\/\/me:\*\*\*@db\/tape\?password=\*\*\*"/);
  assert.match(message, /http\.token is \*\*\*/);
  assert.doesNotMatch(message, /canary/);
});

test('an exchange without its WebSocket address needs the states stream switched off', () => {
  const { exchange, realtime } = EXCHANGE;
  assert.match(refusal({ env: {}, overrides: { exchange } }).message, /set realtime\.url, or set/);
  const off = loadConfig({
    env: {},
    overrides: { exchange, streams: { states: { enabled: false } } },
  });
  assert.equal(off.realtime.url, null);
  assert.match(refusal({ env: {}, overrides: { realtime } }).message, /set exchange\.url too/);
  // What no client of it would take is refused before anything is started.
  for (const [addresses, said] of [
    [{ exchange: { url: 'https://me:pw@api.example.test' } }, /exchange\.url.*user name/s],
    [{ realtime: { url: 'wss://me:pw@ws.example.test' } }, /realtime\.url.*user name/s],
    [{ exchange: { url: 'https://api.example.test/?key=secret' } }, /exchange\.url.*query/s],
  ] as const) {
    const { message } = refusal({ env: {}, overrides: { ...EXCHANGE, ...addresses } });
    assert.match(message, said);
    assert.doesNotMatch(message, /me:pw|secret/);
  }
  const session = { exchange: { url: 'http://127.0.0.1:8080/?session=mine' }, realtime };
  assert.equal(loadConfig({ env: {}, overrides: session }).exchange.url, session.exchange.url);
});

test('an exchange is asked for no lengths of candles and no levels that it is not known to have', () => {
  const env = {
    TAPEKEEP_EXCHANGE_URL: 'https://api.example.test',
    TAPEKEEP_REALTIME_URL: 'wss://ws.example.test',
    TAPEKEEP_STREAMS_CANDLES_INTERVALS_S: '60,900',
    TAPEKEEP_STREAMS_DEPTH_LEVELS: '101',
  };
  loadConfig({ env });
  const { problems, message } = refusal({ env: { ...env, TAPEKEEP_EXCHANGE_DIALECT: 'p2b' } });
  assert.equal(problems.length, 2);
  assert.match(message, /streams\.candles\.intervalsS .* of 60, 3600, 86400/);
  assert.match(message, /streams\.depth\.levels .* 100 at most: p2b is known to answer no more/);
});

test('listening beyond loopback needs a token', () => {
  const host = '0.0.0.0';
  assert.match(refusal({ env: {}, overrides: { http: { host } } }).message, /http\.token/);
  const token = 'a-long-enough-token';
  assert.equal(loadConfig({ env: {}, overrides: { http: { host, token } } }).http.token, token);
  for (const loopback of ['localhost', '::1', '127.3.2.1']) {
    loadConfig({ env: {}, overrides: { http: { host: loopback } } });
  }
  loadConfig({ env: {}, overrides: { http: { host, enabled: false } } });
});

test('an sslmode of database.url is one that the driver knows', () => {
  const at = (mode: string) => ({ url: `postgres://u:canary@db.example.test/x?sslmode=${mode}` });
  loadConfig({ env: {}, overrides: { database: at('verify-full') } });
  const { message } = refusal({ env: {}, overrides: { database: at('bogus') } });
  assert.match(message, /database\.url .* sslmode is one of disable, no-verify, prefer/);
  assert.doesNotMatch(message, /canary/);
});

test('an exchange is named by its setting, else by host and path', () => {
  const named = (exchange: object) =>
    exchangeNameOf(
      loadConfig({
        env: {},
        overrides: { ...EXCHANGE, exchange: { ...EXCHANGE.exchange, ...exchange } },
      }),
    );
  assert.equal(named({ name: 'mine' }), 'mine');
  assert.equal(named({ url: 'https://api.example.test/spot/' }), 'api.example.test/spot');
  assert.equal(exchangeNameOf(DEFAULTS), 'sandbox');
});

test('URLs are shown without their secrets', () => {
  assert.equal(redactUrl('postgres://me:canary@db:5432/tape'), 'postgres://me:***@db:5432/tape');
  assert.equal(redactUrl('https://x.test/?apiKey=canary&a=1'), 'https://x.test/?apiKey=***&a=1');
  assert.equal(redactUrl('postgres://me:can ary@db :x/'), 'postgres://***');
  assert.equal(redactUrl('canary'), '***');
});
