import type { z } from 'zod';
import type { Clock } from '../kernel/clock.js';
import { MINUTE_MS, SECOND_MS, shownDuration } from '../kernel/durations.js';
import { streamName } from '../model/series.js';
import type { STATE } from './api/documents.js';
import type { HealthReport } from './health.js';
import { idleText } from './shares.js';
import {
  type ArchiveStatus,
  type DaemonStatus,
  exchangeText,
  firstHistoryText,
  type StatusDocument,
} from './status-document.js';

/** State of the whole in one sentence, of a daemon or of an archive alone. */

export type State = z.infer<typeof STATE>;

/** Sentence of the alert TapekeepClockDisputed. */
const TIME_DISPUTED = 'Answers of the exchange contradict each other about the time.';

/** Open gaps of a kind that come and go while all is well, seconds. */
const OPEN_MAX_S = 600;

/** More requests than these wait only where more is asked for than the exchange allows (as the alert has it). */
const WAITING_MAX = 50;

/** Share of free space below which a disk is told of, as the alert TapekeepDiskFills has it. */
export const LEAST_FREE_SHARE = 0.1;

/** Space of the disk of a directory. */
export interface DiskSpace {
  readonly directory: 'data' | 'cold';
  readonly freeBytes: number;
  readonly sizeBytes: number;
}

/** Says how much of a disk is free, and whether that is enough. */
export function freeSpace({ directory, freeBytes, sizeBytes }: DiskSpace) {
  const share = freeBytes / Math.max(1, sizeBytes);
  const text = `${Math.floor(share * 100)} % of the disk of ${directory} is free`;
  return { isEnough: share >= LEAST_FREE_SHARE, text };
}

/** A start that takes longer is a trouble. */
const START_MAX_MS = 5 * MINUTE_MS;

/** Names that are shown of a list; the number of all of them is said. */
const NAMES_MAX = 5;

const counted = (count: number, thing: string) =>
  `${count.toLocaleString('en-US')} ${thing}${count === 1 ? '' : 's'}`;

/** Names streams whose coverage does not grow, for how long, and why. */
export function standingText(streams: DaemonStatus['standing'], all = streams.length): string {
  const texts = streams.map(({ market, kind, intervalS, standingS, reason, note }) => {
    const stream = streamName({ kind, variant: intervalS ?? 0 });
    return `${market} ${stream} for ${shownDuration(standingS * SECOND_MS)} (${reason}: ${note})`;
  });
  const shown = texts.slice(0, NAMES_MAX).join('; ');
  const rest = all - Math.min(NAMES_MAX, texts.length);
  return rest > 0 ? `${shown}; and ${rest} more` : shown;
}

function reasonsOf({ checks }: HealthReport): string {
  return checks
    .filter(({ ok }) => !ok)
    .map(({ name, detail }) => (detail === undefined ? name : `${name}: ${detail}`))
    .join('; ');
}

/** Kinds with more open gaps than come and go, in words. */
function gapsText({ kinds }: Pick<ArchiveStatus, 'kinds'>): string | undefined {
  const open = kinds.filter(({ openS }) => openS > OPEN_MAX_S).map(({ kind }) => kind);
  return open.length === 0 ? undefined : `gaps are open in ${open.join(', ')}`;
}

type Found = Omit<State, 'sinceMs'> & { readonly standingS?: number };

const found = (level: State['level'], text: string, command: string | null = null): Found => ({
  ...{ level, text, command },
});

/** Facts about a daemon beside its document. */
interface Beside {
  /** It has not collected yet, and may still take its time. */
  readonly isStarting?: boolean;
  /** Disks of the archive on this machine. */
  readonly disks?: readonly DiskSpace[];
}

