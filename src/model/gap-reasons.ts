/**
 * Why a span is not proven complete. The words stand in the archive's table of gaps; the name with
 * underscores is the label of the metrics.
 */
export const GAP_REASONS = {
  'not collected': 'It is expected, but was not asked for yet; filling works on it, newest first.',
  'head moved':
    'More happened between two looks than a page holds, or nothing was asked for a while; the walk goes down page by page until it reaches what is stored.',
  'ids begun anew':
    'The exchange began the ids of its trades anew within it, and no answer has shown both sides of that yet; the walk goes down until one does.',
  'walk stalled':
    'The exchange answered, but its answers did not lead further; it is asked again after a growing pause.',
  'exchange failed':
    'The exchange did not answer, or refused; it is asked again after a growing pause.',
  'refused rows':
    'Rows of this span could not be read and are in quarantine; it is asked for again now and then.',
  suspect:
    'The stored trades do not add up to the candles of the exchange; both are fetched again, and the result of the check says what was found.',
  'history horizon':
    'The exchange gives only its newest trades, and these had gone before they were asked for.',
  'beyond history':
    'The endpoint of this stream showed nothing of it, nor anything older: the exchange serves nothing as old as this there any more, or never had any.',
  delisted:
    'The market was not on the list of the exchange, or left it before this was asked for: nothing can be asked about a market that is not listed.',
  'not observed':
    'It could be seen only while it happened, and nothing was asked then (no daemon ran, its settings left the stream or the market out, or the request waited for the rate limit), or no answer showed it, as of a market that is leaving the list.',
  'clock jumped':
    'It was covered while the exchange showed a time that had not come yet; that was taken back when its clock was right again.',
  'no connection':
    'It is reported over a connection only: there was none, or nothing more came over it that proves what happened until it ended.',
  'no updates':
    'The subscription was acknowledged and the connection answered, but no update came over it that proves what happened; answers to questions are stored, and cover nothing.',
  'not offered':
    'The exchange does not offer it: its real-time states come for another period only.',
} as const satisfies Readonly<Record<string, string>>;

export type GapReason = keyof typeof GAP_REASONS;

/** What a part is named by that retention has given up: no gap, because no filling works on it. */
export const GIVEN_UP = 'given up by retention';

/** What a part is named by that comes before a stream by its settings: no gap, because it was never asked for. */
export const BEFORE_COLLECTING = 'before collecting';

const LOST: ReadonlySet<string> = new Set<GapReason | typeof GIVEN_UP | typeof BEFORE_COLLECTING>([
  GIVEN_UP,
  BEFORE_COLLECTING,
  'history horizon',
  'beyond history',
  'delisted',
  'not observed',
  'no connection',
  'no updates',
  'not offered',
]);

/** Returns true if a gap of this reason can never be filled, as far as is known. */
export function isLost(reason: string): boolean {
  return LOST.has(reason);
}

/** The reason as a metric label. */
export function reasonLabel(reason: string): string {
  return reason.replaceAll(' ', '_');
}
