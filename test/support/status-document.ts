import type { DaemonStatus } from '../../src/status/document.js';
import { healthReport } from '../../src/status/health.js';
import type { ServedDocument } from '../../src/status/page.js';
import {
  type StatusServer,
  type StatusServerOptions,
  startStatusServer,
} from '../../src/status/server.js';

const HEALTHY = { ok: true, checks: [] };
const well = async () => healthReport([{ name: 'loop', ok: true, detail: 'ticked 1 s ago' }]);

/** The status server of a daemon that is well, and of which nothing else is known. */
export function startTestStatus(options: Partial<StatusServerOptions> = {}): Promise<StatusServer> {
  return startStatusServer({
    ...{ host: '127.0.0.1', port: 0, health: well, ready: well },
    metricsText: async () => 'tapekeep_up 1\n',
    statusJson: (_selection, reports) => servedDocument({ daemon: reports }),
    knownMarkets: () => undefined,
    ...options,
  });
}

/** The status of a daemon of which nothing is known but what is given. */
export function servedDocument({
  daemon,
  ...given
}: Partial<Omit<ServedDocument, 'daemon'>> & {
  readonly daemon?: Partial<DaemonStatus>;
} = {}): ServedDocument {
  return {
    ...{
      format: 1,
      version: '0.0.0',
      exchange: 'test',
      isSandbox: false,
      exchangeKind: 'exchange',
      atMs: 10_000,
      leftOut: null,
    },
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
      ...{ failedRequests: 0, lastFailedRequest: null, standing: [], stretched: [], rows: [] },
      ...{ health: HEALTHY, ready: HEALTHY },
      ...daemon,
    },
  };
}
