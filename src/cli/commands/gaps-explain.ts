import type { Config } from '../../config/schema.js';
import { shownDuration } from '../../kernel/durations.js';
import { subtractSpans } from '../../kernel/span.js';
import { formatInstant } from '../../kernel/timestamp.js';
import { isLost } from '../../model/gap-reasons.js';
import { MOMENT_STREAMS, STREAM_KINDS, type StreamKind } from '../../model/series.js';
import type { CoverageNeighbour, Gap, GapDetail, KnownStream } from '../../store/index.js';
import { argument, command } from '../command.js';
import { UsageError } from '../failure.js';
import {
  findGap,
  findGapsAt,
  gapIdOf,
  leftOutText,
  nextTryText,
  reasonWords,
  streamText,
} from '../gaps.js';
import { partitionSpans, restoreAdvice } from '../life.js';
import { archive, type Look } from '../opening/database.js';
import { instantArgument, kindOf, resolveInstant } from '../options.js';
import { countOf, type Lines, printable, textOf, whole } from '../output.js';
import { coveredShare } from '../progress.js';
import { marketsOf, selectMarkets } from '../selection.js';

/** Pieces of one gap that are explained. */
const EXPLAINED_MAX = 10;

/** Explains a gap in words; for a time without one, why there is none. */
export default command({
  args: { words: argument<string[]>('an id, or a market, a kind and a time') },
  needs: archive(),
  async run({ session: { config }, store, nowMs }, { words }) {
    const look = { store, nowMs, config, streams: await store.inspection.streams() };
    const { gaps, memory, others } = await findNamed(words, look);
    const texts: Lines[] = [];
    for (const gap of gaps.slice(0, EXPLAINED_MAX)) texts.push(await explain(gap, look));
    if (gaps.length > EXPLAINED_MAX)
      texts.push(`… and ${countOf(gaps.length - EXPLAINED_MAX, 'more piece')}.`);
    if (gaps.length === 0 && memory !== null) texts.push(explainClosed(memory, look.streams));
    texts.push(...others.map((line) => `${line}.`));
    process.stdout.write(texts.map(textOf).join('\n'));
  },
});

interface Ledger extends Pick<Look, 'store' | 'nowMs'> {
  readonly streams: readonly KnownStream[];
  readonly config: Config;
}

/** What was named; `others`: why other streams that were meant have no gap there. */
async function findNamed(words: readonly string[], { store, streams, nowMs, config }: Ledger) {
  const [first = '', kindWord, ...time] = words;
  if (kindWord === undefined) return { ...(await findGap(store, first, nowMs)), others: [] };
  const kind = kindOf(kindWord);
  if (kind === undefined) {
    throw new UsageError('<kind>', kindWord, `write one of ${STREAM_KINDS.join(', ')}`);
  }
  if (time.length === 0) {
    const text = `say at which time of ${kind}, such as "tapekeep gaps explain ${first} ${kind} 2026-01-31T12:00:00Z"; "tapekeep gaps" lists what is missing`;
    throw new UsageError('<gap>', words.join(' '), text);
  }
  const [chosen] = selectMarkets([first], marketsOf(streams));
  const own = streams.filter((one) => one.kind === kind && one.marketId === chosen?.marketId);
  const atMs = resolveInstant(readInstant(time.join(' ')), nowMs);
  if (own.length === 0) {
    const advice = 'the archive has no such stream of this market; "tapekeep status" lists all';
    throw new UsageError('<kind>', kind, advice);
  }
  const { gaps, others } = await findGapsAt(store, own, atMs, nowMs);
  const left = chosen && leftOutText(config, own);
  // What is to be done about a gap says it too.
  const isSaid = left === undefined || gaps.length > 0;
  return { gaps, others: isSaid ? others : [...others, left], memory: null };
}

function readInstant(text: string) {
  try {
    return instantArgument(text);
  } catch (error) {
    throw new UsageError('<time>', text, (error as Error).message);
  }
}

async function explain(gap: Gap, look: Ledger): Promise<Lines> {
  const { streamId, marketId, span, state, reason } = gap;
  const length = shownDuration(span.toMs - span.fromMs);
  const { before, after } = await look.store.inspection.neighbours({ streamId, marketId, span });
  const files = await partitionSpans(look.store, gap.kind, 'archived');
  const isInFiles = subtractSpans(span, files).length === 0;
  const isWritten = await look.store.inspection.isWritten();
  const { config } = look;
  const words = reasonWords(reason);
  return [
    `Gap ${gapIdOf(gap)}: ${streamText(gap)}`,
    `  from ${formatInstant(span.fromMs)} to ${formatInstant(span.toMs)} (${length}), UTC`,
    `  ${state}: ${printable(reason)}`,
    words && `  ${words}`,
    triesOf(gap, isInFiles ? NO_TRY : nextTryText(gap, { config, isWritten }, look.nowMs)),
    noteLines(gap.note),
    `Before it: ${neighbourText(before, span.fromMs)}`,
    `After it:  ${neighbourText(after, span.toMs)}`,
    await substitutes(gap, look),
    whatToDo(gap, isInFiles, look).map((step) => `What to do: ${step}`),
  ];
}

