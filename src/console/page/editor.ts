import { PostgreSQL, sql } from '@codemirror/lang-sql';
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { Prec } from '@codemirror/state';
import { EditorView, keymap } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { basicSetup } from 'codemirror';

/** Editor of SQL, loaded when the page needs it. */

export interface Editor {
  text(): string;
  set(sql: string): void;
  close?(): void;
}

/** Colours come from the style sheet of the page, whose variables reach into the shadow root. */
const HIGHLIGHT = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], color: 'var(--accent)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good-text)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--busy-text)' },
  { tag: [tags.typeName, tags.standard(tags.name)], color: 'var(--c3)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
]);

const THEME = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--surface)', fontSize: '13px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': {
    minHeight: '12rem',
    maxHeight: '60vh',
    fontFamily: 'var(--mono)',
    lineHeight: '1.55',
  },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--muted)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground':
    {
      backgroundColor: 'var(--selection)',
    },
  '.cm-tooltip': {
    backgroundColor: 'var(--surface)',
    border: '1px solid var(--line)',
    color: 'var(--text)',
  },
});

/** Tables and columns that are completed. */
const SCHEMA = {
  trades: ['market', 'trade_id', 'traded_at', 'side', 'price', 'amount', 'total'],
  candles: ['market', 'interval', 'opened_at', 'open', 'high', 'low', 'close', 'volume'],
};

/** Opens the editor in a shadow root: its styles are adopted there, which the page's policy allows. */
export function openEditor(place: HTMLElement, text: string, run: () => void): Editor {
  const root = place.shadowRoot ?? place.attachShadow({ mode: 'open' });
  const holder = document.createElement('div');
  root.replaceChildren(holder);
  const runKey = {
    key: 'Mod-Enter',
    run: () => {
      run();
      return true;
    },
  };
  const view = new EditorView({
    doc: text,
    parent: holder,
    root,
    extensions: [
      Prec.highest(keymap.of([runKey])),
      basicSetup,
      sql({ dialect: PostgreSQL, schema: SCHEMA }),
      syntaxHighlighting(HIGHLIGHT),
      THEME,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ 'aria-label': 'SQL' }),
    ],
  });
  return {
    text: () => view.state.doc.toString(),
    set(sql) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: sql } });
      view.focus();
    },
    close: () => view.destroy(),
  };
}
