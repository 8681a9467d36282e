import { resolve } from 'node:path';
import type { StandingStream } from '../../collect/ledgers.js';
import { Activity } from '../../console/activity.js';
import type { Handlers } from '../../console/api/endpoints.js';
import { archiveHandlers } from '../../console/api/handlers/archive.js';
import { dayHandlers } from '../../console/api/handlers/days.js';
import { fillHandlers } from '../../console/api/handlers/filling.js';
import { gapHandlers } from '../../console/api/handlers/gaps.js';
import { bookOf, marketHandlers, newestTrades } from '../../console/api/handlers/market.js';
import { marketHandlers as marketListHandlers } from '../../console/api/handlers/markets.js';
import { QUERY_LIMITS, queryHandlers } from '../../console/api/handlers/query.js';
import { storageHandlers } from '../../console/api/handlers/storage.js';
import type { LeftOut } from '../../console/api/pieces.js';
import { Refusal } from '../../console/api/refusal.js';
import type { LiveSources } from '../../console/live.js';
import type { LedgerCount } from '../../console/status-document.js';
import type { Clock } from '../../kernel/clock.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { ReaderStatements, type Store } from '../../store/index.js';
import { leftOutText } from '../gaps.js';
import { lifeRulesOf } from '../life.js';
import { coldDirOf } from '../opening/database.js';
import type { Session } from '../opening/session.js';
import type { DaemonView } from './daemon-status.js';
import { nearestFolder } from './housekeeping.js';

/** Trades that a second can bring to a page, and levels of a side of a book. */
const LIVE_TRADES = 200;
const LIVE_LEVELS = 20;

/** Sources of the console of a daemon. */
export interface ConsoleSources {
  readonly handlers: Omit<Handlers, 'who' | 'status'>;
  readonly live: Omit<LiveSources, 'state'>;
  stop(): void;
}

/**
 * Joins the handlers of the API that a daemon serves, each subject a function that returns its part of `Handlers`, and
 * the sources of its events.
 *
 * @param onStep called every ten seconds
 */
export function consoleSources(
  session: Session,
  look: () => DaemonView,
  onStep: () => void,
): ConsoleSources {
  const { config, clock, telemetry, exchangeTime, recentLog } = session;
  const nowMs = () => exchangeTime.nowMs();
  const snapshot = () => telemetry.counts.snapshot();
  const activity = new Activity({ clock, snapshot, exchangeNowMs: nowMs, onStep });
  const store = (): Store => {
    const { store: open, phase } = look();
    if (open !== undefined) return open;
    throw new Refusal(503, `the archive is not open yet: ${phase}; ask again soon`, 5);
  };
  const coldDir = coldDirOf(config);
  const folders = async () => ({
    database: config.database.url === null ? await nearestFolder(resolve(config.dataDir)) : null,
    cold: coldDir !== null && config.cold.enabled ? await nearestFolder(resolve(coldDir)) : null,
  });
  let reader: ReaderStatements | undefined;
  const readerOf = () => {
    store();
    const { database } = look();
    if (database === undefined) throw new Refusal(503, 'there is no database yet', 5);
    const { url: databaseUrl, readerUrl } = database;
    reader ??= new ReaderStatements({ databaseUrl, readerUrl, clock, limits: QUERY_LIMITS });
    return reader;
  };
  const ageS = () => look().counted?.streams[0]?.ageS;
  const leftOut: LeftOut = (streams) => leftOutText(config, streams);
  const { requestsPerS } = config.exchange;
  return {
    handlers: {
      ...gapHandlers({ store, nowMs, leftOut }),
      ...fillHandlers({ store, nowMs, leftOut, requestsPerS }),
      ...dayHandlers({ store, nowMs, leftOut }),
      ...marketListHandlers({ store, nowMs, troubleOf: troubles(clock, look) }),
      ...marketHandlers({ store, nowMs }),
      ...queryHandlers({ reader: readerOf, clock }),
      ...archiveHandlers({ store, nowMs, rules: lifeRulesOf(config) }),
      ...storageHandlers({ store, folders, clock, nowMs, ageS }),
      activity: async () => activity.answer(),
      log: async ({ level, limit }) => ({ entries: recentLog.newest(level, limit) }),
      settings: async () => ({ settings: session.shownSettings() }),
    },
    live: {
      activity: () => activity.newest(),
      changed: (before) => changedKinds(before as Marks | undefined, look().counted),
      newestMs: (kind, market) => telemetry.counts.newestOf(kind, market),
      trades: async (market, sinceMs, signal) => {
        const newest = await newestTrades(store(), market, LIVE_TRADES, signal);
        return newest.filter(({ timeMs }) => timeMs >= sinceMs);
      },
      book: (market, signal) => bookOf(store(), market, nowMs(), LIVE_LEVELS, signal),
    },
    stop: () => activity.stop(),
  };
}

type Stream = Pick<StandingStream, 'market' | 'kind' | 'variant'>;

/** Says why the coverage of streams does not grow; null: it grows. It looks at most once a second. */
function troubles(clock: Clock, look: () => DaemonView): (stream: Stream) => string | null {
  const keyOf = ({ market, kind, variant }: Stream) => `${market} ${kind} ${variant}`;
  let texts = new Map<string, string>();
  let atMs = Number.NEGATIVE_INFINITY;
  return (stream) => {
    if (clock.monotonicMs() - atMs > SECOND_MS) {
      atMs = clock.monotonicMs();
      const standing = look().collector?.standing ?? [];
      texts = new Map(standing.map((one) => [keyOf(one), `${one.reason}: ${one.note}`]));
    }
    return texts.get(keyOf(stream)) ?? null;
  };
}

/** Gaps of each kind, in a text that differs when they do. */
type Marks = ReadonlyMap<string, string>;

const marksOfCount = new WeakMap<LedgerCount, Marks>();

function marksOf(counted: LedgerCount): Marks {
  const known = marksOfCount.get(counted);
  if (known !== undefined) return known;
  const sums = new Map<string, number[]>();
  for (const { kind, openGaps, gapsWithinHistory, unfillableS } of counted.streams) {
    const [open = 0, all = 0, lost = 0] = sums.get(kind) ?? [];
    sums.set(kind, [open + openGaps, all + gapsWithinHistory, lost + Math.round(unfillableS)]);
  }
  const marks = new Map([...sums].map(([kind, figures]) => [kind, figures.join(' ')]));
  marksOfCount.set(counted, marks);
  return marks;
}

/** Kinds whose gaps differ between two counts of the ledger. */
function changedKinds(before: Marks | undefined, counted: LedgerCount | undefined) {
  const marks = counted === undefined ? undefined : marksOf(counted);
  if (marks === undefined || before === marks) return { mark: before, kinds: [] };
  const isOther = ([kind, mark]: readonly [string, string]) => before?.get(kind) !== mark;
  return { mark: marks, kinds: [...marks].filter(isOther).map(([kind]) => kind) };
}
