import type { Config } from '../config/schema.js';
import type { expiredOf } from '../console/api/gaps.js';
import { expiredText } from '../console/status-document.js';
import type { StreamRef } from '../model/batch.js';
import type { KnownStream } from '../model/explain.js';
import { type StreamKind, streamName } from '../model/series.js';
import { type Holders, type Standby, sharesWithoutHolder } from '../store/index.js';
import { type Lines, marketNames, printable } from './output.js';

/** Whether a daemon with these settings collects a stream, if it collects its market. */
export function isSwitchedOn(
  { streams }: Pick<Config, 'streams'>,
  { kind, variant }: Pick<StreamRef, 'kind' | 'variant'>,
): boolean {
  const { trades, candles, states } = streams;
  const isOn: Readonly<Partial<Record<StreamKind, boolean>>> = {
    trades: trades.enabled,
    candles: candles.enabled && candles.intervalsS.includes(variant),
    states: states.enabled && states.periodsS.includes(variant),
    depth: streams.depth.enabled,
    tickers: streams.tickers.enabled,
  };
  // A series that no setting knows is collected by what made it.
  return isOn[kind] ?? true;
}

/** What of the archive the settings leave out: a daemon with them does not go on with it. */
export function leftOutText(
  settings: Pick<Config, 'markets' | 'streams'>,
  known: readonly Pick<KnownStream, 'market' | 'kind' | 'variant'>[],
): string | undefined {
  const { markets } = settings;
  const isNamed = (market: string) => markets.length === 0 || markets.includes(market);
  const others = new Set(known.flatMap(({ market }) => (isNamed(market) ? [] : [market])));
  const off = known.filter((one) => isNamed(one.market) && !isSwitchedOn(settings, one));
  const parts = [
    ...(others.size === 0 ? [] : [`do not name ${marketNames([...others])} (setting "markets")`]),
    ...(off.length === 0 ? [] : [`switch off ${[...new Set(off.map(streamName))].join(', ')}`]),
  ];
  if (parts.length === 0) return undefined;
  return `The settings ${parts.join(', and ')}: a daemon with these settings does not collect that`;
}

/** Why an archive does not grow. @param isWritten whether a daemon holds it all the same */
export function notCollecting(isWritten: boolean): string {
  return isWritten
    ? 'Not collecting: another tapekeep holds the archive and has not started to; see its log.'
    : 'Not collecting: no daemon runs.';
}

/** Names a daemon that stands by. */
export function standbyText({ host, pid, version, share }: Omit<Standby, 'sinceMs'>): string {
  const of = share === 0 ? '' : ` for share ${share}`;
  return `${printable(host)} (process ${pid}, version ${version})${of}`;
}

/** Names the daemon that collects, or that of each share of the markets, and the shares without one. */
export function holderLines(holders: Holders): Lines {
  const { shares } = holders;
  return [
    holders.holders.map(({ share, machine, application }) => {
      const held = share === 0 ? 'Held by:' : `Share ${share}/${shares}: held by`;
      return `${held} ${printable(machine ?? application)}.`;
    }),
    sharesWithoutHolder(holders).map(
      (share) =>
        `Share ${share}: no daemon collects it. Start "tapekeep start" with collector.share ${share}.`,
    ),
  ];
}

/** Says that nothing of expired time counts as missing. */
export function expiredLine(expired: ReturnType<typeof expiredOf>): string | undefined {
  if (expired.length === 0) return undefined;
  return `Expired: ${expired.map(expiredText).join(', ')}. No gap and no share counts that time.`;
}

/** A stream and whose it is. */
export function streamText(stream: Pick<KnownStream, 'kind' | 'variant' | 'market'>) {
  return `${streamName(stream)} of ${printable(stream.market)}`;
}
