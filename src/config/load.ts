import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { isIP } from 'node:net';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import type { z } from 'zod';
import { dialectOf } from '../contract/dialects.js';
import { hasSessionAtMost, SESSION_PARAMETER } from '../contract/extensions.js';
import { SSL_MODES, withUrlHost } from '../kernel/tls.js';
import { CONFIG_FILE_VARIABLE, deepFreeze, KEY_PATHS } from './keys.js';
import {
  ConfigError,
  type Layer,
  readEnvironmentLayer,
  readFileLayer,
  readOverridesLayer,
  type Setting,
} from './layers.js';
import { type Config, configSchema, SECRET_KEYS } from './schema.js';
import { asWritten } from './values.js';
import { describedDefaults, readBounded } from './yaml-file.js';

/** A rule between several keys that does not hold, reported at the key that is easiest to change. */
export interface BrokenRule {
  readonly key: string;
  readonly expected: string;
}

/** Whether only this machine can reach an address to listen on. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}

const hasUser = ({ username, password }: URL) => username !== '' || password !== '';

/** Checks what no single key can know. Each text says what to change. */
function brokenRules(config: Config): BrokenRule[] {
  const { exchange, realtime, database, collector, streams, http, alerts, account } = config;
  const { cold, partitions } = config;
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
    exchange.url === null || hasSessionAtMost(new URL(exchange.url)),
    'exchange.url',
    `the base address alone: leave out the query, but for the session of a replay (?${SESSION_PARAMETER}=NAME)`,
  );
  for (const [key, url] of Object.entries({ exchange: exchange.url, realtime: realtime.url })) {
    check(
      url === null || !hasUser(new URL(url)),
      `${key}.url`,
      'leave user name and password out of it',
    );
  }
  check(
    realtime.url === null || exchange.url !== null,
    'realtime.url',
    'belongs to an exchange of its own: set exchange.url too, or leave both out to use the sandbox',
  );
  check(
    !http.enabled || isLoopback(http.host) || http.token !== null,
    'http.token',
    'must be set when http.host is reachable from other machines; or set http.host to 127.0.0.1',
  );
  check(
    http.viewerToken === null || http.token !== null,
    'http.token',
    'must be set beside http.viewerToken: it is the token of those who may act',
  );
  check(
    http.viewerToken === null || http.viewerToken !== http.token,
    'http.viewerToken',
    'another text than http.token: whoever has that one may act',
  );
  check(
    (http.tls.certFile === null) === (http.tls.keyFile === null),
    http.tls.certFile === null ? 'http.tls.certFile' : 'http.tls.keyFile',
    'must be set too: a certificate and its key belong together',
  );
  check(
    alerts.format !== 'telegram' ||
      alerts.webhook === null ||
      new URL(alerts.webhook).searchParams.has('chat_id'),
    'alerts.webhook',
    'an address that names the chat: https://api.telegram.org/bot<token>/sendMessage?chat_id=<id>',
  );
  const sslMode = database.url === null ? null : new URL(database.url).searchParams.get('sslmode');
  check(
    sslMode === null || SSL_MODES.includes(sslMode),
    'database.url',
    `a URL whose sslmode is one of ${SSL_MODES.join(', ')}`,
  );
  for (const key of ['embeddedPort', 'readerName', 'readerPassword'] as const) {
    check(
      database.url === null || !database[key],
      `database.${key}`,
      'belongs to the embedded server: leave it out beside database.url',
    );
  }
  check(
    database.url !== null || collector.share === null,
    'collector.share',
    'belongs to a Postgres of your own (database.url): the embedded one ends with its daemon',
  );
  check(
    !cold.enabled || partitions.seal,
    'partitions.seal',
    'must be true while cold.enabled is: only sealed partitions are moved into files',
  );
  check(
    cold.dir === null || cold.url === null,
    'cold.url',
    'either a bucket (cold.url) or a folder (cold.dir): leave one of them out',
  );
  for (const key of ['endpoint', 'region'] as const) {
    check(
      cold[key] === null || cold.url !== null,
      `cold.${key}`,
      'belongs to a bucket: set cold.url too, or leave it out',
    );
  }
  check(
    !cold.enabled || cold.dir === null || !/[*?[\]{}]/.test(cold.dir),
    'cold.dir',
    'a folder whose name holds none of * ? [ ] { }: programs take these for patterns',
  );
  const { name: dialect, intervalsS, levelsMax } = dialectOf(exchange.dialect);
  check(
    exchange.url !== null || dialect === 'contract',
    'exchange.dialect',
    'belongs to exchange.url: for the built-in exchange set sandbox.like',
  );
  check(
    streams.candles.intervalsS.every((length) => intervalsS?.includes(length) !== false),
    'streams.candles.intervalsS',
    `of ${intervalsS?.join(', ')}: ${dialect} has candles of no other length`,
  );
  check(
    !streams.depth.enabled || streams.depth.levels <= levelsMax,
    'streams.depth.levels',
    `${levelsMax} at most: ${dialect} is known to answer no more`,
  );
  check(
    (account.key === null) === (account.secret === null),
    account.key === null ? 'account.key' : 'account.secret',
    'must be set too: a key and its secret belong together',
  );
  return broken;
}

