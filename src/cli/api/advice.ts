import { messageOf, TapekeepError } from '../../kernel/errors.js';

const MARKETS = 'Check the market and the values: "tapekeep api markets" lists what there is.';
const AGAIN = 'It may pass: try again a little later.';

/** What to do about a failed call, where its message does not say so itself. */
const ADVICE: Readonly<Record<string, string>> = {
  invalid_input: MARKETS,
  field_errors: MARKETS,
  market_unavailable: MARKETS,
  not_found: MARKETS,
  operation_blocked: 'The exchange does not take this now; another pair or a later moment may do.',
  network: 'Check the address of the exchange, and whether it runs.',
  timeout: `${AGAIN} The setting exchange.timeout says how long is waited.`,
  server_error: AGAIN,
  service_unavailable: AGAIN,
  rate_limited: AGAIN,
  unexpected_page: 'Check that the address is the API of the exchange, not its web site.',
  malformed_reply: 'Check that the address is the API of an exchange of this family.',
};

/** The same error with a sentence on what to do. */
export function withAdvice(error: unknown): unknown {
  if (!(error instanceof TapekeepError)) return error;
  const advice = ADVICE[error.code];
  if (advice === undefined) return error;
  const text = `${messageOf(error)}\n${advice}`;
  return new TapekeepError(error.code, error.action, text, { cause: error });
}
