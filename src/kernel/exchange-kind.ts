/** Prefix of a replay's identity. */
export const REPLAY_IDENTITY = 'replay-';
const SANDBOX_IDENTITY = 'sandbox-';

/** What there is to be collected from, the real one first. */
export const EXCHANGE_KINDS = ['exchange', 'sandbox', 'replay'] as const;
export type ExchangeKind = (typeof EXCHANGE_KINDS)[number];

/** What an exchange is by what it calls itself: what is no real one says so. */
export function exchangeKindOf(identity: string | null | undefined): ExchangeKind {
  if (identity?.startsWith(REPLAY_IDENTITY) === true) return 'replay';
  return identity?.startsWith(SANDBOX_IDENTITY) === true ? 'sandbox' : 'exchange';
}
