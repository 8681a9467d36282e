import { InvalidArgumentError } from 'commander';
import { Past } from '../../archive/past.js';
import { isLoopback } from '../../config/load.js';
import { archivedMarkets, selectMarkets } from '../../console/api/selection.js';
import { systemClock } from '../../kernel/clock.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { Instant } from '../../kernel/instants.js';
import { ceilToMs, floorToMs, type Span } from '../../kernel/span.js';
import { formatInstant, formatSpan, isoMs } from '../../kernel/timestamp.js';
import type { KnownStream } from '../../model/explain.js';
import { streamName } from '../../model/series.js';
import { coveredBy } from '../../replay/catalog.js';
import { ReplayError } from '../../replay/context.js';
import { newestWholeRange } from '../../replay/coverage.js';
import { openReplay } from '../../replay/replay-backend.js';
import { startExchangeServer } from '../../server/exchange-server.js';
import type { Store } from '../../store/index.js';
import { command, flag, option } from '../command.js';
import { waitForStop } from '../ending.js';
import { UsageError } from '../failure.js';
import { archive, coldOf } from '../opening/database.js';
import {
  CLAMP,
  cacheArgument,
  controlOption,
  FOR,
  HOST,
  instantArgument,
  PORT,
  playSpeedArgument,
  READY_AS_JSON,
  spanStartArgument,
} from '../options.js';
import { printable, printReport } from '../output.js';
import { clampedTo, selectSpan } from '../selection.js';

function namesArgument(text: string, earlier: readonly string[] = []): string[] {
  const names = text.split(',').map((name) => name.trim());
  if (names.some((name) => name === '')) {
    throw new InvalidArgumentError('Write names with commas between, such as BTC_USDT,ETH_USDT.');
  }
  return [...new Set([...earlier, ...names])];
}

const MB = 2 ** 20;
const CACHE_MB = 256;

/** Serves the archive as an exchange of the past, until a signal. Works beside a running daemon. */
export default command({
  options: {
    from: option('--from <time>', 'start (default: after the last gap)', spanStartArgument),
    to: option('--to <time>', 'end (default: end of the archive)', instantArgument),
    clamp: CLAMP,
    markets: option(
      '-m, --markets <names>',
      'only these markets, comma-separated; repeatable',
      namesArgument,
    ),
    speed: option('--speed <factor>', 'speed: 1, 100, max, step', playSpeedArgument, 1),
    allowGaps: flag('--allow-gaps', 'accept gaps in trades and candles'),
    cache: option('--cache <MB>', 'memory for rows, at least 64', cacheArgument, CACHE_MB),
    withDisconnects: flag('--with-disconnects', 'end connections where the recorded ones ended'),
    host: HOST,
    port: PORT,
    forMs: FOR,
    control: controlOption('/replay/ that steer time', 'refuse them'),
    json: READY_AS_JSON,
  },
  help: `
Serves every public GET endpoint, state.query and state.subscribe as of a time that moves. The clock starts at the
first request and stops at --to. Nothing newer is visible. Private calls are refused.

  tapekeep replay --from 2026-01-31 --to 2026-02-01 --speed 20 --port 8080
  tapekeep replay --from 2h --markets BTC_USDT,ETH_USDT --speed step --json

Trades and candles of the range must have no gap, unless --allow-gaps is given. Header X-Tapekeep-Session or
parameter session gives a client its own clock.

--speed   recorded seconds in a second; max: as fast as clients read; step: by hand`,
  needs: archive('by itself'),
  async run({ session, store, nowMs }, { from, to, markets, speed, host, port, ...options }) {
    const { config, telemetry } = session;
    const streams = await store.inspection.streams();
    const clock = systemClock;
    const bounds = selectSpan({ from, to }, nowMs);
    const chosen = selectMarkets(markets, await archivedMarkets(store), '--markets');
    const ids = chosen.map(({ marketId }) => marketId);
    const past = new Past(store, {
      ...{ clock, cold: coldOf(config), cacheBytes: options.cache * MB },
      onCrowded: () => telemetry.daemon.warned(crowded(options.cache)),
    });
    const all = coveredBy(streams, ids);
    if (all.toMs < all.fromMs) throw new ReplayError(NOTHING_COVERED);
    const names = chosen.map(({ market }) => market);
    const whole = options.allowGaps
      ? undefined
      : await newestWholeRange(past, clock, names, bounds);
    // Where there is none, opening it names the gaps.
    const covered = whole ?? all;
    const within = options.clamp ? clampedTo(bounds, covered) : bounds;
    if (within === undefined) {
      const text = `the archive covers ${formatSpan(covered)} of these markets, and nothing of this span`;
      throw new ReplayError(text);
    }
    // Before the first recording there would be nothing to see; a span that ends before it is refused.
    const isEarly = (within.fromMs ?? Infinity) < all.fromMs;
    const isPast = within.toMs !== undefined && within.toMs <= all.fromMs;
    const fromMs = isEarly && !isPast ? all.fromMs : (within.fromMs ?? covered.fromMs);
    const toMs = within.toMs ?? Math.max(covered.toMs, fromMs);
    const backend = await openReplay({
      ...{ past, clock, span: { fromMs, toMs }, speed },
      markets: markets === undefined ? [] : names,
      allowsGaps: options.allowGaps,
      hasDisconnects: options.withDisconnects,
      onFailure: (error) =>
        telemetry.server.handlerFailed({
          ...{ endpoint: 'replay', code: codeOf(error), message: messageOf(error) },
        }),
    }).catch((error: unknown) => {
      throw namingOption(error, { from, to });
    });
    const contents = await contentsOf(store, streams, chosen, { fromMs, toMs }, nowMs);
    const server = await startExchangeServer({
      ...{ backend, clock, telemetry: telemetry.server, host, port },
      variants: { rateLimit: false, tradeFeed: 'pushed' },
      control: options.control ?? isLoopback(host),
    });
    const { url, realtimeUrl } = server;
    const [fromText, toText] = [fromMs, toMs].map(isoMs);
    const played = { from: fromText, to: toText };
    const ready = { url, realtimeUrl, markets: names, identity: backend.identity, ...played };
    printReport(options.json, { ready: true, ...ready, pid: process.pid }, () => [
      `replay ready: ${url} (real-time ${realtimeUrl}) plays ${names.map(printable).join(', ')} from ${fromText} to ${toText}`,
      // Time begins later than was asked.
      (bounds.fromMs ?? Infinity) < fromMs &&
        `  begins at the first recording: nothing older than ${formatInstant(fromMs)} is covered`,
      contents,
    ]);
    await waitForStop(clock, options.forMs, () => undefined);
    await server.stop();
    await backend.stop();
    await past.close();
  },
});

