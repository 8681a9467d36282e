import { isIP } from 'node:net';
import type { Config } from './schema.js';

/** A rule between several keys that does not hold; told at the key that is easiest to change. */
export interface BrokenRule {
  readonly key: string;
  readonly expected: string;
}

/** Whether only this machine can reach an address to listen on. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}

/** Checks what no single key can know. Each text says what to change. */
export function brokenRules(config: Config): BrokenRule[] {
  const { exchange, realtime, streams, http, account, cold, partitions } = config;
  const broken: BrokenRule[] = [];
  const check = (holds: boolean, key: string, expected: string) => {
    if (!holds) broken.push({ key, expected });
  };
  check(
    exchange.url === null || realtime.url !== null || !streams.states.enabled,
    'realtime.url',
    "the states stream needs the exchange's WebSocket address beside exchange.url: set realtime.url, or set streams.states.enabled to false",
  );
  check(
    exchange.url === null || !/\/api\/v\d+\/?$/.test(new URL(exchange.url).pathname),
    'exchange.url',
    'the base address alone: leave out /api/v1, which is added to every request',
  );
  check(
    realtime.url === null || exchange.url !== null,
    'realtime.url',
    'belongs to an exchange of its own: set exchange.url too, or leave both out to use the sandbox',
  );
  check(
    realtime.reconnectBase <= realtime.reconnectCap,
    'realtime.reconnectBase',
    'must not exceed realtime.reconnectCap',
  );
  check(
    !http.enabled || isLoopback(http.host) || http.token !== null,
    'http.token',
    'must be set when http.host is reachable from other machines; or set http.host to 127.0.0.1',
  );
  check(
    !cold.enabled || partitions.seal,
    'partitions.seal',
    'must be true while cold.enabled is: only sealed partitions are moved into files',
  );
  check(
    !cold.enabled || cold.dir === null || !/[*?[\]{}]/.test(cold.dir),
    'cold.dir',
    'a folder whose name holds none of * ? [ ] { }: programs take these for patterns',
  );
  check(
    (account.key === null) === (account.secret === null),
    account.key === null ? 'account.key' : 'account.secret',
    'must be set too: a key and its secret belong together',
  );
  check(
    !account.enabled || account.key !== null || account.secret !== null,
    'account.key',
    'must be set while account.enabled is true, and account.secret with it',
  );
  return broken;
}
