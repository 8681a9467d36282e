import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { loadConfig } from '../../../src/config/load.js';
import { repositoryPath } from '../../support/repository/repository.js';

interface Compose {
  readonly services: {
    readonly tapekeep: {
      readonly env_file: readonly string[];
      readonly environment: Record<string, string>;
    };
  };
}

/** Fills in variables as Compose does, for the forms in use: `${NAME:-}` and `${NAME:?text}`. */
function fillIn(text: string, given: Readonly<Record<string, string>>): string {
  return text.replaceAll(/\$\{([A-Z_]+):([-?])[^}]*\}/g, (_, name: string, form: string) => {
    assert.ok(form === '-' || name in given, `${name} must be set`);
    return given[name] ?? '';
  });
}

test('the settings that compose.yaml passes are accepted, with and without an exchange', () => {
  const compose = parse(readFileSync(join(repositoryPath, 'compose.yaml'), 'utf8')) as Compose;
  const { env_file, environment } = compose.services.tapekeep;
  assert.deepEqual(env_file, ['.env']);
  /** @param given the lines of `.env`: the container is given them too */
  const load = (given: Readonly<Record<string, string>>) => {
    const own = Object.entries(environment).map(([name, text]) => [name, fillIn(text, given)]);
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