const crowded = (cacheMb: number) => ({
  code: 'replay_cache_small',
  message: `rows in use do not fit into ${cacheMb} MB and are read again and again; start the replay with --cache ${2 * cacheMb}`,
});

const NOTHING_COVERED = 'the archive covers no time of these markets yet; collect something first';

/** What the archive covers of the span, a line for each market. */
async function contentsOf(
  store: Store,
  streams: readonly KnownStream[],
  markets: readonly { readonly market: string; readonly marketId: number }[],
  { fromMs, toMs }: Span,
  nowMs: number,
): Promise<string[]> {
  const ids = new Set(markets.map(({ marketId }) => marketId));
  const parts = streams.flatMap((stream) => {
    if (!ids.has(stream.marketId)) return [];
    // A candle is covered as a whole.
    const stepMs = stream.kind === 'candles' ? stream.variant * SECOND_MS : 1;
    const from = ceilToMs(Math.max(fromMs, stream.oldestCoveredMs ?? toMs), stepMs);
    const to = floorToMs(Math.min(toMs, stream.newestCoveredMs ?? fromMs), stepMs);
    return from < to ? [{ ...stream, span: { fromMs: from, toMs: to } }] : [];
  });
  const progress = await store.inspection.progress(parts, nowMs);
  return markets.map(({ market, marketId }) => {
    const texts = parts.flatMap((part, at) => {
      const { coveredMs = 0, lengthMs = 0 } = progress[at] ?? {};
      if (part.marketId !== marketId || coveredMs === 0) return [];
      const isWhole = coveredMs > lengthMs - 0.5;
      return [`${streamName(part)} ${formatSpan(part.span)}${isWhole ? '' : ' in parts'}`];
    });
    const held = texts.length === 0 ? 'nothing of it in this span' : texts.join(', ');
    return `  ${printable(market)}: ${held}`;
  });
}

/** Errors of a replay speak of what they are; here it is an option that is wrong. */
function namingOption(
  error: unknown,
  { from, to }: Readonly<Record<'from' | 'to', Instant | undefined>>,
): unknown {
  if (!(error instanceof ReplayError) || error.option === undefined) return error;
  const given = error.option === 'to' ? to : from;
  if (given === undefined) return error;
  if ('atMs' in given && !Number.isFinite(given.atMs)) return error;
  return new UsageError(`--${error.option}`, given.text, error.message);
}
