import type { DaemonStatus } from '../../src/status/document.js';
import type { ServedDocument } from '../../src/status/page.js';

const HEALTHY = { ok: true, checks: [] };

/** The status of a daemon of which nothing is known but what is given. */
export function servedDocument({
  daemon,
  ...given
}: Partial<Omit<ServedDocument, 'daemon'>> & {
  readonly daemon?: Partial<DaemonStatus>;
} = {}): ServedDocument {
  return {
    ...{ format: 1, version: '0.0.0', exchange: 'test', isSandbox: false, atMs: 10_000 },
    archive: null,
    ...given,
    daemon: {
      ...{ phase: 'collecting', isTimeSettled: true, isTimeDisputed: false },
      ...{ timeBasis: 'exchange', markets: 1 },
      ...{
        wantedMarkets: 1,
        leftOutMarkets: 0,
        missingMarkets: [],
        requests: 1,
        requestsPerS: 5,
        requestsWaiting: 0,
      },
      ...{ failedRequests: 0, lastFailedRequest: null, standing: [], rows: [] },
      ...{ health: HEALTHY, ready: HEALTHY },
      ...daemon,
    },
  };
}