function explainClosed(memory: GapDetail, streams: readonly KnownStream[]): Lines {
  const { gapId, streamId, span, state, reason, closedAtMs, note } = memory;
  const stream = streams.find((one) => one.streamId === streamId);
  const name = stream === undefined ? '' : streamText(stream);
  const when = closedAtMs === null ? '' : ` at ${formatInstant(Math.floor(closedAtMs))}`;
  const end = state === 'filled' ? `It was filled${when}.` : 'All of it is covered by now.';
  return [
    `Gap ${gapId}: ${name}`,
    `  from ${formatInstant(span.fromMs)} to ${formatInstant(span.toMs)}, UTC`,
    `  ${end} Before that: ${printable(reason)}, ${triesText(memory.attempts)}.`,
    noteLines(note),
  ];
}

const NO_TRY = 'none adds anything while its rows are in files';

function triesOf({ attempts, firstSeenAtMs, gapId }: Gap, nextTry: string): string {
  if (gapId === null) return '  Nothing was tried yet.';
  const seen =
    firstSeenAtMs === null ? '' : `first seen ${formatInstant(Math.floor(firstSeenAtMs))}; `;
  return `  ${seen}${triesText(attempts)}; next try: ${nextTry}`;
}

const triesText = (count: number) => (count === 1 ? '1 try' : `${whole(count)} tries`);

function noteLines(note: string | null): Lines {
  return note?.split('\n').map((line) => `  note: ${printable(line)}`);
}

const EVIDENCE_MAX = 300;

function neighbourText(neighbour: CoverageNeighbour | null, edgeMs: number): string {
  if (neighbour === null) return 'nothing is covered.';
  const { span, evidence } = neighbour;
  const isTouching = span.fromMs === edgeMs || span.toMs === edgeMs;
  const proof = printable(JSON.stringify(evidence)).slice(0, EVIDENCE_MAX);
  const where = isTouching ? 'covered' : 'covered, farther away,';
  return `${where} from ${formatInstant(span.fromMs)} to ${formatInstant(span.toMs)}; evidence: ${proof}`;
}

const REPLACEABLE: ReadonlySet<StreamKind> = new Set(['trades', 'states', 'tickers']);

/** Candles summarize what happened, where each trade or state cannot be had; of a book they say nothing. */
async function substitutes(gap: Gap, look: Ledger): Promise<string | undefined> {
  if (!REPLACEABLE.has(gap.kind)) return undefined;
  const covered = await coveredShares(gap, 'candles', look);
  if (covered.length === 0) return 'In its place: no candles of this time are stored.';
  const shares = covered.map(([variant, share]) => `${variant} s (${share} of the time)`);
  return `In its place: the candles of ${shares.join(', ')} are stored.`;
}

/** How much of a gap's time the streams of another kind cover; those that cover none are left out. */
async function coveredShares(
  gap: Gap,
  kind: StreamKind,
  { store, streams, nowMs }: Ledger,
): Promise<readonly (readonly [variant: number, share: string])[]> {
  const others = streams.filter((one) => one.kind === kind && one.marketId === gap.marketId);
  const spans = others.map(({ streamId, marketId }) => ({ streamId, marketId, span: gap.span }));
  const parts = await store.inspection.progress(spans, nowMs);
  return [...new Set(others.map(({ variant }) => variant))].flatMap((variant) => {
    const own = parts.filter((_, at) => others[at]?.variant === variant);
    const coveredMs = own.reduce((sum, one) => sum + one.coveredMs, 0);
    const lengthMs = own.reduce((sum, one) => sum + one.lengthMs, 0);
    return coveredMs > 0 ? [[variant, coveredShare({ coveredMs, lengthMs })] as const] : [];
  });
}

const SEEN_AT_ITS_TIME =
  'what is seen at its time needs a daemon that runs, requests to spare, and an exchange that answers';

function whatToDo(gap: Gap, isInFiles: boolean, { config }: Ledger): string[] {
  const { kind, state, reason, span } = gap;
  const id = gapIdOf(gap);
  const market = printable(gap.market);
  const left = leftOutText(config, [gap]);
  const keeps = `tapekeep gaps note ${id} "…" keeps what you know`;
  if (MOMENT_STREAMS.has(kind)) {
    const away = `${market} was not on the list of the exchange, or not all the time`;
    const why = reason === 'delisted' ? away : (left ?? SEEN_AT_ITS_TIME);
    return [`nothing brings it back; ${why}`];
  }
  if (reason === 'delisted') return [`wait until the exchange lists ${market} again; ${keeps}`];
  if (isInFiles && isLost(reason)) return [keeps];
  if (isInFiles) {
    const restore = restoreAdvice(kind, span);
    return [`its rows are in files, where nothing can be added: ${restore} first`];
  }
  if (state === 'unfillable') {
    const steps = [`"tapekeep gaps fill ${id} --again" tries once more; ${keeps}`];
    const more =
      'poll more often, or give the exchange a larger budget, so that it does not happen again';
    return reason === 'history horizon' ? [...steps, more] : steps;
  }
  if (reason === 'refused rows') {
    return [`"tapekeep quarantine --market ${market}" shows what was refused, and why`];
  }
  const fill = `"tapekeep gaps fill ${id}" does it`;
  return left === undefined
    ? [`a running daemon fills it; ${fill} now, and shows how it goes`]
    : [`${left}; ${fill} while no daemon runs, and shows how it goes`];
}
