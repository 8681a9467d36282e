import { InvalidArgumentError } from 'commander';
import { DURATION_FORM, parseDuration } from '../../config/durations.js';
import type { ExchangeAccess } from '../opening/exchange.js';
import { timeArgument } from '../options/arguments.js';

/** Counted back from the exchange's present, which only a running call can know. */
export interface RelativeTime {
  readonly backMs: number;
}

/** A time as an option tells it: UNIX seconds, or relative. */
export type GivenTime = number | RelativeTime;

/**
 * Reads a time of an option: UNIX seconds, a time with its zone, `now`, or a duration back from now
 * such as `5m` or `-5m`.
 *
 * @throws InvalidArgumentError saying what is allowed; commander adds option and value
 */
export function relativeTimeArgument(text: string): GivenTime {
  const backMs = text === 'now' ? 0 : parseDuration(text.replace(/^-/, ''));
  if (backMs !== undefined) return { backMs };
  try {
    return timeArgument(text);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    throw new InvalidArgumentError(`${error.message} Or now, or ${DURATION_FORM} back from now.`);
  }
}

function isRelative(value: unknown): value is RelativeTime {
  return typeof value === 'object' && value !== null && 'backMs' in value;
}

/**
 * Replaces relative times by UNIX seconds of the exchange's own time, which a tape or a replay lives
 * at far from ours. To learn it one question more is asked, if there is any such time.
 */
export async function fixTimes(
  params: Readonly<Record<string, unknown>>,
  { client, time }: Pick<ExchangeAccess, 'client' | 'time'>,
): Promise<Readonly<Record<string, unknown>>> {
  if (!Object.values(params).some(isRelative)) return params;
  await client.products();
  const nowMs = time.nowMs();
  const fixed = Object.entries(params).map(([name, value]) => {
    return [name, isRelative(value) ? Math.floor((nowMs - value.backMs) / 1000) : value] as const;
  });
  return Object.fromEntries(fixed);
}
