import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Answer } from '../api/endpoints.js';
import type { Loaded } from './api.js';
import { percent } from './format.js';
import { classes, html } from './html.js';
import { changed, go, type Place } from './router.js';

/** Parts that several pages are made of. */

export type Level = Answer<'status'>['state']['level'] | 'idle';

/** Words of the state of the daemon; idle: it does not answer. */
export const LEVEL_TEXTS: Readonly<Record<Level, string>> = {
  ...{ good: 'All is well', busy: 'Working', bad: 'Needs attention', idle: 'No answer' },
};

/** States of gaps, partitions, days and log lines, and how good they are. */
const LEVELS: Readonly<Record<string, Level>> = {
  ...{ covered: 'good', available: 'good', verified: 'good', hot: 'good' },
  ...{ open: 'busy', filling: 'busy', pending: 'busy', warn: 'busy', degraded: 'busy' },
  ...{ unfillable: 'bad', missing: 'bad', error: 'bad', fatal: 'bad', mismatch: 'bad' },
};

export const levelOf = (state: string): Level => LEVELS[state] ?? 'idle';

export function pill(state: string, level: Level = levelOf(state)): VNode {
  return html`<span class=${`pill ${level}`}>${state}</span>`;
}

/** Text that a shell or a person takes over, with a button that copies it. */
export function Command({ text, label = 'Copy' }: { text: string; label?: string }): VNode {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await copyText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<span class="command">
    <code>${text}</code>
    <button type="button" class="quiet" aria-label=${`Copy: ${text}`} onClick=${copy}>
      ${copied ? 'Copied' : label}
    </button>
  </span>`;
}

/** Without TLS browsers have no clipboard but the old command. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) {
    const isDone = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    if (isDone) return;
  }
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

/** Heading of a page with what belongs beside it. */
export function heading(title: string, about: unknown = null, ...tools: unknown[]): VNode {
  return html`<header class="heading">
    <div><h1>${title}</h1>${about !== null && html`<p class="muted">${about}</p>`}</div>
    ${tools.length > 0 && html`<div class="tools">${tools}</div>`}
  </header>`;
}

export function card(title: string, body: unknown, aside: unknown = null, name = ''): VNode {
  return html`<section class=${classes('card', name)}>
    <header><h2>${title}</h2>${aside}</header>
    ${body}
  </section>`;
}

/** Body of a document: what it shows, or that it is loading, or why it cannot be shown. */
export function shown<T>({ data, fault, reload }: Loaded<T>, body: (data: T) => unknown): VNode {
  return html`
    ${
      fault !== undefined &&
      html`<p class="notice bad" role="alert">
      ${fault.message} ${data !== undefined && 'Older figures are shown. '}
      <button type="button" class="quiet" onClick=${reload}>Try again</button>
    </p>`
    }
    ${data !== undefined && body(data)}
    ${data === undefined && fault === undefined && html`<p class="loading" role="status">Loading…</p>`}
  `;
}

export function empty(text: unknown): VNode {
  return html`<p class="empty">${text}</p>`;
}

/** Column of a table. On a phone its title is beside each figure. */
export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  readonly name: string;
}

export function texts<T>(title: string, cell: Column<T>['cell'], name = ''): Column<T> {
  return { title, cell, name };
}

/** Figures are aligned at the right. */
export function figures<T>(title: string, cell: Column<T>['cell']): Column<T> {
  return { title, cell, name: 'figure' };
}

export interface TableProps<T> {
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly caption: string;
  readonly keyOf?: (row: T, at: number) => string | number;
  /** Further row below a row, if any. */
  readonly below?: (row: T) => ComponentChildren;
  readonly isCards?: boolean;
  /** Shown instead of a table without rows. */
  readonly none?: unknown;
}

export function table<T>(props: TableProps<T>): VNode {
  const { columns, rows, caption, keyOf, below, isCards = true, none } = props;
  if (rows.length === 0 && none !== undefined) return empty(none);
  const line = (row: T, at: number) => {
    const extra = below?.(row) ?? null;
    const key = keyOf?.(row, at) ?? at;
    return [
      html`<tr key=${key}>
        ${columns.map(
          (one) => html`<td class=${one.name} data-title=${one.title}>${one.cell(row)}</td>`,
        )}
      </tr>`,
      extra !== null &&
        html`<tr key=${`${key} below`} class="below"><td colspan=${columns.length}>${extra}</td></tr>`,
    ];
  };
  return html`<div class=${classes('table', isCards && 'cards')} tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption class="hidden">${caption}</caption>
      <thead><tr>
        ${columns.map((one) => html`<th scope="col" class=${one.name}>${one.title}</th>`)}
      </tr></thead>
      <tbody>${rows.map(line)}</tbody>
    </table>
  </div>`;
}

/** Bar of a share between 0 and 1. */
export function meter(ratio: number | null, label: string, level: Level = 'good'): VNode {
  return html`<svg class=${`meter ${level}`} viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label=${`${label}: ${percent(ratio)}`}>
    <rect class="rest" width="100" height="1" />
    <rect class="part" width=${100 * Math.min(1, Math.max(0, ratio ?? 0))} height="1" />
  </svg>`;
}

/** Texts of choices by their value, in their order. */
export type Choices = Readonly<Record<string, string>>;

/** List of choices whose value is in the address. */
export function choose(
  place: Place,
  name: string,
  label: string,
  choices: Choices,
  standard = '',
): VNode {
  const value = place.query.get(name) ?? standard;
  const pick = (event: Event) => {
    const { value: next } = event.currentTarget as HTMLSelectElement;
    go(changed(place, { [name]: next === standard ? null : next }));
  };
  return html`<label class="field"><span>${label}</span>
    <select value=${value} onChange=${pick}>
      ${Object.entries(choices).map(
        ([own, text]) => html`<option value=${own} selected=${own === value}>${text}</option>`,
      )}
    </select>
  </label>`;
}

/** Links of which one is chosen, in the address too. */
export function tabs(
  place: Place,
  name: string,
  label: string,
  choices: Choices,
  standard: string,
): VNode {
  const value = place.query.get(name) ?? standard;
  const url = (own: string) => changed(place, { [name]: own === standard ? null : own });
  return html`<nav class="tabs" aria-label=${label}>
    ${Object.entries(choices).map(
      ([own, text]) =>
        html`<a href=${url(own)} aria-current=${own === value ? 'true' : undefined}>${text}</a>`,
    )}
  </nav>`;
}

/** Field that changes a word of the address shortly after typing. `/` focuses it. */
export function Search({
  place,
  name = 'search',
  label,
}: {
  place: Place;
  name?: string;
  label: string;
}): VNode {
  const inAddress = place.query.get(name) ?? '';
  const [text, setText] = useState(inAddress);
  // Its own change may come back after more was typed.
  const own = useRef(inAddress);
  useEffect(() => {
    if (inAddress !== own.current) setText(inAddress);
    own.current = inAddress;
  }, [inAddress]);
  useEffect(() => {
    if (text.trim() === inAddress) return;
    const waiting = setTimeout(() => {
      own.current = text.trim();
      go(changed(place, { [name]: own.current }), true);
    }, 200);
    return () => clearTimeout(waiting);
  }, [text]);
  const type = (event: Event) => setText((event.currentTarget as HTMLInputElement).value);
  return html`<label class="field search"><span>${label}</span>
    <input type="search" maxlength="100" placeholder="Press / to search" spellcheck=${false}
      value=${text} onInput=${type} />
  </label>`;
}

export const KINDS: Choices = {
  ...{ trades: 'trades', depth: 'depth', tickers: 'tickers', candles: 'candles', states: 'states' },
};
