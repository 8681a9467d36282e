import type { Clock } from '../kernel/clock.js';
import { TapekeepError } from '../kernel/errors.js';
import type { Random } from '../kernel/random.js';
import { retry } from '../kernel/retry.js';
import type { ArchivePort } from './ports.js';

const BASE_MS = 200;
const CAP_MS = 2000;
/** With the cap above this is half a day without a database; then the caller sees the error. */
const ATTEMPTS_MAX = 40_000;

/**
 * An archive whose every method waits while the database is away, as `commit` does by itself. So a
 * collector that has data in hand keeps it until it can be stored.
 */
export function patientArchive(
  archive: ArchivePort,
  options: { clock: Clock; random: Random; signal: AbortSignal },
): ArchivePort {
  const patiently = <T>(work: () => Promise<T>): Promise<T> =>
    retry(
      {
        ...options,
        baseMs: BASE_MS,
        capMs: CAP_MS,
        maxAttempts: ATTEMPTS_MAX,
        isRetryable: (error) => error instanceof TapekeepError && error.action === 'retry',
      },
      work,
    );
  return {
    commit: (batch, commitOptions) => archive.commit(batch, commitOptions),
    ensureMarkets: (markets, atMs, list) =>
      patiently(() => archive.ensureMarkets(markets, atMs, list)),
    ensureStream: (stream) => patiently(() => archive.ensureStream(stream)),
    setCollectFrom: (id, fromMs, reason) =>
      patiently(() => archive.setCollectFrom(id, fromMs, reason)),
    want: (stream, span) => patiently(() => archive.want(stream, span)),
    islands: (stream, limit) => patiently(() => archive.islands(stream, limit)),
    recordGap: (gap) => patiently(() => archive.recordGap(gap)),
    listGaps: (filter, untilMs) => patiently(() => archive.listGaps(filter, untilMs)),
    recordAttempt: (attempt) => patiently(() => archive.recordAttempt(attempt)),
    startTries: (streamId) => patiently(() => archive.startTries(streamId)),
    noteStartTry: (streamId, failed) => patiently(() => archive.noteStartTry(streamId, failed)),
    fillRequests: (nowMs) => patiently(() => archive.fillRequests(nowMs)),
    uncover: (stream, span, gap) => patiently(() => archive.uncover(stream, span, gap)),
    revokeBeyond: (presentMs, how) => patiently(() => archive.revokeBeyond(presentMs, how)),
    notePresent: (presentMs, pace) => patiently(() => archive.notePresent(presentMs, pace)),
    tradedSlots: (marketId, spans, stepMs) =>
      patiently(() => archive.tradedSlots(marketId, spans, stepMs)),
    storedTrades: (marketId, span, limit) =>
      patiently(() => archive.storedTrades(marketId, span, limit)),
    exposeTrades: (exposure) => patiently(() => archive.exposeTrades(exposure)),
    recordIdEpoch: (epoch) => patiently(() => archive.recordIdEpoch(epoch)),
    sinceModes: () => patiently(() => archive.sinceModes()),
    rememberSinceMode: (endpoint, mode) =>
      patiently(() => archive.rememberSinceMode(endpoint, mode)),
    openSession: (stream, atMs) => patiently(() => archive.openSession(stream, atMs)),
    touchSession: (id, atMs) => patiently(() => archive.touchSession(id, atMs)),
    closeSession: (id, end) => patiently(() => archive.closeSession(id, end)),
  };
}
