import type { Config } from '../../config/schema.js';
import { type EndpointName, endpoints } from '../../contract/endpoints.js';
import { systemClock } from '../../kernel/clock.js';
import { TapekeepError } from '../../kernel/errors.js';
import { type ExchangeAccess, openExchange } from '../opening/exchange.js';
import { type CommonOptions, openSession, type Session } from '../opening/session.js';

/** Something that the command line or the settings must say first. */
export class ApiUsageError extends TapekeepError {
  constructor(text: string) {
    super('usage', 'fatal', text);
  }
}

export interface ApiOptions extends CommonOptions {
  /** Base address in place of the setting `exchange.url`. */
  readonly url?: string;
  readonly json?: boolean;
}

/** Reads the settings. The states stream plays no part here, so its address is not asked for. */
export function openApiSession(options: ApiOptions): Session {
  const { url } = options;
  const overrides = {
    streams: { states: { enabled: false } },
    ...(url === undefined ? {} : { exchange: { url } }),
  };
  return openSession({ logLevel: 'error', ...options }, { overrides });
}

/**
 * Opens the exchange that options and settings name.
 *
 * @throws ApiUsageError when they name none, or a signed call has no key
 */
export function openApi(session: Session, name: EndpointName, isSigned: boolean): ExchangeAccess {
  const { config, telemetry, exchangeTime } = session;
  const { url } = config.exchange;
  if (url === null) {
    throw new ApiUsageError(
      'no exchange is named: add --url ADDRESS, or set exchange.url (TAPEKEEP_EXCHANGE_URL). The built-in sandbox of "tapekeep start" prints its address; "tapekeep sandbox" runs one',
    );
  }
  if (isSigned || endpoints[name].access === 'private') requireKey(config);
  const address = { url, realtimeUrl: null };
  return openExchange(config, address, systemClock, telemetry, exchangeTime);
}

function requireKey({ account }: Config): void {
  if (account.key !== null) return;
  throw new ApiUsageError(
    'this call is signed: set TAPEKEEP_ACCOUNT_KEY and TAPEKEEP_ACCOUNT_SECRET, or name files that hold them with TAPEKEEP_ACCOUNT_KEY_FILE and TAPEKEEP_ACCOUNT_SECRET_FILE (in the settings account.keyFile and account.secretFile)',
  );
}
