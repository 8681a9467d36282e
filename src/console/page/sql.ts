import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Answer } from '../api/endpoints.js';
import { act, Refusal, send, useAsk } from './api.js';
import type { Editor } from './editor.js';
import { counted } from './format.js';
import { html } from './html.js';
import { changed, go, type Place } from './router.js';
import { type Kept, keep, kept, queries, remove } from './saved.js';
import { ResultChart, resultTable } from './sql-result.js';
import { Command, empty, heading } from './widgets.js';

/** SQL with a reader's rights: editor, cookbook, result as table and chart, history. */

type Result = Answer<'query'>;

const LIMIT = 1000;
const CSV_LIMIT = 100_000;
const CSV_ROWS = CSV_LIMIT.toLocaleString('en-US');
const FIRST =
  'select market, count(*) as trades, max(traded_at) as newest\nfrom trades\ngroup by market\norder by trades desc';

interface Run {
  readonly sql: string;
  readonly result?: Result;
  readonly fault?: string;
  readonly isRunning: boolean;
}

function useRun() {
  const [run, setRun] = useState<Run>();
  const stop = useRef<AbortController>(undefined);
  const start = async (sql: string) => {
    if (sql.trim() === '') return;
    stop.current?.abort();
    const own = new AbortController();
    stop.current = own;
    setRun((last) => ({ sql, isRunning: true, ...(last?.result && { result: last.result }) }));
    try {
      const result = await act('query', { sql, limit: LIMIT }, own.signal);
      setRun({ sql, result, isRunning: false });
    } catch (error) {
      if (stop.current !== own) return;
      const fault = own.signal.aborted
        ? 'Stopped.'
        : error instanceof Refusal
          ? error.message
          : String(error);
      setRun({ sql, fault, isRunning: false });
    }
  };
  return { run, start, stop: () => stop.current?.abort() };
}

/** Asks for the same as CSV, and lets the browser save it. Returns true if there are more rows than it has. */
async function download(sql: string): Promise<boolean> {
  const response = await send('query', { sql, limit: CSV_LIMIT }, { accept: 'text/csv' });
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement('a');
  link.href = url;
  link.download = 'tapekeep.csv';
  link.click();
  URL.revokeObjectURL(url);
  return response.headers.get('x-is-cut') === 'true';
}

export function Sql({ place }: { place: Place }): VNode {
  const cookbook = useAsk('cookbook', {});
  const { run, start, stop } = useRun();
  const [saved, setSaved] = useState<readonly Kept[]>(kept('saved'));
  const [history, setHistory] = useState<readonly Kept[]>(kept('history'));
  const [fault, setFault] = useState('');
  const [isCut, setCut] = useState(false);
  const editor = useRef<Editor>(undefined);
  const set = (sql: string) => editor.current?.set(sql);
  const execute = () => {
    const sql = editor.current?.text() ?? '';
    setHistory(keep('history', { name: sql.replace(/\s+/g, ' ').slice(0, 80), sql }));
    if (sql.length < 2000) go(changed(place, { q: sql }), true);
    void start(sql);
  };
  const save = () => {
    const sql = editor.current?.text() ?? '';
    const name = prompt('Name of the query');
    if (name !== null && name.trim() !== '') setSaved(keep('saved', { name: name.trim(), sql }));
  };
  const csv = () => {
    if (run === undefined) return;
    setFault('');
    setCut(false);
    download(run.sql).then(setCut, (error: unknown) =>
      setFault(error instanceof Error ? error.message : String(error)),
    );
  };
  const entries = cookbook.data?.entries ?? [];
  return html`
    ${heading('SQL', 'One statement of SQL, with the rights of a reader, over recent and archived days alike.')}
    <div class="sql">
      <div>
        <${EditorBox} first=${place.query.get('q') ?? FIRST} held=${editor} onRun=${execute} />
        <p class="row buttons">
          <button type="button" class="main" onClick=${execute}>Run</button>
          ${run?.isRunning === true && html`<button type="button" onClick=${stop}>Stop</button>`}
          <button type="button" onClick=${save}>Save…</button>
          <button type="button" onClick=${csv} disabled=${run?.result === undefined}>Download CSV</button>
          <span class="muted hint">Ctrl+Enter runs it. At most ${LIMIT} rows are shown, ${CSV_ROWS} downloaded.</span>
        </p>
        ${fault !== '' && html`<p class="notice bad" role="alert">${fault}</p>`}
        ${isCut && html`<p class="notice busy" role="alert">The file is cut at ${CSV_ROWS} rows. Narrow the statement, or run tapekeep export.</p>`}
        ${run !== undefined && outcome(run)}
      </div>
      <aside>
        ${queries('Cookbook', entries, set)}
        ${queries('Saved', saved, set, (one) => setSaved(remove('saved', one)))}
        ${queries('History', history, set)}
        <p class="muted">Parquet of a time range:</p>
        <${Command} text="tapekeep export --kind trades --from 24h --clamp --out trades.parquet" />
      </aside>
    </div>
  `;
}

function outcome({ result, fault, isRunning }: Run): VNode {
  return html`<div aria-live="polite" class=${isRunning ? 'old' : ''}>
    ${isRunning && html`<p class="loading" role="status">Running…</p>`}
    ${fault !== undefined && html`<p class="notice bad" role="alert"><span class="pre">${fault}</span></p>`}
    ${
      result !== undefined &&
      html`<p class="summary"><b>${counted(result.rows.length, 'row')}</b>
          ${result.isCut && html`<span class="busy"> of more: add a limit, or download them</span>`}
          <span class="muted"> in ${Math.round(result.durationMs)} ms</span></p>
        <${ResultChart} result=${result} />
        ${result.rows.length === 0 ? empty('No rows.') : resultTable(result)}`
    }
  </div>`;
}

interface BoxProps {
  readonly first: string;
  readonly held: { current: Editor | undefined };
  readonly onRun: () => void;
}

/** Plain text field until the editor is loaded, and where it cannot be. */
function EditorBox({ first, held, onRun }: BoxProps): VNode {
  const [isLoaded, setLoaded] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const plain = useRef<HTMLTextAreaElement>(null);
  const run = useRef(onRun);
  run.current = onRun;
  useEffect(() => {
    const area = plain.current;
    if (area === null) return;
    held.current = {
      text: () => area.value,
      set: (sql) => {
        area.value = sql;
      },
    };
    let made: Editor | undefined;
    let isGone = false;
    import('./editor.js').then(
      ({ openEditor }) => {
        if (isGone || place.current === null) return;
        made = openEditor(place.current, area.value, () => run.current());
        held.current = made;
        setLoaded(true);
      },
      () => undefined,
    );
    return () => {
      isGone = true;
      made?.close?.();
    };
  }, []);
  const press = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    onRun();
  };
  return html`<div class="editor">
    <textarea ref=${plain} hidden=${isLoaded} aria-label="SQL" rows="10" spellcheck=${false} defaultValue=${first} onKeyDown=${press}></textarea>
    <div ref=${place} hidden=${!isLoaded}></div>
  </div>`;
}
