import { InvalidArgumentError } from 'commander';
import { NotOfferedError } from '../../client/errors.js';
import { type DialectName, dialectNames, dialectOf } from '../../contract/dialects.js';
import { type EndpointName, endpoints } from '../../contract/endpoints.js';
import { DURATION_FORM } from '../../kernel/durations.js';
import { TapekeepError } from '../../kernel/errors.js';
import {
  backFromNow,
  type Instant,
  refuseEmptySpan,
  resolveInstant,
} from '../../kernel/instants.js';
import { type CommonOptions, choice, option } from '../command.js';
import { dialectOfConfig, type ExchangeAccess, openExchange } from '../opening/exchange.js';
import { openSession, type Session } from '../opening/session.js';
import { kebabCase } from '../options.js';

/** Which exchange is asked, and how. */
export const EXCHANGE_OPTIONS = {
  url: option('--url <address>', 'base address, instead of the setting'),
  dialect: choice('--dialect <name>', 'dialect, instead of the setting', dialectNames),
};

export interface ApiOptions extends CommonOptions {
  /** Base address in place of the setting `exchange.url`. */
  readonly url?: string | undefined;
  /** In place of the setting `exchange.dialect`. */
  readonly dialect?: DialectName | undefined;
}

/** Reads the settings. The states stream plays no part here, so its address is not asked for. */
export function openApiSession(options: ApiOptions): Session {
  const { url, dialect } = options;
  const exchange = { ...(url !== undefined && { url }), ...(dialect !== undefined && { dialect }) };
  const overrides = { streams: { states: { enabled: false } }, exchange };
  return openSession({ logLevel: 'error', ...options }, { overrides });
}

/**
 * Opens the exchange that options and settings name.
 *
 * @throws TapekeepError `usage` when they name none, or a signed call has no key; NotOfferedError
 */
export function openApi(session: Session, name: EndpointName, isSigned: boolean): ExchangeAccess {
  const { config } = session;
  const { url } = config.exchange;
  if (url === null) {
    throw new TapekeepError(
      'usage',
      'no exchange is named: add --url ADDRESS, or set exchange.url (TAPEKEEP_EXCHANGE_URL). The built-in sandbox of "tapekeep start" prints its address; "tapekeep sandbox" runs one',
    );
  }
  const dialect = dialectOfConfig(config);
  // A key would not help.
  if (dialectOf(dialect).endpoints[name] === undefined) {
    throw new NotOfferedError(kebabCase(name), dialect);
  }
  if ((isSigned || endpoints[name].access === 'private') && config.account.key === null) {
    throw new TapekeepError(
      'usage',
      'this call is signed: set TAPEKEEP_ACCOUNT_KEY and TAPEKEEP_ACCOUNT_SECRET, or name files that hold them with TAPEKEEP_ACCOUNT_KEY_FILE and TAPEKEEP_ACCOUNT_SECRET_FILE (in the settings account.keyFile and account.secretFile)',
    );
  }
  return openExchange(session, { url, realtimeUrl: null });
}

const ISO_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.0+)?)?(Z|[+-]\d\d:\d\d))?$/;

/**
 * Reads a time of an option: whole UNIX seconds, a time with its zone, a day alone as its start in UTC, `now`, or
 * a duration back from now such as `5m` or `-5m`: from the exchange's present, which only a running call can know.
 *
 * @throws InvalidArgumentError saying what is allowed; commander adds option and value
 */
export function relativeTimeArgument(text: string): Instant {
  const backMs = backFromNow(text);
  if (backMs !== undefined) return { backMs, text };
  const isoMs = ISO_TIME.test(text) ? Date.parse(text) : Number.NaN;
  const atMs = /^\d{1,12}$/.test(text) ? Number(text) * 1000 : isoMs;
  if (Number.isInteger(atMs / 1000) && atMs >= 0) return { atMs, text };
  throw new InvalidArgumentError(
    `Write UNIX seconds such as 1767225600, or a time with its zone such as 2026-01-01T00:00:00Z. Or now, or ${DURATION_FORM} back from now.`,
  );
}

function isInstant(value: unknown): value is Instant {
  return typeof value === 'object' && value !== null && 'text' in value;
}

/**
 * Replaces times by UNIX seconds, relative ones of the exchange's own time, which a tape or a replay lives
 * at far from ours. To learn it one question more is asked, if there is any such time: one that each dialect has.
 *
 * @throws UsageError for a start after the end
 */
export async function fixTimes(
  params: Readonly<Record<string, unknown>>,
  { client, time }: Pick<ExchangeAccess, 'client' | 'time'>,
): Promise<Readonly<Record<string, unknown>>> {
  const given = Object.values(params).filter(isInstant);
  if (given.some((one) => 'backMs' in one)) await client.markets();
  const nowMs = time.nowMs();
  const secondsOf = (one: Instant) => Math.floor(resolveInstant(one, nowMs) / 1000);
  const { start, end } = params;
  if (isInstant(start) && isInstant(end)) {
    refuseEmptySpan(
      { name: '--start', given: start, atMs: secondsOf(start) * 1000 },
      { name: '--end', given: end, atMs: secondsOf(end) * 1000 },
      true,
    );
  }
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => {
      return [name, isInstant(value) ? secondsOf(value) : value] as const;
    }),
  );
}
