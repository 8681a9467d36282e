import { html } from './html.js';

/** Queries that this browser keeps: saved by name, and the last ones that ran. */

export interface Kept {
  readonly name: string;
  readonly sql: string;
}

type Shelf = 'saved' | 'history';

const MOST: Readonly<Record<Shelf, number>> = { saved: 100, history: 30 };
const MOST_CHARACTERS = 20_000;

const keyOf = (shelf: Shelf) => `tapekeep.${shelf}`;

function isKept(value: unknown): value is Kept {
  const { name, sql } = (value ?? {}) as Partial<Kept>;
  return typeof name === 'string' && typeof sql === 'string';
}

/** Reads a shelf. What others wrote there, or cannot be read, is none. */
export function kept(shelf: Shelf): readonly Kept[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(keyOf(shelf)) ?? '[]');
    return Array.isArray(found) ? found.filter(isKept).slice(0, MOST[shelf]) : [];
  } catch {
    return [];
  }
}

function write(shelf: Shelf, all: readonly Kept[]): readonly Kept[] {
  try {
    localStorage.setItem(keyOf(shelf), JSON.stringify(all));
  } catch {
    // A full or forbidden storage keeps nothing; the page works without.
  }
  return all;
}

/** Puts a query first. One of the same name is replaced, in the history one of the same text. */
export function keep(shelf: Shelf, one: Kept): readonly Kept[] {
  if (one.sql.length > MOST_CHARACTERS) return kept(shelf);
  const isSame = (other: Kept) =>
    shelf === 'saved' ? other.name === one.name : other.sql === one.sql;
  const others = kept(shelf).filter((other) => !isSame(other));
  return write(shelf, [one, ...others].slice(0, MOST[shelf]));
}

export function remove(shelf: Shelf, { name }: Kept): readonly Kept[] {
  return write(
    shelf,
    kept(shelf).filter((other) => other.name !== name),
  );
}

/** Queries under a heading, each a button that puts it into the editor. */
export function queries(
  title: string,
  entries: ReadonlyArray<Kept & { readonly about?: string }>,
  pick: (sql: string) => void,
  drop?: (one: Kept) => void,
): unknown {
  if (entries.length === 0) return null;
  return html`<details open=${title === 'Cookbook'}>
    <summary>${title} <span class="muted">${entries.length}</span></summary>
    <ul class="queries">${entries.map(
      (one) => html`<li key=${one.name}>
        <button type="button" class="entry" onClick=${() => pick(one.sql)}>
          <b>${one.name}</b>${one.about !== undefined && html`<span class="muted">${one.about}</span>`}
        </button>
        ${drop !== undefined && html`<button type="button" class="quiet" aria-label=${`Delete ${one.name}`} onClick=${() => drop(one)}>×</button>`}
      </li>`,
    )}</ul>
  </details>`;
}
