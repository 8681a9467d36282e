/** Why a time range is not covered, in the words of the table of gaps. Names with underscores are labels of metrics. */
export const GAP_REASONS = {
  'not collected': 'Not requested yet. Gaps are filled newest first.',
  'head moved':
    'More happened between two requests than one page holds. The walk fetches it page by page.',
  'ids begun anew':
    'The exchange restarted the ids of its trades. The walk continues until a page shows both sides.',
  'walk stalled':
    'Responses of the exchange led no further. The request is repeated, less and less often.',
  'exchange failed': 'Requests failed or were refused. They are repeated, less and less often.',
  'refused rows': 'Rows were invalid and are in quarantine. They are requested again now and then.',
  suspect: 'Stored trades do not match the candles of the exchange. Both are fetched again.',
  'history horizon':
    'The exchange serves only its newest trades. These were gone before they were requested.',
  'beyond history': 'The exchange serves nothing as old as this.',
  delisted: 'The exchange did not list the market, so nothing could be requested.',
  'not observed':
    'No daemon ran, its settings left this out, a request waited too long, or no response showed it.',
  'clock jumped':
    'Covered while the exchange showed a time in the future. Revoked when its clock was right again.',
  'no connection': 'No real-time connection delivered updates.',
  'no updates': 'The subscription was acknowledged, but no update came.',
  'not offered': 'The exchange does not offer states of this period.',
} as const satisfies Readonly<Record<string, string>>;

export type GapReason = keyof typeof GAP_REASONS;

const LOST: ReadonlySet<string> = new Set<GapReason>([
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
