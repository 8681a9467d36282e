import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Answer, Asked } from '../api/endpoints.js';
import { act, ask, Refusal } from './api.js';
import { counted, duration, grouped, percent } from './format.js';
import { html } from './html.js';
import { meter } from './widgets.js';

/** Filling of the listed gaps: first what it would take, then the order, then how far it has come. */

type Fill = Answer<'fill'>;
type Progress = Answer<'fillProgress'>;
type Selection = Asked<'gaps'>;

/** Addresses have at most 8 kB. */
const IDS_AT_ONCE = 50;
const POLL_MS = 2000;
/** While all that is left waits for its next try, which is minutes away. */
const WAITING_POLL_MS = 30_000;

type Step =
  | { readonly name: 'idle' }
  | { readonly name: 'asking' }
  | { readonly name: 'preview'; readonly fill: Fill }
  | { readonly name: 'filling'; readonly fill: Fill; readonly progress?: Progress }
  | { readonly name: 'refused'; readonly message: string };

async function progressOf(ids: readonly string[], signal: AbortSignal): Promise<Progress> {
  const sum = { lengthMs: 0, coveredMs: 0, unfillableMs: 0, waitingMs: 0, isDone: true, at: '' };
  for (let from = 0; from < ids.length; from += IDS_AT_ONCE) {
    const part = await ask('fillProgress', { id: ids.slice(from, from + IDS_AT_ONCE) }, signal);
    sum.at = part.at;
    sum.lengthMs += part.lengthMs;
    sum.coveredMs += part.coveredMs;
    sum.unfillableMs += part.unfillableMs;
    sum.waitingMs += part.waitingMs;
    sum.isDone &&= part.isDone;
  }
  return sum;
}

/** Nothing is to be done now, and some of it is tried again later, such as while the exchange is away. */
const isWaiting = ({ isDone, waitingMs }: Progress) => isDone && waitingMs > 0;

const sizeText = ({ gaps, requests, seconds }: Fill) =>
  `${counted(gaps, 'gap')}, about ${counted(requests, 'request')}, ${duration(seconds)}`;

export interface FillProps {
  readonly selection: Selection;
  readonly onDone: () => void;
}

export function FillPanel({ selection, onDone }: FillProps): VNode {
  const [step, setStep] = useState<Step>({ name: 'idle' });
  const [again, setAgain] = useState(false);
  const key = JSON.stringify(selection);
  useEffect(() => setStep((last) => (last.name === 'filling' ? last : { name: 'idle' })), [key]);

  const fill = async (isPreview: boolean) => {
    setStep({ name: 'asking' });
    try {
      const answer = await act('fill', { ...selection, again, isPreview });
      setStep(isPreview ? { name: 'preview', fill: answer } : { name: 'filling', fill: answer });
    } catch (error) {
      setStep({
        name: 'refused',
        message: error instanceof Refusal ? error.message : String(error),
      });
    }
  };

  const filling = step.name === 'filling' ? step.fill : undefined;
  useEffect(() => {
    if (filling === undefined || filling.ids.length === 0) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      const progress = await progressOf(filling.ids, stop.signal).catch(() => undefined);
      if (stop.signal.aborted) return;
      if (progress !== undefined) setStep({ name: 'filling', fill: filling, progress });
      if (progress?.isDone === true) onDone();
      const isLater = progress !== undefined && isWaiting(progress);
      if (progress?.isDone === true && !isLater) return;
      timer = setTimeout(() => void look(), isLater ? WAITING_POLL_MS : POLL_MS);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [filling?.ids.join()]);

  const close = () => setStep({ name: 'idle' });
  return html`<section class="fill" aria-label="Fill gaps" aria-live="polite">
    ${
      (step.name === 'idle' || step.name === 'asking') &&
      html`<button type="button" class="main" disabled=${step.name === 'asking'} onClick=${() => fill(true)}>
          ${step.name === 'asking' ? 'Asking…' : 'Fill these gaps…'}
        </button>
        <label class="check"><input type="checkbox" checked=${again} onChange=${() => setAgain(!again)} />
          also try unfillable ones again</label>`
    }
    ${step.name === 'preview' && preview(step.fill, () => void fill(false), close)}
    ${step.name === 'filling' && watched(step, close)}
    ${
      step.name === 'refused' &&
      html`<p class="notice bad" role="alert">${step.message} <button type="button" class="quiet" onClick=${close}>Close</button></p>`
    }
  </section>`;
}

function leftOut(fill: Fill): unknown {
  return (
    fill.leftOut.length > 0 &&
    html`<ul class="muted">${fill.leftOut.map((one) => html`<li>${one}</li>`)}</ul>`
  );
}

function preview(fill: Fill, start: () => void, close: () => void): VNode {
  if (fill.gaps === 0) {
    return html`<p>None of these gaps can be filled. <button type="button" class="quiet" onClick=${close}>Close</button></p>
      ${leftOut(fill)}`;
  }
  return html`<p><b>${sizeText(fill)}</b> <span class="muted">(${duration(fill.lengthMs / 1000)} of data)</span></p>
    ${leftOut(fill)}
    <p class="row">
      <button type="button" class="main" onClick=${start}>Fill ${counted(fill.gaps, 'gap')}</button>
      <button type="button" class="quiet" onClick=${close}>Cancel</button>
    </p>`;
}

function watched({ fill, progress }: Extract<Step, { name: 'filling' }>, close: () => void): VNode {
  const done = progress === undefined ? 0 : progress.coveredMs + progress.unfillableMs;
  const ratio = progress === undefined || progress.lengthMs === 0 ? 0 : done / progress.lengthMs;
  const isLater = progress !== undefined && isWaiting(progress);
  const isDone = (progress?.isDone === true && !isLater) || fill.ids.length === 0;
  const followed = fill.ids.length;
  const isCut = followed < fill.gaps;
  const gaps = `${isCut ? `${grouped(followed)} of ` : ''}${counted(fill.gaps, 'gap')}`;
  const unfillable =
    progress !== undefined &&
    progress.unfillableMs > 0 &&
    `, ${duration(progress.unfillableMs / 1000)} unfillable`;
  const waiting =
    progress !== undefined &&
    progress.waitingMs > 0 &&
    html`<span class="busy">, ${duration(progress.waitingMs / 1000)} waiting for the next try</span>`;
  return html`<p>
      <b class=${isLater ? 'busy' : ''}>${isDone ? 'Done' : isLater ? 'Waiting' : 'Filling'}: ${gaps}</b>
      <span class="muted"> ${percent(isDone && progress === undefined ? 1 : ratio)}${unfillable}</span>${waiting}
    </p>
    ${meter(ratio, 'Filled', isDone ? 'good' : 'busy')}
    ${isCut && html`<p class="muted">Following the ${grouped(followed)} longest of ${counted(fill.gaps, 'gap')}. The list shows the others.</p>`}
    ${leftOut(fill)}
    <p><button type="button" class="quiet" onClick=${close}>${isDone ? 'Close' : 'Hide; it continues'}</button></p>`;
}
