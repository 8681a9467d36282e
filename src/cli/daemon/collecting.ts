import { Collector, type CollectorOptions } from '../../collect/collector.js';
import type { ExchangePort, StateFeedPort, TradeFeedPort } from '../../collect/ports.js';
import { systemRandom } from '../../kernel/random.js';
import { Share } from '../../model/share.js';
import type { Store } from '../../store/index.js';
import { shareOf } from '../opening/database.js';
import { type ExchangeAccess, guardFeedIdentity } from '../opening/exchange.js';
import type { Session } from '../opening/session.js';

interface CollectorParts {
  readonly store: Store;
  readonly access: ExchangeAccess;
  /** The exchange, guarded like its feeds are here. */
  readonly exchange: ExchangePort;
  /** The exchange that the archive belongs to. */
  readonly identity: string | null;
  /** Called when a feed is suddenly that of another exchange. */
  readonly onFatal: (error: Error) => void;
}

/** Settings of a collector that fills requests alone. */
export type Restriction = Pick<CollectorOptions, 'settings' | 'only'> & {
  readonly fillRequests: Store['fillRequests'];
};

/**
 * Makes the collector of an open archive and a connected exchange. It knows nothing but what the ledger says now.
 *
 * @param restriction left out: it collects everything that the settings name
 */
export function makeCollector(
  { config, clock, telemetry, exchangeTime }: Session,
  { store, access, exchange, identity, onFatal }: CollectorParts,
  restriction?: Restriction,
): Collector {
  const { openTradeFeed } = access;
  const guardFeed = <Feed extends StateFeedPort | TradeFeedPort>(feed: Feed): Feed =>
    guardFeedIdentity(feed, identity, onFatal);
  const era = store.era();
  const commit: Store['commit'] = (batch, how) => store.commit(batch, { ...how, era });
  const { fillRequests } = restriction ?? store;
  return new Collector({
    share: restriction === undefined ? shareOf(config) : Share.whole,
    settings: restriction?.settings ?? config,
    only: restriction?.only,
    exchange,
    requestsPerS: () => access.endpointRequestsPerS(),
    allRequestsPerS: () => access.requestsPerS(),
    archive: { ...store, commit, fillRequests },
    openStateFeed: (...of) => guardFeed(access.openStateFeed(...of)),
    ...(openTradeFeed &&
      restriction === undefined && { openTradeFeed: (of) => guardFeed(openTradeFeed(of)) }),
    time: exchangeTime,
    clock,
    random: systemRandom,
    telemetry: telemetry.collect,
  });
}
