import { createHash } from 'node:crypto';
import type { PastIdentity } from '../archive/past.js';
import { TapekeepError } from '../kernel/errors.js';
import { replayIdentity } from '../kernel/exchange-kind.js';
import type { Span } from '../kernel/span.js';
import { isoMs } from '../kernel/timestamp.js';
import {
  type Backend,
  type ClientSession,
  type ClockControl,
  RefusedError,
} from '../server/backend.js';
import { Catalog } from './catalog.js';
import {
  type ReplayContext,
  ReplayError,
  type ReplayOptions,
  replayContext,
  sightOf,
} from './context.js';
import { describeGaps, readCoverage } from './coverage.js';
import { ReplayClient, type ReplayClientParts } from './replay-client.js';
import { Sessions } from './sessions.js';

/** Questions to the archive at once; beyond it clients are answered to ask again. */
const MAX_ASKING = 2000;
/** View of the clients; the owner of the replay gets the rest. */
const TROUBLED = 'the archive cannot be read now; ask again';
const UNREADABLE = 'what this asks for cannot be read; the log of the replay says why';

/**
 * Opens an archive to be served as an exchange.
 *
 * @throws ReplayError for an empty archive, a span outside of it or with gaps, or a market that it does not hold
 */
export async function openReplay(options: ReplayOptions): Promise<ReplayBackend> {
  const { past, span, markets, allowsGaps } = options;
  const identity = await past.identity();
  if (identity === null) throw new ReplayError('the archive is empty: nothing was collected yet');
  const sight = sightOf(options);
  const catalog = new Catalog(sight);
  await catalog.refresh();
  for (const name of markets) {
    if (catalog.market(name) !== undefined) continue;
    throw new ReplayError(`the archive holds nothing of ${JSON.stringify(name)}`, 'markets');
  }
  checkSpan(catalog.covered, span);
  if (span.toMs <= span.fromMs) {
    throw new ReplayError(`${spanText(span)} is empty; its end must be after its start`, 'from');
  }
  const coverage = allowsGaps ? undefined : await readCoverage(past, catalog, span);
  if (coverage !== undefined && coverage.gaps.length > 0) {
    throw new ReplayError(
      `${spanText(span)} has gaps in its trades or candles: ${describeGaps(coverage.gaps)}; choose a time range without them (--clamp takes the newest), or allow gaps (--allow-gaps)`,
    );
  }
  const context = replayContext(options, sight, catalog, coverage?.sinceMs);
  const archive = archiveText(identity);
  return new ReplayBackend(context, replayIdentity(archive, coverage?.whole ?? null));
}

function spanText({ fromMs, toMs }: Span): string {
  const [from, to] = [fromMs, toMs].map(isoMs);
  return from === to ? `${from}` : `from ${from} to ${to}`;
}

/** @throws ReplayError when nothing at all is covered in it */
function checkSpan({ fromMs: from, toMs: to }: Span, span: Span): void {
  if (from > to) throw new ReplayError('the archive covers no time of these markets yet');
  if (span.fromMs < to && span.toMs > from) return;
  throw new ReplayError(
    `${spanText(span)} lies outside of the archive, which covers time ${spanText({ fromMs: from, toMs: to })}`,
    span.fromMs >= to ? 'from' : 'to',
  );
}

/**
 * An archive is always the same exchange, whenever and at what speed it is
 * replayed: what follows of it is the same history. It is never the exchange that was recorded.
 */
function archiveText({ name, baseUrl, identity, createdAt }: PastIdentity): string {
  const text = JSON.stringify([name, baseUrl, identity, createdAt]);
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

/** The archive behind the served contract: at the time of the shared session, or of a client's own. */
export class ReplayBackend extends ReplayClient implements Backend {
  readonly #sessions: Sessions;
  readonly #parts: Omit<ReplayClientParts, 'session'>;

  constructor(context: ReplayContext, identity: string) {
    const sessions = new Sessions(context);
    let asking = 0;
    const ask = async <T>(question: () => Promise<T>): Promise<T> => {
      if (asking >= MAX_ASKING) throw new RefusedError('unavailable', 'too busy; ask again');
      asking += 1;
      try {
        return await question();
      } catch (error) {
        if (!(error instanceof TapekeepError)) throw error;
        context.options.onFailure(error);
        throw new RefusedError('unavailable', error.action === 'retry' ? TROUBLED : UNREADABLE);
      } finally {
        asking -= 1;
      }
    };
    const parts = { identity, context, ask };
    super({ ...parts, session: sessions.shared }, NO_CLIENT);
    this.#sessions = sessions;
    this.#parts = parts;
  }

  get clockControl(): ClockControl {
    return this.#sessions;
  }

  sessionFor(client: ClientSession): Backend {
    const session = this.#sessions.of(client.session);
    if (client.kind === 'connection') session.connect();
    else session.use();
    const { catalog, options } = this.#parts.context;
    catalog.refresh().catch(options.onFailure);
    return new ReplayClient({ ...this.#parts, session }, client);
  }

  /** Ends all sessions. Safe to call twice. */
  stop(): Promise<void> {
    return this.#sessions.stop();
  }
}

/** The backend itself is no client. */
const NO_CLIENT: ClientSession = { kind: 'connection', session: undefined, note: () => undefined };
