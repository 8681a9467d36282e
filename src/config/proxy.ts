import { BlockList, isIP } from 'node:net';
import { isLoopback } from './load.js';

/** A proxy that the environment names. */
export interface ProxyChoice {
  /** As it was written, with `http://` before it where it had no scheme. May hold credentials. */
  readonly url: string;
  /** The variable that names it. */
  readonly setting: string;
}

const INSECURE = ['http_proxy', 'HTTP_PROXY'];
const SECURE = ['https_proxy', 'HTTPS_PROXY'];
/** Variables by the scheme of an address, the strongest first. */
const BY_SCHEME: Readonly<Record<string, readonly string[]>> = {
  'http:': INSECURE,
  'ws:': INSECURE,
  'https:': SECURE,
  'wss:': SECURE,
};
const FOR_ALL = ['all_proxy', 'ALL_PROXY'];
const EXCEPTIONS = ['no_proxy', 'NO_PROXY'];
const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'https:': '443', 'wss:': '443' };

/**
 * Chooses the proxy for an address, by the variables that curl and others read. Loopback addresses never go
 * through one: a proxy would look for them on its own machine.
 *
 * @returns undefined where the address is reached directly
 */
export function proxyFor(address: string, env: NodeJS.ProcessEnv): ProxyChoice | undefined {
  if (!URL.canParse(address)) return undefined;
  const { protocol, hostname, port } = new URL(address);
  const host = withoutBrackets(hostname).replace(/\.$/, '');
  if (isLoopback(host)) return undefined;
  // An empty variable counts as not set, as for settings.
  const first = (names: readonly string[]) => names.find((name) => (env[name] ?? '').trim() !== '');
  const setting = first([...(BY_SCHEME[protocol] ?? []), ...FOR_ALL]);
  if (setting === undefined) return undefined;
  const excepted = env[first(EXCEPTIONS) ?? ''] ?? '';
  if (isExcepted(excepted, host, port || (DEFAULT_PORTS[protocol] ?? '80'))) return undefined;
  const text = (env[setting] ?? '').trim();
  return { url: text.includes('://') ? text : `http://${text}`, setting };
}

const withoutBrackets = (host: string) => host.replace(/^\[|\]$/g, '');

function isExcepted(list: string, host: string, port: string): boolean {
  const entries = list.toLowerCase().split(/[\s,]+/);
  return entries.some((entry) => entry !== '' && matches(entry, host, port));
}

/** Matches one entry: `*`, a name with all names below it, an IP address or a block of them, with or without a port. */
function matches(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  const split = /^(\[.*\]|[^:]+):(\d+)$/.exec(entry);
  if (split !== null && split[2] !== port) return false;
  const name = withoutBrackets(split?.[1] ?? entry);
  if (isIP(host) !== 0) return isInBlock(host, name);
  const domain = name.replace(/^\*?\./, '').replace(/\.$/, '');
  return domain !== '' && (host === domain || host.endsWith(`.${domain}`));
}

const familyOf = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4');

function isInBlock(host: string, name: string): boolean {
  const [address = '', bits] = name.split('/');
  const family = familyOf(address);
  const most = family === 'ipv6' ? 128 : 32;
  const length = bits === undefined ? most : /^\d{1,3}$/.test(bits) ? Number(bits) : Infinity;
  if (isIP(address) === 0 || length > most) return false;
  const block = new BlockList();
  block.addSubnet(address, length, family);
  return block.check(host, familyOf(host));
}
