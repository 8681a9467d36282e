import type { VNode } from 'preact';
import type { Answer } from '../api/endpoints.js';
import { bytes, counted, grouped, short } from './format.js';
import { html } from './html.js';
import { empty, figures, type Level, table, texts } from './widgets.js';

/** Bytes of the archive by state, its growth, and the disks that it lies on. */

type Storage = Answer<'storage'>;
type StateRow = Storage['states'][number];
type Disk = Storage['disks'][number];

const COLORS: Readonly<Record<StateRow['state'], string>> = {
  ...{ hot: 'c2', sealed: 'c1', archived: 'c4', restored: 'c3', expired: 'none' },
};

function stacked(states: readonly StateRow[]): VNode {
  const total = states.reduce((sum, one) => sum + one.bytes, 0) || 1;
  let at = 0;
  const parts = states.map((one) => {
    const width = (1000 * one.bytes) / total;
    const part = html`<rect class=${COLORS[one.state]} x=${at} width=${Math.max(0, width - 2)} height="1" />`;
    at += width;
    return part;
  });
  const text = states.map((one) => `${one.state} ${bytes(one.bytes)}`).join(', ');
  return html`<svg class="bar tall" viewBox="0 0 1000 1" preserveAspectRatio="none" role="img" aria-label=${`Bytes by state: ${text}`}>${parts}</svg>`;
}

function disk({ path, holds, freeBytes, totalBytes, daysLeft }: Disk): VNode {
  const used = totalBytes === 0 ? 0 : 1 - freeBytes / totalBytes;
  const level: Level =
    (daysLeft ?? 1e9) < 7 || used > 0.97 ? 'bad' : (daysLeft ?? 1e9) < 30 ? 'busy' : 'good';
  const left =
    daysLeft === null
      ? 'time until it is full not known yet'
      : daysLeft > 3650
        ? 'full in more than ten years'
        : `full in about ${counted(Math.floor(daysLeft), 'day')}`;
  return html`<li>
    <div class="row"><code>${path}</code><b class=${level}>${left}</b></div>
    <svg class=${`meter ${level}`} viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label=${`Used: ${Math.round(used * 100)} %`}>
      <rect class="rest" width="100" height="1" /><rect class="part" width=${used * 100} height="1" />
    </svg>
    <p class="muted">${holds} · ${bytes(freeBytes)} of ${bytes(totalBytes)} free</p>
  </li>`;
}

export function storageCard({ states, bytesPerDay, disks }: Storage): VNode {
  const kept = states.filter((one) => one.partitions > 0);
  const growth =
    bytesPerDay === null
      ? 'Growth is known after the first full day.'
      : `Grows ${bytes(bytesPerDay)} a day`;
  return html`
    ${kept.length === 0 && empty('Nothing is stored yet.')}
    ${
      kept.length > 0 &&
      html`${stacked(kept)}
      ${table<StateRow>({
        caption: 'Storage by state',
        rows: kept,
        isCards: false,
        columns: [
          texts('State', ({ state }) => html`<i class=${`dot ${COLORS[state]}`}></i>${state}`),
          figures('Partitions', (one) => grouped(one.partitions)),
          figures('Rows', ({ rows }) => short(rows)),
          figures('Size', (one) => bytes(one.bytes)),
        ],
      })}`
    }
    <p class="growth">${growth}</p>
    <ul class="disks">${disks.map(disk)}</ul>
  `;
}