function daemonState(
  daemon: DaemonStatus,
  archive: StatusDocument['archive'],
  { isStarting = false, disks = [] }: Beside,
): Found {
  const { health, ready, markets, isTimeDisputed, standing, requestsWaiting } = daemon;
  if (!health.ok) return found('bad', `Not alive: ${reasonsOf(health)}`, 'tapekeep doctor');
  if (!ready.ok) {
    const text = `Not ready: ${reasonsOf(ready)}`;
    return found(isStarting ? 'busy' : 'bad', text, 'tapekeep doctor');
  }
  if (ready.state === 'standby') {
    const text = `Standing by: another daemon collects (${daemon.heldBy ?? 'unknown'}).`;
    return found('good', text, 'tapekeep handover');
  }
  if (isTimeDisputed) return found('bad', `Ready, but not covering all: ${TIME_DISPUTED}`);
  const collected = markets === 1 ? '1 market is' : `${markets} markets are`;
  const begin = `Ready: ${collected} collected`;
  const full = disks.map(freeSpace).find(({ isEnough }) => !isEnough);
  if (full !== undefined) {
    return found('busy', `${begin}; ${full.text}: make room.`, 'tapekeep partitions');
  }
  if (standing.length > 0) {
    const standingS = Math.max(...standing.map((one) => one.standingS));
    const text = `${begin}; coverage does not grow: ${standingText(standing, daemon.standingStreams)}.`;
    return { ...found('busy', text, 'tapekeep gaps'), standingS };
  }
  const walked = (archive?.kinds ?? []).flatMap((one) => firstHistoryText(one) ?? []);
  if (walked.length > 0) {
    return found('busy', `${begin}; ${walked.join('; ')}.`, 'tapekeep status');
  }
  if (requestsWaiting > WAITING_MAX) {
    const text = `${begin}; ${counted(requestsWaiting, 'request')} wait: the settings ask for more than exchange.requestsPerS allows.`;
    return found('busy', text, 'tapekeep config show exchange streams');
  }
  const idle = archive === null ? undefined : idleText(archive.shares);
  if (idle !== undefined) return found('busy', `${begin}; ${idle}.`, 'tapekeep status');
  const open = archive === null ? undefined : gapsText(archive);
  if (open !== undefined) return found('busy', `${begin}; ${open}.`, 'tapekeep gaps');
  return found('good', `${begin}.`);
}

function archiveState(of: StatusDocument, archive: ArchiveStatus): Found {
  if (of.exchange === null) {
    return found('busy', 'The archive is empty: nothing was collected yet.', 'tapekeep start');
  }
  const begin = `Archive of ${exchangeText(of)}: ${counted(archive.markets, 'market')}, ${counted(archive.rows, 'row')}`;
  const open = gapsText(archive);
  if (open !== undefined) return found('busy', `${begin}; ${open}`, 'tapekeep gaps');
  return found('good', begin);
}

/**
 * Makes the headline of a status document.
 *
 * @returns `standingS` where it is known how long it has been so
 */
export function stateOf(document: StatusDocument, beside: Beside = {}): Found {
  const { daemon, archive } = document;
  if (daemon !== null) return daemonState(daemon, archive, beside);
  if (archive !== null) return archiveState(document, archive);
  return found('busy', 'The archive was not counted yet.');
}

/**
 * Remembers of a daemon whether its start is over, and since when the state has its level and command, which say what
 * kind of state it is.
 */
export class StateWatch {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #startedMs: number;
  #hasCollected = false;
  #kind: string | undefined;
  #sinceMs: number | null = null;

  /** The start of the daemon counts from here. */
  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
    this.#startedMs = clock.monotonicMs();
  }

  /** @param document of the daemon; all calls are of one */
  stateOf(document: StatusDocument, disks: readonly DiskSpace[] = []): State {
    this.#hasCollected ||= document.daemon?.phase === 'collecting';
    const isEarly = this.#clock.monotonicMs() - this.#startedMs < START_MAX_MS;
    const isStarting = isEarly && !this.#hasCollected;
    const { standingS, ...state } = stateOf(document, { isStarting, disks });
    const kind = `${state.level} ${state.command}`;
    if (kind !== this.#kind) {
      this.#kind = kind;
      this.#sinceMs = document.atMs - (standingS ?? 0) * SECOND_MS;
    }
    return { ...state, sinceMs: this.#sinceMs };
  }
}
