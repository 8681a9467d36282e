import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { loadConfig } from '../../../src/config/load.js';
import { readBoard } from '../../support/dashboards/grafana.js';
import { repositoryPath } from '../../support/repository/repository.js';

interface Service {
  readonly image: string;
  readonly build?: string;
  readonly env_file?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const text = readFileSync(join(repositoryPath, 'compose.yaml'), 'utf8');
const compose = parse(text) as Compose;

/** Fills in variables as Compose does, for the forms in use: `${NAME:-}` and `${NAME:?text}`. */
function fillIn(value: string, given: Readonly<Record<string, string>>): string {
  return value.replaceAll(/\$\{([A-Z_]+):([-?])[^}]*\}/g, (_, name: string, form: string) => {
    assert.ok(form === '-' || name in given, `${name} must be set`);
    return given[name] ?? '';
  });
}

test('the settings that compose.yaml passes are accepted, with and without an exchange', () => {
  const { env_file, environment = {} } = compose.services.tapekeep ?? assert.fail();
  assert.deepEqual(env_file, ['.env']);
  /** @param given the lines of `.env`: the container is given them too */
  const load = (given: Readonly<Record<string, string>>) => {
    const own = Object.entries(environment).map(([name, value]) => [name, fillIn(value, given)]);
    return loadConfig({ env: { ...given, ...Object.fromEntries(own) } });
  };
  const secrets = { POSTGRES_PASSWORD: 'abc123', TAPEKEEP_HTTP_TOKEN: '0123456789abcdef0123' };
  const sandbox = load(secrets);
  assert.equal(sandbox.database.url, 'postgres://tapekeep:abc123@postgres:5432/tapekeep');
  assert.equal(sandbox.exchange.url, null);
  const real = load({
    ...secrets,
    TAPEKEEP_EXCHANGE_URL: 'https://api.example.test',
    TAPEKEEP_REALTIME_URL: 'wss://ws.example.test',
    TAPEKEEP_MARKETS: 'BTC_USDT,ETH_USDT',
    TAPEKEEP_COLD_ENABLED: 'true',
  });
  assert.deepEqual(real.markets, ['BTC_USDT', 'ETH_USDT']);
  assert.equal(real.cold.enabled, true, 'every setting may stand in .env');
  assert.throws(() => load({}), /POSTGRES_PASSWORD must be set/);
});

test('compose.yaml pins its images, mounts what there is and publishes on this machine alone', () => {
  for (const [name, { image, build, volumes = [], ports = [] }] of Object.entries(
    compose.services,
  )) {
    assert.ok(build !== undefined || /:v?\d/.test(image), `${name}: ${image}`);
    for (const volume of volumes) {
      const [from = '', to = ''] = volume.split(':');
      assert.ok(to.startsWith('/'), volume);
      const isThere = from.startsWith('./')
        ? existsSync(join(repositoryPath, from))
        : from in compose.volumes;
      assert.ok(isThere, `${name}: ${from} does not exist`);
    }
    for (const port of ports) assert.match(port, /^127\.0\.0\.1:/);
  }
});

test('the head of compose.yaml makes every secret that a service asks for', () => {
  const asked = new Set([...text.matchAll(/\$\{([A-Z_]+):\?/g)].map(([, name = '']) => name));
  const [, made = ''] = /^# +for NAME in (.*)$/m.exec(text) ?? [];
  assert.deepEqual(made.split(' ').sort(), [...asked].sort());
});

test('Grafana is given its sources, its dashboards and the login that reads the archive', () => {
  const folder = join(repositoryPath, 'config', 'grafana', 'provisioning');
  const read = (path: string) => readFileSync(join(folder, path), 'utf8');
  const { datasources } = parse(read('datasources/tapekeep.yaml')) as {
    datasources: { type: string; url: string; user?: string }[];
  };
  // Each dashboard finds a source for its variable.
  const kinds = (['operators', 'analysts'] as const).flatMap((board) =>
    readBoard(board).templating.list.flatMap(({ type, query }) =>
      type === 'datasource' ? [query] : [],
    ),
  );
  assert.deepEqual(datasources.map(({ type }) => type).sort(), kinds.sort());
  for (const { url } of datasources) {
    const [host = ''] = url.replace('http://', '').split(':');
    assert.ok(host in compose.services, url);
  }
  const { environment = {}, volumes = [] } = compose.services.grafana ?? assert.fail();
  for (const [, name = ''] of read('datasources/tapekeep.yaml').matchAll(/\$([A-Z][A-Z_]*)/g)) {
    assert.ok(name in environment, name);
    assert.equal(environment[name], compose.services.postgres?.environment?.[name]);
  }
  const { providers } = parse(read('dashboards/tapekeep.yaml')) as {
    providers: { options: { path: string } }[];
  };
  for (const { options } of providers) {
    assert.ok(volumes.includes(`./config/grafana/dashboards:${options.path}:ro`), options.path);
  }
});