/** A file of this name in the working folder is read when no other is named. */
const DEFAULT_CONFIG_FILE = 'tapekeep.yaml';

/** Settings as a tree of any depth and completeness, in the notation of the file. */
export type ConfigTree = NonNullable<z.input<typeof configSchema>>;

export interface LoadOptions {
  /** The file named on the command line. Then it must exist. */
  readonly file?: string | undefined;
  readonly env: NodeJS.ProcessEnv;
  /** What options of the command line set; the strongest source. */
  readonly overrides?: ConfigTree;
}

/** Longest value that a message repeats. */
const SHOWN_LENGTH = 120;

/** A value with secrets and passwords in URLs hidden. */
function hideSecrets(path: string, value: unknown): unknown {
  if (value === null) return null;
  if (path === 'database.url' && typeof value === 'string') return redactUrl(value);
  if (SECRET_KEYS.has(path)) return REDACTED;
  return typeof value === 'string' && value.includes('://') ? redactUrl(value) : value;
}

/** A refused value as it was given, secrets hidden, cut to a bound. */
function showValue(path: string, value: unknown): string {
  const shown = hideSecrets(path, value);
  // Nothing that was typed is left of it.
  if (shown === REDACTED) return REDACTED;
  const text = JSON.stringify(shown) ?? '';
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text;
}

function nest(settings: ReadonlyMap<string, Setting>): object {
  const root: Record<string, unknown> = {};
  for (const [path, { value }] of settings) {
    const names = path.split('.');
    const last = names.pop() ?? path;
    let branch = root;
    for (const name of names) {
      branch[name] ??= {};
      branch = branch[name] as Record<string, unknown>;
    }
    branch[last] = value;
  }
  return root;
}

function problemAt(key: string, expected: string, settings: ReadonlyMap<string, Setting>) {
  const setting = settings.get(key);
  if (setting === undefined) return { key, source: 'not set', expected };
  return { key, source: setting.source, value: showValue(key, setting.value), expected };
}

/** What the sources set, the strongest last, and the mistakes that showed on the way. */
function readLayers({ file, env, overrides }: LoadOptions) {
  const named = file ?? (env[CONFIG_FILE_VARIABLE] || undefined);
  const chosen = named ?? (existsSync(DEFAULT_CONFIG_FILE) ? DEFAULT_CONFIG_FILE : undefined);
  const layers: readonly Layer[] = [
    ...(chosen === undefined ? [] : [readFileLayer(chosen)]),
    readEnvironmentLayer(env),
    readOverridesLayer(overrides ?? {}),
  ];
  const settings = new Map(layers.flatMap((layer) => [...layer.settings]));
  return { settings, problems: layers.flatMap((layer) => layer.problems) };
}

/**
 * Puts the settings together: defaults, below the file, below the environment, below the command
 * line; and checks them.
 *
 * @returns the settings, frozen.
 * @throws ConfigError listing every mistake with its key, its source and what is allowed.
 */
export function loadConfig(options: LoadOptions): Config {
  return check(readLayers(options));
}

function check({ settings, problems }: ReturnType<typeof readLayers>): Config {
  const parsed = configSchema.safeParse(nest(settings));
  if (!parsed.success) {
    const faults = parsed.error.issues.map(({ path, message }) =>
      problemAt(path.join('.'), message, settings),
    );
    throw new ConfigError([...problems, ...faults]);
  }
  const broken = brokenRules(parsed.data).map(({ key, expected }) =>
    problemAt(key, expected, settings),
  );
  if (problems.length + broken.length > 0) throw new ConfigError([...problems, ...broken]);
  return deepFreeze(parsed.data);
}

