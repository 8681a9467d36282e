import { openPast } from '../../archive/past/open-past.js';
import { isLoopback } from '../../config/rules.js';
import { systemClock } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { openReplay } from '../../replay/replay-backend.js';
import { ReplayError } from '../../replay/replay-error.js';
import type { PlaySpeed } from '../../server/control/clock-control.js';
import { startExchangeServer } from '../../server/exchange-server.js';
import type { KnownStream } from '../../store/index.js';
import { waitForStop } from '../daemon/shutdown.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { UsageError } from '../failure.js';
import { coldDirOf } from '../opening/database.js';
import { lookAt } from '../opening/looking.js';
import { type CommonOptions, openSession } from '../opening/session.js';
import type { Moment } from '../options/moments.js';
import { selectMarkets, selectSpan } from '../options/selection.js';
import { printable } from '../output/printable.js';

export interface ReplayCommandOptions extends CommonOptions {
  readonly from?: Moment;
  readonly to?: Moment;
  readonly markets?: readonly string[];
  readonly speed: PlaySpeed;
  readonly as: 'happened' | 'known';
  readonly strict?: boolean;
  readonly withDisconnects?: boolean;
  readonly host: string;
  readonly port: number;
  readonly for?: number;
  /** Whether time may be steered from outside; left out: only on a loopback address. */
  readonly control?: boolean;
  readonly json?: boolean;
}

/**
 * Serves the archive as an exchange of the past, until a signal. Works beside a running daemon.
 *
 * @throws UsageError for an unknown market, a span that is none or lies outside of the archive
 */
export async function replayCommand(options: ReplayCommandOptions): Promise<ExitCode> {
  const session = openSession({ logLevel: 'warn', ...options });
  const { config, telemetry } = session;
  await lookAt(
    session,
    async ({ store, streams, nowMs }) => {
      const clock = systemClock;
      const bounds = selectSpan(options, nowMs);
      const listed = await store.query<{ market: string; marketId: number }>(MARKETS);
      const chosen = selectMarkets(options.markets, listed, '--markets');
      const covered = coveredBy(streams, new Set([0, ...chosen.map(({ marketId }) => marketId)]));
      const fromMs = bounds.fromMs ?? covered.fromMs;
      const toMs = bounds.toMs ?? Math.max(covered.toMs, bounds.fromMs ?? covered.toMs);
      const past = openPast(store, { clock, coldDir: coldDirOf(config) });
      const backend = await openReplay({
        ...{ past, clock, span: { fromMs, toMs }, speed: options.speed, as: options.as },
        markets: options.markets === undefined ? [] : chosen.map(({ market }) => market),
        isStrict: options.strict === true,
        hasDisconnects: options.withDisconnects === true,
        onFailure: (error) =>
          telemetry.server.handlerFailed({
            ...{ endpoint: 'replay', code: codeOf(error), message: messageOf(error) },
          }),
      }).catch((error: unknown) => {
        throw namingOption(error, options);
      });
      const { host, port } = options;
      const server = await startExchangeServer({
        ...{ backend, clock, telemetry: telemetry.server, host, port },
        variants: { rateLimit: false },
        control: options.control ?? isLoopback(host),
      });
      const { url, realtimeUrl } = server;
      const names = chosen.map(({ market }) => market);
      const [from, to] = [new Date(fromMs).toISOString(), new Date(toMs).toISOString()];
      const ready = { url, realtimeUrl, markets: names, identity: backend.identity, from, to };
      process.stdout.write(
        options.json === true
          ? `${JSON.stringify({ ready: true, ...ready, pid: process.pid })}\n`
          : `replay ready: ${url} (real-time ${realtimeUrl}) plays ${names.map(printable).join(', ')} from ${from} to ${to}\n`,
      );
      await waitForStop(clock, options.for, () => undefined);
      await server.stop();
      await backend.stop();
      await past.close();
    },
    'by itself',
  );
  return EXIT_CODES.ok;
}

const MARKETS = `
  SELECT name AS market, market_id AS "marketId" FROM market WHERE market_id <> 0 ORDER BY name`;

/** From the oldest to the newest moment that is covered of anything that is replayed. */
function coveredBy(streams: readonly KnownStream[], marketIds: ReadonlySet<number>) {
  const ours = streams.filter(({ marketId }) => marketIds.has(marketId));
  const from = ours.flatMap(({ oldestCoveredMs }) => oldestCoveredMs ?? []);
  const to = ours.flatMap(({ newestCoveredMs }) => newestCoveredMs ?? []);
  if (from.length === 0) {
    throw new ReplayError(
      'the archive covers no time of these markets yet; collect something first',
    );
  }
  return { fromMs: Math.min(...from), toMs: Math.max(...to) };
}

/** Errors of a replay speak of what they are; here it is an option that is wrong. */
function namingOption(error: unknown, { from, to }: ReplayCommandOptions): unknown {
  if (!(error instanceof ReplayError) || error.option === undefined) return error;
  const given = error.option === 'to' ? to : from;
  if (given === undefined) return error;
  const value = 'atMs' in given ? new Date(given.atMs).toISOString() : `${given.backMs / 1000}s`;
  return new UsageError(`--${error.option}`, value, error.message);
}
