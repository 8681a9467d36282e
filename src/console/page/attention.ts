import type { VNode } from 'preact';
import type { Answer } from '../api/endpoints.js';
import { counted, duration } from './format.js';
import { html } from './html.js';
import { address } from './router.js';
import { Command, type Level, pill } from './widgets.js';

/** Facts of the status that a person should look at, each with where to look or what to run. */

type Status = Answer<'status'>;
type Daemon = NonNullable<Status['daemon']>;
type Storage = Answer<'storage'>;

interface Fact {
  readonly level: Level;
  readonly name: string;
  readonly text: string;
  readonly help?: VNode;
}

const FULL_SOON_DAYS = 30;
const FULL_NOW_DAYS = 7;
/** Failures in a row that are no hiccup. */
const MANY_FAILURES = 5;

const fact = (level: Level, name: string, text: string, help?: VNode): Fact => ({
  ...{ level, name, text },
  ...(help !== undefined && { help }),
});
const link = (url: string, text: string) => html`<a href=${url}>${text}</a>`;
const run = (text: string) => html`<${Command} text=${text} />`;

function daemonFacts(daemon: Daemon): Fact[] {
  const {
    standing: stalled,
    standingStreams,
    lastFailedRequest: failed,
    missingMarkets,
    health,
    ready,
    rows,
  } = daemon;
  const facts = [...health.checks, ...ready.checks]
    .filter(({ ok }) => !ok)
    .map(({ name, detail = 'not ok' }) => fact('bad', name, detail, run('tapekeep doctor')));
  const [first] = stalled;
  if (first !== undefined) {
    const note = first.note === '' ? first.reason : `${first.reason}: ${first.note}`;
    const text = `${counted(standingStreams, 'stream')} stalled. ${first.market} ${first.kind} for ${duration(first.standingS)}: ${note}`;
    facts.push(fact('busy', 'stalled', text, link('/markets', 'Markets, worst first')));
  }
  if (failed !== null && failed.inARow > 0) {
    const level = failed.inARow > MANY_FAILURES ? 'bad' : 'busy';
    const text = `${counted(failed.inARow, 'request')} in a row failed, the last to ${failed.endpoint}: ${failed.message}`;
    facts.push(fact(level, 'failed requests', text));
  }
  if (missingMarkets.length > 0) {
    const text = `Named in the settings and not listed by the exchange: ${missingMarkets.join(', ')}`;
    facts.push(fact('busy', 'not listed', text, link('/settings', 'Settings')));
  }
  const sum = (name: 'refused' | 'lost') => rows.reduce((all, row) => all + row[name], 0);
  if (sum('refused') > 0) {
    const text = `${counted(sum('refused'), 'row')} refused since the start.`;
    facts.push(fact('busy', 'quarantine', text, link('/quarantine', 'Quarantine')));
  }
  if (sum('lost') > 0) {
    const text = `${counted(sum('lost'), 'row')} could not be stored since the start.`;
    facts.push(fact('bad', 'lost rows', text, link('/log', 'Log')));
  }
  return facts;
}

function archiveFacts({ archive, leftOut }: Status): Fact[] {
  const facts = leftOut === null ? [] : [fact('idle', 'settings', leftOut)];
  if (archive === null) return facts;
  const { mismatches, openGaps, kinds, heldPartitions } = archive;
  if (mismatches > 0) {
    const text = `${counted(mismatches, 'candle')} do not match the stored trades.`;
    facts.push(fact('busy', 'mismatches', text, run('tapekeep verify')));
  }
  const [longest] = openGaps;
  // The first walk through history is told by its progress.
  if (longest !== undefined && kinds.every(({ firstHistory }) => firstHistory === null)) {
    const openS = openGaps.reduce((all, { lengthS }) => all + lengthS, 0);
    const text = `${duration(openS)} in all, most of it ${longest.kind}: ${longest.reason}.`;
    const where = link(address('/gaps', { state: 'open' }), 'Open gaps');
    facts.push(fact('busy', 'open gaps', text, where));
  }
  for (const { partition, heldBy } of heldPartitions) {
    const text = `${partition} cannot be archived or deleted: held by ${heldBy.join(', ')}`;
    facts.push(fact('busy', 'held', text, link('/partitions', 'Partitions')));
  }
  return facts;
}

function diskFacts({ disks }: Storage): Fact[] {
  return disks.flatMap(({ path, daysLeft }) => {
    if (daysLeft === null || daysLeft >= FULL_SOON_DAYS) return [];
    const text = `${path} is full in about ${counted(Math.floor(daysLeft), 'day')} at this growth. Archive or expire old days, or add space.`;
    const level = daysLeft < FULL_NOW_DAYS ? 'bad' : 'busy';
    return [fact(level, 'disk', text, link('/partitions', 'Partitions'))];
  });
}

const ORDER: readonly Level[] = ['bad', 'busy', 'good', 'idle'];

/** Items of the list, the worst first; none where all is well. */
export function attentionOf(status: Status, storage: Storage | undefined): VNode[] {
  const daemon = status.daemon === null ? [] : daemonFacts(status.daemon);
  const disks = storage === undefined ? [] : diskFacts(storage);
  return [...daemon, ...disks, ...archiveFacts(status)]
    .sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level))
    .map(
      ({ level, name, text, help }) =>
        html`<li>${pill(name, level)} <span class="text">${text}</span> ${help}</li>`,
    );
}