/** The defaults in the notation of the file; a test holds them equal to those of the schema. */
const DEFAULTS_FILE = fileURLToPath(new URL('../../config/default.yaml', import.meta.url));

/** A setting as it may be shown, in the notation of the file. */
export interface ShownSetting {
  /** Its path, such as `http.port`. */
  readonly name: string;
  /** Numbers, flags and lists as such, durations as they were written; secrets are `***`. */
  readonly value: unknown;
  /** `default`, `tapekeep.yaml:7`, an environment variable, or the command line. */
  readonly source: string;
  readonly isDefault: boolean;
  /** Comment of the documented file. */
  readonly about: string;
}

/** Settings together with how they are shown. */
export interface LoadedSettings {
  readonly config: Config;
  /** Every setting with where its value comes from, in the order of the defaults. */
  shown(): ShownSetting[];
}

/**
 * Puts the settings together as {@link loadConfig}, and keeps what is needed to show them.
 *
 * @throws ConfigError as {@link loadConfig}
 */
export function loadSettings(options: LoadOptions): LoadedSettings {
  const layers = readLayers(options);
  const config = check(layers);
  return { config, shown: () => shownSettings(layers, config) };
}

function shownSettings(layers: ReturnType<typeof readLayers>, config: Config): ShownSetting[] {
  const { sections } = describedDefaults(readBounded(DEFAULTS_FILE));
  const texts = sections.flatMap(({ settings }) => settings);
  const abouts = new Map(texts.map(({ path, about }) => [path, about]));
  const defaults = readFileLayer(DEFAULTS_FILE).settings;
  return [...KEY_PATHS].map((name) => {
    const set = layers.settings.get(name);
    const given = set === undefined ? defaults.get(name)?.value : set.value;
    const value = hideSecrets(name, asWritten(given, valueAt(config, name)));
    const [source, isDefault] = [set?.source ?? 'default', set === undefined];
    return { name, value, source, isDefault, about: abouts.get(name) ?? '' };
  });
}

/** Hash of the settings in force; secrets and passwords in URLs are no part of it. */
export function configHash(config: Config): string {
  const shown = [...KEY_PATHS].map((key) => [key, hideSecrets(key, valueAt(config, key))]);
  return createHash('sha256').update(JSON.stringify(shown)).digest('hex');
}

function valueAt(config: Config, key: string): unknown {
  return key
    .split('.')
    .reduce<unknown>((branch, name) => (branch as Record<string, unknown>)[name], config);
}

/** A shown value on one line, as it stands behind its key in the file. */
export function lineOfFile(value: unknown): string {
  if (value === REDACTED) return REDACTED;
  const form = { collectionStyle: 'flow', flowCollectionPadding: false, lineWidth: 0 } as const;
  return stringify(value, form).trimEnd();
}

/**
 * The name under which an archive knows the configured exchange: `exchange.name`, else host and
 * path of its URL, else `sandbox`.
 */
export function exchangeNameOf(config: Config): string {
  const { name, url } = config.exchange;
  if (name !== null) return name;
  if (url === null) return 'sandbox';
  const { host, pathname } = new URL(url);
  return `${host}${pathname}`.replace(/\/+$/, '');
}

/** What stands where a secret was. */
const REDACTED = '***';

/** Query parameters that carry secrets in the connection strings of databases and exchanges. */
const SECRET_PARAMETER = /pass|secret|token|key|signature/i;

/**
 * A URL that may be shown: the password and secret query parameters are replaced by `***`, the
 * rest is kept. Text that is no URL is hidden whole after its scheme, since any part of it may be
 * the secret.
 */
export function redactUrl(address: string): string {
  const text = withUrlHost(address);
  if (!URL.canParse(text)) {
    const scheme = /^[a-z][a-z0-9+.-]{0,20}:\/\//i.exec(text)?.[0];
    return scheme === undefined ? REDACTED : `${scheme}${REDACTED}`;
  }
  const url = new URL(text);
  const secretNames = [...url.searchParams.keys()].filter((name) => SECRET_PARAMETER.test(name));
  if (url.password === '' && secretNames.length === 0) return text;
  if (url.password !== '') url.password = REDACTED;
  for (const name of secretNames) url.searchParams.set(name, REDACTED);
  return url.toString();
}
