import { join } from 'node:path';
import { healthReport } from '../../src/console/health.js';
import {
  type ServedDocument,
  type StatusServer,
  type StatusServerOptions,
  startStatusServer,
} from '../../src/console/server.js';
import type { DaemonStatus } from '../../src/console/status-document.js';
import { repositoryPath } from './repository/repository.js';

const HEALTHY = { ok: true, checks: [] };
const well = async () => healthReport([{ name: 'loop', ok: true, detail: 'ticked 1 s ago' }]);

/** The status server of a daemon that is well, and of which nothing else is known. */
export function startTestStatus(options: Partial<StatusServerOptions> = {}): Promise<StatusServer> {
  return startStatusServer({
    ...{ host: '127.0.0.1', port: 0, version: '0.0.0', health: well, ready: well },
    assetsFolder: join(repositoryPath, 'test/fixtures/console'),
    metricsText: async () => 'tapekeep_up 1\n',
    statusJson: (_selection, reports) => servedDocument({ daemon: reports }),
    knownMarkets: () => undefined,
    live: { activity: () => undefined, changed: () => ({ mark: 0, kinds: [] }) },
    nowMs: () => 10_000,
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
      ...{ share: null, heldBy: null, standbys: [] },
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
      standingStreams: daemon?.standing?.length ?? 0,
      ...daemon,
    },
  };
}
