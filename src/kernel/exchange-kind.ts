const REPLAY_IDENTITY = 'replay-';
const SANDBOX_IDENTITY = 'sandbox-';

/** Kinds of exchanges, the real one first. */
export const EXCHANGE_KINDS = ['exchange', 'sandbox', 'replay'] as const;
export type ExchangeKind = (typeof EXCHANGE_KINDS)[number];

/** Returns the kind of an exchange by its identity: what is no real one says so. */
export function exchangeKindOf(identity: string | null | undefined): ExchangeKind {
  if (identity?.startsWith(REPLAY_IDENTITY) === true) return 'replay';
  return identity?.startsWith(SANDBOX_IDENTITY) === true ? 'sandbox' : 'exchange';
}

const GAPS_ALLOWED = '-with-gaps';
const WHOLE = '-whole';

/** Kinds of streams without a gap in the time range of a replay; null: it allows gaps and promises nothing. */
export type WholeKinds = readonly string[] | null;

/** `replay-<archive>-whole-trades-times-candles`, or `replay-<archive>-with-gaps`. */
export function replayIdentity(archive: string, whole: WholeKinds): string {
  const promise = whole === null ? GAPS_ALLOWED : [WHOLE, ...whole].join('-');
  return `${REPLAY_IDENTITY}${archive}${promise}`;
}

/** Reads what {@link replayIdentity} wrote; an identity that promises nothing is read as one that allows gaps. */
export function wholeKindsOf(identity: string): WholeKinds {
  const at = identity.indexOf(WHOLE);
  return at < 0
    ? null
    : identity
        .slice(at + WHOLE.length)
        .split('-')
        .slice(1);
}
